"""An admin's templates: what they can do, what is refused, and that none holds up an issue."""

from functools import cache

import pytest
from hypothesis import given, settings

from alerts2gh.config import TemplateNames
from alerts2gh.rendering import Renderer, TemplateMistakes, builtin_templates
from tests.alerts2gh.incident_builders import a_member, an_incident
from tests.alerts2gh.markdown_judge import dangers
from tests.alerts2gh.test_rendering_sanitising import HOSTILE

BUILTIN = builtin_templates()
BOTH = TemplateNames(title="t.j2", body="t.j2", comment="t.j2")


@cache
def renderer(source: str) -> Renderer:
    return Renderer(BUILTIN, {"t.j2": source})


def body(source: str, **labels: str) -> str:
    member = a_member(labels={"alertname": "A", "node": "n1", **labels})
    incident = an_incident([member], labels={}, templates=TemplateNames(body="t.j2"))
    return renderer(source).new_body(incident).split("\n", 2)[2].rsplit("\n", 1)[0]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("Hello", "Hello", id="plain words"),
        pytest.param("{{ alertname }} on {{ labels.node }}", "A on n1", id="a label by its name"),
        pytest.param("[{{ labels.nothing }}]", "[]", id="a label that is not there is empty"),
        pytest.param("{% if labels.nothing %}x{% else %}y{% endif %}", "y", id="and counts as no"),
        pytest.param("{% for a in alerts %}{{ a.status }};{% endfor %}", "firing;", id="a loop"),
        pytest.param("{{ alerts|length * 2 + 1 }}", "3", id="arithmetic with numbers"),
        pytest.param('{{ labels["x"] }}', "@\u200bocto", id="a value is harmless by itself"),
        pytest.param('{{ labels["x"] ~ "#1" }}', "@\u200bocto\\#\u200b1", id="also when put together"),
        pytest.param("{{ labels.x|code ~ labels.x }}", "\\`@\u200bocto\\`@\u200bocto", id="also behind code"),
        pytest.param("{{ labels.x|code|upper }}", "\\`@\u200bOCTO\\`", id="also when code is changed"),
        pytest.param("{{ labels.x|upper }}", "@\u200bOCTO", id="also when changed"),
        pytest.param("{{ labels.values()|join(',') }}", "A,n1,@\u200bocto", id="also when joined"),
        pytest.param("{{ labels.x.split('c') }}", "\\['@\u200bo', 'to'\\]", id="also in a list"),
        pytest.param("@octo-org/gpu {{ labels.node }}", "@octo-org/gpu n1", id="the admin's own mention stays"),
        pytest.param("{{ labels.x|code }}", "`@octo`", id="code"),
        pytest.param("{{ 'https://a.example'|link('Wiki') }}", "[Wiki](<https://a.example>)", id="a link"),
    ],
)  # fmt: skip
def test_a_template_says(source: str, text: str) -> None:
    assert body(source, x="@octo") == text


@settings(max_examples=50, deadline=None)
@given(HOSTILE)
def test_no_filter_makes_a_value_do_anything(value: str) -> None:
    source = (
        "start {{ labels.x }} {{ labels.x|upper }} {{ labels.x|code ~ labels.x }} {{ [labels.x] }}"
        " {{ labels.x|replace('o', 'p') }} {{ labels.x|lines|truncate(20) }} {{ labels|string }}"
        " {{ labels.x|urlencode }} {{ labels|dictsort }} {{ labels.x|link(labels.x) }} end"
    )
    assert dangers(body(source, x=value)) == []


@pytest.mark.parametrize(
    ("source", "mistake"),
    [
        pytest.param("{{ nope }}", "t.j2: nothing is called 'nope'; use alertname, ", id="an unknown name"),
        pytest.param(
            "{% for a in alerts %}{{ a.lables }}{% endfor %}", "has no attribute 'lables'", id="an unknown field"
        ),
        pytest.param("a\n{% if %}", "t.j2:2: Expected an expression", id="no Jinja2"),
        pytest.param("{{ alertname|shout }}", "t.j2:1: No filter named 'shout'", id="an unknown filter"),
        pytest.param("{{ labels.x|safe }}", "No filter named 'safe'", id="no way round the escaping"),
        pytest.param("{% macro m() %}x{% endmacro %}", "t.j2:1: Macro is not available", id="a macro"),
        pytest.param("{% set x %}y{% endset %}", "t.j2:1: AssignBlock is not available", id="a block in a variable"),
        pytest.param('{% include "/etc/passwd" %}', "t.j2:1: Include is not available", id="an include"),
        pytest.param('{{ "x" * 1000000000 }}', "t.j2: * works with numbers only", id="a text of a gigabyte"),
        pytest.param("{{ 9 ** 9 ** 9 }}", "t.j2: ** works with numbers only", id="a number of a gigabyte"),
        pytest.param('{{ "%999999999d" % 1 }}', "% works with numbers only", id="a padded number"),
        pytest.param('{{ "x".ljust(999999999) }}', "t.j2: access to attribute 'ljust'", id="a padded text"),
        pytest.param('{{ "{:999999999}".format(1) }}', "access to attribute 'format'", id="a formatted text"),
        pytest.param("{{ alerts.__class__ }}", "access to attribute '__class__'", id="a way to Python"),
        pytest.param("{{ labels._values }}", "access to attribute '_values'", id="an inner part"),
        pytest.param("{{ range(10) }}", "nothing is called 'range'", id="range"),
        pytest.param("{{ 1 / 0 }}", "t.j2: division by zero", id="a division by zero"),
        pytest.param("x" * 100_001, "t.j2: longer than 100,000 characters", id="a book"),
        pytest.param(
            "{% set l = 'abcdefghijabcdefghijabcdefghijabcdefghij' %}"
            "{% for a in l %}{% for b in l %}{% for c in l %}{% for d in l %}{% endfor %}{% endfor %}"
            "{% endfor %}{% endfor %}",
            "t.j2: more than 200,000 steps in loops",
            id="loops without end",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told_when_the_template_is_loaded(source: str, mistake: str) -> None:
    with pytest.raises(TemplateMistakes) as told:
        renderer(source)
    assert mistake in told.value.mistakes[0]
    assert len(told.value.mistakes) == 1


def test_every_template_with_a_mistake_is_named() -> None:
    with pytest.raises(TemplateMistakes) as told:
        Renderer(BUILTIN, {"a": "{{ x }}", "b": "fine", "c": "{% if %}"})
    assert [mistake[:2] for mistake in told.value.mistakes] == ["a:", "c:"]


FAILS_LATER = "{% if labels.node == 'n1' %}{{ labels.node|int // 0 }}{% endif %}fine"


def test_a_template_that_fails_on_an_incident_gives_way_and_the_issue_says_so() -> None:
    incident = an_incident([a_member(labels={"alertname": "A", "node": "n1"})], templates=BOTH)
    ours = renderer(FAILS_LATER)
    plain = an_incident([a_member(labels={"alertname": "A", "node": "n1"})])
    text = ours.new_body(incident)
    assert "**1 alert firing**" in text
    assert text.count("A template of this route failed") == 2
    assert "`t.j2: integer division or modulo by zero`" in text
    assert ours.title(incident) == Renderer(BUILTIN).title(plain)
    assert ours.comment(incident, []) == Renderer(BUILTIN).comment(plain, [])


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        pytest.param(TemplateNames(body="gone.j2"), "gone.j2: no template of this name", id="a removed file"),
        pytest.param(TemplateNames(title="empty.j2"), "empty.j2: the title is empty", id="an empty title"),
        pytest.param(TemplateNames(body="empty.j2"), "empty.j2: its text is empty", id="an empty body"),
        pytest.param(TemplateNames(body="long.j2"), "long.j2: its text is empty or longer", id="no room"),
    ],
)  # fmt: skip
def test_the_built_in_text_stands_in(names: TemplateNames, reason: str) -> None:
    own = {"empty.j2": "{# nothing #}", "long.j2": "x" * 70_000}
    incident = an_incident(templates=names)
    ours = Renderer(BUILTIN, own)
    assert reason in ours.new_body(incident)
    assert "**1 alert firing**" in ours.new_body(incident)
    assert ours.title(incident) == "GPUDown"


def test_a_title_template_is_plain_text() -> None:
    member = a_member(labels={"alertname": "A_b", "node": "n*1"})
    incident = an_incident([member], labels={}, templates=TemplateNames(title="t.j2"))
    title = renderer("{{ alertname }} on {{ labels.node|code }}\n(second line)").title(incident)
    assert title == "A_b on n*1 (second line)"


def test_a_long_list_of_an_own_template_is_shortened_until_it_fits() -> None:
    source = "{% for a in alerts %}{{ a.labels.node }} {{ a.summary }}\n{% endfor %}{{ left_out }} left out"
    members = [a_member(f"n{at}", annotations={"summary": "s" * 900}) for at in range(200)]
    text = renderer(source).new_body(an_incident(members, templates=TemplateNames(body="t.j2")))
    assert 0 < int(text.split(" left out")[0].rsplit("\n", 1)[1]) < 200
    assert len(text) < 61_000
