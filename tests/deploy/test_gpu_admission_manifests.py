"""gpu_admission's manifests: what kustomize makes of them fits together and the process, and a real API server takes it."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from chassis.config import load_settings
from chassis.serving.settings import parse_listen
from chassis.telemetry import get_logger
from gpu_admission.__main__ import utc_now
from gpu_admission.catalogue import CatalogueSettings, compile_catalogue
from gpu_admission.config import AdmissionConfig
from gpu_admission.metrics import ReviewMetrics
from gpu_admission.webhook import Desk
from tests.deploy.exporters_cluster import ROOT, Object, apply, of_kind, pod_of, told
from tests.journeys.gpu_admission_world import ACCOUNT, DEPLOY, NAME, NAMESPACE, rendered
from tests.kubernetes_api import KubernetesAPI

WHOLE = {"base": DEPLOY / "base", "overlay": DEPLOY / "overlays" / "cert-manager"}
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
EXCLUDED = ["kube-system", "kube-public", "kube-node-lease", NAMESPACE]


@pytest.fixture(scope="module")
def cpus(tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    return rendered(with_cpus(tmp_path_factory.mktemp("cpus")))


def with_cpus(folder: Path) -> Path:
    kustomization = {
        "resources": [os.path.relpath(WHOLE["base"], folder)],
        "components": [os.path.relpath(DEPLOY / "components" / "cpus", folder)],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


@pytest.fixture(scope="module")
def base(kubectl: str) -> list[Object]:
    return rendered(WHOLE["base"])


@pytest.fixture(scope="module")
def overlay(kubectl: str) -> list[Object]:
    return rendered(WHOLE["overlay"])


@pytest.fixture(scope="module", params=sorted(WHOLE))
def objects(request: pytest.FixtureRequest, base: list[Object], overlay: list[Object]) -> Any:
    return {"base": base, "overlay": overlay}[request.param]


def the(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def config_of(objects: list[Object], folder: Path) -> AdmissionConfig:
    for name, text in the(objects, "ConfigMap", "gpu-admission")["data"].items():
        (folder / name).write_text(text)
    return load_settings(folder / "gpu-admission.yaml", AdmissionConfig)


def webhooks(objects: list[Object]) -> list[Object]:
    return [one for kind in CONFIGURATIONS for one in the(objects, kind, NAME)["webhooks"]]


# The process in its pod.


def test_the_configuration_is_taken_and_fits_the_pod(objects: list[Object], tmp_path: Path) -> None:
    config = config_of(objects, tmp_path)
    (container,) = pod_of(objects)["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}

    assert parse_listen(config.serving.listen) == ("", ports["admission"])
    assert parse_listen(config.monitoring.listen) == ("", ports["http"])
    assert container["command"] == ["gpu-admission"]
    assert container["args"] == ["serve", "--config", "/etc/nodemend/gpu-admission.yaml"]
    drain = config.serving.drain.total_seconds()
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod_of(objects)["terminationGracePeriodSeconds"] > drain + float(command[1])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "http"


def test_the_catalogue_is_taken(objects: list[Object], tmp_path: Path) -> None:
    config = config_of(objects, tmp_path)

    settings = load_settings(tmp_path / config.catalogue_file, CatalogueSettings)

    assert len(compile_catalogue(settings).models) == 4


def test_the_certificate_lies_where_the_configuration_looks(
    base: list[Object], overlay: list[Object], tmp_path: Path
) -> None:
    mounts = {each["name"]: each for each in next(iter(pod_of(base)["containers"]))["volumeMounts"]}
    config = config_of(base, tmp_path)
    assert config.self_signed is not None
    assert str(config.self_signed.directory).startswith(mounts["certificate"]["mountPath"])
    assert not mounts["certificate"].get("readOnly")

    text = the(overlay, "ConfigMap", "gpu-admission")["data"]["gpu-admission.yaml"]
    tls = yaml.safe_load(text)["serving"]["tls"]
    (volume,) = [each for each in pod_of(overlay)["volumes"] if each["name"] == "certificate"]
    certificate = the(overlay, "Certificate", NAME)["spec"]
    assert tls == {"cert_file": "/run/nodemend/tls.crt", "key_file": "/run/nodemend/tls.key"}
    assert volume["secret"]["secretName"] == certificate["secretName"]
    assert "emptyDir" not in volume


def test_a_changed_catalogue_reaches_the_running_process(objects: list[Object]) -> None:
    (container,) = pod_of(objects)["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "config"]
    (volume,) = [each for each in pod_of(objects)["volumes"] if each["name"] == "config"]

    assert volume["configMap"]["name"] == "gpu-admission"
    assert (mount["mountPath"], "subPath" in mount) == ("/etc/nodemend", False)


def test_two_replicas_run_and_are_not_both_taken_away_at_once(objects: list[Object]) -> None:
    deployment = the(objects, "Deployment", "gpu-admission")
    budget = the(objects, "PodDisruptionBudget", "gpu-admission")["spec"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]

    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert budget["minAvailable"] == 1
    for selector in (
        budget["selector"]["matchLabels"],
        the(objects, "Service", NAME)["spec"]["selector"],
        the(objects, "NetworkPolicy", "gpu-admission")["spec"]["podSelector"]["matchLabels"],
        deployment["spec"]["selector"]["matchLabels"],
    ):
        assert selector["app.kubernetes.io/name"] == "gpu-admission"
        assert selector.items() <= labels.items()


# The webhooks.


def test_the_webhooks_call_paths_that_are_served(objects: list[Object], cpus: list[Object]) -> None:
    service = the(objects, "Service", NAME)["spec"]
    ports = {each["name"]: each["port"] for each in service["ports"]}
    served = set(
        Desk(lambda: None, clock=utc_now, metrics=_metrics(), log=get_logger("x")).endpoints()
    )

    for each in [*webhooks(objects), *webhooks(cpus)]:
        called = each["clientConfig"]["service"]
        assert (called["name"], called["namespace"]) == (NAME, NAMESPACE)
        assert called.get("port", 443) == ports["admission"]
        assert called["path"] in served


def _metrics() -> ReviewMetrics:
    return ReviewMetrics(CollectorRegistry())


def test_no_webhook_can_stop_the_system_or_ourselves(
    objects: list[Object], cpus: list[Object]
) -> None:
    """Such pods are never asked about, so that a cluster can start before we do."""
    for each in [*webhooks(objects), *webhooks(cpus)]:
        (expression,) = each["namespaceSelector"]["matchExpressions"]
        assert expression["key"] == "kubernetes.io/metadata.name"
        assert (expression["operator"], expression["values"]) == ("NotIn", EXCLUDED)
        assert each["timeoutSeconds"] == 2
        assert each["sideEffects"] == "None"
        assert each["admissionReviewVersions"] == ["v1"]
        assert each["matchConditions"], each["name"]


def test_only_the_last_look_at_gpu_pods_fails_closed(
    objects: list[Object], cpus: list[Object]
) -> None:
    policies = {
        each["name"]: each["failurePolicy"] for each in [*webhooks(objects), *webhooks(cpus)]
    }

    assert [name for name, policy in policies.items() if policy == "Fail"] == [
        "gpu-pods.nodemend.dev"
    ]
    again = {
        each["name"] for each in webhooks(cpus) if each.get("reinvocationPolicy") == "IfNeeded"
    }
    assert again == {"gpus.nodemend.dev", "cpus.nodemend.dev"}


def test_conditions_name_the_catalogues_prefix_and_resource(
    objects: list[Object], cpus: list[Object], tmp_path: Path
) -> None:
    config = config_of(objects, tmp_path)
    catalogue = compile_catalogue(
        load_settings(tmp_path / config.catalogue_file, CatalogueSettings)
    )
    for each in [*webhooks(objects), *webhooks(cpus)]:
        text = " ".join(one["expression"] for one in each["matchConditions"])
        named = set(re.findall(r"'([a-z.]+/[a-z-]*)'", text))
        assert named <= {catalogue.key_prefix, catalogue.annotation, *catalogue.native_resources}
        assert catalogue.key_prefix in named, each["name"]


def test_the_overlay_has_the_ca_written_by_cert_manager_and_needs_no_right_for_it(
    base: list[Object], overlay: list[Object]
) -> None:
    for kind in CONFIGURATIONS:
        annotations = the(overlay, kind, NAME)["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/{NAME}"}
    text = yaml.safe_dump_all(each for each in overlay if each["kind"].endswith("Role"))
    assert "secrets" not in text
    assert "admissionregistration" not in text
    own = {each["metadata"]["name"] for each in base if each["kind"].endswith("RoleBinding")}
    left = {each["metadata"]["name"] for each in overlay if each["kind"].endswith("RoleBinding")}
    assert own - left == {f"{NAME}-ca-bundle", f"{NAME}-certificate"}


def test_the_certificate_is_for_the_name_that_the_api_server_calls(overlay: list[Object]) -> None:
    spec = the(overlay, "Certificate", NAME)["spec"]

    assert f"{NAME}.{NAMESPACE}.svc" in spec["dnsNames"]
    authority = the(overlay, "Certificate", f"{NAME}-ca")["spec"]
    assert authority["isCA"] is True
    assert the(overlay, "Issuer", NAME)["spec"]["ca"]["secretName"] == authority["secretName"]


# Rights.


def test_rights_go_to_the_account_of_the_pod_and_none_is_a_wildcard(objects: list[Object]) -> None:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}

    assert pod_of(objects)["serviceAccountName"] == ACCOUNT
    for each in objects:
        if each["kind"].endswith("RoleBinding"):
            assert each["subjects"] == [subject]
        elif each["kind"].endswith("Role"):
            assert "*" not in yaml.safe_dump(each["rules"])


def test_leader_and_certificate_are_where_the_roles_let_them(
    base: list[Object], tmp_path: Path
) -> None:
    config = config_of(base, tmp_path)
    signed = config.self_signed
    assert signed is not None
    rules = the(base, "Role", f"{NAME}-certificate")["rules"]

    assert config.leader.namespace == signed.namespace == NAMESPACE
    assert rules[0]["resourceNames"] == [signed.secret]
    assert the(base, "Role", NAME)["rules"][0]["resources"] == ["leases"]
    assert {*signed.mutating_webhooks, *signed.validating_webhooks} == {NAME}
    assert signed.service == the(base, "Service", NAME)["metadata"]["name"]


# What docs/deploying.md tells people to write.

DEPLOYING = (ROOT / "docs" / "deploying.md").read_text("utf-8")


def documented(start: str) -> Any:
    (block,) = re.findall(rf"```yaml\n( *# {start}\n.*?)```", DEPLOYING, re.DOTALL)
    return yaml.safe_load(block)


def documented_sed(word: str) -> list[str]:
    """The command with this word in it, without its files."""
    (line,) = [
        each for each in DEPLOYING.splitlines() if each.startswith("sed -i") and word in each
    ]
    return [each for each in shlex.split(line) if not each.endswith(".yaml")]


def test_the_documented_kustomization_makes_what_it_says(tmp_path: Path) -> None:
    written = documented("kustomization.yaml of gpu-admission")
    written |= documented("kustomization.yaml with the CPU rule")
    for key in ("resources", "components"):
        written[key] = [
            os.path.relpath(ROOT / each.removeprefix("../nodemend/"), tmp_path)
            for each in written[key]
        ]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(written))
    own = {"models": [{"id": "mine", "variants": [{"vram_gb": 8, "node_label_values": ["m"]}]}]}
    (tmp_path / "catalogue.yaml").write_text(yaml.safe_dump(own))

    objects = rendered(tmp_path)

    (container,) = pod_of(objects)["containers"]
    assert container["image"] == "registry.example/nodemend:0.1.0"
    folder = tmp_path / "config"
    folder.mkdir()
    config = config_of(objects, folder)
    catalogue = load_settings(folder / config.catalogue_file, CatalogueSettings)
    assert [each.id for each in catalogue.models] == ["mine"]
    assert "cpus.nodemend.dev" in {each["name"] for each in webhooks(objects)}
    assert {each["metadata"].get("namespace", NAMESPACE) for each in objects} == {NAMESPACE}


def test_the_documented_commands_change_prefix_and_resources(tmp_path: Path) -> None:
    copy = tmp_path / "gpu-admission"
    shutil.copytree(DEPLOY, copy)
    files = [*(copy / "base").glob("*.yaml"), *(copy / "components" / "cpus").glob("*.yaml")]
    for word in ("gpu.example.org", "mncore"):
        subprocess.run([*documented_sed(word), *files], check=True)
    kustomization = {"resources": ["base"], "components": ["components/cpus"]}
    (copy / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))

    for each in webhooks(rendered(copy)):
        conditions = [one["expression"] for one in each["matchConditions"]]
        assert "preferred.jp/gpu" not in " ".join(conditions)
        assert any("'gpu.example.org/gpu-'" in one for one in conditions)
        raw = sum(one.count("k == 'nvidia.com/gpu'") for one in conditions)
        assert sum(one.count("k == 'preferred.jp/mncore'") for one in conditions) == raw


# On a real API server.


@pytest.fixture
def api(kubernetes: KubernetesAPI) -> KubernetesAPI:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    apply(kubernetes, [space, *(_definition(each) for each in ("Certificate", "Issuer"))])
    return kubernetes


def _definition(kind: str) -> Object:
    """As much of cert-manager as a dry run needs."""
    plural, group = f"{kind.lower()}s", "cert-manager.io"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("which", ["base", "overlay", "cpus"])
def test_the_api_server_takes_the_manifests(
    api: KubernetesAPI, which: str, base: list[Object], overlay: list[Object], cpus: list[Object]
) -> None:
    """With their expressions, which it compiles."""
    for plural in ("certificates", "issuers"):
        done = api.kubectl("wait", "--for=condition=Established", f"crd/{plural}.cert-manager.io")
        assert done.returncode == 0, done.stderr
    objects = {"base": base, "overlay": overlay, "cpus": cpus}[which]
    text = yaml.safe_dump_all(objects)

    done = api.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=text)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("serverside-applied (server dry run)") == len(objects)


@pytest.fixture
def restricted(api: KubernetesAPI) -> Iterator[KubernetesAPI]:
    key = "pod-security.kubernetes.io/enforce"
    told(api.kubectl("label", "namespace", NAMESPACE, f"{key}=restricted", "--overwrite"))
    yield api
    told(api.kubectl("label", "namespace", NAMESPACE, f"{key}-"))


@pytest.mark.slow
def test_the_pod_satisfies_the_restricted_standard(
    restricted: KubernetesAPI, objects: list[Object]
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "try"},
        "spec": pod_of(objects),
    }
    words = ("-n", NAMESPACE, "create", "--dry-run=server", "-f", "-")

    done = restricted.kubectl(*words, stdin=yaml.safe_dump(pod))

    assert (done.returncode, done.stderr) == (0, "")
