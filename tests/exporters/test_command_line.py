"""The command `exporters`: what it offers, and that its children start with little."""

import subprocess
import sys

import pytest

from exporters.__main__ import main
from exporters.commands import HELPERS, SERVICES

HEAVY = ("flask", "structlog", "pydantic", "kubernetes", "prometheus_client")


def test_help_names_every_sub_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert [name for name in (*SERVICES, *HELPERS, "check-config") if name not in said] == []


@pytest.mark.parametrize(
    "argv", [[], ["node-condition"], ["node-conditions"], ["check-config", "nobody", "file"]]
)
def test_a_command_line_that_means_nothing_ends_with_2(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)

    assert ended.value.code == 2
    assert "usage: exporters" in capsys.readouterr().err


def test_the_command_itself_loads_no_library_that_a_child_does_not_need() -> None:
    program = f"import sys, exporters.__main__; print([m for m in {HEAVY} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # fmt: skip

    assert done.stdout.strip() == "[]"
