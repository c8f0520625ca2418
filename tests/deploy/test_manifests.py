"""The Kubernetes manifests: what kustomize makes of them fits together, and a real API server takes it."""

import copy
import os
import re
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from alerts2gh.config import Config
from chassis.config import load_settings
from chassis.serving.settings import parse_listen
from tests.kubernetes_api import KubernetesAPI

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "alerts2gh" / "base"
OVERLAY = ROOT / "deploy" / "alerts2gh" / "overlays" / "postgresql"
FOLDERS = [pytest.param(BASE, id="base"), pytest.param(OVERLAY, id="postgresql")]
SECRETS = "/etc/alerts2gh/secrets"
KINDS = {
    *("ConfigMap", "Deployment", "NetworkPolicy", "PersistentVolumeClaim"),
    *("PodDisruptionBudget", "Service", "ServiceAccount"),
}

Objects: TypeAlias = Mapping[str, dict[str, Any]]


def build(kubectl: str, folder: Path) -> str:
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_kind(manifests: str) -> Objects:
    objects = [each for each in yaml.safe_load_all(manifests) if each]
    found = {each["kind"]: each for each in objects}
    assert len(found) == len(objects)
    return found


@pytest.fixture(params=FOLDERS)
def objects(request: pytest.FixtureRequest, kubectl: str) -> Objects:
    return by_kind(build(kubectl, request.param))


@pytest.fixture
def base(kubectl: str) -> Objects:
    return by_kind(build(kubectl, BASE))


@pytest.fixture
def overlay(kubectl: str) -> Objects:
    return by_kind(build(kubectl, OVERLAY))


def pod(objects: Objects) -> dict[str, Any]:
    spec: dict[str, Any] = objects["Deployment"]["spec"]["template"]["spec"]
    return spec


def container(objects: Objects) -> dict[str, Any]:
    (only,) = pod(objects)["containers"]
    found: dict[str, Any] = only
    return found


def configuration(objects: Objects, folder: Path) -> Config:
    """The ConfigMap's file as alerts2gh reads it, with made-up secrets where the Secret is mounted."""
    text = objects["ConfigMap"]["data"]["alerts2gh.yaml"]
    secrets = folder / "secrets"
    secrets.mkdir()
    for name in re.findall(rf"{SECRETS}/([\w-]+)", text):
        (secrets / name).write_text("postgresql://made-up@nowhere/none")
    file = folder / "alerts2gh.yaml"
    file.write_text(text.replace(SECRETS, str(secrets)))
    return load_settings(file, Config)


# Both.


def test_nothing_secret_is_applied(objects: Objects) -> None:
    assert set(objects) <= KINDS


def test_every_selector_picks_our_pods_and_not_all_pods(objects: Objects) -> None:
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        objects["Deployment"]["spec"]["selector"]["matchLabels"],
        objects["Service"]["spec"]["selector"],
        objects["PodDisruptionBudget"]["spec"]["selector"].get("matchLabels"),
        objects["NetworkPolicy"]["spec"]["podSelector"].get("matchLabels"),
    ]

    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()


def test_nothing_is_writable_but_what_must_be(objects: Objects) -> None:
    security = container(objects)["securityContext"]
    writable = {m["mountPath"] for m in container(objects)["volumeMounts"] if not m.get("readOnly")}

    assert security["readOnlyRootFilesystem"] is True
    assert writable <= {"/tmp", "/var/lib/alerts2gh"}


def test_no_token_of_the_cluster_is_in_reach(objects: Objects) -> None:
    assert objects["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod(objects)["automountServiceAccountToken"] is False


def test_a_changed_configuration_reaches_the_running_process(objects: Objects) -> None:
    (config,) = [v for v in pod(objects)["volumes"] if "configMap" in v]
    mounts = [m for m in container(objects)["volumeMounts"] if m["name"] == config["name"]]

    assert config["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"] == "alerts2gh"
    assert [(m["mountPath"], "subPath" in m) for m in mounts] == [("/etc/alerts2gh/config", False)]
    assert container(objects)["args"][-1] == "/etc/alerts2gh/config/alerts2gh.yaml"


def test_the_configuration_is_taken_and_fits_the_pod(objects: Objects, tmp_path: Path) -> None:
    config = configuration(objects, tmp_path)
    host, port = parse_listen(config.serving.listen)

    assert (host, config.auth is not None) == ("", True)
    assert [p["containerPort"] for p in container(objects)["ports"]] == [port]
    mounted = {Path(m["mountPath"]) for m in container(objects)["volumeMounts"]}
    if config.database.sqlite_file is not None:
        assert config.database.sqlite_file.parent in mounted


def test_a_stop_has_time_to_drain(objects: Objects, tmp_path: Path) -> None:
    config = configuration(objects, tmp_path)
    request = max(each.timeout for each in config.credentials.values())

    grace = timedelta(seconds=pod(objects)["terminationGracePeriodSeconds"])
    assert grace > config.serving.drain + request


@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")],
)
def test_a_database_that_is_gone_does_not_restart_pods(
    objects: Objects, probe: str, path: str
) -> None:
    assert container(objects)[probe]["httpGet"] == {"path": path, "port": "http"}


# Each by itself.


def test_sqlite_has_one_process_at_any_time(base: Objects) -> None:
    spec = base["Deployment"]["spec"]

    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert base["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteOncePod"]


def test_one_replica_does_not_keep_a_node_from_being_drained(base: Objects) -> None:
    assert "minAvailable" not in base["PodDisruptionBudget"]["spec"]


def test_with_postgresql_one_of_two_is_always_there(overlay: Objects) -> None:
    spec = overlay["Deployment"]["spec"]

    assert (spec["replicas"], spec["strategy"]["type"]) == (2, "RollingUpdate")
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert overlay["PodDisruptionBudget"]["spec"]["minAvailable"] == 1
    assert "maxUnavailable" not in overlay["PodDisruptionBudget"]["spec"]


def test_with_postgresql_no_volume_is_left_over(overlay: Objects) -> None:
    names = {m["name"] for m in container(overlay)["volumeMounts"]}

    assert "PersistentVolumeClaim" not in overlay
    assert names == {v["name"] for v in pod(overlay)["volumes"]} == {"config", "secrets", "tmp"}


def test_with_postgresql_the_database_can_be_reached(overlay: Objects) -> None:
    ports = [
        p["port"] for rule in overlay["NetworkPolicy"]["spec"]["egress"] for p in rule["ports"]
    ]

    assert set(ports) == {53, 443, 9093, 5432}


# On a real API server.


@pytest.fixture
def namespace(kubernetes: KubernetesAPI) -> str:
    """A namespace whose pods must satisfy the Pod Security Standard `restricted`."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    made = kubernetes.kubectl(
        *("apply", "-f", "-"),
        stdin=yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "alerts2gh", "labels": labels},
            }
        ),
    )
    assert made.returncode == 0, made.stderr
    return "alerts2gh"


def try_out(
    kubernetes: KubernetesAPI, namespace: str, manifests: str
) -> subprocess.CompletedProcess[str]:
    return kubernetes.kubectl(
        *("--namespace", namespace, "apply", "--dry-run=server", "-f", "-"), stdin=manifests
    )


def as_pod(spec: dict[str, Any]) -> str:
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": spec}
    )


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_api_server_takes_the_manifests(
    kubernetes: KubernetesAPI, namespace: str, kubectl: str, folder: Path
) -> None:
    manifests = build(kubectl, folder)

    done = try_out(kubernetes, namespace, manifests)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("created (server dry run)") == len(by_kind(manifests))


@pytest.mark.slow
def test_a_misspelt_field_would_be_refused(
    kubernetes: KubernetesAPI, namespace: str, base: Objects
) -> None:
    deployment = copy.deepcopy(base["Deployment"])
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}

    done = try_out(kubernetes, namespace, yaml.safe_dump(deployment))

    assert done.returncode != 0
    assert "readynessProbe" in done.stderr


@pytest.mark.slow
def test_the_pods_satisfy_the_restricted_standard(
    kubernetes: KubernetesAPI, namespace: str, objects: Objects
) -> None:
    done = try_out(kubernetes, namespace, as_pod(pod(objects)))

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loosen", "told"),
    [
        (lambda spec: spec["securityContext"].pop("runAsNonRoot"), "runAsNonRoot"),
        (lambda spec: spec["securityContext"].pop("seccompProfile"), "seccompProfile"),
        (
            lambda spec: spec["containers"][0]["securityContext"].pop("capabilities"),
            "unrestricted capabilities",
        ),
    ],
    ids=["root", "no seccomp profile", "capabilities"],
)
def test_pods_that_may_do_more_would_be_refused(
    kubernetes: KubernetesAPI, namespace: str, base: Objects, loosen: Any, told: str
) -> None:
    spec = copy.deepcopy(pod(base))
    loosen(spec)

    done = try_out(kubernetes, namespace, as_pod(spec))

    assert done.returncode != 0
    assert "violates PodSecurity" in done.stderr
    assert told in done.stderr


# What docs/deploying.md tells people to write.


def documented_kustomization() -> dict[str, Any]:
    text = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n( *# kustomization\.yaml\n.*?)```", text, re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(block)
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_documented_kustomization_puts_in_image_namespace_and_configuration(
    kubectl: str, tmp_path: Path, folder: Path
) -> None:
    written = documented_kustomization()
    assert written["resources"] == ["../nodemend/deploy/alerts2gh/base"]
    written["resources"] = [os.path.relpath(folder, tmp_path)]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(written))
    (tmp_path / "alerts2gh.yaml").write_text("log_level: debug\n")

    built = by_kind(build(kubectl, tmp_path))

    assert built["ConfigMap"]["data"] == {"alerts2gh.yaml": "log_level: debug\n"}
    assert built["ConfigMap"]["metadata"]["name"] == "alerts2gh"
    assert {each["metadata"]["namespace"] for each in built.values()} == {"alerts2gh"}
    assert container(built)["image"] == "registry.example/nodemend:0.1.0"
