"""All manifests together as a part of the configuration, with what could not be carried over.

Pure. Everything that is imported starts in dry run.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chassis.errors import PermanentError
from remediator.importing.manifests import Manifest, manifest_of, matchers, plain_name
from remediator.importing.repairs import Note, job_template, rung

_CONVERTED = ("NodeOperationTemplate", "NodeRemediationTemplate", "NodeDisruptionBudget")


@dataclass(frozen=True, slots=True)
class Imported:
    """Sections of a configuration, and a sentence for each thing that a person must know."""

    config: Mapping[str, Any]
    notes: tuple[str, ...]


class _Notes:
    """Collects notes, each once, under the name of the object that it is about."""

    def __init__(self) -> None:
        self.told: dict[str, None] = {}

    def of(self, manifest: Manifest) -> Note:
        return lambda text: self.told.setdefault(f"{manifest.title}: {text}", None)


def convert(documents: Iterable[Any]) -> Imported:
    """What these manifests become. An object that makes no sense becomes a note; others go on."""
    notes = _Notes()
    found = _sorted(_flat(documents), notes)
    templates = {each.name: each for each in found["NodeOperationTemplate"]}
    jobs: dict[str, Any] = {}
    for template in templates.values():
        made = _tried(job_template, template, notes)
        if made is not None:
            jobs[plain_name(template.name)] = made
    playbooks, used = _playbooks(found["NodeRemediationTemplate"], templates, jobs, notes)
    for name in sorted(set(templates) - used):
        notes.of(templates[name])(
            "no NodeRemediationTemplate uses it; its Job is kept as a template"
        )
    budgets = [
        budget
        for each in found["NodeDisruptionBudget"]
        if (budget := _tried(_budget, each, notes)) is not None
    ]
    sections = {"playbooks": playbooks, "job_templates": jobs, "budgets": budgets}
    return Imported({key: value for key, value in sections.items() if value}, tuple(notes.told))


def _flat(documents: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    for document in documents:
        if not isinstance(document, Mapping):
            continue
        items = document.get("items")
        if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from _flat(items)
        else:
            yield document


def _sorted(documents: Iterable[Mapping[str, Any]], notes: _Notes) -> dict[str, list[Manifest]]:
    found: dict[str, list[Manifest]] = {kind: [] for kind in _CONVERTED}
    for document in documents:
        try:
            manifest = manifest_of(document)
        except PermanentError as error:
            notes.told[str(error)] = None
            continue
        if manifest is None:
            notes.told[f"{document.get('kind', 'an object')}: not of node-operation-controller"] = (
                None
            )
        elif manifest.kind in found:
            found[manifest.kind].append(manifest)
        else:
            notes.of(manifest)("is made from templates and is not converted")
    return found


def _tried(
    make: Callable[[Manifest, Note], dict[str, Any]], manifest: Manifest, notes: _Notes
) -> dict[str, Any] | None:
    try:
        return make(manifest, notes.of(manifest))
    except PermanentError as error:
        notes.told[f"not converted: {error}"] = None
        return None


def _playbooks(
    remediations: Iterable[Manifest],
    templates: Mapping[str, Manifest],
    jobs: Mapping[str, Any],
    notes: _Notes,
) -> tuple[list[dict[str, Any]], set[str]]:
    playbooks, used = [], set()
    for remediation in remediations:
        name = str(remediation.part("template.spec.nodeOperationTemplateName") or "")
        template = templates.get(name)
        used.add(name)
        if template is None or plain_name(name) not in jobs:
            notes.of(remediation)(f"not converted: there is no usable NodeOperationTemplate {name}")
            continue
        step = _tried(rung, template, notes)
        playbook = _tried(_playbook, remediation, notes)
        if step is not None and playbook is not None:
            playbooks.append({**playbook, "ladder": [step]})
    return playbooks, used


def _playbook(remediation: Manifest, note: Note) -> dict[str, Any]:
    wanted = [_condition(remediation, each) for each in remediation.entries(f"{_RULE}.conditions")]
    if not wanted:
        raise PermanentError(f"{remediation.title}: spec.{_RULE}.conditions is empty")
    note("a condition must now last 1m before it counts; see `for`")
    for each in wanted:
        if each["status"] != "True" and each["type"] != "Ready":
            note(
                f"{each['type']} was a problem when {each['status']}; it still is for operations that it"
                " begins, while one begun by hand takes True for the problem"
            )
    playbook: dict[str, Any] = {
        "name": plain_name(remediation.name),
        "dry_run": True,
        "conditions": {"all": wanted},
        "proof": {"conditions": sorted({each["type"] for each in wanted})},
    }
    return playbook | _only(remediation)


_RULE = "template.spec.rule"


def _condition(remediation: Manifest, entry: Any) -> dict[str, Any]:
    type_, status = (
        (entry.get("type"), entry.get("status")) if isinstance(entry, Mapping) else (None, None)
    )
    if not type_ or status not in {"True", "False", "Unknown"}:
        raise PermanentError(
            f"{remediation.title}: spec.{_RULE}.conditions: each needs a type and a status of"
            ' "True", "False" or "Unknown", in quotes'
        )
    return {"type": str(type_), "status": status}


def _only(remediation: Manifest) -> dict[str, Any]:
    """The node selector."""
    selector = remediation.mapping("nodeSelector")
    return {"nodes": matchers(selector)} if selector else {}


def _budget(budget: Manifest, note: Note) -> dict[str, Any]:
    found: dict[str, Any] = {"name": plain_name(budget.name), "max_unavailable": 1}
    if selector := matchers(budget.mapping("selector")):
        found["selector"] = selector
    if budget.part("taintTargets"):
        note("taintTargets has no counterpart: isolated, NotReady and cordoned nodes count, always")
    most, least = budget.part("maxUnavailable"), budget.part("minAvailable")
    if most == 0:
        raise PermanentError(
            f"{budget.title}: maxUnavailable 0 allows nothing; use `remediator pause`"
        )
    if isinstance(most, int) and not isinstance(most, bool):
        found["max_unavailable"] = most
    elif most is not None:
        raise PermanentError(f"{budget.title}: spec.maxUnavailable must be a number")
    if least is not None:
        note(f"minAvailable {least} has no counterpart: max_unavailable counts those that are away")
    if most is None:
        note("max_unavailable is set to 1; raise it to what the nodes allow")
    return found
