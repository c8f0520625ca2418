"""explain, catalogue draft and catalogue lint, as an admin or a researcher calls them."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.config import load_settings
from chassis.errors import PermanentError
from chassis.kube_client import NODES, KubeClient, KubeSettings, PatchKind
from chassis.telemetry import get_logger
from gpu_admission import commands
from gpu_admission.catalogue import Catalogue, CatalogueSettings, PriorityClasses, compile_catalogue
from gpu_admission.commands.drafting import model_id
from sandbox.kubernetes_server import SandboxKubernetes

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "deploy/gpu-admission/base/catalogue.yaml"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, namespace: team}
spec:
  template:
    spec:
      priorityClassName: prod
      containers:
        - {name: train, image: train, resources: {limits: {preferred.jp/gpu-any-40gb: 1}}}
"""


def a_node(
    name: str,
    product: str = "NVIDIA-A100-SXM4-40GB",
    *,
    gpus: int = 8,
    mebibytes: int = 40960,
    taints: list[dict[str, str]] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A node as GPU feature discovery and the device plugin leave it."""
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "nvidia.com/gpu.product": product,
                "nvidia.com/gpu.memory": str(mebibytes),
                "nvidia.com/gpu.count": str(gpus),
                **(labels or {}),
            },
        },
        "spec": {"taints": taints or [], **spec},
        "status": {"capacity": dict(resources), "allocatable": dict(resources)},
    }


def a_running_pod(node: str, gpus: int) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)}
    containers = [{"name": "c", "resources": {"limits": limits, "requests": limits}}]
    return {
        "metadata": {"name": f"on-{node}", "namespace": "team"},
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": "Running"},
    }


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return compile_catalogue(load_settings(SHIPPED, CatalogueSettings))


def explained(catalogue: Catalogue, manifest: str = MANIFEST, **facts: Any) -> tuple[int, str]:
    out = io.StringIO()
    known = commands.ClusterFacts(**facts)
    status = commands.explain(commands.questions(manifest, ""), catalogue, known, NOW, out)
    return status, out.getvalue()


def test_explain_shows_the_change_the_choice_and_what_was_left_out(catalogue: Catalogue) -> None:
    status, text = explained(catalogue)

    assert status == 0
    assert "Deployment team/train: changed" in text
    assert "models: a100 (40 GB), a100 (80 GB), h100 (80 GB)" in text
    assert "not t4 (16 GB): it has less VRAM than was asked for" in text
    assert "+        nvidia.com/gpu: '1'" in text
    assert "-        preferred.jp/gpu-any-40gb: 1" in text


def test_explain_takes_the_class_from_the_priority_class(catalogue: Catalogue) -> None:
    _, text = explained(catalogue, asked=True, priorities=PriorityClasses({"prod": 5000}, 0))

    assert "class: high" in text
    assert "models: a100 (40 GB)\n" in text
    assert "not h100 (80 GB): it has more VRAM than another that will do" in text


def test_explain_names_the_nodes_that_could_take_it_now_and_why_others_cannot(
    catalogue: Catalogue,
) -> None:
    gpu_taint = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    _, text = explained(
        catalogue,
        asked=True,
        nodes=(
            a_node("free"),
            a_node("full", gpus=2),
            a_node("cordoned", unschedulable=True),
            a_node("tainted", taints=gpu_taint),
            a_node("small", "Tesla-T4"),
        ),
        pods=(a_running_pod("full", 2), a_running_pod("free", 3)),
    )

    assert "nodes that could take it now: free (5 nvidia.com/gpu free)\n" in text
    assert "full: nvidia.com/gpu: 1 wanted, 0 free" in text
    assert "cordoned: it is cordoned" in text
    assert "tainted: its taint gpu=true:NoSchedule is not tolerated" in text
    assert "small" not in text.partition("nodes that could take")[2]


def test_explain_says_why_a_pod_is_denied(catalogue: Catalogue) -> None:
    status, text = explained(catalogue, MANIFEST.replace("any-40gb", "a1000"))

    assert status == 1
    assert 'unknown GPU "a1000"' in text


def test_explain_looks_into_lists_and_several_documents(catalogue: Catalogue) -> None:
    body = yaml.safe_load(MANIFEST)
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [body, body]})

    _, text = explained(catalogue, f"{listed}---\n{MANIFEST}")

    assert text.count("Deployment team/train: changed") == 3


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        pytest.param("a: [", "not YAML", id="not YAML"),
        pytest.param("", "holds no pod", id="nothing"),
        pytest.param("kind: Service", "holds no pod", id="nothing with pods"),
        pytest.param("[1, 2]", "holds no pod", id="a list of numbers"),
    ],
)
def test_a_manifest_that_cannot_be_explained_is_an_error_that_says_so(
    manifest: str, says: str
) -> None:
    with pytest.raises(PermanentError, match=says):
        commands.questions(manifest, "")


def drafted(nodes: list[dict[str, Any]]) -> tuple[int, str]:
    out = io.StringIO()
    return commands.draft(nodes, out), out.getvalue()


def test_a_draft_is_a_catalogue_with_which_the_cluster_agrees(tmp_path: Path) -> None:
    taint = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    nodes = [
        a_node("a", taints=taint),
        a_node("b", "NVIDIA-A100-SXM4-80GB", mebibytes=81920, gpus=4, taints=taint),
        a_node("c", "NVIDIA-A10", mebibytes=23028, gpus=1),
        a_node("d", "NVIDIA-L4", mebibytes=23034),
        a_node("e", "Tesla-T4", mebibytes=15360),
        a_node("f", "NVIDIA-H100-80GB-HBM3", mebibytes=81559),
        a_node("g", "NVIDIA-RTX-A6000", mebibytes=49140),
        a_node("h", "NVIDIA-L40S", mebibytes=46068),
        a_node("i", "Tesla-V100-SXM2-16GB", mebibytes=16384),
        a_node("j", "Tesla-V100-SXM2-32GB", mebibytes=32768),
        a_node("k", "NVIDIA-H200", mebibytes=143771),
    ]

    status, text = drafted(nodes)
    (tmp_path / "draft.yaml").write_text(text)
    catalogue = compile_catalogue(load_settings(tmp_path / "draft.yaml", CatalogueSettings))
    out = io.StringIO()

    assert status == 0
    assert {each.id for each in catalogue.variants} == {
        "a100-40gb",
        "a100-80gb",
        "a10-24gb",
        "l4-24gb",
        "t4-16gb",
        "h100-80gb",
        "rtx-a6000-48gb",
        "l40s-48gb",
        "v100-16gb",
        "v100-32gb",
        "h200-141gb",
    }
    assert commands.lint(catalogue, nodes, out) == 0, out.getvalue()


def test_a_draft_leaves_slices_and_shared_cards_out_and_says_so() -> None:
    nodes = [
        a_node("whole"),
        a_node("single", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", mebibytes=4864),
        a_node("mixed", labels={"nvidia.com/mig-3g.20gb.count": "2"}),
        a_node("shared", "Tesla-T4-SHARED", mebibytes=15360),
    ]

    _, text = drafted(nodes)

    assert list(yaml.safe_load(text)["models"][0]) == ["id", "variants"]
    assert "left out: NVIDIA-A100-SXM4-40GB-MIG-1g.5gb (1 node) are MIG slices" in text
    assert "left out: MIG slices 3g.20gb on 1 node " in text
    assert "left out: Tesla-T4-SHARED" in text


def test_a_cluster_without_labels_gives_no_draft() -> None:
    node = a_node("bare")
    del node["metadata"]["labels"]["nvidia.com/gpu.product"]

    status, text = drafted([node])

    assert status == 1
    assert "bare has GPUs" in text


@pytest.mark.parametrize(
    ("node", "finding"),
    [
        pytest.param(a_node("n"), "", id="as the catalogue says"),
        pytest.param(
            a_node("n", "NVIDIA-B200"),
            "n: nvidia.com/gpu.product=NVIDIA-B200 is in no model of the catalogue",
            id="a card that nobody knows",
        ),
        pytest.param(
            a_node("n", mebibytes=20480),
            "n: nvidia.com/gpu.memory is 20480 MiB, and the catalogue says 40 GB (a100 (40 GB))",
            id="half the memory",
        ),
        pytest.param(
            a_node("n", gpus=16),
            "n: has 16 GPUs, and max_per_node of a100 (40 GB) is 8",
            id="more cards than the catalogue says",
        ),
        pytest.param(
            a_node("n", gpus=0),
            "n: is labelled a100 (40 GB) and offers no nvidia.com/gpu",
            id="no device plugin",
        ),
        pytest.param(
            a_node("n", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}]),
            "n: its taint gpu=true:NoSchedule is not among the tolerations of a100",
            id="a taint that nobody tolerates",
        ),
        pytest.param(
            a_node("n", taints=[{"key": "node.kubernetes.io/x", "effect": "NoSchedule"}]),
            "",
            id="a taint of Kubernetes itself",
        ),
    ],
)
def test_lint_says_where_catalogue_and_nodes_differ(
    catalogue: Catalogue, node: dict[str, Any], finding: str
) -> None:
    out = io.StringIO()
    commands.lint(catalogue, [node], out)
    lines = [line for line in out.getvalue().splitlines() if line.startswith("n:")]

    assert len(lines) == (1 if finding else 0)
    assert all(line.startswith(finding) for line in lines)


def test_lint_says_which_values_no_node_has(catalogue: Catalogue) -> None:
    out = io.StringIO()

    assert commands.lint(catalogue, [a_node("n")], out) == 1
    assert "t4 (16 GB): no node has nvidia.com/gpu.product=Tesla-T4" in out.getvalue()


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-A100-SXM4-80GB", "a100"),
        ("NVIDIA-A100-80GB-PCIe", "a100"),
        ("Tesla-V100-SXM2-16GB", "v100"),
        ("NVIDIA-GeForce-RTX-4090", "rtx-4090"),
        ("NVIDIA-RTX-6000-Ada-Generation", "rtx-6000"),
        ("NVIDIA-GH200-480GB", "gh200"),
    ],
)
def test_names_are_short(product: str, name: str) -> None:
    assert model_id(product) == name


# The program itself.


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        running.put(a_node("free"))
        settings = KubeSettings(kubeconfig=running.kubeconfig(tmp_path_factory.mktemp("c") / "k"))
        with closing(KubeClient(settings, get_logger("test"))) as client:
            # As after the kubelet's first report.
            untainted = [{"op": "remove", "path": "/spec/taints"}]
            client.patch(NODES, "free", untainted, kind=PatchKind.JSON)
        yield running


def called(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpu_admission", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
    )


def test_explain_asks_the_cluster_that_kubeconfig_names(
    cluster: SandboxKubernetes, tmp_path: Path
) -> None:
    kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(MANIFEST)

    done = called(
        "explain", str(manifest), "--catalogue", str(SHIPPED), "--kubeconfig", str(kubeconfig)
    )

    assert done.returncode == 0, done.stderr
    assert "nodes that could take it now: free" in done.stdout


def test_draft_and_lint_ask_the_cluster_of_the_environment(
    cluster: SandboxKubernetes, tmp_path: Path
) -> None:
    kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))

    drafted = called("catalogue", "draft", KUBECONFIG=kubeconfig)
    (tmp_path / "draft.yaml").write_text(drafted.stdout)
    linted = called("catalogue", "lint", str(tmp_path / "draft.yaml"), KUBECONFIG=kubeconfig)

    assert (drafted.returncode, linted.returncode) == (0, 0)
    assert "agree" in linted.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(
            ("explain", "nowhere.yaml", "--offline", "--catalogue", str(SHIPPED)),
            "nowhere.yaml: No such file",
            id="no manifest",
        ),
        pytest.param(
            ("explain", "nowhere.yaml", "--offline", "--catalogue", "none.yaml"),
            "none.yaml",
            id="no catalogue",
        ),
        pytest.param(("check-config", "none.yaml"), "none.yaml", id="no configuration"),
        pytest.param(
            ("catalogue", "draft", "--kubeconfig", "/nowhere"), "/nowhere", id="no kubeconfig"
        ),
    ],
)
def test_unusable_input_is_one_line_and_status_2(arguments: tuple[str, ...], says: str) -> None:
    done = called(*arguments)

    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
