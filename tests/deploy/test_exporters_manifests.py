"""The exporters' manifests: what kustomize makes of them fits together and the processes, and a real API server takes it."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.config import Settings, load_settings
from chassis.contracts import ConditionType
from chassis.serving.settings import parse_listen
from exporters.config.gpu_monitor import GpuMonitorSettings
from exporters.config.node_agent import NodeAgentSettings
from exporters.config.node_conditions import NodeConditionsSettings
from exporters.probe_pods import LABELS
from tests.deploy.exporters_cluster import (
    BASES,
    EXPORTERS,
    NAMESPACE,
    ROOT,
    Object,
    apply,
    build,
    built,
    namespace_exists,
    of_kind,
    pod_of,
    told,
)
from tests.kubernetes_api import KubernetesAPI

SETTINGS: dict[str, type[Any]] = {
    "node-conditions": NodeConditionsSettings,
    "node-agent": NodeAgentSettings,
    "gpu-monitor": GpuMonitorSettings,
}
UNPRIVILEGED = ("node-conditions", "gpu-monitor")
EXAMPLE = EXPORTERS / "gpu-monitor" / "probe-pod.example.yaml"


@pytest.fixture(params=BASES)
def base(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def objects(base: str, kubectl: str, tmp_path: Path) -> list[Object]:
    return built(kubectl, base, tmp_path)


def only(objects: list[Object], kind: str) -> Object:
    (found,) = of_kind(objects, kind)
    return found


def container_of(objects: list[Object]) -> Object:
    (found,) = pod_of(objects)["containers"]
    container: Object = found
    return container


def settings_of(objects: list[Object], base: str, folder: Path) -> Any:
    file = folder / f"{base}.yaml"
    file.write_text(only(objects, "ConfigMap")["data"][f"{base}.yaml"])
    settings: Settings = load_settings(file, SETTINGS[base])
    return settings


# All.


def test_the_configuration_is_taken_and_fits_the_pod(
    objects: list[Object], base: str, tmp_path: Path
) -> None:
    settings = settings_of(objects, base, tmp_path)
    host, port = parse_listen(settings.serving.listen)

    assert host == ""
    assert [each["containerPort"] for each in container_of(objects)["ports"]] == [port]
    assert container_of(objects)["args"] == [base, "--config", f"/etc/nodemend/{base}.yaml"]
    grace = pod_of(objects)["terminationGracePeriodSeconds"]
    assert grace > settings.serving.drain.total_seconds()


def test_a_changed_configuration_reaches_the_running_process(
    objects: list[Object], base: str
) -> None:
    (mount,) = [each for each in container_of(objects)["volumeMounts"] if each["name"] == "config"]

    assert only(objects, "ConfigMap")["metadata"]["name"] == base
    assert (mount["mountPath"], "subPath" in mount) == ("/etc/nodemend", False)


def test_every_selector_picks_our_pods_and_not_all_pods(objects: list[Object], base: str) -> None:
    (workload,) = [each for each in objects if each["kind"] in {"Deployment", "DaemonSet"}]
    labels = workload["spec"]["template"]["metadata"]["labels"]
    selectors = [
        workload["spec"]["selector"]["matchLabels"],
        only(objects, "Service")["spec"]["selector"],
        only(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(
            each["spec"]["selector"]["matchLabels"]
            for each in of_kind(objects, "PodDisruptionBudget")
        ),
    ]

    for selector in selectors:
        assert selector["app.kubernetes.io/name"] == base
        assert selector.items() <= labels.items()


def test_rights_go_to_the_account_of_the_pod_in_its_namespace(objects: list[Object]) -> None:
    account = {"kind": "ServiceAccount", "name": pod_of(objects)["serviceAccountName"]}
    bindings = [each for each in objects if each["kind"].endswith("RoleBinding")]

    assert only(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert bindings
    for each in bindings:
        assert each["subjects"] == [{**account, "namespace": NAMESPACE}]


def test_no_rule_has_a_wildcard(objects: list[Object]) -> None:
    for role in [*of_kind(objects, "Role"), *of_kind(objects, "ClusterRole")]:
        assert "*" not in yaml.safe_dump(role["rules"])


def test_the_root_file_system_is_read_only(objects: list[Object]) -> None:
    writable = {
        each["mountPath"]
        for each in container_of(objects)["volumeMounts"]
        if not each.get("readOnly")
    }

    assert container_of(objects)["securityContext"]["readOnlyRootFilesystem"] is True
    assert writable <= {"/tmp", "/var/lib/nodemend"}


# The agent.


@pytest.fixture
def agent(kubectl: str, tmp_path: Path) -> list[Object]:
    return built(kubectl, "node-agent", tmp_path)


def test_the_agent_runs_everywhere_and_goes_last(agent: list[Object]) -> None:
    pod = pod_of(agent)

    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert (pod["priorityClassName"], pod["hostPID"]) == ("system-node-critical", True)
    assert not {"hostNetwork", "hostIPC"} & pod.keys()


def test_the_agent_finds_the_host_where_it_is_mounted(agent: list[Object], tmp_path: Path) -> None:
    settings = settings_of(agent, "node-agent", tmp_path)
    mounts = {Path(each["mountPath"]) for each in container_of(agent)["volumeMounts"]}
    needed = {
        settings.host.root / "proc",
        settings.host.root / "sys",
        settings.host.kernel_log,
        settings.probe.pod_resources_socket.parent,
        settings.state_file.parent,
    }

    assert needed <= mounts
    assert settings.host.mount_prefix == str(settings.host.root / "proc/1/root")
    names = {each["name"]: each for each in container_of(agent)["env"]}
    assert names["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"


def test_of_the_host_the_agent_can_write_to_its_own_folder_alone(agent: list[Object]) -> None:
    of_host = {each["name"] for each in pod_of(agent)["volumes"] if "hostPath" in each}
    writable = [
        each["mountPath"]
        for each in container_of(agent)["volumeMounts"]
        if each["name"] in of_host and not each.get("readOnly")
    ]

    assert writable == ["/var/lib/nodemend"]


# Probes.


@pytest.fixture
def monitor(kubectl: str, tmp_path: Path) -> list[Object]:
    return built(kubectl, "gpu-monitor", tmp_path)


def test_probes_give_way_to_every_pod_and_drive_none_out(
    monitor: list[Object], tmp_path: Path
) -> None:
    settings = settings_of(monitor, "gpu-monitor", tmp_path)
    priority = only(monitor, "PriorityClass")

    assert priority["metadata"]["name"] == settings.pod.priority_class
    assert priority["value"] < 0
    assert (priority["preemptionPolicy"], priority["globalDefault"]) == ("Never", False)


def test_probe_pods_are_made_where_the_role_lets_them(
    monitor: list[Object], tmp_path: Path
) -> None:
    settings = settings_of(monitor, "gpu-monitor", tmp_path)

    assert settings.namespace == only(monitor, "Role")["metadata"]["namespace"] == NAMESPACE


def test_the_probe_by_hand_is_none_of_gpu_monitors() -> None:
    labels = yaml.safe_load(EXAMPLE.read_text("utf-8"))["metadata"]["labels"]

    assert not LABELS.items() <= labels.items()


# What docs/deploying.md tells people to write.


def documented(start: str) -> Any:
    text = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    (block,) = re.findall(rf"```yaml\n( *# {start}\n.*?)```", text, re.DOTALL)
    return yaml.safe_load(block)


def test_the_documented_kustomization_makes_what_it_says(kubectl: str, tmp_path: Path) -> None:
    written = documented("kustomization.yaml of the exporters")
    written["resources"] = [
        os.path.relpath(EXPORTERS / Path(each).name, tmp_path) for each in written["resources"]
    ]
    written["patches"] = documented("kustomization.yaml, under patches")
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(written))
    (tmp_path / "node-agent.yaml").write_text("log_level: debug\n")

    objects = [each for each in yaml.safe_load_all(build(kubectl, tmp_path)) if each]

    configs = {each["metadata"]["name"]: each["data"] for each in of_kind(objects, "ConfigMap")}
    assert configs["node-agent"] == {"node-agent.yaml": "log_level: debug\n"}
    images = {
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in objects
        if each["kind"] in {"Deployment", "DaemonSet"}
    }
    assert images == {"registry.example/nodemend-exporters:0.1.0"}
    types = only(objects, "ValidatingAdmissionPolicy")["spec"]["variables"][0]
    assert types["name"] == "types"
    assert yaml.safe_load(types["expression"]) == [*ConditionType, "ClockSkew"]


# On a real API server.


@pytest.fixture
def api(kubernetes: KubernetesAPI) -> KubernetesAPI:
    namespace_exists(kubernetes)
    return kubernetes


def try_out(api: KubernetesAPI, text: str) -> "subprocess.CompletedProcess[str]":
    return api.kubectl("-n", NAMESPACE, "create", "--dry-run=server", "-f", "-", stdin=text)


@pytest.mark.slow
def test_the_api_server_takes_the_manifests(api: KubernetesAPI, objects: list[Object]) -> None:
    text = yaml.safe_dump_all(objects)

    done = api.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("(server dry run)") == len(objects)
    apply(api, objects)


@pytest.fixture
def restricted(api: KubernetesAPI) -> Iterator[KubernetesAPI]:
    key = "pod-security.kubernetes.io/enforce"
    told(api.kubectl("label", "namespace", NAMESPACE, f"{key}=restricted", "--overwrite"))
    yield api
    told(api.kubectl("label", "namespace", NAMESPACE, f"{key}-"))


@pytest.mark.slow
@pytest.mark.parametrize("base", UNPRIVILEGED, indirect=True)
def test_the_others_satisfy_the_restricted_standard(
    restricted: KubernetesAPI, objects: list[Object]
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": pod_of(objects)}

    done = try_out(restricted, yaml.safe_dump(pod))

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_probe_by_hand_is_taken_and_restricted_too(
    restricted: KubernetesAPI, monitor: list[Object]
) -> None:
    apply(restricted, of_kind(monitor, "PriorityClass"))

    done = try_out(restricted, EXAMPLE.read_text("utf-8"))

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_agent_is_taken_where_privileged_pods_are(
    api: KubernetesAPI, agent: list[Object]
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": pod_of(agent)}

    done = try_out(api, yaml.safe_dump(pod))

    assert (done.returncode, done.stderr) == (0, "")
