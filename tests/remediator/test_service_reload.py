"""A reload while the remediator runs: what it may change counts at once, the rest stays whole until a restart."""

from datetime import UTC, datetime
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from remediator.service import Identity, Service
from tests.remediator.building import config_of, playbook_of
from tests.remediator.http_peer import dead_kubeconfig


def test_where_jobs_run_stays_until_a_restart_and_the_rest_counts_at_once(tmp_path: Path) -> None:
    kubernetes = {"kubeconfig": dead_kubeconfig(tmp_path)}
    before = config_of(kubernetes=kubernetes, jobs={"namespace": "one"})
    after = config_of(
        playbook_of(name="other"), kubernetes=kubernetes, jobs={"namespace": "two"}, dry_run=True
    )
    service = Service(
        before,
        CollectorRegistry(),
        structlog.get_logger(),
        clock=lambda: datetime.now(UTC),
        identity=Identity("me", "", "0"),
    )

    with capture_logs() as logs:
        service.use(after)

    assert service.config.jobs == before.jobs
    assert (service.config.dry_run, service.config.playbooks) == (True, after.playbooks)
    assert [each["keys"] for each in logs if each["event"] == "restart_needed"] == [["jobs"]]
