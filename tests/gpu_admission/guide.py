"""Reads docs/gpu-admission.md the way its reader does: an example changes the shipped catalogue, a table tells what follows."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_admission.catalogue import (
    Catalogue,
    CatalogueSettings,
    NamespaceView,
    compile_catalogue,
)
from gpu_admission.mutation import Decision, Denied, Mutated
from tests.gpu_admission.admitting import HIGH, LOW, NOW, P, decide
from tests.project.test_docs import CODE, RULE

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "gpu-admission.md"
SHIPPED = ROOT / "deploy/gpu-admission/base/catalogue.yaml"
PRIORITIES = {"low": LOW, "high": HIGH}


@dataclass(frozen=True)
class Row:
    """A row of a table, with the catalogue that holds there."""

    heading: str
    head: tuple[str, ...]
    cells: tuple[str, ...]
    catalogue: Catalogue

    @property
    def ask(self) -> str:
        """`gpu-any: 1`."""
        return str(CODE.findall(self.cells[0])[0])

    @property
    def namespace(self) -> NamespaceView:
        """The second code span, if any, and labels like `team=eval` after it."""
        _, *more = CODE.findall(self.cells[0])
        name, *labels = more or ["team"]
        return NamespaceView(name, dict(each.split("=") for each in labels))


def text() -> str:
    """The guide."""
    return GUIDE.read_text("utf-8")


def merged(fragment: dict[str, Any]) -> Catalogue:
    """The shipped catalogue with a fragment of the guide: models by their ids, other keys as a whole."""
    whole = yaml.safe_load(SHIPPED.read_text("utf-8"))
    models = {each["id"]: each for each in whole["models"]}
    for model in fragment.get("models", []):
        models[model["id"]] = {**models.get(model["id"], {}), **model}
    return compile_catalogue(
        CatalogueSettings.model_validate({**whole, **fragment, "models": list(models.values())})
    )


def rows(markdown: str) -> Iterator[Row]:
    """Every row of every table; an example counts until the next one or the next heading."""
    heading, head, catalogue = "", None, merged({})
    lines = iter(markdown.splitlines())
    for line in lines:
        if line.startswith("#"):
            heading, catalogue = line.lstrip("# "), merged({})
        elif line.startswith("```"):
            body = "\n".join(iter(lambda: next(lines), "```"))
            if line == "```yaml" and "kind: Pod" not in body:
                catalogue = merged(yaml.safe_load(body))
        if not line.startswith("|"):
            head = None
            continue
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if head is None:
            head = cells
        elif not RULE.fullmatch(line):
            yield Row(heading, head, cells, catalogue)


def answer(row: Row, class_name: str) -> str:
    """What becomes of the ask, in the guide's words."""
    return told(decide(a_pod(row.ask, class_name), row.catalogue, row.namespace, NOW))


def a_pod(ask: str, class_name: str) -> dict[str, Any]:
    """A pod with one container `train` that asks for this, as an API server completes it."""
    key, _, amount = ask.partition(": ")
    limits = {key if "/" in key else P + key.removeprefix("gpu-"): amount}
    container = {"name": "train", "resources": {"limits": limits, "requests": dict(limits)}}
    return {
        "metadata": {"name": "train"},
        "spec": {"priority": PRIORITIES[class_name], "containers": [container]},
    }


def told(decision: Decision) -> str:
    """A decision as a cell of the guide's tables."""
    if isinstance(decision, Denied):
        return f"denied: `{decision.text}`"
    warned = "".join(f"; warned: `{each}`" for each in decision.warnings)
    if isinstance(decision, Mutated):
        assert decision.selection is not None
        models = ", ".join(f"`{each.text}`" for each in decision.selection.variants)
        return f"on {models}{warned}"
    return f"let in as it is{warned}"


def blocks(language: str) -> list[str]:
    """The texts between fences of this language, empty for none; without their indentation."""
    found: list[list[str]] = []
    inside: str | None = None
    for line in text().splitlines(keepends=True):
        fence = line.strip().startswith("```")
        if fence and inside is None:
            inside = line.strip().removeprefix("```")
            found += [[]] if inside == language else []
        elif fence:
            inside = None
        elif inside == language:
            found[-1].append(line)
    return [textwrap.dedent("".join(lines)) for lines in found]
