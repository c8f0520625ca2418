"""The demo's story, told as it happens: a GPU breaks, an issue opens, the node is repaired, the issue closes.

After the opening it breaks the GPU and does nothing else; all that follows is for the services to find out.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from chassis.contracts import ProbeVerdict, TimelinePhase
from sandbox.demo.fleet import CONDITION, Fleet
from sandbox.demo.monitoring import Alerts
from sandbox.demo.opening import Opening
from sandbox.demo.services import Receivers
from sandbox.demo.story import (
    address,
    is_closed,
    is_filed,
    is_settled,
    issues,
    says_resolved,
    steps_told,
    tells,
)
from sandbox.demo.terminal import DemoError, Story, aside
from sandbox.github_server import SandboxGitHub
from sandbox.simulated_nodes import FaultKind

_PLAIN = re.compile(r"\\([^\w\s])")
"""A sign that Markdown would take for its own, written so that it does not."""
_STEP_SECONDS = 60
_SIGN_SECONDS = 20
_GIVEN_UP = (TimelinePhase.ESCALATED, TimelinePhase.CANCELLED, TimelinePhase.SUPERSEDED)


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs while the story is told."""

    github: SandboxGitHub
    fleet: Fleet
    alerts: Alerts
    receivers: Receivers
    probe_fails: bool
    """Whether the fault is one that a reboot hides from the checks and not from the probe."""


class Telling:
    """One telling of the story."""

    def __init__(self, story: Story, stage: Stage) -> None:
        self._story = story
        self._github = stage.github
        self._fleet = stage.fleet
        self._alerts = stage.alerts
        self._receivers = stage.receivers
        self._probe_fails = stage.probe_fails
        self._boot_id = ""

    def tell(self) -> None:
        """Tell it to the end.

        Raises:
            DemoError: It went another way.
            StoppedError: The demo was stopped meanwhile.
        """
        Opening(self._story, self._fleet).tell()
        self._break()
        self._file()
        try:
            self._empty()
            self._reboot()
            self._prove()
        except DemoError:
            if self._fleet.phase == TimelinePhase.ESCALATED:
                self._hand_over()
            raise
        self._close()

    def _break(self) -> None:
        fleet = self._fleet
        self._boot_id = self._fleet.boot_id
        fleet.sick_node.inject(FaultKind.GPU_RUNTIME_ERROR)
        if self._probe_fails:
            fleet.sick_node.inject(FaultKind.PROBE_FAILS)
        self._story.step(f"A GPU of {fleet.node} stops allocating memory.")
        self._see_change(1)

    def _see_change(self, number: int) -> None:
        """Tell the signs on the way from the GPU to the alert: the first change is for the worse, the second back.

        Whoever looks late still sees them, as they are read from histories.
        """
        fleet, alerts = self._fleet, self._alerts
        status, value = ("True", 1) if number == 1 else ("False", 0)
        self._story.wait_for(
            f"the node's condition {CONDITION} to become {status}",
            lambda: len(fleet.past_conditions()) > number,
            _SIGN_SECONDS,
        )
        aside(f"Its agent sets the node's condition {CONDITION} to {status}.")
        self._story.wait_for(
            f"the exporter's metric to become {value}",
            lambda: alerts.changes(fleet.node) >= number,
            _SIGN_SECONDS,
        )
        aside(f"The exporter's metric becomes {value}, and {alerts.reads} reads it.")

    def _file(self) -> None:
        github = self._github
        self._story.wait_for("an issue", lambda: is_filed(github), _STEP_SECONDS)
        issue = issues(github)[-1]
        self._story.step(
            f"alerts2gh files the alert as issue #{issue.number}: {issue.title}\n   {address(github, issue)}"
        )
        self._story.wait_for("an assignment", lambda: is_settled(github), _STEP_SECONDS)
        who = ", ".join(issues(github)[-1].assignees) or "nobody"
        aside(f"It is assigned to {who}.")

    def _empty(self) -> None:
        fleet = self._fleet
        self._await("an operation", lambda: bool(fleet.operation()))
        name = fleet.operation()["metadata"]["name"]
        self._story.step(
            "remediator takes the same alert, and its playbook knows a repair. Each step is written down first:\n"
            f"   {self._receivers.operation_page(name)}"
        )
        self._await("the node's isolation", lambda: fleet.was_isolated_for(name))
        aside(f"{fleet.node} is isolated: a taint keeps new pods away.")
        trains_on = fleet.people.trains_on
        self._await("the training to move", lambda: trains_on() not in {"", fleet.node})
        aside(
            "It is drained: the training pod is evicted, and a new one, admitted like the first, runs on"
            f" {trains_on()}, which has {fleet.product(trains_on())}."
        )

    def _reboot(self) -> None:
        self._await("a new boot id", lambda: self._fleet.boot_id != self._boot_id)
        aside(
            f"It is rebooted: its boot id was {self._boot_id[:8]}…, now it is {self._fleet.boot_id[:8]}…."
        )

    def _prove(self) -> None:
        self._await("a probe", lambda: self._fleet.probe is not None)
        probe = self._fleet.probe
        passed = probe is not None and probe.result is ProbeVerdict.PASSED
        found = "passes on all of them" if passed else "still finds a broken one"
        aside(f"It must prove that it is well: its GPUs are probed, and the probe {found}.")
        self._await("the release", lambda: self._fleet.phase == TimelinePhase.SUCCEEDED)
        aside("It is released: the taint is gone, and it takes pods again.")

    def _close(self) -> None:
        github = self._github
        self._story.step("The alert is over, and so is the operation.")
        self._see_change(2)
        self._story.wait_for(
            "the issue to tell it", lambda: tells(github, TimelinePhase.SUCCEEDED), _STEP_SECONDS
        )
        self._story.wait_for("the issue to close", lambda: is_closed(github), _STEP_SECONDS)
        aside("The issue has closed itself, and tells what was done:")
        self._repeat_issue()

    def _hand_over(self) -> None:
        """Tell how a person is asked, when the repair has not been proven."""
        fleet, github = self._fleet, self._github
        self._story.step(
            f"The repair is not proven, so {fleet.node} stays isolated, and a person is asked."
        )
        self._see_change(2)
        self._story.wait_for(
            "the issue to say that the alert is over", lambda: says_resolved(github), _STEP_SECONDS
        )
        self._story.wait_for(
            "the issue to tell it", lambda: tells(github, TimelinePhase.ESCALATED), _STEP_SECONDS
        )
        aside("The alert is over, and still the issue stays open and says what to do:")
        self._repeat_issue()

    def _repeat_issue(self) -> None:
        for line in steps_told(self._github):
            plain = _PLAIN.sub(r"\1", line)
            aside(f"  | {plain}")
        aside(address(self._github, issues(self._github)[0]))

    def _await(self, what: str, shown: Callable[[], bool]) -> None:
        self._story.wait_for(what, shown, _STEP_SECONDS, self._given_up)

    def _given_up(self) -> str:
        status = self._fleet.operation().get("status") or {}
        if status.get("phase") in _GIVEN_UP:
            return f"the operation is {status['phase']} ({status.get('reason')})"
        return ""
