"""Habits that no tool of ours checks: docstrings, sizes, left-over notes, the README."""

import ast
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ("chassis", "alerts2gh", "sandbox", "remediator", "exporters", "gpu_admission")
MAX_FUNCTION = 60
MAX_FILE = 350
FIRST_SCREEN = 40

# The brackets keep these lines from containing what they look for.
LEFT_OVER = re.compile(r"\b(?:T[O]DO|F[I]XME|X[X]X|NotImplemented[E]rror|s[t]ubs?)\b")


def read_tree() -> Iterator[tuple[str, str]]:
    """Name and content of each text file that is in git, or would be after `git add`; a picture is none."""
    found = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, found.stdout.split("\0")):
        try:
            yield name, (ROOT / name).read_text("utf-8")
        except (UnicodeDecodeError, FileNotFoundError):  # deleted, and not yet out of the index
            continue


TEXTS = dict(read_tree())
MODULES = {name: text for name, text in TEXTS.items() if name.endswith(".py")}
SHIPPED_MODULES = {name: text for name, text in MODULES.items() if name.split("/")[0] in SHIPPED}


def lines_with(pattern: re.Pattern[str], named_texts: Iterable[tuple[str, str]]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in named_texts
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


# Code.


def without_docstring(source: str) -> bool:
    return not (ast.get_docstring(ast.parse(source)) or "").strip()


def long_functions(source: str) -> list[str]:
    return [
        f"{node.name} has {length} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION
    ]


def test_the_walk_finds_the_modules() -> None:
    assert {"chassis/errors.py", "alerts2gh/__main__.py"} <= set(SHIPPED_MODULES)


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, text in MODULES.items() if without_docstring(text)] == []


def test_no_function_is_longer_than_a_screen() -> None:
    found = {name: long_functions(text) for name, text in SHIPPED_MODULES.items()}

    assert {name: each for name, each in found.items() if each} == {}


def test_no_shipped_file_has_grown_too_long() -> None:
    lengths = {name: len(text.splitlines()) for name, text in SHIPPED_MODULES.items()}

    assert {name: length for name, length in lengths.items() if length > MAX_FILE} == {}


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (without_docstring, "import os\n"),
        (without_docstring, '""" """\n'),
        (long_functions, "def f():\n" + "    pass\n" * MAX_FUNCTION),
    ],
    ids=["no docstring", "an empty docstring", "61 lines"],
)
def test_the_checks_of_code_can_fail(check: Callable[[str], object], source: str) -> None:
    assert check(source)


# Words.


def test_no_file_carries_left_over_notes() -> None:
    assert lines_with(LEFT_OVER, TEXTS.items()) == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (LEFT_OVER, "x = 1  # TO~DO: later"),
        (LEFT_OVER, "raise NotImplemented~Error"),
        (LEFT_OVER, "a st~ub"),
    ],
)
def test_the_checks_of_words_can_fail(pattern: re.Pattern[str], line: str) -> None:
    line = line.replace("~", "")

    assert lines_with(pattern, [("file", line)]) == [f"file:1: {line}"]


@pytest.mark.parametrize("line", ["a stubborn case", "to do"])
def test_the_checks_of_words_leave_ordinary_words_alone(line: str) -> None:
    assert lines_with(LEFT_OVER, [("file", line)]) == []


# README and test data.


def make_targets(text: str) -> list[str]:
    """The targets of the `make` commands in a text, in order."""
    return re.findall(r"\bmake ([a-z][\w-]*)", text)


def test_the_first_screen_of_the_readme_has_exactly_the_two_commands() -> None:
    screen = "\n".join(TEXTS["README.md"].splitlines()[:FIRST_SCREEN])

    assert sorted(set(make_targets(screen))) == ["demo", "test"]


def test_other_targets_on_the_first_screen_would_be_noticed() -> None:
    assert make_targets("make demo\nthen `make install`") == ["demo", "install"]


def unused_bad_configs(folders: Iterable[Path], tests: Iterable[str]) -> list[str]:
    """Folders of bad configurations that no test globs, and files that such a glob leaves out."""
    sources = [text for text in tests if ".glob(" in text]
    found = []
    for folder in folders:
        if not any(re.search(rf'"bad_configs" / "{folder.name}"', text) for text in sources):
            found.append(f"{folder.name}/: no test reads it")
        found += [
            f"{folder.name}/{path.name}: not *.yaml"
            for path in folder.iterdir()
            if path.is_file() and path.suffix != ".yaml"
        ]
    return sorted(found)


def test_every_bad_configuration_is_used() -> None:
    folders = [path for path in (ROOT / "tests" / "bad_configs").iterdir() if path.is_dir()]
    tests = [text for name, text in MODULES.items() if "/test_" in name]

    assert folders
    assert unused_bad_configs(folders, tests) == []


def test_an_unused_bad_configuration_would_be_noticed(tmp_path: Path) -> None:
    for name in ("used", "unused"):
        (tmp_path / name).mkdir()
    (tmp_path / "used" / "a.yml").touch()
    reading = 'BAD = HERE / "bad_configs" / "used"\nBAD.glob("*.yaml")\n'

    assert unused_bad_configs([tmp_path / "used", tmp_path / "unused"], [reading]) == [
        "unused/: no test reads it",
        "used/a.yml: not *.yaml",
    ]
