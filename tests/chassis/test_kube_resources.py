"""Each resource lies where the API has it, and no name can lead anywhere else."""

import pytest

from chassis.kube_client import JOBS, NODES, PODS, Resource


@pytest.mark.parametrize(
    ("resource", "where", "expected"),
    [
        (NODES, {}, "/api/v1/nodes"),
        (NODES, {"name": "n1"}, "/api/v1/nodes/n1"),
        (NODES, {"name": "n1", "subresource": "status"}, "/api/v1/nodes/n1/status"),
        (PODS, {}, "/api/v1/pods"),
        (PODS, {"namespace": "a"}, "/api/v1/namespaces/a/pods"),
        (
            PODS,
            {"namespace": "a", "name": "p", "subresource": "eviction"},
            "/api/v1/namespaces/a/pods/p/eviction",
        ),
        (
            JOBS,
            {"namespace": "a", "name": "../b?x"},
            "/apis/batch/v1/namespaces/a/jobs/..%2Fb%3Fx",
        ),
    ],
)
def test_the_path_follows_group_namespace_and_name(
    resource: Resource, where: dict[str, str], expected: str
) -> None:
    assert resource.path(**where) == expected


@pytest.mark.parametrize(
    ("resource", "where"),
    [
        (NODES, {"namespace": "a"}),
        (PODS, {"name": "p"}),
        (PODS, {"namespace": "a", "name": ""}),
        (PODS, {"namespace": "a", "name": ".."}),
        (PODS, {"namespace": "a", "subresource": "eviction"}),
    ],
    ids=["a node has no namespace", "a pod needs one", "empty", "parent", "subresource of none"],
)
def test_a_path_that_would_mean_something_else_is_refused(
    resource: Resource, where: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="name"):
        resource.path(**where)
