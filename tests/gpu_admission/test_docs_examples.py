"""Every example of docs/gpu-admission.md is true: what each pod becomes, what people are told, what commands print."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_admission import __main__ as program
from gpu_admission import commands
from gpu_admission.catalogue import CatalogueSettings, compile_catalogue
from gpu_admission.commands import ClusterFacts
from gpu_admission.mutation import Denied, Mutated, Unchanged
from tests.gpu_admission import guide
from tests.gpu_admission.admitting import CPU_RESOURCE, HIGH, LOW, NOW, a_container, decide, patched
from tests.gpu_admission.admitting import a_pod as a_whole_pod
from tests.gpu_admission.test_commands import a_node
from tests.project.test_docs import CODE

ROWS = list(guide.rows(guide.text()))
TAINT = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
NODES = [
    a_node("gpu-1", "NVIDIA-A100-SXM4-40GB", taints=TAINT),
    a_node("gpu-2", "NVIDIA-A100-SXM4-80GB", mebibytes=81920, taints=TAINT),
    a_node("gpu-3", "NVIDIA-L4", gpus=4, mebibytes=23034),
    a_node("gpu-4", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", gpus=56, mebibytes=4864),
    a_node("gpu-5", "Tesla-T4", gpus=4, mebibytes=15360),
    a_node("gpu-6", "NVIDIA-H100-80GB-HBM3", mebibytes=81559),
]
"""Nodes such as the guide's admin has; the first four when the catalogue is drafted."""


def of_table(first: str, columns: int) -> list[guide.Row]:
    return [row for row in ROWS if row.head[0] == first and len(row.head) == columns]


# Tables.


@pytest.mark.parametrize("row", of_table("in `limits`", 3), ids=lambda row: row.ask)
def test_who_runs_where_is_as_the_table_says(row: guide.Row) -> None:
    _, low, high = row.cells

    assert (f"on {low}", f"on {high}") == (guide.answer(row, "low"), guide.answer(row, "high"))


@pytest.mark.parametrize("row", of_table("in `limits`", 2), ids=lambda row: row.ask)
def test_what_people_are_told_is_as_the_table_says(row: guide.Row) -> None:
    assert guide.answer(row, "low") == f"denied: {row.cells[1]}"


@pytest.mark.parametrize("row", of_table("ask", 3), ids=lambda row: f"{row.heading} {row.cells[0]}")
def test_each_lever_does_what_the_table_says(row: guide.Row) -> None:
    _, class_name, answer = row.cells

    assert guide.answer(row, class_name) == answer


def test_the_tables_are_all_read() -> None:
    headings = {row.heading for row in of_table("ask", 3)}

    assert len(of_table("in `limits`", 3)) == len(of_table("in `limits`", 2)) == 6
    assert len(headings) == 5


def test_a_wrong_cell_would_be_noticed() -> None:
    row = of_table("ask", 3)[0]
    other = guide.Row(row.heading, row.head, (*row.cells[:2], "on `t4 (16 GB)`"), row.catalogue)

    assert guide.answer(other, other.cells[1]) != other.cells[2]


@pytest.mark.parametrize("row", of_table("a pod with", 3), ids=lambda row: " ".join(row.cells[:2]))
def test_cpu_pods_get_what_the_table_says(row: guide.Row) -> None:
    limits = dict(each.split(": ") for each in CODE.findall(row.cells[0]))
    wanted = {key.replace("gpu-", "gpu_"): value for key, value in limits.items()}
    pod = a_whole_pod(a_container(**wanted), priority={"high": HIGH, "low": LOW}[row.cells[1]])
    policy = row.catalogue.cpu
    assert policy is not None

    spec = patched(pod, decide(pod, row.catalogue))["spec"]

    carried = spec["containers"][0]["resources"]["limits"].get(CPU_RESOURCE)
    tolerates = spec.get("tolerations") == [dict(each) for each in policy.low_tolerations]
    gets = f"`{CPU_RESOURCE}: {carried}`" if carried else ""
    gets += "the tolerations" if tolerates else ""
    assert row.cells[2] == (gets or "neither of them")


# Examples.


def fragments() -> list[dict[str, Any]]:
    return [each for block in guide.blocks("yaml") if "kind" not in (each := yaml.safe_load(block))]


@pytest.mark.parametrize("number", range(len(fragments())))
def test_each_example_is_a_catalogue_with_the_shipped_one(number: int) -> None:
    assert guide.merged(fragments()[number]).models


def test_a_pod_may_choose_what_the_example_lets_it() -> None:
    (levers,) = [each for each in fragments() if "class_levers" in each]
    catalogue = guide.merged(levers)
    pod = guide.a_pod("gpu-any: 1", "high")
    pod["metadata"]["labels"] = {"example.org/gpu-class": "scavenger"}

    classes = []
    for priority in (200_000, 0, -1):
        pod["spec"]["priority"] = priority
        chosen = decide(pod, catalogue)
        del pod["metadata"]["labels"]
        own = decide(pod, catalogue)
        pod["metadata"]["labels"] = {"example.org/gpu-class": "scavenger"}
        assert isinstance(chosen, Mutated)
        assert isinstance(own, Mutated)
        classes.append((chosen.class_name, own.class_name))

    assert classes == [
        ("scavenger", "production"),
        ("scavenger", "research"),
        ("scavenger", "scavenger"),
    ]


def test_zero_hides_the_gpus_as_told_and_other_containers_are_left_alone() -> None:
    none = guide.a_pod("gpu-any: 0", "low")
    plain = a_whole_pod(a_container(cpu="1"))

    after = patched(none, decide(none, guide.merged({})))["spec"]["containers"][0]

    assert after["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    assert isinstance(decide(plain, guide.merged({})), Unchanged)


# Commands.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the guide's reader works: the first manifest and the shipped catalogue."""
    (manifest,) = [each for each in guide.blocks("yaml") if "kind: Pod" in each]
    (tmp_path / "pod.yaml").write_text(manifest)
    (tmp_path / "catalogue.yaml").write_text(guide.SHIPPED.read_text("utf-8"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(command: str) -> tuple[list[str], str]:
    """The arguments and the output of the command that the guide shows."""
    (block,) = [each for each in guide.blocks("") if each.startswith(f"$ gpu-admission {command}")]
    first, _, output = block.partition("\n")
    return first.split()[2:], output


def test_explain_prints_what_is_shown_and_then_the_diff(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, output = shown("explain")

    assert program.main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{output}--- submitted\n")


def test_draft_prints_what_is_shown_and_that_is_a_catalogue(tmp_path: Path) -> None:
    _, output = shown("catalogue draft")
    out = io.StringIO()

    assert commands.draft(NODES[:4], out) == 0
    assert out.getvalue() == output
    drafted = compile_catalogue(CatalogueSettings.model_validate(yaml.safe_load(output)))
    assert drafted.names() == ["a100", "any", "l4"]


def test_lint_prints_what_is_shown() -> None:
    _, output = shown("catalogue lint")
    out = io.StringIO()

    assert commands.lint(guide.merged({}), [*NODES[1:3], *NODES[4:]], out) == 1
    assert out.getvalue() == output


def test_whole_cards_and_slices_of_one_node_are_no_finding() -> None:
    (slices,) = [each for each in fragments() if "slices" in each.get("backends", {})]
    labels = {"nvidia.com/mig-1g.10gb.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
    node = a_node("n", "NVIDIA-A100-SXM4-80GB", mebibytes=81920, labels=labels)
    node["status"]["capacity"]["nvidia.com/mig-1g.10gb"] = "4"
    out = io.StringIO()

    commands.lint(guide.merged(slices), [node], out)

    assert [line for line in out.getvalue().splitlines() if line.startswith("n:")] == []


# Elsewhere: how to move over, and how to try it.


def of_document(name: str, start: str) -> Any:
    text = (guide.ROOT / "docs" / name).read_text("utf-8")
    (block,) = re.findall(rf"```yaml\n( *# {re.escape(start)}\n.*?)```", text, re.DOTALL)
    return yaml.safe_load(block)


def test_the_manifest_after_the_move_becomes_the_one_before() -> None:
    model = {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    }
    catalogue = guide.merged({"models": [{"id": "a100", **model}]})
    before = of_document("migrating.md", "before")["spec"]
    pod = {"metadata": {}, **of_document("migrating.md", "after")}

    after = patched(pod, decide(pod, catalogue))["spec"]

    product = before["nodeSelector"].pop("nvidia.com/gpu.product")
    limits = {
        "nvidia.com/gpu": str(before["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
    }
    assert after["nodeSelector"] == before["nodeSelector"]
    assert after["tolerations"] == before["tolerations"]
    assert after["containers"][0]["resources"]["limits"] == limits
    assert product in json.dumps(after["affinity"])


def test_a_selector_that_contradicts_the_key_is_refused_with_both_names() -> None:
    pod = guide.a_pod("gpu-t4: 1", "low")
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-L4"}

    decision = decide(pod, guide.merged({}))

    assert isinstance(decision, Denied)
    assert "Tesla-T4" in decision.text
    assert "NVIDIA-L4" in decision.text


def test_the_pod_to_try_it_with_is_changed() -> None:
    text = (guide.ROOT / "docs" / "deploying.md").read_text("utf-8")
    (overrides,) = re.findall(r"--overrides='([^']+)'", text)
    pod = {"metadata": {}, **json.loads(overrides)}

    after = patched(pod, decide(pod, guide.merged({})))["spec"]

    assert after["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "nodeAffinity" in after["affinity"]


def test_the_readmes_example_asks_for_what_it_says() -> None:
    text = (guide.ROOT / "README.md").read_text("utf-8")
    (block,) = [
        each for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "gpu-" in each
    ]
    resources = yaml.safe_load(block)["resources"]
    pod = a_whole_pod({"name": "train", "resources": resources})
    out = io.StringIO()

    asked = commands.questions(yaml.safe_dump(pod), "")
    assert commands.explain(asked, guide.merged({}), ClusterFacts(), NOW, out) == 0
    assert len(block.splitlines()) == 3
    assert "not t4 (16 GB): it has less VRAM than was asked for" in out.getvalue()
