"""What docs/deploying.md tells people to write and run for gpu-admission makes what it says."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_admission.catalogue import CatalogueSettings, parse_quantity
from tests import kubernetes_api
from tests.gpu_admission.admitting import CPU_RESOURCE
from tests.gpu_admission.guide import ROOT, SHIPPED
from tests.gpu_admission.test_docs_examples import of_document
from tests.journeys.gpu_admission_world import DEPLOY, NAMESPACE, rendered

TEXT = (ROOT / "docs" / "deploying.md").read_text("utf-8").partition("# Deploying gpu-admission")[2]


@pytest.fixture
def kubectl() -> None:
    why_not = kubernetes_api.missing("kubectl")
    if why_not is not None:
        pytest.skip(why_not)


def documented(start: str) -> dict[str, Any]:
    found: dict[str, Any] = of_document("deploying.md", start)
    return found


def written(folder: Path, kustomization: dict[str, Any]) -> Path:
    """A folder with this kustomization, whose paths lead to our deploy/."""
    for part in ("resources", "components"):
        paths = [each.partition("deploy/gpu-admission/")[2] for each in kustomization.get(part, ())]
        kustomization[part] = [os.path.relpath(DEPLOY / each, folder) for each in paths]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    (folder / "catalogue.yaml").write_text("models: []  # ours\n")
    return folder


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [
        each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found


@pytest.mark.parametrize("overlay", ["base", "overlays/cert-manager"])
def test_the_kustomization_brings_catalogue_image_and_namespace(
    kubectl: None, tmp_path: Path, overlay: str
) -> None:
    kustomization = documented("kustomization.yaml of gpu-admission")
    assert f"deploy/gpu-admission/{overlay}`" in TEXT or overlay == "base"
    kustomization["resources"] = [f"deploy/gpu-admission/{overlay}"]

    objects = rendered(written(tmp_path, kustomization))

    data = one(objects, "ConfigMap", "gpu-admission")["data"]
    assert data["catalogue.yaml"] == "models: []  # ours\n"
    assert "catalogue_file" in data["gpu-admission.yaml"]
    pod = one(objects, "Deployment", "gpu-admission")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/nodemend:0.1.0"
    assert {each["metadata"].get("namespace", NAMESPACE) for each in objects} == {NAMESPACE}


def test_with_the_component_cpu_pods_are_seen_too(kubectl: None, tmp_path: Path) -> None:
    kustomization = documented("kustomization.yaml of gpu-admission")
    kustomization |= documented("kustomization.yaml with the CPU rule")

    objects = rendered(written(tmp_path, kustomization))

    webhooks = one(objects, "MutatingWebhookConfiguration", "nodemend-gpu-admission")["webhooks"]
    assert [each["name"] for each in webhooks] == ["gpus.nodemend.dev", "cpus.nodemend.dev"]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEPLOY, tmp_path / "gpu-admission"))


def commands() -> list[str]:
    return re.findall(r"^sed .*$", TEXT, re.MULTILINE)


def texts(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text("utf-8")
        for path in sorted(folder.rglob("*.yaml"))
    }


def test_one_command_changes_the_prefix_everywhere(copied: Path) -> None:
    before = texts(copied)

    subprocess.run(commands()[0], shell=True, check=True, cwd=copied)

    after = texts(copied)
    assert [name for name, text in after.items() if "preferred.jp" in text] == []
    assert sum("gpu.example.org" in text for text in after.values()) == 4
    assert len(before) == len(after)
    catalogue = yaml.safe_load(after["base/catalogue.yaml"])
    assert CatalogueSettings.model_validate(catalogue).prefix == "gpu.example.org"
    assert "k.startsWith('gpu.example.org/gpu-')" in after["base/mutating.yaml"]


def test_another_command_adds_a_resource_to_the_conditions(copied: Path) -> None:
    subprocess.run(commands()[1], shell=True, check=True, cwd=copied)

    changed = [name for name, text in texts(copied).items() if "preferred.jp/mncore" in text]
    assert changed == ["base/mutating.yaml", "base/validating.yaml", "components/cpus/webhook.yaml"]
    for name in changed:
        text = " ".join(texts(copied)[name].split())
        assert text.count("k == 'nvidia.com/gpu'") == text.count("|| k == 'preferred.jp/mncore'")
        assert all(yaml.safe_load_all(texts(copied)[name]))


def test_the_assign_names_the_resource_and_what_a_catalogue_with_32_cpus_means() -> None:
    assign = documented("gatekeeper.yaml")["spec"]

    assert assign["location"] == f'status.capacity."{CPU_RESOURCE}"'
    assert parse_quantity(assign["parameters"]["assign"]["value"]) == 32 * 1000
    assert assign["match"]["scope"] == "Cluster"


def test_what_is_deleted_to_take_it_out_is_what_was_applied() -> None:
    (line,) = re.findall(r"`kubectl delete ([a-z,]+) ([a-z-]+)`", TEXT)

    assert line == (
        "mutatingwebhookconfigurations,validatingwebhookconfigurations",
        "nodemend-gpu-admission",
    )
    for name in ("mutating", "validating"):
        body = yaml.safe_load((DEPLOY / "base" / f"{name}.yaml").read_text("utf-8"))
        assert body["metadata"]["name"] == line[1]


def test_the_comment_in_the_shipped_catalogue_leads_to_the_keys() -> None:
    assert "docs/gpu-admission.md" in SHIPPED.read_text("utf-8")
