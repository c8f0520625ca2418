"""Alerts from a cluster: a simulated node's condition, node-conditions' metric, Prometheus' rule, Alertmanager."""

from pathlib import Path

from sandbox.demo.feed import Sign, Tell
from sandbox.demo.fleet import CONDITION, Fleet
from sandbox.demo.monitoring import ALERT, Monitoring
from sandbox.demo.story import Check

_CHANGES = 3
"""Broken, healed, broken again."""


class ClusterFeed:
    """Breaks a GPU of one simulated node; all that follows is for the programs to find out."""

    def __init__(
        self, webhook_url: str, token_file: Path, folder: Path, break_what: str | None
    ) -> None:
        """`break_what`: `condition` (the agents lie) and `metric` (the exporter sees no node) cut the way."""
        self._fleet = Fleet(
            folder,
            agents_lie=break_what == "condition",
            exporter_sees_none=break_what == "metric",
        )
        self.node = self._fleet.specs[1].name
        self._monitoring = Monitoring(folder, self._fleet.exporter_port, webhook_url, token_file)
        series = f'node="{self.node}",condition="{CONDITION}",status="true"'
        self._series = f"nodemend_node_condition{{{series}}}"

    def launch(self) -> None:
        self._monitoring.start()
        self._fleet.start()

    def wait(self, tell: Tell) -> None:
        self._fleet.wait()
        count = len(self._fleet.specs)
        tell(
            f"An embedded Kubernetes has {count} simulated nodes, all of different kinds. Look at them:\n"
            f"   kubectl --kubeconfig {self._fleet.kubeconfig} get nodes"
        )
        tell(f"exporters node-conditions shows their conditions at {self._fleet.metrics_url}")
        self._monitoring.wait()
        tell(
            "Alerts come from a real Prometheus and Alertmanager:\n"
            f"   {self._monitoring.prometheus_url}/\n"
            f"   {self._monitoring.alertmanager_url}/"
        )

    def stop(self) -> None:
        self._monitoring.stop()
        self._fleet.stop()

    def break_gpu(self) -> None:
        self._fleet.break_gpu(self.node)

    def heal_gpu(self) -> None:
        self._fleet.heal_gpu(self.node)

    def signs(self, *, broken: bool) -> tuple[Sign, ...]:
        status, value = ("True", 1) if broken else ("False", 0)
        return (
            Sign(
                f"the node's condition {CONDITION} to become {status}",
                f"Its agent sets the node's condition {CONDITION} to {status}.",
                lambda: self._fleet.condition(self.node).get("status") == status,
            ),
            Sign(
                f"the exporter's metric to become {value}",
                f"The exporter's metric becomes {value}, and Prometheus reads it.",
                lambda: bool(self._monitoring.query(f"{self._series} == {value}")),
            ),
        )

    def checks(self) -> tuple[Check, ...]:
        """From the Node that Kubernetes keeps, from its audit log, and from what Prometheus remembers."""
        return (
            self._check_condition(),
            self._check_rights(),
            self._check_samples(),
            self._check_alerts(),
        )

    def _check_condition(self) -> Check:
        condition = self._fleet.condition(self.node)
        status, reason = condition.get("status", "absent"), condition.get("reason", "")
        return Check(
            f"Kubernetes has {CONDITION} True on {self.node}",
            status == "True",
            f"{status} {reason}".strip(),
        )

    def _check_rights(self) -> Check:
        asked = self._fleet.asked_by_exporter()
        return Check(
            "the exporter asked Kubernetes for nothing but to list and to watch nodes",
            asked == {"list nodes", "watch nodes"},
            ", ".join(sorted(asked)) or "nothing",
        )

    def _check_samples(self) -> Check:
        changes = sum(s.value for s in self._monitoring.query(f"changes({self._series}[1h])"))
        return Check(
            "Prometheus saw the metric rise, fall, and rise",
            changes == _CHANGES,
            f"{changes:.0f} changes",
        )

    def _check_alerts(self) -> Check:
        fired = f'last_over_time(ALERTS{{alertname="{ALERT}",alertstate="firing"}}[1h])'
        nodes = {s.labels.get("node", "") for s in self._monitoring.query(fired)}
        return Check(
            f"the alert fired for {self.node} and no other node",
            nodes == {self.node},
            ", ".join(sorted(nodes)) or "none",
        )
