"""What holds for each shipped file of Prometheus rules: promtool proves when each fires, they use what exists, people are told what to do."""

import re
from pathlib import Path

import pytest

from tests.deploy.promql_words import documented, mistakes, words
from tests.deploy.rule_files import FILES, FOLDER, ROOT, RuleFile, run

pytestmark = pytest.mark.timeout(300)

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
each_alert = pytest.mark.parametrize(
    ("file", "alert"),
    [pytest.param(file, alert, id=alert) for file in FILES for alert in file.rules],
)
LOG_LINE = re.compile(r"log lines? (`[a-z_]+`(?: and `[a-z_]+`)*)")


def test_each_file_that_is_shipped_is_looked_at() -> None:
    assert sorted(FOLDER.glob("*-rules.yaml")) == sorted(file.path for file in FILES)


# When they fire.


@each_file
def test_promtool_takes_the_file(promtool: str, file: RuleFile) -> None:
    done = run(promtool, "check", "rules", file.path)

    assert done.returncode == 0, done.stdout + done.stderr


@each_file
def test_the_rules_fire_when_they_should_and_only_then(promtool: str, file: RuleFile) -> None:
    done = run(promtool, "test", "rules", *file.case_files)

    assert done.returncode == 0, done.stdout + done.stderr


@each_file
@pytest.mark.parametrize("firing", [True, False], ids=["fires", "is quiet"])
def test_every_rule_has_a_case_where_it(file: RuleFile, firing: bool) -> None:
    assert [each for each in file.rules if each not in dict(file.expected(firing=firing))] == []


@pytest.mark.slow
@each_file
@pytest.mark.parametrize(
    ("always", "expr"), [(True, "vector(1)"), (False, "vector(0) > 1")], ids=["always", "never"]
)
def test_a_rule_that_fires(
    promtool: str, tmp_path: Path, file: RuleFile, always: bool, expr: str
) -> None:
    """Is noticed by each case that is there for it: the cases can fail."""
    told = run(promtool, "test", "rules", *file.with_all(expr, tmp_path))

    said = told.stdout + told.stderr
    cases = [name for _, name in file.expected(firing=not always)]
    assert [name for name in cases if f"name: {name}" not in said] == []


# What they use.


@each_alert
def test_a_rule_uses_only_metrics_and_labels_that_exist(file: RuleFile, alert: str) -> None:
    expr = file.rules[alert]["expr"]

    assert words(expr).metrics
    assert mistakes(expr, documented() | dict(file.known_elsewhere), file.added) == []


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("rate(alerts2gh_webhooks[5m]) > 0", "no metric alerts2gh_webhooks"),
        ("up == 0", "no metric up"),
        ('alerts2gh_stored{sort="open"} > 0', "alerts2gh_stored has no label sort"),
        ("sum by (repo) (alerts2gh_stored)", "no label repo to group by"),
    ],
)
def test_what_does_not_exist_is_noticed(expression: str, told: str) -> None:
    assert mistakes(expression, documented(), frozenset()) == [told]


# What people read.


def test_no_two_alerts_share_a_name() -> None:
    names = [alert for file in FILES for alert in file.rules]

    assert len(names) == len(set(names))


@each_file
def test_every_alert_has_its_section_and_no_section_is_left_over(file: RuleFile) -> None:
    sections = file.sections()

    assert list(sections) == list(file.rules)
    assert all(sections.values())


@each_alert
def test_an_alert_says_what_is_wrong_how_bad_it_is_and_where_to_read_on(
    file: RuleFile, alert: str
) -> None:
    rule = file.rules[alert]

    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["annotations"]["runbook"] == f"docs/operations.md#{alert.lower()}"


def log_lines(file: RuleFile) -> set[str]:
    """The log lines that sections and descriptions send people to."""
    texts = [*file.sections().values()]
    texts += [each["annotations"]["description"] for each in file.rules.values()]
    return {
        line
        for text in texts
        for found in LOG_LINE.findall(text.replace("\n", " "))
        for line in re.findall(r"`([a-z_]+)`", found)
    }


@each_file
def test_the_log_lines_that_people_are_sent_to_exist(file: RuleFile) -> None:
    code = "".join(
        source.read_text("utf-8")
        for package in file.packages
        for source in (ROOT / package).rglob("*.py")
    )

    assert [line for line in sorted(log_lines(file)) if f'"{line}"' not in code] == []


def test_people_are_sent_to_log_lines() -> None:
    assert sum(len(log_lines(file)) for file in FILES) > 10
