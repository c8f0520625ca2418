"""Our block in an issue's text, and what people wrote around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts2gh.rendering import (
    BODY_LIMIT,
    Renderer,
    builtin_templates,
    find_adoptable,
    find_marker,
    find_token,
)
from alerts2gh.rendering.block import BEGIN, END
from alerts2gh.rendering.sizes import utf16_length
from tests.alerts2gh.incident_builders import ID, a_member, an_incident

RENDERER = Renderer(builtin_templates())
FIRING = an_incident()
RESOLVED = an_incident([a_member(firing=False)])
MARKER = f"<!-- alerts2gh:v1:{ID} -->"
OLD = RENDERER.new_body(FIRING, "t.0")
NEW = RENDERER.new_body(RESOLVED, "t.0")
OLD_BLOCK = OLD[OLD.index(BEGIN) + len(BEGIN) : OLD.index(END)]
NEW_BLOCK = NEW[NEW.index(BEGIN) + len(BEGIN) : NEW.index(END)]


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def test_a_new_body_begins_with_the_marker_and_then_the_token() -> None:
    assert OLD.splitlines()[:3] == [MARKER, "<!-- alerts2gh:write:t.0 -->", BEGIN]
    assert OLD.endswith(END)
    assert (find_marker(OLD), find_token(OLD)) == (ID, "t.0")


def test_without_a_token_only_the_marker_stands_above_the_block() -> None:
    assert RENDERER.new_body(FIRING).splitlines()[:2] == [MARKER, BEGIN]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(OLD, NEW, id="nobody wrote anything"),
        pytest.param(f"{OLD}\nMy notes", f"{NEW}\nMy notes", id="notes below stay"),
        pytest.param(
            OLD.replace(BEGIN, f"Read this first\n{BEGIN}"),
            NEW.replace(BEGIN, f"Read this first\n{BEGIN}"),
            id="notes between the marker and the block stay",
        ),
        pytest.param(f"Top!\n\n{OLD}", f"Top!\n\n{NEW}", id="notes above the marker stay"),
        pytest.param(crlf(f"{OLD}\nNotes"), crlf(f"{NEW}\nNotes"), id="the web editor's line ends stay"),
        pytest.param(
            f"{OLD}\n> {BEGIN}\n> quoted\n> {END}",
            f"{NEW}\n> {BEGIN}\n> quoted\n> {END}",
            id="a quoted marker is a person's text",
        ),
        pytest.param(f"{OLD}\n\n{OLD}", f"{NEW}\n\n{OLD}", id="of two copies the first is ours"),
        pytest.param(
            OLD.replace("**1 alert", "PASTED\n**1 alert"), NEW, id="text inside the block is overwritten"
        ),
        pytest.param(
            f"{MARKER}\n{BEGIN}{OLD_BLOCK}\nMine",
            f"{MARKER}\n{BEGIN}{NEW_BLOCK}{END}\n\n{OLD_BLOCK.lstrip()}\nMine",
            id="without the end marker nothing is taken for ours",
        ),
        pytest.param(
            f"{MARKER}\nMine{OLD_BLOCK}{END}\nAlso mine",
            f"{MARKER}\n{BEGIN}{NEW_BLOCK}{END}\n\nMine{OLD_BLOCK}Also mine",
            id="without the begin marker nothing is taken for ours",
        ),
        pytest.param(
            f"{MARKER}\nAll mine now", f"{MARKER}\n{BEGIN}{NEW_BLOCK}{END}\n\nAll mine now",
            id="a deleted block comes back above the text",
        ),
        pytest.param(
            "All mine", f"{MARKER}\n{BEGIN}{NEW_BLOCK}{END}\n\nAll mine", id="a deleted marker comes back"
        ),
        pytest.param("", f"{MARKER}\n{BEGIN}{NEW_BLOCK}{END}", id="an empty body is filled"),
        pytest.param(
            f"<!-- alerts2gh:v1:{'f' * 32} -->\nAdopted",
            f"{MARKER}\n<!-- alerts2gh:v1:{'f' * 32} -->\n{BEGIN}{NEW_BLOCK}{END}\n\nAdopted",
            id="another incident's marker stays, below ours",
        ),
    ],
)  # fmt: skip
def test_only_the_block_changes(old: str, new: str) -> None:
    assert RENDERER.body_with_block(old, RESOLVED) == new
    assert RENDERER.body_with_block(new, RESOLVED) is None
    assert find_marker(new) == ID


HUMAN = st.lists(
    st.sampled_from([BEGIN, END, MARKER, "text", "", "> quote", "-->", "<!--", "| a |", "é🚀", " " + END])
    | st.text(st.characters(codec="utf-8"), max_size=5),
    max_size=6,
)  # fmt: skip


@given(HUMAN, HUMAN, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_no_line_of_a_person_is_lost_and_the_second_pass_changes_nothing(
    above: list[str], below: list[str], newline: str, whole: bool
) -> None:
    block = [BEGIN, *OLD_BLOCK.strip().split("\n"), *([END] if whole else [])]
    old = newline.join([*above, *block, *below])
    new = RENDERER.body_with_block(old, RESOLVED)
    assert new is not None
    assert RENDERER.body_with_block(new, RESOLVED) is None
    marked = {line.strip() for line in above} | (
        set() if whole else {line.strip() for line in below}
    )
    if not {BEGIN, END} & marked:  # else a person's own markers say which part is ours
        theirs = [line for line in (*above, *below) if line.strip() not in {BEGIN, END}]
        assert all(line in new for line in theirs)


def test_unchanged_facts_leave_the_body_alone() -> None:
    assert RENDERER.body_with_block(OLD, FIRING) is None
    assert RENDERER.body_with_block(crlf(OLD), FIRING) is None


def test_a_body_full_of_notes_gets_a_short_block() -> None:
    notes = "n" * (BODY_LIMIT - 1_000)
    many = an_incident([a_member(f"m{at}") for at in range(40)])
    new = RENDERER.body_with_block(f"{OLD}\n{notes}"[:BODY_LIMIT], many)
    assert new is not None
    assert utf16_length(new) <= BODY_LIMIT
    assert "**40 alerts firing**" in new
    assert new.endswith(notes[:1000])


def test_a_body_without_any_room_is_left_alone() -> None:
    assert RENDERER.body_with_block("n" * BODY_LIMIT, FIRING) is None


def test_equal_hashes_mean_equal_blocks() -> None:
    assert RENDERER.block_hash(FIRING) == RENDERER.block_hash(an_incident())
    assert RENDERER.block_hash(FIRING) != RENDERER.block_hash(RESOLVED)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param(f"text {MARKER}", None, id="not inside a line"),
        pytest.param(f"> {MARKER}", None, id="not quoted"),
        pytest.param(f"text\r\n{MARKER}\r\nmore", ID, id="below a person's text"),
        pytest.param("<!-- alerts2gh:v1:xyz -->", None, id="not a broken one"),
    ],
)
def test_a_marker_counts_only_on_a_line_of_its_own(body: str, found: str | None) -> None:
    assert find_marker(body) == found


def test_the_id_of_alertmanager_to_github_is_read_for_adoption() -> None:
    old = f"table\n\n<!-- (UNIQUE ALERT ID, DO NOT MODIFY: {'ab' * 32} ) -->\n"
    assert find_adoptable(old) == "ab" * 32
    assert find_marker(old) is None
    assert find_adoptable(OLD) is None
