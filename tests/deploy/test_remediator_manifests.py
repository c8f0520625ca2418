"""The remediator's manifests: what kustomize makes of them fits together and the process, and a real API server takes it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.config import load_settings
from chassis.serving.settings import parse_listen
from remediator.config import KINDS, Config, RepairKind
from remediator.kube_cluster.events import NAMESPACE as EVENTS
from remediator.repair_jobs.own_pods import own_pod
from tests.deploy.exporters_cluster import ROOT, Object, build, of_kind, pod_of, told
from tests.deploy.remediator_cluster import (
    ACCOUNT,
    NAMESPACE,
    REMEDIATOR,
    REPAIRS,
    STATE,
    install,
    objects_of,
)
from tests.kubernetes_api import KubernetesAPI

OWN: tuple[RepairKind, ...] = tuple(
    kind for kind in KINDS if kind not in {"power_cycle", "restart_pods", "run_job", "hand_over"}
)


@pytest.fixture(scope="module")
def objects(kubectl: str) -> list[Object]:
    return objects_of(kubectl)


@pytest.fixture
def config(objects: list[Object], tmp_path: Path) -> Config:
    """What the process in the pod reads."""
    return config_of(objects, tmp_path)


def config_of(objects: list[Object], folder: Path) -> Config:
    for name, text in the(objects, "ConfigMap", "remediator")["data"].items():
        (folder / name).write_text(text)
    (folder / "webhook-token").write_text("made up")
    file = folder / "remediator.yaml"
    file.write_text(file.read_text("utf-8").replace("/etc/remediator/secrets/", ""))
    return load_settings(file, Config)


def the(objects: list[Object], kind: str, name: str, namespace: str = NAMESPACE) -> Object:
    """The one of this kind and name; an object of no namespace, or in this one."""
    (found,) = [
        each
        for each in of_kind(objects, kind)
        if each["metadata"]["name"] == name
        and each["metadata"].get("namespace", namespace) == namespace
    ]
    return found


def container_of(objects: list[Object]) -> Object:
    (found,) = pod_of(objects)["containers"]
    container: Object = found
    return container


# The process in its pod.


def test_the_configuration_is_taken_and_fits_the_pod(objects: list[Object], config: Config) -> None:
    host, port = parse_listen(config.serving.listen)
    container = container_of(objects)

    assert host == ""
    assert [each["containerPort"] for each in container["ports"]] == [port]
    assert container["command"] == ["remediator"]
    assert container["args"] == ["serve", "--config", "/etc/remediator/config/remediator.yaml"]
    grace = pod_of(objects)["terminationGracePeriodSeconds"]
    assert grace > config.serving.drain.total_seconds()


def test_all_playbooks_that_are_shipped_are_configured(
    objects: list[Object], config: Config
) -> None:
    files = sorted(each.name for each in (REMEDIATOR / "playbooks").iterdir())

    assert sorted(config.playbook_files) == files
    assert set(the(objects, "ConfigMap", "remediator")["data"]) == {"remediator.yaml", *files}
    assert len(config.playbooks) == len(files)


def test_webhooks_need_the_secret_that_is_mounted(objects: list[Object], config: Config) -> None:
    mounts = {each["name"]: each["mountPath"] for each in container_of(objects)["volumeMounts"]}
    shipped = yaml.safe_load((REMEDIATOR / "remediator.yaml").read_text("utf-8"))

    assert config.auth is not None
    assert shipped["auth"] == {"bearer_token_file": f"{mounts['secrets']}/webhook-token"}


def test_a_changed_configuration_reaches_the_running_process(objects: list[Object]) -> None:
    (mount,) = [each for each in container_of(objects)["volumeMounts"] if each["name"] == "config"]
    (volume,) = [each for each in pod_of(objects)["volumes"] if each["name"] == "config"]

    assert volume["configMap"]["name"] == "remediator"
    assert (mount["mountPath"], "subPath" in mount) == ("/etc/remediator/config", False)


def test_each_replica_knows_its_name_and_its_node(objects: list[Object]) -> None:
    fields = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container_of(objects)["env"]
    }

    assert fields == {"POD_NAME": "metadata.name", "NODE_NAME": "spec.nodeName"}
    assert the(objects, "Deployment", "remediator")["spec"]["replicas"] == 2


def test_every_selector_picks_our_pods_and_not_all_pods(objects: list[Object]) -> None:
    spec = the(objects, "Deployment", "remediator")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    (term,) = pod_of(objects)["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    selectors = [
        spec["selector"]["matchLabels"],
        the(objects, "Service", "remediator")["spec"]["selector"],
        the(objects, "NetworkPolicy", "remediator")["spec"]["podSelector"]["matchLabels"],
        the(objects, "PodDisruptionBudget", "remediator")["spec"]["selector"]["matchLabels"],
        term["podAffinityTerm"]["labelSelector"]["matchLabels"],
    ]

    for selector in selectors:
        assert selector["app.kubernetes.io/name"] == "remediator"
        assert selector.items() <= labels.items()


def test_the_root_file_system_is_read_only(objects: list[Object]) -> None:
    container = container_of(objects)
    writable = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]

    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert writable == ["/tmp"]


# Rights.


def test_rights_go_to_the_account_of_the_pod(objects: list[Object]) -> None:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    bindings = [each for each in objects if each["kind"].endswith("RoleBinding")]

    assert pod_of(objects)["serviceAccountName"] == ACCOUNT
    assert the(objects, "ServiceAccount", ACCOUNT)["automountServiceAccountToken"] is False
    assert sorted(each["metadata"].get("namespace", "") for each in bindings) == [
        "",
        EVENTS,
        NAMESPACE,
        REPAIRS,
    ]
    assert [each["subjects"] for each in bindings] == [[subject]] * 4


def test_people_get_their_roles_from_you(objects: list[Object]) -> None:
    bound = {each["roleRef"]["name"] for each in objects if each["kind"].endswith("RoleBinding")}

    assert bound == {ACCOUNT}


def test_no_rule_has_a_wildcard(objects: list[Object]) -> None:
    for role in [*of_kind(objects, "Role"), *of_kind(objects, "ClusterRole")]:
        assert "*" not in yaml.safe_dump(role["rules"])


def test_leader_and_switches_are_where_the_roles_let_them(
    objects: list[Object], config: Config
) -> None:
    rules = the(objects, "Role", ACCOUNT)["rules"]
    named = {
        each["resources"][0]: each.get("resourceNames") for each in rules if len(each["verbs"]) > 1
    }

    assert config.leader.namespace == NAMESPACE
    assert named == {"leases": [config.leader.lease], "configmaps": [config.leader.state]}
    assert config.leader.state == STATE
    (policy,) = [
        each
        for each in of_kind(objects, "ValidatingAdmissionPolicy")
        if each["metadata"]["name"].endswith("switches")
    ]
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == f'object.metadata.name == "{STATE}"'


def test_repairs_run_where_the_role_lets_them(objects: list[Object], config: Config) -> None:
    space = the(objects, "Namespace", config.jobs.namespace)

    assert config.jobs.namespace == REPAIRS
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert the(objects, "Role", ACCOUNT, REPAIRS)["rules"][0]["resources"] == ["jobs"]
    assert the(objects, "ServiceAccount", config.jobs.service_account, REPAIRS)
    quota = the(objects, "ResourceQuota", REPAIRS, REPAIRS)["spec"]["scopeSelector"]
    assert quota["matchExpressions"][0]["values"] == [config.jobs.priority_class]


def test_repairs_use_the_image_of_the_service(objects: list[Object], config: Config) -> None:
    assert container_of(objects)["image"] == config.jobs.image


# What docs/deploying.md tells people to write.


def documented(start: str) -> Any:
    text = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    (block,) = re.findall(rf"```yaml\n( *# {start}\n.*?)```", text, re.DOTALL)
    return yaml.safe_load(block)


def test_the_documented_kustomization_makes_what_it_says(kubectl: str, tmp_path: Path) -> None:
    written = documented("kustomization.yaml of the remediator")
    written["resources"] = [os.path.relpath(REMEDIATOR, tmp_path)]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(written))
    own = documented("remediator.yaml")
    (tmp_path / "remediator.yaml").write_text(yaml.safe_dump(own))
    shipped = (REMEDIATOR / "playbooks" / "gpu-is-lost.yaml").read_text("utf-8")
    (tmp_path / "gpu-is-lost.yaml").write_text(
        re.sub(r"dry_run: true.*", "dry_run: false", shipped)
    )

    objects = [each for each in yaml.safe_load_all(build(kubectl, tmp_path)) if each]

    folder = tmp_path / "config"
    folder.mkdir()
    config = config_of(objects, folder)
    assert container_of(objects)["image"] == config.jobs.image == "registry.example/nodemend:0.1.0"
    assert [each.name for each in config.playbooks if not each.dry_run] == ["gpu-is-lost"]
    assert len(config.playbooks) == len(own["playbook_files"])


# On a real API server.


@pytest.fixture
def api(kubernetes: KubernetesAPI) -> KubernetesAPI:
    install(kubernetes)
    return kubernetes


@pytest.mark.slow
def test_the_api_server_takes_the_manifests(api: KubernetesAPI, objects: list[Object]) -> None:
    done = api.kubectl("apply", "--dry-run=server", "-k", str(REMEDIATOR))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("(server dry run)") == len(objects)


@pytest.fixture
def restricted(api: KubernetesAPI) -> Iterator[KubernetesAPI]:
    key = "pod-security.kubernetes.io/enforce"
    told(api.kubectl("label", "namespace", NAMESPACE, f"{key}=restricted", "--overwrite"))
    yield api
    told(api.kubectl("label", "namespace", NAMESPACE, f"{key}-"))


def try_out(api: KubernetesAPI, namespace: str, spec: Object) -> tuple[int, str]:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": spec}
    done = api.kubectl(
        "-n", namespace, "create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod)
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_the_service_satisfies_the_restricted_standard(
    restricted: KubernetesAPI, objects: list[Object]
) -> None:
    assert try_out(restricted, NAMESPACE, pod_of(objects)) == (0, "")


@pytest.mark.slow
def test_repairs_are_taken_in_their_namespace_and_nowhere_else(
    restricted: KubernetesAPI, config: Config
) -> None:
    """But for the quota, whose numbers a controller keeps that does not run here."""
    told(restricted.kubectl("-n", REPAIRS, "delete", "resourcequota", "--all"))
    for kind in OWN:
        pod = {**own_pod(kind, (), {}, config.jobs), "nodeName": "n1"}
        assert try_out(restricted, REPAIRS, pod) == (0, ""), kind
        status, said = try_out(restricted, NAMESPACE, pod)
        assert (status, "violates PodSecurity" in said) == (1, True), kind
