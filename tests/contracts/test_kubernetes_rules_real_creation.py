"""The embedded Kubernetes' rules against a real kube-apiserver: what is stored of a new object, or why it is refused."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.contracts.kubernetes_rules_peers import (
    BY_KIND,
    C,
    RealServer,
    a_node,
    a_real_server,
    answered,
    budget,
    comparable,
    embedded_create,
    job,
    limited,
    path_of,
    pod,
    required_affinity,
    taint,
)

pytestmark = pytest.mark.slow

names = count()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with a_real_server(tmp_path_factory.mktemp("kubernetes")) as server:
        yield server


CREATED: dict[str, dict[str, Any]] = {
    "a plain node": a_node(status={"capacity": {"cpu": "4000m", "nvidia.com/gpu": "8"}}),
    "a node with taints": a_node(spec={"taints": [taint("a"), taint("a", "NoExecute")]}),
    "a taint twice": a_node(spec={"taints": [taint("a"), taint("a", value="2")]}),
    "taints without key, with odd values": a_node(
        spec={"taints": [taint(""), taint("b", "Foo"), taint("c d", "", value="-x")]}
    ),
    "bad labels": a_node(metadata={"labels": {"a b": "c", "x": "-", "/x": "", "a/b/c": "x"}}),
    "long labels": a_node(metadata={"labels": {"b": "y" * 64, "c" * 64: ""}}),
    "a bad annotation, an odd finalizer": a_node(
        metadata={"annotations": {"A b": "c", "Xy/z": "1"}, "finalizers": ["abc", "a b/c"]}
    ),
    "an owner without anything": a_node(metadata={"ownerReferences": [{"name": "x"}]}),
    "a label that is a number": a_node(metadata={"labels": {"a": 5}}),
    "a name in capitals": a_node(metadata={"name": "N_1"}),
    "a name too long": a_node(metadata={"name": "a" * 254}),
    "a version set": a_node(metadata={"resourceVersion": "5"}),
    "no name": {"kind": "ConfigMap", "metadata": {"name": ""}},
    "another namespace": {"kind": "ConfigMap", "metadata": {"namespace": "other"}},
    "a pod in a node's place": {"kind": "Node", "sent_kind": "Pod"},
    "a plain pod": pod(),
    "a pod with much": pod(
        containers=[{**C, "ports": [{"containerPort": 80}], "image": "r.io:5/i:1"}],
        volumes=[{"name": "v", "hostPath": {"path": "/"}}],
        nodeSelector={"a": "b"},
        tolerations=[{"operator": "Exists"}],
    ),
    "limits become requests": limited(limits={"cpu": "1", "nvidia.com/gpu": "2"}),
    "a guaranteed pod": limited(limits={"cpu": "1500m", "memory": "1024Mi"}),
    "no containers": pod(containers=[]),
    "bad container names": pod(containers=[{"name": "A_", "image": ""}, {"name": "A_"}]),
    "a GPU request below its limit": limited(
        requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "2"}
    ),
    "a GPU request without a limit": limited(requests={"nvidia.com/gpu": "1"}),
    "half a GPU": limited(limits={"nvidia.com/gpu": "500m"}),
    "a request above its limit": limited(requests={"cpu": "2"}, limits={"cpu": "1"}),
    "an unknown resource": limited(limits={"foo": "1"}),
    "less than nothing": limited(limits={"cpu": "-1"}),
    "not a quantity": limited(limits={"cpu": "xx"}),
    "an unknown restart policy": pod(restartPolicy="Foo"),
    "a priority without a class": pod(priority=7),
    "a class that is not there": pod(priorityClassName="nope"),
    "odd tolerations": pod(
        tolerations=[
            {"key": "a", "operator": "Exists", "value": "x"},
            {"operator": "Equal"},
            {"key": "x", "effect": "NoSchedule", "tolerationSeconds": 3},
            {"operator": "Foo"},
        ]
    ),
    "affinity without terms": required_affinity(),
    "odd affinity": required_affinity(
        {
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Gt", "values": ["1", "2"]},
                {"key": "b", "operator": "Exists", "values": ["1"]},
                {"key": "b", "operator": "Bar"},
            ],
            "matchFields": [{"key": "metadata.namex", "operator": "In", "values": ["a"]}],
        }
    ),
    "odd volumes and selectors": pod(
        volumes=[
            {"name": "v", "emptyDir": {}},
            {"name": "v", "hostPath": {"path": "/"}},
            {"name": "x_y"},
            {"name": "h", "hostPath": {"path": ""}},
        ],
        nodeSelector={"a b": "c"},
    ),
    "odd container parts": pod(
        containers=[
            {
                **C,
                "volumeMounts": [{"name": "zz", "mountPath": "/x"}],
                "env": [{"name": ""}],
                "imagePullPolicy": "X",
                "ports": [{"containerPort": 0}, {"containerPort": 70000, "protocol": "X"}],
            }
        ],
        initContainers=[C],
    ),
    "a deadline of nothing": pod(activeDeadlineSeconds=0),
    "a node named while gated": pod(nodeName="n1", schedulingGates=[{"name": "a.b/c"}]),
    "a plain job": job(),
    "a queue of jobs": job({"parallelism": 3}),
    "odd counts of a job": job({"backoffLimit": -1, "parallelism": -2}, restartPolicy=None),
    "a plain budget": budget(minAvailable=1, selector={"matchLabels": {"a": "b"}}),
    "a budget with both": budget(minAvailable=1, maxUnavailable=1),
    "a budget below nothing": budget(minAvailable=-1, selector={"matchLabels": {"a b": "c"}}),
    "a budget in words": budget(minAvailable="12", unhealthyPodEvictionPolicy="x"),
    "more than the whole": budget(
        minAvailable="110%",
        selector={
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Foo"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
            ]
        },
    ),
    "a plain lease": {"kind": "Lease", "spec": {"holderIdentity": "x"}},
    "odd counts of a lease": {
        "kind": "Lease",
        "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1},
    },
    "a plain class": {"kind": "PriorityClass", "value": -5},
    "a class too high": {"kind": "PriorityClass", "value": 2_000_000_000},
    "a class with an odd policy": {"kind": "PriorityClass", "value": 2, "preemptionPolicy": "x"},
    "a class of the system's": {"kind": "PriorityClass", "metadata": {"name": "system-x"}},
    "odd config keys": {"kind": "ConfigMap", "data": {"a b": "c", "..": "d", "k": "v"}},
    "a namespace": {"kind": "Namespace"},
    "a namespace with a dot": {"kind": "Namespace", "metadata": {"name": "a.b"}},
    "an event of elsewhere": {
        "kind": "Event",
        "involvedObject": {"kind": "Pod", "name": "x", "namespace": "other"},
    },
}


@pytest.mark.parametrize("case", CREATED.values(), ids=CREATED)
def test_a_new_object_is_stored_or_refused_as_the_real_server_does(
    real: RealServer, case: dict[str, Any]
) -> None:
    kind = BY_KIND[case["kind"]]
    body = {key: value for key, value in case.items() if key != "sent_kind"}
    meta = {"name": f"case-{next(names)}", **case.get("metadata", {})}
    sent = case.get("sent_kind", kind.kind)
    body = {**body, "apiVersion": kind.api_version, "kind": sent, "metadata": meta}

    code, stored = real.call("POST", path_of(kind), body)
    uid = (stored.get("metadata") or {}).get("uid") or "none"
    expected = json.loads(json.dumps(stored).replace(uid, "(uid)"))

    mine = answered(201, lambda: embedded_create(body, kind))
    assert comparable(mine) == comparable((code, expected))
