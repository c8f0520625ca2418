"""A configuration that cannot be used is told about in one line a mistake."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from chassis.config import Duration, MatcherList, SecretFile, Settings, load_settings
from chassis.errors import ConfigError

BAD = Path(__file__).parents[1] / "bad_configs" / "chassis"


class Limits(Settings):
    max_unavailable: Annotated[int, Field(ge=1)]
    wait: Duration


class Repository(Settings):
    name: str
    assignees: tuple[str, ...] = ()


class Local(Settings):
    kind: Literal["local"]
    mode: Literal["fast", "safe"] = "safe"


class Remote(Settings):
    kind: Literal["remote"]
    url: str


class Example(Settings):
    listen: str
    limits: Limits
    repositories: tuple[Repository, ...] = ()
    token_file: SecretFile | None = None
    match: MatcherList = ()
    target: Annotated[Local | Remote, Field(discriminator="kind")] | None = None
    owners: dict[str, str] | None = None
    since: str = ""
    colours: dict[str, Limits] | None = None


GOOD = "listen: 127.0.0.1:8080\nlimits: {max_unavailable: 2, wait: 5m}\n"


def mistakes_of(path: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_settings(path, Example)
    return caught.value.mistakes


@pytest.mark.parametrize("path", sorted(BAD.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_way_to_be_wrong_has_its_own_line(path: Path) -> None:
    expected = path.read_text().splitlines()[0].removeprefix("# expect: ")

    assert mistakes_of(path) == (f"{path}: {expected.replace('FOLDER', str(BAD))}",)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("limits: {max_unavailable: x, wait: soon, more: 1}\n")

    assert [line.removeprefix(f"{path}: ") for line in mistakes_of(path)] == [
        "listen: missing; add it",
        "limits.max_unavailable: must be a valid integer",
        "limits.wait: not a duration; write a number and a unit, like 30s or 1h30m",
        "limits.more: unknown key; valid keys here: max_unavailable, wait",
    ]


def test_a_mistake_below_a_free_key_names_the_key(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"{GOOD}colours: {{red: {{max_unavailable: 1, wit: 5m}}}}\n")

    assert mistakes_of(path) == (f'{path}: colours.red.wit: unknown key; did you mean "wait"?',)


def test_a_missing_file_is_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"

    assert mistakes_of(path) == (f"{path}: cannot be read: No such file or directory",)


def test_an_empty_file_lacks_what_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("# nothing yet\n")

    assert mistakes_of(path) == (
        f"{path}: listen: missing; add it",
        f"{path}: limits: missing; add it",
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"a: \xff\n", "not UTF-8 text (byte 3)", id="bytes that are no UTF-8"),
        pytest.param(b"a: \x00\n", "character 3 (U+0000) is not allowed in YAML", id="NUL"),
        pytest.param(b"a: \x1b[0m\n", "character 3 (U+001B) is not allowed in YAML", id="escape"),
        pytest.param(b"[" * 50_000, "nested too deeply", id="deep nesting"),
    ],
)
def test_a_file_that_is_no_text_is_told(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(content)

    assert mistakes_of(path) == (f"{path}: {told}",)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b" \n", "is empty; put the secret into it", id="empty"),
        pytest.param(b"\xff\xfe", "is not UTF-8 text", id="no text"),
        pytest.param(b"x" * (2 << 20), "is larger than 1 MiB, so it is no secret", id="too large"),
    ],
)
def test_an_unusable_secret_file_is_told_without_its_content(
    tmp_path: Path, content: bytes, told: str
) -> None:
    path, secret = tmp_path / "c.yaml", tmp_path / "token"
    path.write_text(f"{GOOD}token_file: token\n")
    secret.write_bytes(content)

    assert mistakes_of(path) == (f"{path}: token_file: {secret} {told}",)


def test_a_refused_value_is_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"{GOOD}password: hunter2hunter2\nrepositories: [hunter2hunter2]\n")

    assert "hunter2" not in "".join(mistakes_of(path))


def test_the_text_of_the_error_is_all_its_lines() -> None:
    assert str(ConfigError(["a: b", "c: d"])) == "a: b\nc: d"
