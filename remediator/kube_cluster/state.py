"""Pause and breaker: the one ConfigMap that outlives every leader.

Reads and writes it whole, under its resourceVersion; decides nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson

from chassis.kube_client import CONFIG_MAPS, AlreadyExists, Conflict, KubeClient, NotFound
from remediator.cluster import BreakerState, Pause
from remediator.kube_cluster.reading import part, text, time
from remediator.operation import compact

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Switches:
    """What people and the breaker have switched."""

    pause: Pause | None = None
    breaker: BreakerState = field(default_factory=BreakerState)


class SwitchStore:
    """The ConfigMap `namespace/name`; one that is missing is all open."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    def read(self) -> Switches:
        """As it is now, live."""
        try:
            return switches_of(self._client.get(CONFIG_MAPS, self._name, self._namespace))
        except NotFound:
            return Switches()

    def change(self, change: Callable[[Switches], Switches]) -> Switches:
        """Change it; a concurrent change is read and the change made upon it.

        Raises:
            TemporaryError: The API is away, or others write all the time.
            PermanentError: It is forbidden.
        """
        for _ in range(_TRIES):
            try:
                raw = self._client.get(CONFIG_MAPS, self._name, self._namespace)
            except NotFound:
                raw = None
            wanted = change(switches_of(raw or {}))
            try:
                self._write(raw, wanted)
            except (Conflict, AlreadyExists):
                continue
            return wanted
        raise Conflict(
            f"ConfigMap {self._name} changes all the time", status=409, reason="Conflict"
        )

    def _write(self, raw: Mapping[str, Any] | None, wanted: Switches) -> None:
        data = data_of(wanted)
        if raw is None:
            body: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "data": data,
            }
            self._client.create(CONFIG_MAPS, body, self._namespace)
            return
        self._client.replace(CONFIG_MAPS, {**raw, "data": data}, self._namespace)

    def pause(self, by: str, why: str) -> None:
        """Nothing new begins from now on."""
        self.change(lambda now: replace(now, pause=Pause(by, why)))

    def resume(self, by: str, at: datetime) -> None:
        """The pause ends, and the breaker is reset: the present is judged anew."""

        def resumed(now: Switches) -> Switches:
            breaker = now.breaker
            if breaker.open:
                breaker = BreakerState(open=False, since=at, reset_at=at, reset_by=by)
            return Switches(None, breaker)

        self.change(resumed)


def switches_of(raw: Mapping[str, Any]) -> Switches:
    """What the ConfigMap says. What cannot be read is taken as closed: a person must look."""
    data = part(raw, "data")
    try:
        paused = _object(data, "pause")
        breaker = _object(data, "breaker")
    except ValueError:
        return Switches(Pause("a ConfigMap that cannot be read", "its data is no JSON"))
    pause = Pause(text(paused, "by") or "somebody", text(paused, "text")) if paused else None
    return Switches(
        pause,
        BreakerState(
            open=breaker.get("open", False) is not False,
            since=time(breaker, "since"),
            text=text(breaker, "text"),
            reset_at=time(breaker, "resetAt"),
            reset_by=text(breaker, "resetBy"),
        ),
    )


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = orjson.loads(data.get(key) or "{}")
    if not isinstance(found, dict):
        raise ValueError(f"{key} is no object")  # noqa: TRY004 - read with what is no JSON
    return found


def data_of(switches: Switches) -> dict[str, str]:
    """The ConfigMap's data."""
    pause, breaker = switches.pause, switches.breaker
    parts = {
        "pause": compact(by=pause.by, text=pause.text) if pause else {},
        "breaker": compact(
            open=breaker.open,
            since=breaker.since,
            text=breaker.text,
            resetAt=breaker.reset_at,
            resetBy=breaker.reset_by,
        ),
    }
    return {key: orjson.dumps(value).decode() for key, value in parts.items()}
