"""What people say to a running remediator: run, approve, cancel, release, pause, resume.

Everything goes through the Kubernetes API with the person's own rights; the name that is written is the one
that the API knows them by, and a ValidatingAdmissionPolicy refuses any other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

from chassis.errors import PermanentError
from chassis.kube_client import NODES, KubeClient, NotFound, PatchKind
from remediator.config import Config
from remediator.intake import Intake, Result
from remediator.kube_cluster import NODE_OPERATIONS, SELF_SUBJECT_REVIEWS, KubeCluster
from remediator.kube_cluster.state import SwitchStore
from remediator.operation import (
    APPROVED_BY,
    CANCELLED_BY,
    PAUSED,
    RELEASE_REQUESTED_BY,
    Cause,
    CauseKind,
    NodeOperation,
    Phase,
)
from remediator.triggers import Match, NoMatch

_MOST_REASON = 256


@dataclass(frozen=True, slots=True)
class Desk:
    """What the commands for people work with."""

    client: KubeClient
    cluster: KubeCluster
    intake: Intake
    config: Config
    clock: Callable[[], datetime]
    out: TextIO

    def user(self) -> str:
        """The name that the API knows us by.

        Raises:
            PermanentError: It knows none.
        """
        body = {
            "apiVersion": SELF_SUBJECT_REVIEWS.api_version,
            "kind": SELF_SUBJECT_REVIEWS.kind,
        }
        review = self.client.create(SELF_SUBJECT_REVIEWS, body)
        name = ((review.get("status") or {}).get("userInfo") or {}).get("username")
        if not isinstance(name, str) or not name:
            raise PermanentError("the API does not say who you are; check the kubeconfig's user")
        return name

    def operation(self, name: str) -> NodeOperation:
        """A stored operation.

        Raises:
            PermanentError: There is none, or it cannot be read.
        """
        stored = self.cluster.shelf.refresh(name)
        if stored is None:
            raise PermanentError(f"there is no operation {name}; `remediator status` lists them")
        if stored.operation is None:
            raise PermanentError(f"operation {name} cannot be read: {stored.problem}")
        return stored.operation

    def in_dry_run(self, playbook: str) -> bool:
        """Whether an operation of this playbook touches nothing."""
        found = self.config.playbook(playbook)
        return self.config.dry_run or (found is not None and found.dry_run)

    def annotate(self, name: str, key: str, value: str) -> None:
        """Write a person's word on an operation."""
        body = {"metadata": {"annotations": {key: value}}}
        self.client.patch(NODE_OPERATIONS, name, body, kind=PatchKind.MERGE)


def run(desk: Desk, playbook: str, node: str, reason: str) -> int:
    """Begin an operation by hand."""
    if desk.config.playbooks and desk.config.playbook(playbook) is None:
        known = ", ".join(each.name for each in desk.config.playbooks)
        raise PermanentError(f"no playbook is called {playbook}; there are {known}")
    desk.cluster.read_all()
    user = desk.user()
    cause = Cause(CauseKind.PERSON, user, desk.clock(), text=reason[:_MOST_REASON])
    answer = desk.intake.fault(Match(playbook, node, cause), user)
    if isinstance(answer, NoMatch):
        raise PermanentError(answer.text)
    if answer.result is not Result.CREATED:
        desk.out.write(
            f"{answer.operation} is active on node {node} already"
            f" ({answer.text or 'your request is one of its causes now'})\n"
        )
        return 1
    dry = ", in dry run: it only says what it would do" if desk.in_dry_run(playbook) else ""
    desk.out.write(f"{answer.operation} begins {playbook} on node {node}{dry}\n")
    if desk.config.external_url:
        desk.out.write(f"{desk.config.external_url}/operations/{answer.operation}\n")
    return 0


def approve(desk: Desk, name: str) -> int:
    """Let an operation begin that waits for a person's yes."""
    operation = desk.operation(name)
    if operation.status.phase not in {Phase.RECEIVED, Phase.GATED}:
        raise PermanentError(f"{name} is {operation.status.phase.value} and waits for no approval")
    user = desk.user()
    desk.annotate(name, APPROVED_BY, user)
    desk.out.write(f"{name} on node {operation.spec.node} is approved by {user}\n")
    return 0


def cancel(desk: Desk, name: str) -> int:
    """Ask an operation to end."""
    operation = desk.operation(name)
    if not operation.active:
        raise PermanentError(f"{name} has ended: {operation.status.phase.value}")
    desk.annotate(name, CANCELLED_BY, desk.user())
    proof = "; the node was repaired, so it is proven first" if operation.repaired else ""
    desk.out.write(f"{name} is asked to end{proof}\n")
    return 0


def release(desk: Desk, node: str) -> int:
    """Have an escalated node proven and returned."""
    desk.cluster.read_all()
    active = [each for each in desk.cluster.of_node(node) if each.active]
    escalated = [each for each in active if each.status.phase is Phase.ESCALATED]
    if not escalated:
        running = (
            f"{active[0].name} is {active[0].status.phase.value}" if active else "there is none"
        )
        raise PermanentError(f"no operation on node {node} waits for a person: {running}")
    user = desk.user()
    for each in escalated:
        desk.annotate(each.name, RELEASE_REQUESTED_BY, user)
        desk.out.write(f"{each.name}: node {node} is proven now, and released if it is healthy\n")
    return 0


def pause(desk: Desk, node: str, reason: str) -> int:
    """Let nothing new begin."""
    user = desk.user()
    if node:
        text = f"{user}: {reason}" if reason else user
        _annotate_node(desk, node, text)
        desk.out.write(f"no operation begins on node {node}\n")
        return 0
    _switches(desk).pause(user, reason)
    desk.out.write("nothing new begins; what is proven is still released\n")
    return 0


def resume(desk: Desk, node: str) -> int:
    """End a pause; of the fleet it resets the breaker, too."""
    if node:
        _annotate_node(desk, node, None)
        desk.out.write(f"operations may begin on node {node}\n")
        return 0
    _switches(desk).resume(desk.user(), desk.clock())
    desk.out.write("operations may begin; the breaker is closed and judges the present anew\n")
    return 0


def _switches(desk: Desk) -> SwitchStore:
    return SwitchStore(desk.client, desk.config.leader.namespace, desk.config.leader.state)


def _annotate_node(desk: Desk, node: str, value: str | None) -> None:
    body: dict[str, Any] = {"metadata": {"annotations": {PAUSED: value}}}
    try:
        desk.client.patch(NODES, node, body, kind=PatchKind.MERGE)
    except NotFound as error:
        raise PermanentError(f"no node is called {node}; `kubectl get nodes` lists them") from error
