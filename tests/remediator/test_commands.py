"""The commands: what they print, what they end with, and that those which only look change nothing."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from prometheus_client import CollectorRegistry

from chassis.errors import PermanentError
from chassis.kube_client import CONFIG_MAPS, NAMESPACES, NODES, Forbidden
from remediator import commands
from remediator.__main__ import main
from remediator.config import Config
from remediator.intake import Intake
from remediator.kube_cluster import NODE_OPERATIONS, KubeCluster, KubeDoor
from remediator.metrics import IntakeMetrics
from remediator.operation import (
    APPROVED_BY,
    CANCELLED_BY,
    PAUSED,
    RELEASE_REQUESTED_BY,
    OperationStatus,
    Phase,
)
from sandbox.kubernetes_server import SandboxKubernetes
from tests.journeys.remediator_world import webhook
from tests.remediator.building import config_of, playbook_of
from tests.remediator.test_kube_cluster_effects import Bench, now

LOG = structlog.get_logger()
PLAYBOOK = playbook_of(
    match=['alertname="GPURuntimeError"'],
    proof={"soak": "1m", "deadline": "10m", "alerts": False},
)


class Counter(Bench):
    """A desk on a cluster with one node; `printed` is what the commands wrote."""

    def __init__(self, server: SandboxKubernetes, kubeconfig: Path) -> None:
        super().__init__(server, kubeconfig)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nodemend"}}
        self.client.create(NAMESPACES, space)
        self.out = io.StringIO()
        self.config = config_of(PLAYBOOK)
        self.desk = self.desk_of(self.config)

    def desk_of(self, config: Config) -> commands.Desk:
        cluster = KubeCluster(self.client, config, clock=now, log=LOG)
        door = KubeDoor(cluster, watched=False)
        metrics = IntakeMetrics(CollectorRegistry())
        intake = Intake(door, lambda: config, clock=now, metrics=metrics, log=LOG)
        return commands.Desk(self.client, cluster, intake, config, now, self.out)

    @property
    def printed(self) -> str:
        return self.out.getvalue()

    def word(self, key: str) -> str:
        """A person's word on the operation."""
        metadata = self.client.get(NODE_OPERATIONS, "no-1")["metadata"]
        return str((metadata.get("annotations") or {}).get(key))

    def now_in(self, phase: Phase) -> None:
        """Put the operation into a phase."""
        current = self.cluster.shelf.refresh("no-1")
        assert current is not None
        assert current.operation is not None
        self.cluster.record(current.operation, OperationStatus(phase=phase, since=now()))


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[Counter]:
    with SandboxKubernetes(scheduler=False) as server:
        one = Counter(server, server.kubeconfig(tmp_path / "kubeconfig"))
        yield one
        one.cluster.stop()
        one.client.close()


def test_a_persons_words_carry_the_name_that_the_api_knows_them_by(counter: Counter) -> None:
    commands.approve(counter.desk, "no-1")
    commands.cancel(counter.desk, "no-1")
    counter.now_in(Phase.ESCALATED)
    commands.release(counter.desk, counter.node)

    for key in (APPROVED_BY, CANCELLED_BY, RELEASE_REQUESTED_BY):
        assert counter.word(key) == "admin"


@pytest.mark.parametrize(
    ("phase", "command", "told"),
    [
        (Phase.DRAINING, "approve", "waits for no approval"),
        (Phase.SUCCEEDED, "cancel", "has ended"),
        (Phase.DRAINING, "release", "is Draining"),
    ],
)
def test_a_word_that_would_mean_nothing_is_refused(
    counter: Counter, phase: Phase, command: str, told: str
) -> None:
    counter.now_in(phase)
    target = counter.node if command == "release" else "no-1"

    with pytest.raises(PermanentError, match=told):
        getattr(commands, command)(counter.desk, target)


def test_an_operation_that_is_not_there_is_told(counter: Counter) -> None:
    with pytest.raises(PermanentError, match="there is no operation no-9"):
        commands.approve(counter.desk, "no-9")


def test_by_hand_an_operation_begins_and_joins_the_one_that_runs(counter: Counter) -> None:
    counter.client.delete(NODE_OPERATIONS, "no-1")
    counter.cluster.set_finalizer("no-1", wanted=False)

    assert commands.run(counter.desk, "gpu", counter.node, "firmware") == 0
    assert commands.run(counter.desk, "gpu", counter.node, "again") == 1

    (made,) = counter.client.list(NODE_OPERATIONS).items
    assert made["spec"]["requestedBy"] == "admin"
    assert made["spec"]["causes"][0]["kind"] == "person"
    with pytest.raises(PermanentError, match="no playbook is called other"):
        commands.run(counter.desk, "other", counter.node, "")
    with pytest.raises(PermanentError, match="no node is called"):
        commands.run(counter.desk, "gpu", "not-a-node", "")


def test_a_pause_and_its_end_are_kept_in_one_place(counter: Counter) -> None:
    commands.pause(counter.desk, "", "moving racks")
    commands.status(counter.desk)
    assert "paused by admin: moving racks" in counter.printed

    commands.resume(counter.desk, "")
    data = counter.client.get(CONFIG_MAPS, counter.config.leader.state, "nodemend")["data"]
    assert json.loads(data["pause"]) == {}


def test_one_node_can_be_paused_by_itself(counter: Counter) -> None:
    commands.pause(counter.desk, counter.node, "new disks")
    annotations = counter.client.get(NODES, counter.node)["metadata"]["annotations"]
    assert annotations[PAUSED] == "admin: new disks"

    commands.resume(counter.desk, counter.node)
    metadata = counter.client.get(NODES, counter.node)["metadata"]
    assert PAUSED not in (metadata.get("annotations") or {})


def test_status_tells_what_is_active_and_why(counter: Counter) -> None:
    commands.status(counter.desk)

    assert f"no-1       {counter.node}" in counter.printed
    assert "1 active, 0 ended" in counter.printed
    assert "wait for a person" not in counter.printed

    counter.now_in(Phase.ESCALATED)
    commands.status(counter.desk)
    assert "when the node is well, `remediator release NODE`" in counter.printed


def explained(counter: Counter, body: dict[str, Any], tmp_path: Path) -> int:
    payload = tmp_path / "payload.json"
    payload.write_text(json.dumps(body))
    alerts = commands.read_payload(payload, io.BytesIO())
    return commands.explain(alerts, counter.config, counter.desk, counter.out, LOG)


def test_explain_says_playbook_gates_and_steps_and_changes_nothing(
    counter: Counter, tmp_path: Path
) -> None:
    (other,) = counter.server.add_nodes(1)
    commands.pause(counter.desk, "", "moving racks")
    before = len(counter.client.list(NODE_OPERATIONS).items)

    assert explained(counter, webhook(other), tmp_path) == 0

    for text in ("playbook gpu", "held now by pause", "1. isolate the node", "reboot"):
        assert text in counter.printed
    assert len(counter.client.list(NODE_OPERATIONS).items) == before


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (webhook("not-a-node"), "unknown_node"),
        (webhook("x", alertname="Other"), "no_playbook"),
        (webhook("x", status="resolved"), "resolved"),
    ],
    ids=["a node that is not there", "no playbook", "resolved"],
)
def test_explain_says_why_an_alert_begins_nothing(
    counter: Counter, tmp_path: Path, body: dict[str, Any], told: str
) -> None:
    assert explained(counter, body, tmp_path) == 1
    assert told in counter.printed


def written(folder: Path, **config: Any) -> Path:
    file = folder / "remediator.yaml"
    file.write_text(yaml.safe_dump({"playbooks": [PLAYBOOK], **config}))
    return file


def test_check_config_takes_a_good_file_and_names_what_stays_in_dry_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-config", str(written(tmp_path, dry_run=True))]) == 0
    assert "in dry run" in capsys.readouterr().out


def test_check_config_tells_each_mistake_on_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, budgets=[{"name": "b", "max_unavailable": 0}], nonsense=1)

    assert main(["check-config", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"{file}: ") for line in lines)


def test_a_cluster_that_cannot_be_reached_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, kubernetes={"kubeconfig": str(tmp_path / "missing")})

    assert main(["status", "--config", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"there is no kubeconfig {tmp_path}/missing; name one with --kubeconfig"


def test_an_api_that_does_not_answer_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SandboxKubernetes(scheduler=False) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")

    assert main(["status", "--kubeconfig", str(kubeconfig)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("remediator: ")


def test_import_prints_a_configuration_and_what_has_no_counterpart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text("{")
    assert main(["import", str(manifest)]) == 2
    assert "not YAML" in capsys.readouterr().err
    manifest.write_text("")
    assert main(["import", str(manifest)]) == 0


def test_without_a_file_people_speak_through_their_own_kubeconfig(
    counter: Counter,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    for command in (
        ["approve", "no-1"],
        ["pause", "--reason", "moving racks"],
        ["status"],
        ["resume"],
    ):
        assert main(command) == 0, command
    told = capsys.readouterr().out

    assert counter.word(APPROVED_BY) == "admin"
    assert "paused by admin: moving racks" in told


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["run", "gpu", "not-a-node"], "no node is called 'not-a-node'"),
        (["approve", "no-9"], "there is no operation no-9; `remediator status` lists them"),
        (["cancel", "no-9"], "there is no operation no-9"),
        (["release", "not-a-node"], "no operation on node not-a-node waits for a person"),
        (["pause", "--node", "not-a-node"], "no node is called not-a-node; `kubectl get nodes`"),
        (["resume", "--node", "not-a-node"], "no node is called not-a-node"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_is_not_there_is_told_in_one_line(
    counter: Counter,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    told: str,
) -> None:
    assert counter.node
    assert main([*command, "--kubeconfig", str(tmp_path / "kubeconfig")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_check_config_tells_what_may_not_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"pod": {"containers": [{"name": "a", "image": "b"}]}}
    file = written(
        tmp_path,
        windows={"night": {"start": "22:00", "end": "06:00"}},
        job_templates={"bmc": job},
        breaker={"enabled": False},
    )

    assert main(["check-config", str(file)]) == 0
    told = capsys.readouterr().out
    for text in (
        "usable: 1 playbook, 0 budgets",
        "no budgets",
        "the breaker is switched off",
        "no alertmanagers",
        "windows: no playbook uses night",
        "job_templates: no playbook uses bmc",
    ):
        assert text in told
    assert "in dry run" not in told


def test_whoever_has_no_right_is_told_where_the_roles_are() -> None:
    error = Forbidden("GET /x:\n403 Forbidden", status=403, reason="Forbidden")

    assert (
        commands.told(error) == "GET /x: 403 Forbidden; docs/deploying.md has the roles for people"
    )
    assert commands.told(PermanentError("no")) == "no"
