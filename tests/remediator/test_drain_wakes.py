"""A drain goes on when the last pod has gone: the watch on the node's pods wakes its operation."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import structlog

from chassis.kube_client import PODS
from remediator.kube_cluster import KubeCluster, Listeners
from remediator.operation import Phase
from tests.remediator.building import config_of
from tests.remediator.test_kube_cluster_effects import Bench, bench, now, until

__all__ = ["bench"]  # a fixture that is made elsewhere


def test_the_end_of_a_pod_wakes_the_drain_of_its_node_and_no_poll_is_awaited(bench: Bench) -> None:
    """rem-N19"""
    woken: list[str] = []

    def changed(names: Collection[str]) -> None:
        woken.extend(names)

    def nothing(*_: object) -> None:
        return

    listeners = Listeners(operations=changed, node=nothing, switches=nothing)
    log = structlog.get_logger()
    cluster = KubeCluster(bench.client, config_of(), clock=now, log=log, listeners=listeners)
    pod = bench.pod("train")
    status = replace(bench.operation.status, phase=Phase.DRAINING, since=now())
    draining = replace(bench.operation, status=status)
    playbook = config_of().playbook("gpu")

    seen = cluster.observe(draining, playbook).pods or ()
    assert [each.name for each in seen] == ["train"]
    until(lambda: "no-1" in woken)  # the watch has listed the pod
    woken.clear()
    bench.client.delete(PODS, pod.name, pod.namespace, grace_seconds=0)
    until(lambda: "no-1" in woken)
    assert cluster.observe(draining, playbook).pods == ()

    gone_on = replace(draining, status=replace(status, phase=Phase.EXECUTING))
    cluster.observe(gone_on, playbook)
    woken.clear()
    bench.pod("other")
    cluster.observe(replace(gone_on, created_at=now() + timedelta(0)), playbook)
    assert woken == []
    cluster.stop()
