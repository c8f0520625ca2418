"""The remediator as a process with nothing but its service account's token, and its commands as a person with a role.

Compared both ways with the API server's own audit log: nothing is refused, and no right is there that is not used. The
policies of deploy/remediator/people are in force meanwhile.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from chassis.kube_client import CONFIG_MAPS, PODS
from sandbox.simulated_nodes import Fault, FaultKind
from tests import kubernetes_api
from tests.deploy.exporters_cluster import (
    Deed,
    Object,
    allowed,
    of_kind,
    told,
)
from tests.deploy.remediator_cluster import (
    NAMESPACE,
    OPERATOR,
    REMEDIATOR,
    REPAIRS,
    SERVICE_USER,
    STATE,
    bind,
    command,
    install,
    objects_of,
    service_kubeconfig,
)
from tests.journeys.remediator_world import (
    PLAYBOOK,
    Remediator,
    World,
    a_world,
    webhook,
)
from tests.journeys.service import wait_until
from tests.kubernetes_api import KubernetesAPI, running_kubernetes_api

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
NODES = ("n1", "n2", "n3")
PERSON = "alice"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [SERVICE_USER, PERSON]},
        {"level": "None"},
    ],
}
RUNG = PLAYBOOK["ladder"][0]
PROOF = {**PLAYBOOK["proof"], "probe": False}
QUICK = {"proof": PROOF, "gates": {"cooldown": "0s"}, "operations_limit": {"within": "20s"}}
DRAIN = {
    "unmanaged": "delete",
    "deadline": "30s",
    "checkpoint": {"selector": 'train="yes"', "wait": "1s"},
}
PLAYBOOKS: list[dict[str, Any]] = [
    {
        **PLAYBOOK,
        **QUICK,
        "ladder": [{**RUNG, "drain": DRAIN}],
    },
    {
        "name": "restart-plugin",
        "match": ['alertname="PluginHangs"'],
        "dry_run": False,
        "ladder": [
            {
                "name": "restart",
                "cooldown": "0s",
                "drain": {"strategy": "None"},
                "repair": {"restart_pods": {"namespace": "default", "selector": 'app="plugin"'}},
            }
        ],
        **QUICK,
        "proof": {**PROOF, "conditions": ["GPUIsLost"]},
    },
]
PLAYBOOKS += [
    {
        **PLAYBOOKS[1],
        "name": "by-hand",
        "match": ['alertname="None"'],
        "gates": {"cooldown": "0s", "approval": True},
    }
]
SETTINGS: dict[str, Any] = {
    "playbooks": PLAYBOOKS,
    "breaker": {"max_unavailable": 1, "within": "1s", "min_nodes": 3},
    "rate_limit": {"isolations": 1000, "per": "20s"},
    "keep_finished": "20s",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


# What was done.


class Deeds:
    """What a user has done, by the API server's log."""

    def __init__(self, api: KubernetesAPI, user: str) -> None:
        self._api = api
        self._user = user

    def _events(self) -> Iterable[Mapping[str, Any]]:
        return (each for each in self._api.audited() if each["user"]["username"] == self._user)

    def done(self) -> set[Deed]:
        return {_deed(each) for each in self._events() if each.get("objectRef")}

    def refusals(self) -> list[str]:
        """What RBAC did not allow, or a policy refused."""
        return [
            f"{each['verb']} {each['requestURI']}: {each['responseStatus'].get('code')}"
            for each in self._events()
            if each.get("responseStatus", {}).get("code") == 403
        ]

    def unused(self, rights: Iterable[Deed]) -> set[Deed]:
        """Rights that nothing was done with; one in all namespaces is used in any."""
        done = self.done()
        everywhere = done | {("", *each[1:]) for each in done}
        return set(rights) - everywhere


def _deed(event: Mapping[str, Any]) -> Deed:
    what = event["objectRef"]
    resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
    return (what.get("namespace", ""), what.get("apiGroup", ""), resource, event["verb"])


class Told:
    """An API server's log with what somebody did to nodes."""

    def __init__(self, **codes: int) -> None:
        self._codes = codes

    def audited(self) -> list[dict[str, Any]]:
        return [
            {
                "user": {"username": PERSON},
                "verb": verb,
                "requestURI": "/api/v1/nodes",
                "objectRef": {"resource": "nodes"},
                "responseStatus": {"code": code},
            }
            for verb, code in self._codes.items()
        ]


def test_a_right_too_many_and_one_that_is_missing_would_be_noticed() -> None:
    rights = {("", "", "nodes", verb) for verb in ("list", "watch")}
    deeds = Deeds(cast("KubernetesAPI", Told(list=200, watch=200)), PERSON)
    idle = Deeds(cast("KubernetesAPI", Told(list=200)), PERSON)
    greedy = Deeds(cast("KubernetesAPI", Told(list=200, watch=200, patch=403)), PERSON)

    assert (deeds.unused(rights), deeds.refusals()) == (set(), [])
    assert idle.unused(rights) == {("", "", "nodes", "watch")}
    assert greedy.refusals() == ["patch /api/v1/nodes: 403"]


# The cluster.


@pytest.fixture(scope="module")
def objects(kubectl: str) -> list[Object]:
    return objects_of(kubectl)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubernetesAPI]:
    if why_not := kubernetes_api.missing(*PROGRAMS):
        pytest.skip(why_not)
    folder = tmp_path / "api"
    folder.mkdir()
    with running_kubernetes_api(folder, controllers=True, audit_policy=AUDIT) as one:
        install(one)
        yield one


@pytest.fixture
def world(api: KubernetesAPI, tmp_path: Path) -> Iterator[World]:
    with a_world(api.kubeconfig, tmp_path, NODES) as one:
        yield one


def shipped() -> dict[str, Any]:
    """The configuration that is shipped, without what a laptop has not: its secret, its Alertmanager, its files."""
    found: dict[str, Any] = yaml.safe_load((REMEDIATOR / "remediator.yaml").read_text("utf-8"))
    for key in ("serving", "auth", "alertmanagers", "playbook_files"):
        del found[key]
    return found


@pytest.fixture
def remediator(world: World, api: KubernetesAPI, tmp_path: Path) -> Iterator[Remediator]:
    """With its token; its priority is the one that is shipped."""
    kubeconfig = service_kubeconfig(api, tmp_path)
    one = Remediator(tmp_path, kubeconfig, "remediator-0", **{**shipped(), **SETTINGS})
    wait_until("its rights", lambda: _may_list(kubeconfig))
    one.start()
    yield one
    one.kill()


def _may_list(kubeconfig: Path) -> bool:
    question = ("auth", "can-i", "list", "jobs.batch", "-n", REPAIRS)
    kubectl = str(kubernetes_api.find("kubectl"))
    return command(kubectl, f"--kubeconfig={kubeconfig}", *question).returncode == 0


@pytest.fixture
def person(api: KubernetesAPI, objects: list[Object], tmp_path: Path) -> Remediator:
    """Whoever calls the commands: the configuration with another kubeconfig."""
    roles = [*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]
    bind(api, PERSON, [each for each in roles if each["metadata"]["name"] in _FOR_PEOPLE])
    kubeconfig = api.kubeconfig_for(PERSON)
    return Remediator(tmp_path, kubeconfig, PERSON, **{**shipped(), **SETTINGS})


_FOR_PEOPLE = {OPERATOR, "nodemend-remediator-node-pauser"}


def says(person: Remediator, *words: str) -> None:
    done = person.call(*words)
    assert done.returncode == 0, done.stdout + done.stderr


# What happens.


def test_the_service_and_its_commands_use_their_rights_and_no_others(
    world: World,
    remediator: Remediator,
    person: Remediator,
    api: KubernetesAPI,
    objects: list[Object],
) -> None:
    service, people = Deeds(api, SERVICE_USER), Deeds(api, PERSON)
    rights, their_rights = _of("nodemend-remediator", objects), _of(_FOR_PEOPLE, objects)

    a_person_holds_everything_back(world, remediator, person)
    a_fault_is_healed(world)
    pods_are_restarted(world, remediator)
    people_are_called_until_the_breaker_opens(world, remediator, person)
    people_release_what_is_well_again(world, person)
    kubectl_ends_what_was_begun_by_hand(world, person)

    no_expression_of_a_policy_is_doubtful(api)
    wait_until("the first to be removed", lambda: len(world.operations("n1")) < 2, 120)
    assert (service.refusals(), people.refusals()) == ([], [])
    assert (service.unused(rights), people.unused(their_rights)) == (set(), set())


def no_expression_of_a_policy_is_doubtful(api: KubernetesAPI) -> None:
    """The controller-manager checks their types, and says in the status what it doubts."""

    def policies() -> list[Object]:
        found = told(api.kubectl("get", "validatingadmissionpolicies", "-o", "json"))
        return [each.get("status", {}) for each in json.loads(found)["items"]]

    wait_until("the types to be checked", lambda: all("typeChecking" in one for one in policies()))
    doubts = [one["typeChecking"].get("expressionWarnings", []) for one in policies()]
    assert len(doubts) == 3
    assert not any(doubts)


def _of(names: str | set[str], objects: list[Object]) -> set[Deed]:
    wanted = {names} if isinstance(names, str) else names
    return allowed(each for each in objects if each["metadata"]["name"] in wanted)


def a_person_holds_everything_back(
    world: World, remediator: Remediator, person: Remediator
) -> None:
    """The first pause makes the ConfigMap; it is gone afterwards, so that the remediator makes one, too."""
    says(person, "pause", "--reason", "moving racks")
    says(person, "pause", "--node", "n3")
    wait_until("the pause", lambda: "remediator_paused 1.0" in remediator.get("/metrics"))
    says(person, "status")
    payload = person.folder / "payload.json"
    payload.write_text(json.dumps(webhook("n1")))
    assert "held now by pause" in person.call("explain", str(payload)).stdout
    says(person, "resume")
    says(person, "resume", "--node", "n3")
    world.client.delete(CONFIG_MAPS, STATE, NAMESPACE)


def a_fault_is_healed(world: World) -> None:
    """By a condition: isolated, drained, rebooted, proven, released."""
    a_pod(world, "training", "n1", {"train": "yes"})
    world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)
    ended(world, "n1")
    assert world.sim("n1").history.reboots == 1
    assert world.taint("n1") is None


def pods_are_restarted(world: World, remediator: Remediator) -> None:
    """By an alert, and through the API."""
    a_pod(world, "plugin", "n2", {"app": "plugin"})
    assert remediator.post(webhook("n2", alertname="PluginHangs"))[0] == 200
    ended(world, "n2")
    assert not world.pod_exists("plugin")


def people_are_called_until_the_breaker_opens(
    world: World, remediator: Remediator, person: Remediator
) -> None:
    """Two nodes cannot get the image of their repair and stay out; that is too much of three for a third."""
    for node in ("n1", "n2"):
        world.sim(node).inject(FaultKind.IMAGE_PULL_FAILS)
        world.sim(node).inject(Fault(FaultKind.GPU_RUNTIME_ERROR, healed_by=frozenset()))
        world.wait_for(node, "Escalated")
    joined = remediator.post(webhook("n1"))[1]["alerts"][0]
    assert joined["result"] == "joined"
    world.sim("n3").inject(FaultKind.GPU_RUNTIME_ERROR)
    wait_until("the breaker", lambda: _breaker(world).get("open") is True)
    says(person, "resume")
    wait_until("it opens again", lambda: {"open", "resetAt"} <= set(_breaker(world)))
    assert world.taint("n3") is None


def _breaker(world: World) -> dict[str, Any]:
    found = world.client.list(CONFIG_MAPS, NAMESPACE).items
    states = [each for each in found if each["metadata"]["name"] == STATE]
    return dict(json.loads(states[0]["data"]["breaker"])) if states else {}


def people_release_what_is_well_again(world: World, person: Remediator) -> None:
    """Proven first; then there is room for the third."""
    for node in ("n1", "n2"):
        world.sim(node).clear()
        says(person, "release", node)
        ended(world, node)
    says(person, "resume")
    ended(world, "n3")
    assert world.sim("n3").history.reboots == 1


def kubectl_ends_what_was_begun_by_hand(world: World, person: Remediator) -> None:
    """Watched, cancelled, deleted."""
    says(person, "run", "by-hand", "n2")
    (name,) = [each["metadata"]["name"] for each in world.operations("n2") if _by_hand(each)]
    world.wait_for("n2", "Gated")
    says(person, "cancel", name)
    world.wait_for("n2", "Cancelled")
    kubectl = str(kubernetes_api.find("kubectl"))
    me = f"--kubeconfig={person.config['kubernetes']['kubeconfig']}"
    # Ends with its time; whether it saw anything does not matter.
    command(kubectl, me, "get", "nodeoperations", "--watch-only", "--request-timeout=1s")
    done = command(kubectl, me, "delete", "nodeoperation", name)
    assert done.returncode == 0, done.stderr


def _by_hand(operation: Object) -> bool:
    return bool(operation["spec"].get("requestedBy") == PERSON)


def a_pod(world: World, name: str, node: str, labels: Mapping[str, str]) -> None:
    """Of nobody: it does not come back."""
    spec = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "train"}],
    }
    metadata = {"name": name, "namespace": "default", "labels": dict(labels)}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    world.client.create(PODS, body)


def ended(world: World, node: str) -> None:
    operation = world.wait_for(node, "Succeeded", "Escalated", "Cancelled")
    assert operation["status"]["phase"] == "Succeeded", operation["status"]
