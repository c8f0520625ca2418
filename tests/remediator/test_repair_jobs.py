"""A rung's Job runs once, where it must, with what it needs, and holds nothing that an operation brought."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from chassis.errors import PermanentError
from remediator.config import RESTARTABLE_UNITS, JobSettings, JobTemplate
from remediator.operation import (
    ATTEMPT_LABEL,
    OPERATION_UID_LABEL,
    RUNG_LABEL,
    NodeOperation,
    read,
    to_json,
)
from remediator.repair_jobs import RepairEnd, is_ours, job_for, parse_end
from remediator.repairs import SCRIPTS, script
from tests.remediator.repair_inputs import (
    UID,
    a_node,
    a_rung,
    an_alert,
    an_intent,
    an_operation,
)

JOBS = JobSettings(namespace="nodemend", image="registry.example/nodemend:1")
GPU = "GPU-11111111-2222-3333-4444-555555555555"
OWN = {
    "reboot": {},
    "reboot_now": {},
    "remount_nfs": {},
    "reset_gpu": {},
    "restart_unit": {"unit": "kubelet.service"},
}
TEMPLATES = {
    "bmc": JobTemplate(
        pod={
            "containers": [
                {"name": "ipmi", "image": "bmc:1", "env": [{"name": "BMC", "value": "b"}]}
            ]
        },
        labels={"team": "infra"},
        annotations={"note": "x"},
    )
}


def announced(*causes: Any, **status: Any) -> NodeOperation:
    return an_operation(*causes, **{"intent": an_intent(), **status})


def job(
    kind: str = "reboot",
    arguments: dict[str, Any] | None = None,
    operation: NodeOperation | None = None,
    templates: Mapping[str, JobTemplate] = TEMPLATES,
    **rung: Any,
) -> dict[str, Any]:
    given = arguments if arguments is not None else OWN.get(kind, {})
    return job_for(operation or announced(), a_rung(kind, given, **rung), a_node(), JOBS, templates)


def pod_of(made: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = made["spec"]["template"]["spec"]
    return spec


def argv(made: dict[str, Any]) -> list[str]:
    """As the kubelet hands it over."""
    container = pod_of(made)["containers"][0]
    env = {each["name"]: each.get("value", "") for each in container["env"]}
    return [_expanded(text, env) for text in container["command"]]


def _expanded(text: str, env: Mapping[str, str]) -> str:
    """Kubernetes' own rule for command and env (third_party/forked/golang/expansion)."""
    return re.sub(
        r"\$\$|\$\(([^)]*)\)",
        lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]),
        text,
    )


@pytest.mark.parametrize("kind", OWN)
def test_a_repair_of_ours_runs_once_and_on_the_node_whatever_its_taints(kind: str) -> None:
    """rem-N15"""
    made = job(kind)
    pod = pod_of(made)

    assert (made["spec"]["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert (pod["nodeName"], pod["tolerations"]) == ("n1", [{"operator": "Exists"}])
    assert pod["automountServiceAccountToken"] is False
    assert "ttlSecondsAfterFinished" not in made["spec"]
    assert "resources" not in pod["containers"][0]


@pytest.mark.parametrize("kind", OWN)
def test_it_carries_the_guard_and_the_whole_script(kind: str) -> None:
    made = job(kind)
    env = {each["name"]: each["value"] for each in pod_of(made)["containers"][0]["env"]}

    assert env["NODEMEND_BOOT_ID"] == "boot-1"
    assert env["NODEMEND_ATTEMPT"] == made["metadata"]["name"]
    assert argv(made)[:4] == ["/bin/sh", "-c", script(kind), kind]


def test_its_name_and_labels_are_those_of_the_attempt() -> None:
    """rem-C15"""
    made = job()
    name, labels = made["metadata"]["name"], made["metadata"]["labels"]

    assert name == f"op-{UID}-0-1"
    assert len(name) <= 63
    assert is_ours(labels, announced())
    assert made["spec"]["template"]["metadata"]["labels"] == labels
    for other in ({"attempt": 2}, {"rung": 1}):
        assert not is_ours(labels, announced(**other))
    assert not is_ours(labels, replace(announced(), uid="another"))
    assert not is_ours({}, announced())
    for key in (OPERATION_UID_LABEL, RUNG_LABEL, ATTEMPT_LABEL):
        assert not is_ours({k: v for k, v in labels.items() if k != key}, announced())


def test_it_goes_with_its_operation_and_no_sooner() -> None:
    (owner,) = job()["metadata"]["ownerReferences"]

    assert (owner["kind"], owner["uid"]) == ("NodeOperation", UID)
    assert owner["blockOwnerDeletion"] is False


def test_its_time_is_the_rungs() -> None:
    assert job(timeout="90s")["spec"]["activeDeadlineSeconds"] == 90


ENTERS = {"reboot": True, "reboot_now": False, "remount_nfs": True, "reset_gpu": True}


@pytest.mark.parametrize(("kind", "enters"), ENTERS.items())
def test_only_what_enters_the_host_sees_its_processes(kind: str, *, enters: bool) -> None:
    assert pod_of(job(kind)).get("hostPID", False) is enters


@pytest.mark.parametrize("kind", OWN)
def test_no_repair_sees_the_whole_root_of_the_host(kind: str) -> None:
    pod = pod_of(job(kind))
    paths = {each["hostPath"]["path"] for each in pod["volumes"]}

    assert paths == {"/proc", "/run/nodemend"} | ({"/etc"} if kind == "remount_nfs" else set())
    mounts = {each["name"]: each for each in pod["containers"][0]["volumeMounts"]}
    for volume in pod["volumes"]:
        mount = mounts[volume["name"]]
        assert mount["mountPath"] == "/host" + volume["hostPath"]["path"]
        assert mount.get("readOnly", False) == (volume["name"] == "etc")


ARGUMENTS = {
    "a named mount": ("remount_nfs", {"mountpoint": "/mnt/a"}, ["/mnt/a"]),
    "no named mount: all": ("remount_nfs", {}, []),
    "a mount with a dollar sign": ("remount_nfs", {"mountpoint": "/a$(BMC)$$b"}, ["/a$(BMC)$$b"]),
    "a named GPU": ("reset_gpu", {"uuid": GPU}, [GPU]),
    "no named GPU: all": ("reset_gpu", {"uuid": ""}, []),
    "a unit": ("restart_unit", {}, ["kubelet.service"]),
}


@pytest.mark.parametrize(("kind", "labels", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_script_gets_its_arguments(
    kind: str, labels: dict[str, str], expected: list[str]
) -> None:
    assert argv(job(kind, operation=announced(an_alert(**labels))))[4:] == expected


def test_each_thing_that_several_alerts_name_is_given_once() -> None:
    causes = [an_alert(mountpoint=path) for path in ("/b", "/a", "/b")]

    assert argv(job("remount_nfs", operation=announced(*causes)))[4:] == ["/a", "/b"]


REFUSED = {
    "a relative mount": ("remount_nfs", {"mountpoint": "mnt"}, "must be an absolute path"),
    "a mount of two lines": ("remount_nfs", {"mountpoint": "/a\n/b"}, "no mount point"),
    "a GPU's index": ("reset_gpu", {"uuid": "0"}, "is no UUID of a GPU"),
    "a part of a GPU": ("reset_gpu", {"uuid": "MIG-1"}, "only whole ones can be reset"),
    "an option instead of a GPU": ("reset_gpu", {"uuid": "--help"}, "is no UUID of a GPU"),
}


@pytest.mark.parametrize(("kind", "labels", "text"), REFUSED.values(), ids=REFUSED)
def test_a_label_that_makes_no_sense_is_said(kind: str, labels: dict[str, str], text: str) -> None:
    with pytest.raises(PermanentError, match=text):
        job(kind, operation=announced(an_alert(**labels)))


def test_the_kubelet_changes_nothing_in_a_script() -> None:
    env = {"NODEMEND_NODE": "n", "NODEMEND_BOOT_ID": "b", "HOME": "/", "PATH": "/bin"}

    for name in SCRIPTS:
        assert _expanded(script(name), env) == script(name)


def test_the_units_are_those_of_the_script() -> None:
    assert f"    {' | '.join(RESTARTABLE_UNITS)}) unit=$1 ;;" in script("restart_unit")


def test_a_power_cycle_runs_on_any_node_but_the_one_that_it_switches_off() -> None:
    made = job("power_cycle", {"template": "bmc"})
    pod = pod_of(made)
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert "nodeName" not in pod
    assert required["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}
    ]
    assert pod["automountServiceAccountToken"] is False
    assert "hostPID" not in pod


def test_each_alternative_of_a_templates_affinity_excludes_the_node() -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
    template = JobTemplate(pod={"containers": [{"image": "bmc:1"}], "affinity": affinity})
    made = job("power_cycle", {"template": "bmc"}, templates={"bmc": template})
    required = pod_of(made)["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]

    assert [each["matchFields"][0]["values"] for each in required["nodeSelectorTerms"]] == [
        ["n1"],
        ["n1"],
    ]
    assert "matchFields" not in terms[0]


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param({"nodeName": "n1"}, "is the node to be repaired", id="pinned to the node"),
        pytest.param({"affinity": {"nodeAffinity": []}}, "not as Kubernetes has it", id="nonsense"),
    ],
)
def test_a_template_that_cannot_run_elsewhere_is_said(pod: dict[str, Any], text: str) -> None:
    template = JobTemplate(pod={"containers": [{"image": "bmc:1"}], **pod})

    with pytest.raises(PermanentError, match=text):
        job("power_cycle", {"template": "bmc"}, templates={"bmc": template})


def test_an_admins_job_keeps_its_own_words_and_gets_ours() -> None:
    """rem-N17"""
    made = job("run_job", {"template": "bmc"})
    pod, metadata = pod_of(made), made["spec"]["template"]["metadata"]
    env = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}

    assert (pod["nodeName"], pod["restartPolicy"]) == ("n1", "Never")
    assert (env["BMC"], env["NODEMEND_NODE"], env["NODEMEND_BOOT_ID"]) == ("b", "n1", "boot-1")
    assert metadata["labels"]["team"] == "infra"
    assert metadata["labels"][OPERATION_UID_LABEL] == UID
    assert metadata["annotations"] == {"note": "x", "nodemend.dev/node": "n1"}
    assert "affinity" not in TEMPLATES["bmc"].pod


IMPOSSIBLE = {
    "nothing was announced": ({"operation": an_operation()}, "has announced no Job"),
    "the boot is unknown": (
        {"operation": announced(intent=an_intent(boot_id=""))},
        "the boot id of n1 is unknown",
    ),
    "its template is gone": (
        {"kind": "run_job", "arguments": {"template": "bmc"}, "templates": {}},
        "has no bmc any more",
    ),
    "it needs none": (
        {"kind": "hand_over", "arguments": {"text": "Look."}},
        "is carried out without a Job",
    ),
}


@pytest.mark.parametrize(("given", "text"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_job_that_cannot_be_made_is_said_when(given: dict[str, Any], text: str) -> None:
    with pytest.raises(PermanentError, match=text):
        job(**given)


def test_the_end_of_a_repair_is_read_from_its_line() -> None:
    line = '{"repair":"reboot","result":"done","boot_id":"b","attempt":"a","detail":"asked"}\n'

    assert parse_end(line) == RepairEnd("reboot", "done", "b", "asked")
    for other in ("", "no JSON", "[1]", '{"repair":"reboot"}', '{"repair":1,"result":2}'):
        assert parse_end(other) is None


@pytest.mark.parametrize("root", ["/", "/run/nvidia/driver"])
def test_where_the_driver_lies_on_the_nodes_reaches_the_one_script_that_asks(root: str) -> None:
    jobs = JOBS.model_copy(update={"driver_root": root})

    def env_of(kind: str) -> dict[str, str]:
        made = job_for(announced(), a_rung(kind, OWN[kind]), a_node(), jobs, {})
        return {each["name"]: each["value"] for each in pod_of(made)["containers"][0]["env"]}

    assert env_of("reset_gpu")["NODEMEND_DRIVER_ROOT"] == root
    assert all("NODEMEND_DRIVER_ROOT" not in env_of(kind) for kind in set(OWN) - {"reset_gpu"})
    assert "${NODEMEND_DRIVER_ROOT:-/}" in script("reset_gpu")


def test_an_operation_that_brings_its_own_job_runs_the_playbooks() -> None:
    """rem-N17"""
    evil = {"containers": [{"name": "evil", "image": "evil:1", "command": ["sh", "-c", "evil"]}]}
    raw = to_json(announced())
    raw["spec"] |= {
        "jobTemplate": {"spec": {"template": {"spec": evil}}},
        "repair": {"run_job": {}},
    }
    raw["spec"]["causes"] = [
        {
            "kind": "person",
            "name": "eve",
            "startsAt": "2026-03-01T12:00:00Z",
            "labels": {"x": "evil"},
        }
    ]
    raw["status"] |= {"jobTemplate": evil, "rungName": "evil"}

    made = job("reboot", operation=read(raw))

    assert made == job("reboot")
    assert "evil" not in str(made)
    with pytest.raises(PermanentError, match="job_templates has no evil"):
        job("run_job", {"template": "evil"}, read(raw))
