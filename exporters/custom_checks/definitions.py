"""Reads node-problem-detector's custom-plugin-monitor files.

What its own program accepts is accepted: keys in any case, unknown keys (told as a remark). What could only be a
mistake is refused, naming file and key. Runs nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from chassis.contracts import ConditionType
from chassis.errors import ConfigError
from exporters.custom_checks.checked_values import CheckedValues

_TYPE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?", re.ASCII)
_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?", re.ASCII)
_KUBERNETES = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
_GLOBAL = {
    "invoke_interval",
    "timeout",
    "max_output_length",
    "concurrency",
    "enable_message_change_based_condition_update",
    "skip_initial_status",
}
_TOP = {"plugin", "pluginConfig", "source", "conditions", "rules", "metricsReporting"}
_RULE = {"type", "condition", "reason", "path", "args", "timeout", "invoke_interval"}
_CONDITION = {"type", "reason", "message", "status", "transition"}


class RuleKind(StrEnum):
    """What a rule's failure leads to."""

    PERMANENT = "permanent"
    """Its condition is True for as long as it fails."""
    TEMPORARY = "temporary"
    """An event, each time that it fails."""


@dataclass(frozen=True, slots=True)
class CustomRule:
    """One program: exit 0 is well, 1 is the problem, anything else no verdict. `name` is unique in its monitor."""

    name: str
    kind: RuleKind
    condition: str
    reason: str
    path: Path
    args: tuple[str, ...]
    timeout: timedelta
    interval: timedelta


@dataclass(frozen=True, slots=True)
class HealthyText:
    """What a condition says while nothing is wrong."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CustomMonitor:
    """One file. `remarks` tell of keys that nothing reads.

    The first status is never assumed to be healthy, whatever `skip_initial_status` says.
    """

    file: Path
    source: str
    conditions: Mapping[str, HealthyText]
    rules: tuple[CustomRule, ...]
    max_output_bytes: int
    concurrency: int
    message_follows: bool
    remarks: tuple[str, ...] = ()


def load_monitors(paths: Iterable[Path], base: Path) -> tuple[CustomMonitor, ...]:
    """Several files; sources must differ, because they name the checks.

    Raises:
        ConfigError: With the mistakes of all files.
    """
    monitors: list[CustomMonitor] = []
    mistakes: list[str] = []
    sources: dict[str, Path] = {}
    for path in paths:
        try:
            monitor = load_monitor(path, base)
        except ConfigError as error:
            mistakes += error.mistakes
            continue
        if monitor.source in sources:
            other = sources[monitor.source]
            mistakes.append(f"{path}: source: {other} has the same; give each file its own")
        sources[monitor.source] = path
        monitors.append(monitor)
    if mistakes:
        raise ConfigError(mistakes)
    return tuple(monitors)


def load_monitor(path: Path, base: Path) -> CustomMonitor:
    """One file; relative paths of programs start at `base`.

    Raises:
        ConfigError: With one line a mistake: `FILE: key: what is wrong; what to do`.
    """
    reader = _Reader(path, base)
    monitor = reader.monitor(_json(path))
    if reader.mistakes:
        raise ConfigError(f"{path}: {mistake}" for mistake in reader.mistakes)
    return monitor


def _json(path: Path) -> Mapping[str, Any]:
    try:
        data = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    except orjson.JSONDecodeError as error:
        raise ConfigError([f"{path}: not JSON: {error}"]) from error
    if not isinstance(data, dict):
        raise ConfigError([f"{path}: must be a JSON object"])
    return data


class _Reader(CheckedValues):
    """Reads one file, collecting its mistakes."""

    def __init__(self, path: Path, base: Path) -> None:
        super().__init__()
        self._path = path
        self._base = base

    def monitor(self, data: Mapping[str, Any]) -> CustomMonitor:
        top = self.keys(data, _TOP, "")
        if top.get("plugin") != "custom":
            self.wrong(
                "plugin",
                'must be "custom"; other monitors of node-problem-detector have no programs',
            )
        shared = self.keys(self.object(top, "pluginConfig"), _GLOBAL, "pluginConfig.")
        timeout = self.duration(shared, "timeout", "pluginConfig.", "5s")
        interval = self.duration(shared, "invoke_interval", "pluginConfig.", "30s")
        conditions = dict(self._conditions(top))
        return CustomMonitor(
            file=self._path,
            source=self.text(top, "source", "") or "custom",
            conditions=conditions,
            rules=self._rules(top, conditions, timeout, interval),
            max_output_bytes=self.number(shared, "max_output_length", 80),
            concurrency=self.number(shared, "concurrency", 3),
            message_follows=self.flag(shared, "enable_message_change_based_condition_update"),
            remarks=tuple(f"{self._path}: {each}" for each in self.remarks),
        )

    def _conditions(self, top: Mapping[str, Any]) -> Iterator[tuple[str, HealthyText]]:
        for place, each in self.objects(top, "conditions"):
            data = self.keys(each, _CONDITION, f"{place}.")
            kind = self.text(data, "type", f"{place}.")
            self._check_type(kind, f"{place}.type")
            reason = self.text(data, "reason", f"{place}.")
            self._check_reason(reason, f"{place}.reason")
            message = data.get("message", "")
            yield kind, HealthyText(reason, message if isinstance(message, str) else "")

    def _rules(
        self,
        top: Mapping[str, Any],
        conditions: Mapping[str, object],
        timeout: timedelta,
        interval: timedelta,
    ) -> tuple[CustomRule, ...]:
        rules: list[CustomRule] = []
        for place, each in self.objects(top, "rules"):
            rule = self._rule(place, each, timeout, interval)
            if rule.kind is RuleKind.PERMANENT and rule.condition not in conditions:
                text = f'"{rule.condition}" is not under conditions; add it there'
                self.wrong(f"{place}.condition", text)
            rules.append(_renamed(rule, rules))
        if not rules:
            self.wrong("rules", "there is none, so there is nothing to check")
        return tuple(rules)

    def _rule(
        self, place: str, each: Mapping[str, Any], timeout: timedelta, interval: timedelta
    ) -> CustomRule:
        data = self.keys(each, _RULE, f"{place}.")
        kind = self.text(data, "type", f"{place}.")
        if kind not in set(RuleKind):
            self.wrong(f"{place}.type", 'must be "permanent" or "temporary"')
        reason = self.text(data, "reason", f"{place}.")
        self._check_reason(reason, f"{place}.reason")
        own = self.duration(data, "timeout", f"{place}.", timeout)
        if own > timeout:
            text = "is longer than pluginConfig.timeout; raise that one, or lower this"
            self.wrong(f"{place}.timeout", text)
        condition = data.get("condition", "")
        return CustomRule(
            name=reason,
            kind=RuleKind(kind) if kind in set(RuleKind) else RuleKind.TEMPORARY,
            condition=condition if isinstance(condition, str) else "",
            reason=reason,
            path=self._program(data, place),
            args=self._args(data, place),
            timeout=own,
            interval=self.duration(data, "invoke_interval", f"{place}.", interval),
        )

    def _program(self, data: Mapping[str, Any], place: str) -> Path:
        path = self._base / self.text(data, "path", f"{place}.")
        if not path.is_file():
            self.wrong(f"{place}.path", f"there is no file {path}")
        return path

    def _args(self, data: Mapping[str, Any], place: str) -> tuple[str, ...]:
        args = data.get("args") or []
        if isinstance(args, list) and all(
            isinstance(each, str) and "\0" not in each for each in args
        ):
            return tuple(args)
        self.wrong(f"{place}.args", "must be a list of texts")
        return ()

    def _check_type(self, kind: str, key: str) -> None:
        if kind in _KUBERNETES:
            self.wrong(key, f'"{kind}" is written by Kubernetes; choose another type')
        elif kind in set(ConditionType):
            self.wrong(key, f'"{kind}" is written by a check of Nodemend; choose another type')
        elif kind and not _TYPE.fullmatch(kind):
            self.wrong(key, "not the type of a condition; use letters and digits, like NTPProblem")

    def _check_reason(self, reason: str, key: str) -> None:
        if reason and not _REASON.fullmatch(reason):
            self.wrong(key, "not a reason that Kubernetes takes; use one word, like NTPIsDown")


def _renamed(rule: CustomRule, earlier: list[CustomRule]) -> CustomRule:
    """The rule under a name of its own: its reason, and a number when others have the same."""
    twins = sum(each.reason == rule.reason for each in earlier)
    if not twins:
        return rule
    return replace(rule, name=f"{rule.reason}#{twins + 1}")
