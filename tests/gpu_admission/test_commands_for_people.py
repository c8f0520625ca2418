"""The commands as people meet them: which cluster is asked, what is unknown offline, rights that are missing, pipes."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_admission import __main__ as program
from gpu_admission import commands
from gpu_admission.catalogue import Catalogue
from gpu_admission.commands import ClusterFacts
from sandbox.kubernetes_server import SandboxKubernetes
from tests.gpu_admission import guide
from tests.gpu_admission.admitting import NOW
from tests.gpu_admission.test_commands import a_node

Call = Callable[..., tuple[int, str, str]]
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: train}}
spec:
  {more}
  containers: [{{name: train, resources: {{limits: {{preferred.jp/gpu-any: 1}}}}}}]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        running.put(a_node("free", "Tesla-T4"))
        yield running


@pytest.fixture
def home(cluster: SandboxKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a kubeconfig where kubectl looks for it, and a manifest; we are there."""
    (tmp_path / ".kube").mkdir()
    cluster.kubeconfig(tmp_path / ".kube" / "config")
    (tmp_path / "pod.yaml").write_text(POD.format(more="priority: 0"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def called(home: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls a command: its exit status, what it printed and what it complained of."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = program.main(arguments)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def explained(more: str, catalogue: Catalogue, **facts: Any) -> list[str]:
    """The lines before the diff."""
    out = io.StringIO()
    asked = commands.questions(POD.format(more=more), "")
    commands.explain(asked, catalogue, ClusterFacts(**facts), NOW, out)
    return out.getvalue().partition("--- submitted")[0].splitlines()


# Which cluster.


def test_without_a_word_the_cluster_is_that_of_kubectl(called: Call) -> None:
    status, printed, complained = called("catalogue", "draft")

    assert (status, complained) == (0, "")
    assert "- id: t4" in printed


def test_a_context_that_is_not_there_is_named(called: Call) -> None:
    status, _, complained = called("catalogue", "draft", "--context", "elsewhere")

    assert status == 2
    assert "elsewhere" in complained


def test_in_a_pod_a_context_still_means_the_kubeconfig(
    called: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")

    assert "elsewhere" in called("catalogue", "draft", "--context", "elsewhere")[2]


def test_who_may_not_look_is_told_of_the_way_without(
    cluster: SandboxKubernetes, called: Call
) -> None:
    arguments = ("explain", "pod.yaml", "--catalogue", str(guide.SHIPPED))
    cluster.control.fail(code=403, resources=("pods",), verbs=("list",))
    try:
        status, printed, complained = called(*arguments)
    finally:
        cluster.control.clear_faults()

    assert (status, printed) == (2, "")
    assert complained.endswith("; with --offline nothing of the cluster is read\n")
    assert called(*arguments, "--offline")[0] == 0


# Offline.


def test_a_priority_class_is_unknown_offline_and_that_is_said() -> None:
    lines = explained("priorityClassName: production", guide.merged({}))

    assert lines[1] == (
        "  offline: the priority of class production is unknown; taken as 0. "
        "Set spec.priority to try another"
    )
    assert "  class: low" in lines


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("priority: 5", id="the priority is given"),
        pytest.param("priorityClassName: system-node-critical", id="a class of Kubernetes itself"),
        pytest.param(
            "priorityClassName: high\n  priority: 5", id="both, as an API server has them"
        ),
        pytest.param("restartPolicy: Never", id="no class"),
    ],
)
def test_nothing_is_said_where_nothing_is_unknown(more: str) -> None:
    assert [line for line in explained(more, guide.merged({})) if "offline" in line] == []


def test_labels_of_namespaces_are_unknown_offline_and_that_is_said() -> None:
    policy = [{"match": {"labels": {"team": "eval"}}, "allowed_models": ["l4"]}]
    catalogue = guide.merged({"namespace_policy": policy})

    asked = {"asked": True, "namespace_labels": {"default": {"team": "eval"}}}
    assert "offline: the catalogue looks at" in explained("priority: 0", catalogue)[1]
    assert "  models: l4 (24 GB)" in explained("priority: 0", catalogue, **asked)


# Pipes.


def test_a_reader_that_has_seen_enough_is_no_error(home: Path) -> None:
    command = (
        f"{sys.executable} -m gpu_admission explain pod.yaml --offline --catalogue {guide.SHIPPED}"
    )
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(guide.ROOT)},
        cwd=home,
    )

    assert (done.returncode, done.stderr) == (0, "")
