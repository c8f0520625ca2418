"""The whole configuration file, and what holds between its parts."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails

from chassis.config import Settings, format_duration
from chassis.kube_client import KubeSettings
from chassis.kube_lease import LeaseSettings
from chassis.serving import ServingSettings
from chassis.webapp import AuthSettings
from remediator.config.common import NodePath, Peer, PlainName, SomeTime, WebURL, entries
from remediator.config.holding import Breaker, BudgetSettings, RateLimit, Window
from remediator.config.playbook_files import FileName, with_files
from remediator.config.playbooks import Playbook
from remediator.config.repairs import JobTemplate

Mistake = tuple[tuple[str | int, ...], str]


class JobSettings(Settings):
    """Where repairs run, and in which image. The image has sh, nsenter, and what a repair calls.

    `driver_root` is the folder of the nodes in which nvidia-smi lies below its usual path: `/`, or where a container of
    the driver has put it, like /run/nvidia/driver.
    """

    namespace: PlainName = "nodemend"
    image: Annotated[str, Field(min_length=1)] = "nodemend:latest"
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[PlainName, ...] = ()
    service_account: PlainName = "nodemend-repair"
    priority_class: str = "system-node-critical"
    driver_root: NodePath = "/"


class LeaderSettings(LeaseSettings):
    """The Lease that one replica holds, and the ConfigMap for pause and breaker beside it."""

    namespace: PlainName = "nodemend"
    lease: PlainName = "nodemend-remediator"
    state: PlainName = "nodemend-remediator-state"


class TimelinePeer(Peer):
    """The alerts2gh that is told how operations go; `cluster` prefixes their names if several tell it."""

    cluster: Annotated[str, Field(max_length=100, pattern=r"^[!-~]*$")] = ""


class FreshnessSettings(Settings):
    """How old an observation may be before it holds everything back.

    `conditions`: how long ago a condition that proves a node was judged; agents write it every few minutes.
    """

    nodes: SomeTime = timedelta(minutes=2)
    alerts: SomeTime = timedelta(minutes=2)
    queries: SomeTime = timedelta(minutes=2)
    conditions: SomeTime = timedelta(minutes=20)


class Config(Settings):
    """The whole file."""

    serving: ServingSettings = ServingSettings()
    auth: AuthSettings | None = None
    max_body_bytes: int = Field(default=10_000_000, ge=10_000, le=1_000_000_000)
    kubernetes: KubeSettings = KubeSettings()
    leader: LeaderSettings = LeaderSettings()
    dry_run: bool = False
    playbooks: Annotated[tuple[Playbook, ...], entries(1)]
    playbook_files: tuple[FileName, ...] = ()
    job_templates: dict[PlainName, JobTemplate] = Field(default_factory=dict)
    jobs: JobSettings = JobSettings()
    windows: dict[PlainName, Window] = Field(default_factory=dict)
    budgets: tuple[BudgetSettings, ...] = ()
    rate_limit: RateLimit = RateLimit()
    breaker: Breaker = Breaker()
    freshness: FreshnessSettings = FreshnessSettings()
    alertmanagers: tuple[Peer, ...] = ()
    prometheus: Peer | None = None
    alerts2gh: TimelinePeer | None = None
    keep_finished: SomeTime = timedelta(days=30)
    max_active: Annotated[int, Field(ge=1)] = 1000
    external_url: WebURL | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def playbook(self, name: str) -> Playbook | None:
        """The playbook of this name, None if there is none (any more)."""
        return next((each for each in self.playbooks if each.name == name), None)

    def selects_nodes(self, name: str) -> bool:
        """Whether the playbook of this name is only for some nodes."""
        found = self.playbook(name)
        return found is not None and bool(found.nodes)

    @model_validator(mode="before")
    @classmethod
    def _with_files(cls, data: Any, info: ValidationInfo) -> Any:
        return with_files(data, info)

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        mistakes = [
            InitErrorDetails(type="value_error", loc=place, input=None, ctx={"error": text})
            for place, text in (_told(self, mistake) for mistake in _mistakes(self))
        ]
        if mistakes:
            raise ValidationError.from_exception_data(type(self).__name__, mistakes)
        return self


def _told(config: Config, mistake: Mistake) -> Mistake:
    """With the playbook's name where the file that has it is not the one that is named."""
    place, text = mistake
    if not config.playbook_files or place[0] != "playbooks" or not isinstance(place[1], int):
        return mistake
    return place, f"playbook {config.playbooks[place[1]].name}: {text}"


def _mistakes(config: Config) -> Iterator[Mistake]:
    yield from _same_names(config)
    yield from _taken_before(config)
    for index, playbook in enumerate(config.playbooks):
        place = ("playbooks", index)
        yield from _unknown_names(config, playbook, place)
        yield from _missing_peers(config, playbook, place)
    yield from _forgotten_too_soon(config)


def _same_names(config: Config) -> Iterator[Mistake]:
    for section in ("playbooks", "budgets"):
        seen: set[str] = set()
        for index, each in enumerate(getattr(config, section)):
            if each.name in seen:
                yield (section, index, "name"), "another one has this name; give each its own"
            seen.add(each.name)
    addresses: set[str] = set()
    for index, peer in enumerate(config.alertmanagers):
        if peer.url in addresses:
            yield ("alertmanagers", index, "url"), "this Alertmanager is listed twice; remove one"
        addresses.add(peer.url)


def _taken_before(config: Config) -> Iterator[Mistake]:
    """Of several playbooks whose matchers fit, the first one takes the alert."""
    takers: dict[frozenset[str], str] = {}
    for index, playbook in enumerate(config.playbooks):
        for number, matchers in enumerate(playbook.match):
            wanted = frozenset(map(str, matchers))
            if playbook.nodes and wanted not in takers:
                continue  # of other nodes it leaves them to those below
            if wanted in takers:
                text = f"playbook {takers[wanted]} takes these alerts before; remove one of the two"
                yield ("playbooks", index, "match", number), text
            takers.setdefault(wanted, playbook.name)


def _unknown_names(
    config: Config, playbook: Playbook, place: tuple[str | int, ...]
) -> Iterator[Mistake]:
    for index, window in enumerate(playbook.gates.windows):
        if window not in config.windows:
            known = ", ".join(config.windows) or "none"
            yield (*place, "gates", "windows", index), f"no such window; `windows` has {known}"
    for index, rung in enumerate(playbook.ladder):
        template = rung.repair.template
        if template is not None and template not in config.job_templates:
            known = ", ".join(config.job_templates) or "none"
            where = (*place, "ladder", index, "repair", rung.repair.kind, "template")
            yield where, f"no such template; `job_templates` has {known}"


def _missing_peers(
    config: Config, playbook: Playbook, place: tuple[str | int, ...]
) -> Iterator[Mistake]:
    if config.prometheus is None:
        for section, queries in (
            (("gates", "guards"), playbook.gates.guards),
            (("proof", "queries"), playbook.proof.queries),
        ):
            if queries:
                yield (*place, *section), "queries need a Prometheus; set `prometheus.url`"
    if playbook.match and not config.alertmanagers and playbook.proof.alerts:
        text = (
            "a resolved alert is seen at the Alertmanagers only; list them under `alertmanagers`,"
            " or set it to false and prove by conditions, queries or the probe"
        )
        yield (*place, "proof", "alerts"), text
    if not _proves_something(playbook):
        yield (*place, "proof"), "nothing is proven; set alerts, conditions, queries or probe"


def _proves_something(playbook: Playbook) -> bool:
    proof = playbook.proof
    by_alerts = proof.alerts and bool(playbook.match)
    return bool(
        by_alerts or playbook.conditions or proof.conditions or proof.queries or proof.probe
    )


def _forgotten_too_soon(config: Config) -> Iterator[Mistake]:
    kept = format_duration(config.keep_finished)
    for place, counted in _counting_windows(config):
        if counted > config.keep_finished:
            text = (
                f"{format_duration(counted)} is longer than keep_finished ({kept}), so operations"
                " would be forgotten before they stop counting; raise keep_finished"
            )
            yield place, text


def _counting_windows(config: Config) -> Iterator[tuple[tuple[str | int, ...], timedelta]]:
    yield ("rate_limit", "per"), config.rate_limit.per
    yield ("breaker", "within"), config.breaker.within
    for index, playbook in enumerate(config.playbooks):
        place = ("playbooks", index)
        yield (*place, "operations_limit", "within"), playbook.operations_limit.within
        yield (*place, "gates", "cooldown"), playbook.gates.cooldown
