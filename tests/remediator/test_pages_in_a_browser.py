"""The pages in a real browser: everything is shown, its links lead somewhere, and nothing is refused or run."""

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.serving import make_server

from remediator.cluster import BreakerState, Pause
from remediator.operation import Attempt, AttemptOutcome, HeldBy, HistoryEntry, Phase, Reason
from tests.remediator.building import HOUR, NOW, fleet_of, node_of, pinned
from tests.remediator.test_intake import MemoryDoor
from tests.remediator.test_webhook import app_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0")
HOSTILE = "<img src=x onerror=console.log(1)><script>console.log(2)</script>"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium here; apt-get install chromium"),
]


@contextmanager
def served(app: Flask) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def seen(url: str, profile: Path) -> tuple[str, list[str]]:
    """The document as the browser has built it, and what its console said."""
    assert BROWSER is not None
    command = [BROWSER, *OPTIONS, f"--user-data-dir={profile}", "--dump-dom", url]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return ended.stdout, re.findall(r"CONSOLE.*", ended.stderr)


def app_with_everything() -> Flask:
    entry = HistoryEntry(1, NOW, Phase.GATED, Reason.HELD, 0, 0, f"waits for `x` {HOSTILE}")
    held = pinned(
        held_by=(HeldBy("window", f"outside {HOSTILE}", NOW + HOUR), HeldBy("approval", "waits")),
        message=HOSTILE,
        history=(entry,),
        attempts=(Attempt(0, 1, NOW - HOUR, NOW, AttemptOutcome.FAILED, HOSTILE),),
    )
    ended = pinned("no-2", Phase.SUCCEEDED, node="n2", isolated=False, ended_at=NOW)
    fleet = fleet_of(
        node_of(),
        node_of("n2", ready="Unknown"),
        pause=Pause("ann", HOSTILE),
        breaker=BreakerState(open=True, since=NOW, text=HOSTILE),
    )
    return app_of(MemoryDoor(), (held, ended), fleet)


def test_the_pages_are_shown_without_a_word_from_the_console(tmp_path: Path) -> None:
    with served(app_with_everything()) as url:
        overview, said = seen(f"{url}/", tmp_path / "profile")
        links = re.findall(r'href="(operations/[^"]+)"', overview)
        operation, said_too = seen(f"{url}/{links[0]}", tmp_path / "profile")

    assert said == said_too == []
    assert sorted(links) == ["operations/no-1", "operations/no-2"]
    for text in ("Paused by ann", "The breaker is open", "Active operations", "Ended lately"):
        assert text in overview
    for text in ("Held by", "Attempts", "Timeline", "remediator approve no-1", "60 min"):
        assert text in operation
    assert "<script" not in overview + operation


def test_a_page_that_wanted_to_run_something_would_be_noticed(tmp_path: Path) -> None:
    app = app_with_everything()

    @app.get("/control")
    def control() -> tuple[str, dict[str, str]]:
        header = app.test_client().get("/").headers["Content-Security-Policy"]
        return "<script>document.title = 'ran'</script>", {"Content-Security-Policy": header}

    with served(app) as url:
        document, said = seen(f"{url}/control", tmp_path / "profile")

    assert said
    assert "ran</title>" not in document
