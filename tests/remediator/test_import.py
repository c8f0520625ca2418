"""Manifests of node-operation-controller become a configuration that is accepted, and what is lost is said."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.alertmanager import all_match
from chassis.errors import ConfigError
from remediator.config import Config
from remediator.importing import Imported, convert, imported_text, read_manifests

API = "nodeops.k8s.preferred.jp/v1alpha1"


def a_template(
    name: str = "reboot", job: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "operation",
                "image": "busybox",
                "command": ["sh", "-c", "reboot-it $TARGET_NODE"],
                "env": [
                    {
                        "name": "TARGET_NODE",
                        "valueFrom": {
                            "fieldRef": {
                                "fieldPath": "metadata.annotations"
                                "['nodeops.k8s.preferred.jp/nodename']"
                            }
                        },
                    },
                    {"name": "OTHER", "value": "kept"},
                ],
            }
        ],
    }
    job = {"backoffLimit": 0, "template": {"spec": pod}, **(job or {})}
    template = {"metadata": {}, "spec": {"jobTemplate": {"metadata": {}, "spec": job}, **spec}}
    return {
        "apiVersion": API,
        "kind": "NodeOperationTemplate",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


def a_remediation(
    name: str = "bad-node", template: str = "reboot", *conditions: Any, **spec: Any
) -> dict[str, Any]:
    rule = {"conditions": list(conditions) or [{"type": "GPUIsLost", "status": "True"}]}
    return {
        "apiVersion": API,
        "kind": "NodeRemediationTemplate",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"rule": rule, "nodeOperationTemplateName": template}},
            **spec,
        },
    }


def a_budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "NodeDisruptionBudget",
        "metadata": {"name": "gpu.pool"},
        "spec": spec,
    }


def accepted(imported: Imported) -> Config:
    """What check-config makes of the printed text."""
    return Config.model_validate(yaml.safe_load(imported_text(imported)))


def noted(imported: Imported, text: str) -> bool:
    return any(text in note for note in imported.notes)


def test_a_remediation_with_its_template_becomes_a_playbook_in_dry_run() -> None:
    config = accepted(convert([a_template(), a_remediation()]))
    (playbook,) = config.playbooks

    assert (playbook.name, playbook.dry_run) == ("bad-node", True)
    assert playbook.conditions is not None
    assert [(each.type, each.status) for each in playbook.conditions.all] == [("GPUIsLost", "True")]
    assert playbook.proof.conditions == ("GPUIsLost",)
    (rung,) = playbook.ladder
    assert (rung.repair.kind, rung.repair.template, rung.repair.on_node) == (
        "run_job",
        "reboot",
        False,
    )


def test_its_job_learns_the_node_from_our_variable() -> None:
    config = accepted(convert([a_template(), a_remediation()]))

    assert config.job_templates["reboot"].pod["containers"][0]["env"] == [
        {"name": "TARGET_NODE", "value": "$(NODEMEND_NODE)"},
        {"name": "OTHER", "value": "kept"},
    ]


STRATEGIES = {
    "Evict": "Evict",
    "Delete": "Delete",
    "ForceDelete": "ForceDelete",
    "None": "WaitForCompletion",
    None: "Evict",
}


@pytest.mark.parametrize(("theirs", "ours"), STRATEGIES.items())
def test_the_eviction_strategy_is_carried_over(theirs: str | None, ours: str) -> None:
    spec = {} if theirs is None else {"evictionStrategy": theirs}
    config = accepted(convert([a_template(**spec), a_remediation()]))

    assert config.playbooks[0].ladder[0].drain.strategy == ours


def test_not_waiting_for_the_eviction_becomes_a_short_deadline() -> None:
    imported = convert([a_template(skipWaitingForEviction=True), a_remediation()])
    drain = accepted(imported).playbooks[0].ladder[0].drain

    assert (drain.deadline.total_seconds(), drain.on_deadline) == (10, "proceed")
    assert noted(imported, "skipWaitingForEviction")


def test_the_jobs_deadline_is_the_rungs_timeout() -> None:
    config = accepted(convert([a_template(job={"activeDeadlineSeconds": 90}), a_remediation()]))

    assert config.playbooks[0].ladder[0].timeout.total_seconds() == 90


BUDGETS = {
    "a maximum": ({"maxUnavailable": 3, "selector": {"pool": "a"}}, 3, ""),
    "a minimum": ({"minAvailable": 3}, 1, "minAvailable 3 has no counterpart"),
    "neither": ({}, 1, "max_unavailable is set to 1"),
    "taints that count": (
        {"maxUnavailable": 2, "taintTargets": [{"key": "x"}]},
        2,
        "taintTargets has no counterpart",
    ),
}


@pytest.mark.parametrize(("spec", "most", "note"), BUDGETS.values(), ids=BUDGETS)
def test_a_budget_is_carried_over(spec: dict[str, Any], most: int, note: str) -> None:
    imported = convert([a_template(), a_remediation(), a_budget(**spec)])
    (budget,) = accepted(imported).budgets

    assert (budget.name, budget.max_unavailable.count) == ("gpu-pool", most)
    assert [str(each) for each in budget.selector] == (['pool="a"'] if "selector" in spec else [])
    assert not note or noted(imported, note)


def test_a_node_selector_is_carried_over() -> None:
    wanted = {"example.com/gpu": "yes", "pool": "a"}
    config = accepted(convert([a_template(), a_remediation(nodeSelector=wanted)]))

    matchers = config.playbooks[0].nodes
    assert all_match(matchers, {**wanted, "other": "label"})
    assert not all_match(matchers, {"pool": "a"})


LOST = {
    "several tries of the Job": (
        [a_template(job={"backoffLimit": 3}), a_remediation()],
        "backoffLimit",
    ),
    "other fields of the Job": (
        [a_template(job={"ttlSecondsAfterFinished": 9}), a_remediation()],
        "ttlSecondsAfterFinished has no counterpart",
    ),
    "the choice of budgets": (
        [a_template(nodeDisruptionBudgetSelector={"a": "b"}), a_remediation()],
        "nodeDisruptionBudgetSelector has no counterpart",
    ),
    "a condition that is a problem when False": (
        [a_template(), a_remediation("r", "reboot", {"type": "Healthy", "status": "False"})],
        "Healthy was a problem when False",
    ),
    "a template that nothing uses": ([a_template()], "no NodeRemediationTemplate uses it"),
    "a remediation without its template": ([a_remediation()], "no usable NodeOperationTemplate"),
    "an operation": (
        [{"apiVersion": API, "kind": "NodeOperation", "metadata": {"name": "o"}, "spec": {}}],
        "NodeOperation o: is made from templates",
    ),
    "an object of another API": ([{"apiVersion": "v1", "kind": "Pod"}], "Pod: not of node-op"),
    "a budget that allows nothing": ([a_budget(maxUnavailable=0)], "use `remediator pause`"),
    "a budget of nonsense": ([a_budget(maxUnavailable="3")], "must be a number"),
    "a selector of nonsense": ([a_budget(selector=[])], "spec.selector must be a mapping"),
    "a selector of another kind": (
        [a_budget(selector={"matchLabels": {"a": "b"}})],
        "a selector maps labels to texts, and matchLabels is none",
    ),
    "a node selector of another kind": (
        [a_template(), a_remediation(nodeSelector={"pool": ["a", "b"]})],
        "a selector maps labels to texts, and pool is none",
    ),
    "a spec of nonsense": (
        [{"apiVersion": API, "kind": "NodeDisruptionBudget", "metadata": {"name": "x"}, "spec": 3}],
        "spec must be a mapping",
    ),
    "an object without a name": ([{"apiVersion": API, "kind": "NodeOperation"}], "metadata.name"),
    "an unknown strategy": (
        [a_template(evictionStrategy="Maybe"), a_remediation()],
        "evictionStrategy is 'Maybe', not one of Evict",
    ),
    "a condition without its status": (
        [a_template(), a_remediation("r", "reboot", {"type": "X"})],
        "each needs a type and a status",
    ),
    "a pod of nonsense": (
        [a_template(job={"template": {"spec": {"containers": ["x"]}}}), a_remediation()],
        "its pod is not as Kubernetes has it",
    ),
    "a job without containers": (
        [a_template(job={"template": {"spec": {}}}), a_remediation()],
        "the Job has no containers",
    ),
}


@pytest.mark.parametrize(("documents", "text"), LOST.values(), ids=LOST)
def test_what_has_no_counterpart_is_said(documents: list[Any], text: str) -> None:
    imported = convert(documents)

    assert noted(imported, text), imported.notes
    assert f"# - {imported.notes[0]}" in imported_text(imported)


def test_lists_are_opened_and_files_hold_many_documents(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": [a_template()]}))
    second.write_text(yaml.safe_dump_all([a_remediation(), a_budget(maxUnavailable=1)]) + "---\n")
    config = accepted(convert(read_manifests([first, second])))

    assert [each.name for each in config.playbooks] == ["bad-node"]
    assert [each.name for each in config.budgets] == ["gpu-pool"]


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    (tmp_path / "latin.yaml").write_bytes(b"\xff")
    with pytest.raises(ConfigError) as caught:
        read_manifests(tmp_path / name for name in ("bad.yaml", "latin.yaml", "none.yaml"))

    text = str(caught.value)
    for words in ("bad.yaml: not YAML", "latin.yaml: not UTF-8", "none.yaml: cannot be read"):
        assert words in text


def test_nothing_to_import_is_an_empty_configuration() -> None:
    assert yaml.safe_load(imported_text(convert([]))) == {}
