"""A playbook: which faults it is for, the ladder of repairs, what proves them and what holds them back."""

from datetime import timedelta
from typing import Annotated, Literal, Self

from jinja2 import TemplateError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import AfterValidator, Field, model_validator

from chassis.alertmanager import all_match
from chassis.config import Duration, MatcherList, Settings
from remediator.config.common import PlaybookName, RungName, SomeTime, Word, entries
from remediator.config.draining import DrainSettings
from remediator.config.holding import GateSettings, OperationsLimit
from remediator.config.proving import ProofSettings
from remediator.config.repairs import Repair

_SANDBOX = ImmutableSandboxedEnvironment(autoescape=False)
_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_SEEN = frozenset({"labels", "annotations"})


def _template(value: str) -> str:
    try:
        tree = _SANDBOX.parse(value)
    except TemplateError as error:
        raise ValueError(f"cannot use this template: {error}") from error
    if any(True for _ in tree.find_all(_OTHER_FILES)):
        raise ValueError("cannot use this template: it must not include, import or extend others")
    used = meta.find_undeclared_variables(tree)
    if unknown := sorted(used - _SEEN):
        raise ValueError(f"a template sees labels and annotations, not {', '.join(unknown)}")
    if not used:
        raise ValueError("every alert would name the same node; write it like {{ labels.node }}")
    return value


class NodeName(Settings):
    """Where an alert names its node: a label, or a template that sees `labels` and `annotations`."""

    label: Word | None = None
    template: Annotated[str, AfterValidator(_template)] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.label is None) == (self.template is None):
            raise ValueError("give exactly one of label and template")
        return self


class ConditionTrigger(Settings):
    """A Node Condition that has had this status for this long."""

    type: Word
    status: Literal["True", "False", "Unknown"] = "True"
    for_: Duration = Field(default=timedelta(minutes=1), alias="for")


class ConditionTriggers(Settings):
    """All of `all` together, or any one of `any`."""

    all: tuple[ConditionTrigger, ...] = ()
    any: tuple[ConditionTrigger, ...] = ()

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if bool(self.all) == bool(self.any):
            raise ValueError("give exactly one of all and any, with at least one condition")
        return self


class Rung(Settings):
    """One repair of the ladder.

    `timeout` bounds the repair itself, `return_within` the wait for a node that is Ready (and, after
    a reboot, has a new boot id), `cooldown` passes between two attempts.
    """

    name: RungName
    repair: Repair
    attempts: Annotated[int, Field(ge=1, le=10)] = 1
    timeout: SomeTime = timedelta(minutes=10)
    return_within: SomeTime = timedelta(minutes=20)
    cooldown: Duration = timedelta(minutes=5)
    drain: DrainSettings = DrainSettings()


class Playbook(Settings):
    """What to do about one kind of fault.

    `match`: an alert fits if all matchers of any one entry do. `nodes`: only for nodes whose labels
    fit all of these matchers, none is every node; of other nodes' faults the next playbook is asked. It
    starts in dry run: nothing is touched, and the operation tells what it would have done.
    """

    name: PlaybookName
    description: str = ""
    match: Annotated[tuple[MatcherList, ...], entries(0, 100)] = ()
    conditions: ConditionTriggers | None = None
    node: NodeName = NodeName(label="node")
    nodes: MatcherList = ()
    dry_run: bool = True
    ladder: Annotated[tuple[Rung, ...], entries(1, 16)]
    proof: ProofSettings = ProofSettings()
    gates: GateSettings = GateSettings()
    operations_limit: OperationsLimit = OperationsLimit()

    @model_validator(mode="after")
    def _can_begin_and_end(self) -> Self:
        if not self.match and self.conditions is None:
            raise ValueError("give match, conditions or both; nothing else begins it")
        if any(not matchers for matchers in self.match):
            raise ValueError("match: an entry without matchers takes every alert; name some labels")
        if any(all_match(matchers, {}) for matchers in self.match):
            raise ValueError(
                "match: an entry that fits an alert without labels takes nearly every alert; let one"
                ' matcher demand a label, like alertname="GPUIsLost"'
            )
        names = [rung.name for rung in self.ladder]
        if len(set(names)) != len(names):
            raise ValueError("ladder: give each rung its own name")
        if any(rung.repair.hand_over for rung in self.ladder[:-1]):
            raise ValueError("ladder: hand_over ends the ladder; put it last")
        last = self.ladder[-1].repair.hand_over
        if last is not None and not last.isolate and len(self.ladder) > 1:
            raise ValueError(
                "ladder: isolate: false is for a playbook that only hands over; after a repair the"
                " node stays isolated"
            )
        return self
