"""For all tests: logging as it is out of the box; what a run could not test, in its last lines, once a reason."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

# How long one example takes says something of the machine's load only. CI tries the same examples each time.
settings.register_profile(
    "unhurried", settings.get_profile("ci" if os.environ.get("CI") else "default"), deadline=None
)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def _unconfigured_logging() -> Iterator[None]:
    """No test inherits the log level or the renderer that another one has set."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped for want of what, and how to get it."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section("not tested here")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} tests: {reason}")
