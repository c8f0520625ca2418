"""The client against a real Alertmanager: what is silenced is still there."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from chassis.alertmanager import fingerprint
from chassis.monitoring import Access, AlertmanagerClient

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")

pytestmark = [
    pytest.mark.needs("prometheus-alertmanager"),
    pytest.mark.skipif(
        PROGRAM is None,
        reason="no Alertmanager here; Debian: apt-get install prometheus-alertmanager",
    ),
]

CONFIG = """
route: {receiver: none, group_wait: 0s}
receivers: [{name: none}]
inhibit_rules: [{source_matchers: [alertname=Louder], target_matchers: [alertname=Both]}]
"""


def eventually(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 20
    while not (result := holds()):
        assert time.monotonic() < deadline, "did not happen within 20 s"
        time.sleep(0.02)
    return result


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "am.yaml").write_text(CONFIG)
    log = tmp_path / "log"
    arguments = [
        str(PROGRAM),
        f"--config.file={tmp_path / 'am.yaml'}",
        f"--storage.path={tmp_path / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        "--cluster.listen-address=",
    ]
    with log.open("w") as output, subprocess.Popen(arguments, stderr=output, stdout=output) as run:

        def port() -> str | None:
            assert run.poll() is None, log.read_text()
            found = re.search(r"[Ll]istening on.*127\.0\.0\.1:([1-9]\d*)", log.read_text())
            return found and found[1]

        try:
            yield f"http://127.0.0.1:{eventually(port)}"
        finally:
            run.terminate()


def post(url: str, path: str, body: Any) -> None:
    requests.post(url + path, json=body, timeout=10).raise_for_status()


def silence(url: str, alertname: str, *, by: str = "test", comment: str = "test") -> None:
    now = datetime.now(UTC)
    matcher = {"name": "alertname", "value": alertname, "isRegex": False, "isEqual": True}
    body = {
        "matchers": [matcher],
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
        "createdBy": by,
        "comment": comment,
    }
    post(url, "/api/v2/silences", body)


def silenced(url: str) -> list[Any]:
    alerts = requests.get(f"{url}/api/v2/alerts", timeout=10).json()
    return [alert for alert in alerts if alert["status"]["silencedBy"]]


def test_a_silenced_alert_is_listed_and_a_resolved_one_is_not(url: str) -> None:
    client = AlertmanagerClient(Access(url))
    before = datetime.now(UTC)
    labels = {"alertname": "Quiet", "node": 'gpu-"1" ü'}
    ended = (before - timedelta(minutes=1)).isoformat()
    began = (before - timedelta(minutes=5)).isoformat()

    silence(url, "Quiet")
    post(
        url,
        "/api/v2/alerts",
        [
            {"labels": labels, "startsAt": began},
            {"labels": {"alertname": "Loud"}, "startsAt": began},
            {"labels": {"alertname": "Over"}, "startsAt": began, "endsAt": ended},
        ],
    )
    eventually(lambda: silenced(url))

    alerts = {alert.labels["alertname"]: alert for alert in client.alerts()}
    assert set(alerts) == {"Quiet", "Loud"}
    assert alerts["Quiet"].labels == labels
    assert alerts["Quiet"].fingerprint == fingerprint(labels)
    assert abs(alerts["Quiet"].starts_at - (before - timedelta(minutes=5))) < timedelta(seconds=1)
    assert before - timedelta(minutes=1) < client.started_at() <= datetime.now(UTC)


def test_who_silenced_an_alert_and_why_is_told_by_its_fingerprint(url: str) -> None:
    client = AlertmanagerClient(Access(url))
    began = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    names = ("Quiet", "Both", "Louder")
    assert client.silenced() == {}

    silence(url, "Quiet", by="ann", comment="rack 4 is being moved")
    silence(url, "Quiet", by="bob", comment="so is rack 5")
    silence(url, "Both", by="eve", comment="an alert that is inhibited as well")
    alerts = [{"labels": {"alertname": each}, "startsAt": began} for each in names]
    post(url, "/api/v2/alerts", alerts)
    eventually(lambda: [each for each in silenced(url) if each["status"]["inhibitedBy"]])

    told = client.silenced()
    of = {each: fingerprint({"alertname": each}) for each in names}
    assert set(told) == {of["Quiet"], of["Both"]}
    assert set(told[of["Quiet"]].split("; ")) == {
        "by ann: rack 4 is being moved",
        "by bob: so is rack 5",
    }
    assert told[of["Both"]] == "by eve: an alert that is inhibited as well"
