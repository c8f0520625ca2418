"""Whatever an alert says is shown, and does nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts2gh.rendering import sanitising
from alerts2gh.rendering.sizes import cut, utf16_length
from tests.alerts2gh.markdown_judge import addresses, dangers, table_shape, tokens

FRAGMENTS = (
    "@octocat", "@octo-org/everyone", "#12", "octo/repo#12", "GH-12", "fixes #3", "<!--", "-->",
    "https://github.com/octo/repo/issues/1", "https://github.com/o/r/%69ssues/1", "www.github.com/o/r/pull/1",
    "https://grafana.example/d/x?a=1&b=@x|y", "http://user:pw@host/", "javascript:alert(1)",
    "![x](https://evil.example/a.png)", "[x](javascript:x)", "<img src=x>", "<script>", "</details>",
    "deadbeefcafe", "0123456789abcdef0123456789abcdef01234567", "octo@0123abc", "|", "\\", "`", "``",
    "\n", "\r\n", "\u2028", "\x00", "\ud800", "\u202e", "\u200b", "&#64;octocat", "&commat;octocat", "\t",
    "    ", "# ", "- ", "1. ", "> ", "***", "~~~", "```", "[^1]", "[ ]", "$x$", "---", "===", ":--", "|-|",
    "a@b.example", "mailto:a@b.example", "//", ":", ".", ")", "(", "_", "*", "!", "é", "e\u0301", "👩‍👩‍👧",
    "<!-- alerts2gh:end -->", "\n<!-- alerts2gh:end -->\n", "{{ 7 * 7 }}", "xhttps://github.com/o/r/issues/1",
)  # fmt: skip
HOSTILE = st.lists(
    st.sampled_from(FRAGMENTS) | st.text(st.characters(), max_size=4), max_size=12
).map("".join)


@given(HOSTILE)
def test_no_text_in_a_sentence_does_anything(text: str) -> None:
    assert dangers(f"Alert: {sanitising.inline(text)} (end)") == []
    assert dangers(str(sanitising.inline(text))) == []


@given(HOSTILE)
def test_no_description_does_anything_or_makes_structure(text: str) -> None:
    shown = sanitising.lines(text)
    assert dangers(shown) == []
    made = {token.type for token in tokens(shown)} - {"text", "text_special"}
    assert made <= {
        "paragraph_open", "paragraph_close", "inline", "softbreak", "code_inline", "link_open", "link_close",
    }  # fmt: skip


@given(HOSTILE, HOSTILE)
def test_no_value_breaks_a_table(name: str, value: str) -> None:
    first = f"| {sanitising.cell(name)} | x |\n|---|---|\n"
    text = f"{first}| {sanitising.cell(value)} | {sanitising.inline(value)} |\n| a | b |\n"
    assert table_shape(text) == [2, 2, 2]
    assert dangers(text) == []


@given(HOSTILE, HOSTILE)
def test_no_link_leads_anywhere_but_to_a_web_page(url: str, text: str) -> None:
    for address in (url, f"https://{url}", f"https://host.example/{url}"):
        assert dangers(sanitising.link(address, text)) == []


@given(HOSTILE)
def test_code_shows_the_cleaned_text(text: str) -> None:
    shown = [
        token.content for token in tokens(sanitising.code(text)) if token.type == "code_inline"
    ]
    without_space = [each.replace(sanitising.ZERO_WIDTH_SPACE, "") for each in shown]
    assert without_space == ([sanitising.one_line(text)] if sanitising.one_line(text) else [])


@given(HOSTILE)
def test_a_title_is_one_line_without_a_mention(text: str) -> None:
    title = sanitising.title_text(text, 256)
    assert utf16_length(title) <= 256
    assert title.splitlines() in ([], [title])
    assert "@o" not in title
    assert title.encode().decode() == title


@given(HOSTILE, st.integers(1, 40))
def test_a_cut_text_is_short_enough_and_still_text(text: str, limit: int) -> None:
    short = cut(sanitising.clean(text), limit)
    assert utf16_length(short) <= limit
    assert short.encode().decode() == short


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("all is well", "all is well", id="plain words stay as they are"),
        pytest.param(
            "10.0.0.1:9100 is down", "10.0.0.1:9100 is down", id="an instance stays readable"
        ),
        pytest.param("1. first", "1\\. first", id="a number starts no list"),
        pytest.param("- first", "\\- first", id="a dash starts no list"),
        pytest.param("a\nb", "a b", id="a line end becomes a space"),
        pytest.param("a|b", "a&#124;b", id="a bar makes no cell"),
        pytest.param("@octocat", "@\u200boctocat", id="a mention calls nobody"),
        pytest.param("o/r#1", "o/r\\#\u200b1", id="a reference leads nowhere"),
        pytest.param("gh-12", "gh-\u200b12", id="the GH form leads nowhere"),
        pytest.param("high-rise", "high-rise", id="gh in a word is no reference"),
        pytest.param("at deadbeef1 now", "at `deadbeef1` now", id="a commit is shown as code"),
        pytest.param(
            "see https://a.example/x_y.",
            "see [a.example/x\\_y](<https://a.example/x_y>).",
            id="an address in a sentence can be clicked",
        ),
        pytest.param(
            "https://github.com/o/r/issues/1",
            "`https://github.com/o/r/issues/1`",
            id="an issue's address leaves no trace there",
        ),
        pytest.param(
            "down!https://a.example", "down\\![a.example](<https://a.example>)", id="no picture"
        ),
        pytest.param("a\u202eb\u0000c", "abc", id="unseen characters go"),
        pytest.param("a\ud800b", "a\ufffdb", id="half a character becomes the replacement sign"),
    ],
)
def test_inline(text: str, shown: str) -> None:
    assert sanitising.inline(text) == shown


@pytest.mark.parametrize(
    ("url", "leads_to"),
    [
        pytest.param("https://wiki.example/a?b=1&c=2#d", ["https://wiki.example/a?b=1&c=2#d"], id="a web page"),
        pytest.param("http://wiki.example/a b", [], id="not one with a space"),
        pytest.param("javascript:alert(1)", [], id="no script"),
        pytest.param("ftp://host.example/x", [], id="no other scheme"),
        pytest.param("//host.example/x", [], id="not without a scheme"),
        pytest.param("https://me:secret@host.example/", [], id="not one with a password"),
        pytest.param("https://", [], id="not one without a host"),
        pytest.param("https://[::1", [], id="not a broken one"),
        pytest.param("https://github.com/o/r/issues/1", [], id="no issue"),
        pytest.param("https://ghe.example/o/r/pull/1/files", [], id="no pull request of a company's GitHub"),
        pytest.param(
            "https://github.com/o/r/blob/main/runbooks/x.md",
            ["https://github.com/o/r/blob/main/runbooks/x.md"],
            id="a runbook kept on GitHub",
        ),
        pytest.param("https://h.example/>)[x]", ["https://h.example/%3E)%5Bx%5D"], id="signs that end a link are quoted"),
        pytest.param("https://h.example/é", ["https://h.example/%C3%A9"], id="other letters are quoted"),
        pytest.param("https://h.example/?a&lt;b", ["https://h.example/?a&lt;b"], id="an entity stays what it was"),
    ],
)  # fmt: skip
def test_a_link_can_be_clicked_only_when_it_is_safe(url: str, leads_to: list[str]) -> None:
    assert addresses(sanitising.link(url, "Runbook")) == leads_to


def test_no_address_gives_no_text() -> None:
    assert sanitising.link("  ", "Runbook") == ""


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [
        pytest.param("abcdef", 6, "abcdef", id="what fits is not cut"),
        pytest.param("abcdef", 4, "abc…", id="the ellipsis counts"),
        pytest.param("ab🚀cd", 4, "ab…", id="half a rocket is no rocket"),
        pytest.param("abe\u0301fgh", 4, "ab…", id="an accent stays with its letter"),
        pytest.param("ab👩\u200d👧xyz", 6, "ab…", id="a family is not torn apart"),
        pytest.param("abc", 0, "", id="no room, no text"),
    ],
)
def test_cut(text: str, limit: int, short: str) -> None:
    assert cut(text, limit) == short
