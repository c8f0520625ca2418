"""What people say on operations is said in their own name, on a real API server: the policies of deploy/remediator/people."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chassis.kube_client import (
    CONFIG_MAPS,
    NODES,
    Forbidden,
    Invalid,
    KubeClient,
    NotFound,
    PatchKind,
)
from remediator.cluster import BreakerState, Pause
from remediator.kube_cluster import NODE_OPERATIONS
from remediator.kube_cluster.state import Switches, SwitchStore, data_of
from remediator.operation import APPROVED_BY, CANCELLED_BY, PAUSED, RELEASE_REQUESTED_BY
from tests.deploy.exporters_cluster import Object, of_kind
from tests.deploy.remediator_cluster import (
    NAMESPACE,
    OPERATOR,
    SERVICE_USER,
    STATE,
    bind,
    client,
    install,
    objects_of,
    service_kubeconfig,
)
from tests.journeys.remediator_world import now
from tests.journeys.service import wait_until
from tests.kubernetes_api import ADMINS, KubernetesAPI

ALICE, BOB, ROOT, SERVICE = "alice@example.org", "bob", "root", "the remediator"
WORDS = (APPROVED_BY, CANCELLED_BY, RELEASE_REQUESTED_BY)
START = "2026-11-30T12:00:00Z"
ALERT = {"kind": "alert", "name": "GPUIsLost", "startsAt": START, "fingerprint": "0" * 16}
PAUSER, FIRST = "nodemend-remediator-node-pauser", "first"
_NUMBERS = itertools.count()

pytestmark = pytest.mark.slow


def person(name: str, text: str = "") -> Object:
    return {"kind": "person", "name": name, "startsAt": START, "text": text}


@dataclass(frozen=True)
class Cluster:
    """Who speaks to the API, by name."""

    clients: Mapping[str, KubeClient]

    def create(self, who: str, **spec: Any) -> str:
        """A new operation; its name."""
        name = f"no-{next(_NUMBERS):020d}"
        body = {
            "apiVersion": NODE_OPERATIONS.api_version,
            "kind": NODE_OPERATIONS.kind,
            "metadata": {"name": name, "annotations": spec.pop("annotations", {})},
            "spec": {"nodeName": "n1", "playbook": "reboot-it", **spec},
        }
        self.clients[who].create(NODE_OPERATIONS, body)
        return name

    def patch(self, who: str, name: str, body: Mapping[str, Any], part: str | None = None) -> None:
        self.clients[who].patch(NODE_OPERATIONS, name, body, kind=PatchKind.MERGE, subresource=part)

    def say(self, who: str, name: str, word: str, value: str | None) -> None:
        self.patch(who, name, {"metadata": {"annotations": {word: value}}})

    def said(self, name: str) -> dict[str, str]:
        found = self.clients[ROOT].get(NODE_OPERATIONS, name)["metadata"].get("annotations") or {}
        return {key: value for key, value in found.items() if key in WORDS}


@pytest.fixture(scope="module")
def cluster(
    kubernetes: KubernetesAPI, kubectl: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """With the manifests; alice and bob are operators, root may do everything, the remediator has its token."""
    objects = objects_of(kubectl)
    install(kubernetes)
    roles = [*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]
    wanted = {OPERATOR, PAUSER}
    for user in (ALICE, BOB):
        bind(kubernetes, user, [each for each in roles if each["metadata"]["name"] in wanted])
    folder = tmp_path_factory.mktemp("people")
    kubeconfigs = {
        ALICE: kubernetes.kubeconfig_for(ALICE),
        BOB: kubernetes.kubeconfig_for(BOB),
        ROOT: kubernetes.kubeconfig_for(ROOT, [ADMINS]),
        SERVICE: service_kubeconfig(kubernetes, folder),
    }
    one = Cluster({who: client(path) for who, path in kubeconfigs.items()})
    first = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": FIRST}}
    one.clients[ROOT].create(NODES, first)
    wait_until("the roles and the policies", lambda: _in_force(one))
    yield one
    for each in one.clients.values():
        each.close()


def _in_force(cluster: Cluster) -> bool:
    for who in (ALICE, BOB, SERVICE):
        if not _may(cluster, who):
            return False
    body = {"metadata": {"annotations": {PAUSED: "somebody"}}}
    refused = (
        lambda: cluster.clients[ROOT].patch(NODES, FIRST, body, kind=PatchKind.MERGE),
        lambda: cluster.create(ROOT, requestedBy="somebody"),
        lambda: _write(cluster, ROOT, Switches(Pause("somebody", ""))),
    )
    for each in refused:
        try:
            each()
        except Forbidden:
            continue
        return False
    return True


def _may(cluster: Cluster, who: str) -> bool:
    try:
        cluster.create(who)
        cluster.clients[who].patch(NODES, FIRST, {}, kind=PatchKind.MERGE)
        cluster.clients[who].get(CONFIG_MAPS, STATE, NAMESPACE)
    except NotFound:
        return True
    except Forbidden:
        return False
    return True


def why_not(error: pytest.ExceptionInfo[Forbidden]) -> str:
    """The policy's message: a refusal by RBAC is no proof of a policy."""
    text = str(error.value)
    assert "ValidatingAdmissionPolicy 'nodemend-remediator-" in text
    return text.partition("denied request: ")[2]


# Approve, cancel, release.


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("who", [ALICE, BOB, ROOT])
def test_a_person_says_a_word_and_takes_it_back(cluster: Cluster, who: str, word: str) -> None:
    name = cluster.create(SERVICE)

    cluster.say(who, name, word, who)
    assert cluster.said(name) == {word: who}
    cluster.say(who, name, word, None)

    assert cluster.said(name) == {}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("before", "who", "value", "told"),
    [
        pytest.param(None, ALICE, BOB, "in one's own name", id="nobody signs for another"),
        pytest.param(None, ROOT, ALICE, "in one's own name", id="nor does an administrator"),
        pytest.param(None, ALICE, "", "in one's own name", id="a word has a name"),
        pytest.param(None, ALICE, "alice", "in one's own name", id="a name is the whole name"),
        pytest.param(None, ALICE, SERVICE_USER, "in one's own name", id="nobody is the service"),
        pytest.param(None, SERVICE, ALICE, "is for people", id="the service signs for nobody"),
        pytest.param(None, SERVICE, SERVICE_USER, "is for people", id="nor for itself"),
        pytest.param(ALICE, BOB, None, "what others have said", id="another's word is not removed"),
        pytest.param(ALICE, BOB, BOB, "what others have said", id="nor replaced by one's own"),
        pytest.param(ALICE, ROOT, None, "what others have said", id="nor by an administrator"),
        pytest.param(ALICE, ALICE, BOB, "in one's own name", id="one's own is not given away"),
        pytest.param(ALICE, SERVICE, BOB, "is for people", id="nor changed by the service"),
    ],
)
def test_a_word_that_is_refused(
    cluster: Cluster, word: str, before: str | None, who: str, value: str | None, told: str
) -> None:
    name = cluster.create(SERVICE)
    if before is not None:
        cluster.say(before, name, word, before)

    with pytest.raises(Forbidden) as error:
        cluster.say(who, name, word, value)

    assert told in why_not(error)
    assert word in why_not(error)
    assert cluster.said(name) == ({word: before} if before else {})


@pytest.mark.parametrize("word", WORDS)
def test_the_remediator_takes_up_what_was_said(cluster: Cluster, word: str) -> None:
    name = cluster.create(SERVICE)
    cluster.say(ALICE, name, word, ALICE)
    path = "/metadata/annotations/" + word.replace("/", "~1")
    patch = [{"op": "test", "path": path, "value": ALICE}, {"op": "remove", "path": path}]

    cluster.clients[SERVICE].patch(NODE_OPERATIONS, name, patch, kind=PatchKind.JSON)

    assert cluster.said(name) == {}


def test_words_stay_while_others_change_other_things(cluster: Cluster) -> None:
    name = cluster.create(SERVICE)
    cluster.say(ALICE, name, APPROVED_BY, ALICE)
    cluster.say(BOB, name, CANCELLED_BY, BOB)
    cluster.patch(BOB, name, {"metadata": {"labels": {"team": "b"}, "annotations": {"x": "1"}}})
    cluster.patch(SERVICE, name, {"metadata": {"finalizers": ["nodemend.dev/node-operation"]}})
    cluster.patch(SERVICE, name, {"metadata": {"finalizers": None}})

    assert cluster.said(name) == {APPROVED_BY: ALICE, CANCELLED_BY: BOB}


@pytest.mark.parametrize("word", WORDS)
def test_a_new_operation_carries_the_words_of_its_maker_alone(cluster: Cluster, word: str) -> None:
    name = cluster.create(ALICE, annotations={word: ALICE})
    with pytest.raises(Forbidden) as error:
        cluster.create(ALICE, annotations={word: BOB})

    assert cluster.said(name) == {word: ALICE}
    assert "in one's own name" in why_not(error)


# What is begun, and what joins.


@pytest.mark.parametrize(
    ("who", "spec"),
    [
        pytest.param(ALICE, {}, id="a person begins one without words"),
        pytest.param(
            ALICE,
            {"requestedBy": ALICE, "trigger": "Manual", "causes": [person(ALICE, "new firmware")]},
            id="a person begins one in that person's name",
        ),
        pytest.param(
            SERVICE, {"trigger": "Alert", "causes": [ALERT]}, id="the remediator takes an alert"
        ),
        pytest.param(
            SERVICE,
            {"trigger": "Condition", "causes": [{**ALERT, "kind": "condition"}]},
            id="the remediator takes a condition",
        ),
    ],
)
def test_what_may_begin(cluster: Cluster, who: str, spec: dict[str, Any]) -> None:
    name = cluster.create(who, **spec)

    stored = cluster.clients[ROOT].get(NODE_OPERATIONS, name)["spec"]
    assert {key: stored[key] for key in spec} == spec


@pytest.mark.parametrize(
    ("who", "spec", "told"),
    [
        pytest.param(ALICE, {"requestedBy": BOB}, "must be alice@example.org", id="for another"),
        pytest.param(SERVICE, {"requestedBy": BOB}, "spec.requestedBy", id="for a person"),
        pytest.param(SERVICE, {"requestedBy": SERVICE_USER}, "spec.requestedBy", id="for itself"),
        pytest.param(ALICE, {"trigger": "Alert"}, "trigger Manual", id="as an alert"),
        pytest.param(ROOT, {"trigger": "Condition"}, "trigger Manual", id="as a condition"),
        pytest.param(ALICE, {"causes": [ALERT]}, "a cause that a person adds", id="with an alert"),
        pytest.param(ALICE, {"causes": [person(BOB)]}, "the name alice", id="with another's cause"),
        pytest.param(SERVICE, {"causes": [person(BOB)]}, "a cause", id="with a person's cause"),
    ],
)
def test_what_may_not_begin(cluster: Cluster, who: str, spec: dict[str, Any], told: str) -> None:
    with pytest.raises(Forbidden) as error:
        cluster.create(who, **spec)

    assert told in why_not(error)


@pytest.mark.parametrize(
    ("who", "causes"),
    [
        pytest.param(SERVICE, [ALERT, {**ALERT, "name": "GPUXIDError"}], id="another alert"),
        pytest.param(ALICE, [ALERT, person(ALICE)], id="a person"),
    ],
)
def test_what_may_join(cluster: Cluster, who: str, causes: list[Object]) -> None:
    name = cluster.create(SERVICE, trigger="Alert", causes=[ALERT])

    cluster.patch(who, name, {"spec": {"causes": causes}})

    assert len(cluster.clients[ROOT].get(NODE_OPERATIONS, name)["spec"]["causes"]) == 2


@pytest.mark.parametrize(
    ("who", "causes", "told"),
    [
        pytest.param(ALICE, [ALERT, person(BOB)], "the name alice", id="in another's name"),
        pytest.param(ALICE, [ALERT, {**ALERT, "name": "X"}], "a cause", id="a made-up alert"),
        pytest.param(SERVICE, [ALERT, person(ALICE)], "a cause", id="a made-up person"),
        pytest.param(
            SERVICE, [{**ALERT, "text": "y"}, ALERT, ALERT], "", id="(a cause added twice is taken)"
        ),
        pytest.param(
            SERVICE, [{**ALERT, "text": "y"}], "causes are added", id="another in its place"
        ),
    ],
)
def test_what_may_not_join(cluster: Cluster, who: str, causes: list[Object], told: str) -> None:
    name = cluster.create(SERVICE, trigger="Alert", causes=[ALERT])
    if not told:
        cluster.patch(who, name, {"spec": {"causes": causes}})
        return

    with pytest.raises(Forbidden) as error:
        cluster.patch(who, name, {"spec": {"causes": causes}})

    assert told in why_not(error)


@pytest.mark.parametrize("who", [ALICE, SERVICE])
@pytest.mark.parametrize(
    "changed",
    [
        {"nodeName": "n2"},
        {"playbook": "another"},
        {"trigger": "Alert"},
        {"episode": 2},
        {"dryRun": True},
        {"requestedBy": ""},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_was_begun_stays_what_it_is(
    cluster: Cluster, who: str, changed: dict[str, Any]
) -> None:
    name = cluster.create(ALICE, requestedBy=ALICE)

    with pytest.raises(Invalid, match=r"cannot be changed; cancel the operation"):
        cluster.patch(who, name, {"spec": changed})


# How it goes.


def test_the_status_is_the_remediators(cluster: Cluster) -> None:
    name = cluster.create(SERVICE)
    done = {"phase": "Succeeded", "reason": "Healed"}
    raw = cluster.clients[SERVICE].get(NODE_OPERATIONS, name)

    with pytest.raises(Forbidden) as error:
        cluster.patch(ROOT, name, {"status": done}, "status")
    cluster.clients[SERVICE].replace(
        NODE_OPERATIONS, {**raw, "status": {"phase": "Gated"}}, subresource="status"
    )

    assert "written by the remediator alone" in why_not(error)
    assert cluster.clients[ROOT].get(NODE_OPERATIONS, name)["status"] == {"phase": "Gated"}


def test_an_operator_without_more_rights_cannot_even_try(cluster: Cluster) -> None:
    name = cluster.create(SERVICE)

    with pytest.raises(Forbidden) as error:
        cluster.patch(ALICE, name, {"status": {"phase": "Succeeded"}}, "status")

    assert "cannot patch resource" in str(error.value)


# Pause and breaker.


def _write(cluster: Cluster, who: str, switches: Switches | Mapping[str, str]) -> None:
    data = dict(data_of(switches)) if isinstance(switches, Switches) else dict(switches)
    metadata = {"name": STATE, "namespace": NAMESPACE}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    speaker = cluster.clients[who]
    try:
        raw = speaker.get(CONFIG_MAPS, STATE, NAMESPACE)
    except NotFound:
        speaker.create(CONFIG_MAPS, body, NAMESPACE)
    else:
        speaker.replace(CONFIG_MAPS, {**raw, "data": data}, NAMESPACE)


OPEN = BreakerState(open=True, since=now(), text='4 of 5 nodes: "by" whom?')


def store(cluster: Cluster, who: str) -> SwitchStore:
    return SwitchStore(cluster.clients[who], NAMESPACE, STATE)


@pytest.fixture
def all_open(cluster: Cluster) -> None:
    """Nothing is paused, the breaker is closed; by the remediator, which may."""
    _write(cluster, SERVICE, Switches())


@pytest.mark.usefixtures("all_open")
def test_pause_and_resume_as_the_commands_write_them(cluster: Cluster) -> None:
    store(cluster, ALICE).pause(ALICE, 'moving "racks" \\ by hand')
    _write(cluster, SERVICE, Switches(store(cluster, SERVICE).read().pause, OPEN))
    store(cluster, BOB).pause(BOB, "")
    assert store(cluster, SERVICE).read() == Switches(Pause(BOB, ""), OPEN)

    store(cluster, ALICE).resume(ALICE, now())

    found = store(cluster, SERVICE).read()
    assert found.pause is None
    assert (found.breaker.open, found.breaker.reset_by) == (False, ALICE)


@pytest.mark.usefixtures("all_open")
@pytest.mark.parametrize(
    "pause",
    [
        pytest.param({"by": BOB, "text": "x"}, id="in another's name"),
        pytest.param({"text": "x"}, id="in nobody's name"),
        pytest.param({"text": "x", "by": ALICE}, id="the name is not first"),
        pytest.param('{"by":"alice@example.org","by":"bob"}', id="two names"),
        pytest.param('{"by":"alice@example.org","by" : "bob"}', id="two names with a space"),
        pytest.param(r'{"by":"alice@example.org","\u0062y":"bob"}', id="another spelling"),
        pytest.param("{broken", id="no JSON"),
    ],
)
def test_a_pause_in_no_name_of_ones_own_is_refused(cluster: Cluster, pause: Any) -> None:
    text = pause if isinstance(pause, str) else json.dumps(pause, separators=(",", ":"))

    with pytest.raises(Forbidden) as error:
        _write(cluster, ALICE, {"pause": text, "breaker": "{}"})

    assert "who pauses the fleet is named" in why_not(error)


@pytest.mark.usefixtures("all_open")
@pytest.mark.parametrize(
    "after",
    [
        pytest.param(BreakerState(open=False, reset_at=now(), reset_by=BOB), id="another's reset"),
        pytest.param(BreakerState(), id="a reset in nobody's name"),
        pytest.param(BreakerState(open=True, reset_by=ALICE), id="opened by a person"),
    ],
)
def test_a_breaker_that_a_person_changes_in_no_name_of_ones_own_is_refused(
    cluster: Cluster, after: BreakerState
) -> None:
    _write(cluster, SERVICE, Switches(None, OPEN))

    with pytest.raises(Forbidden) as error:
        _write(cluster, ALICE, Switches(None, after))

    assert "closed by people, in their own name" in why_not(error)
    assert store(cluster, SERVICE).read().breaker == OPEN


def test_other_config_maps_are_nobodys_business(cluster: Cluster) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "other", "namespace": NAMESPACE},
        "data": {"pause": "anything"},
    }

    made = cluster.clients[ROOT].create(CONFIG_MAPS, body, NAMESPACE)

    assert made["data"] == {"pause": "anything"}


# The pause of one node.


@pytest.fixture
def node(cluster: Cluster) -> str:
    """A new node, nobody's yet."""
    name = f"n{next(_NUMBERS)}"
    cluster.clients[ROOT].create(
        NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    )
    return name


def _pause_node(
    cluster: Cluster, who: str, node: str, value: str | None, part: str | None = None
) -> None:
    body = {"metadata": {"annotations": {PAUSED: value}}}
    cluster.clients[who].patch(NODES, node, body, kind=PatchKind.MERGE, subresource=part)


def _paused(cluster: Cluster, node: str) -> str | None:
    found = cluster.clients[ROOT].get(NODES, node)["metadata"].get("annotations") or {}
    return found.get(PAUSED)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(ALICE, id="P1 the name alone"),
        pytest.param(f"{ALICE}: new board: see #12", id="P2 the name and why"),
    ],
)
def test_a_person_pauses_a_node_and_anybody_who_may_ends_the_pause(
    cluster: Cluster, node: str, value: str
) -> None:
    _pause_node(cluster, ALICE, node, value)
    assert _paused(cluster, node) == value

    _pause_node(cluster, BOB, node, f"{BOB}: and I")
    assert _paused(cluster, node) == f"{BOB}: and I"
    _pause_node(cluster, ALICE, node, None)

    assert _paused(cluster, node) is None


@pytest.mark.parametrize(
    ("who", "value", "part"),
    [
        pytest.param(ALICE, f"{BOB}: x", None, id="P3 nobody pauses in another's name"),
        pytest.param(ROOT, ALICE, None, id="P4 nor does an administrator"),
        pytest.param(ROOT, ALICE, "status", id="P5 not by way of the status either"),
        pytest.param(ALICE, "", None, id="P6 a pause has a name"),
        pytest.param(ALICE, f"{ALICE}x", None, id="P7 the whole name and no more"),
        pytest.param(ALICE, f" {ALICE}", None, id="P8 at the beginning"),
        pytest.param(SERVICE, ALICE, None, id="P9 the service pauses for nobody"),
        pytest.param(SERVICE, SERVICE_USER, None, id="P10 nor for itself"),
    ],
)
def test_a_pause_of_a_node_in_no_name_of_ones_own_is_refused(
    cluster: Cluster, node: str, who: str, value: str, part: str | None
) -> None:
    _pause_node(cluster, BOB, node, BOB)

    with pytest.raises(Forbidden) as error:
        _pause_node(cluster, who, node, value, part)

    assert "who pauses a node is named" in why_not(error)
    assert _paused(cluster, node) == BOB


def test_whoever_writes_a_paused_node_for_another_reason_meets_no_policy(
    cluster: Cluster, node: str
) -> None:
    _pause_node(cluster, ALICE, node, ALICE)
    heard = {"conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": ""}]}
    body = {"metadata": {"annotations": {"x": "1"}, "labels": {"rack": "7"}}}
    others = cluster.clients[ROOT]

    others.patch(NODES, node, {"status": heard}, kind=PatchKind.MERGE, subresource="status")
    others.patch(NODES, node, body, kind=PatchKind.MERGE)
    cluster.clients[SERVICE].patch(NODES, node, body, kind=PatchKind.MERGE)
    raw = others.get(NODES, node)
    raw["spec"]["unschedulable"] = True
    others.replace(NODES, raw)

    found = others.get(NODES, node)
    assert (found["spec"]["unschedulable"], _paused(cluster, node)) == (True, ALICE)
    assert found["status"]["conditions"][0]["type"] == "Ready"


def test_the_policies_know_the_service_by_the_name_of_its_account(
    kubectl: str, tmp_path: Path
) -> None:
    policies = of_kind(objects_of(kubectl), "ValidatingAdmissionPolicy")
    (account,) = [
        each["metadata"]
        for each in of_kind(objects_of(kubectl), "ServiceAccount")
        if each["metadata"]["name"] == "nodemend-remediator"
    ]

    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    assert user == SERVICE_USER
    for policy in policies:
        variables = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
        assert variables["isTheRemediator"] == f'variables.user == "{user}"'
        assert policy["spec"]["failurePolicy"] == "Fail"


def test_the_policy_knows_every_word(kubectl: str) -> None:
    (policy,) = [
        each
        for each in of_kind(objects_of(kubectl), "ValidatingAdmissionPolicy")
        if each["metadata"]["name"] == "nodemend-remediator-words"
    ]
    (found,) = [each for each in policy["spec"]["variables"] if each["name"] == "words"]

    assert json.loads(found["expression"]) == list(WORDS)
