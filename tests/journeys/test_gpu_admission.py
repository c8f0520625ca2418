"""What people submit to a real API server whose webhooks are those of deploy/gpu-admission, and what becomes of it."""

import http.server
import json
import shlex
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chassis.certificates import Authority, an_authority
from tests.journeys.gpu_admission_world import (
    DEPLOY,
    GPU,
    HIGH,
    LABEL,
    LOW,
    NAME,
    NAMESPACE,
    PRODUCTS,
    P,
    World,
    a_container,
    a_node,
    a_pod,
    a_workload,
    a_world,
    add_node,
    asking,
    landed,
)
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ANNOTATION = "preferred.jp/gpu-selection"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("gpu-admission")
    with a_world(folder, controllers=True, scheduler=True) as one:
        one.start(one.a_replica("replica-0"))
        for name, model in (("n-t4", "t4"), ("n-l4", "l4"), ("n-a100", "a100-40gb")):
            add_node(one, a_node(name, model, gpus=4))
        add_node(one, a_node("n-cpu"))
        yield one


@pytest.fixture(autouse=True)
def _nothing_left(world: World) -> Iterator[None]:
    """What a test has submitted is gone afterwards."""
    yield
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "CronJob", "Job", "Pod"):
        world.clear(kind)


# Pods.


def test_a_pod_gets_the_nodes_resource_the_models_and_a_note(world: World) -> None:
    answer = world.create(asking("any-24gb", "2", priority=LOW))

    assert answer.limits == {GPU: "2"}
    assert answer.spec["containers"][0]["resources"]["requests"] == {GPU: "2"}
    assert answer.products() == set(PRODUCTS.values()) - {PRODUCTS["t4"]}
    assert json.loads(answer.body["metadata"]["annotations"][ANNOTATION])
    assert answer.spec["priority"] == 0


def test_a_pod_of_high_priority_gets_only_the_smallest_that_do(world: World) -> None:
    answer = world.create(asking("any-24gb", priority=HIGH))

    assert answer.products() == {PRODUCTS["l4"]}
    assert (answer.spec["priority"], answer.spec["priorityClassName"]) == (1000, HIGH)


def test_a_bad_spec_is_refused_with_a_text_that_helps(world: World) -> None:
    answer = world.create(asking("a1000"))

    assert answer.code == 400
    for part in ('container "train"', "a1000", 'did you mean "a100"', "h100, l4, t4"):
        assert part in answer.message


def test_pods_that_ask_for_nothing_of_ours_never_meet_us(world: World) -> None:
    """The conditions of the webhooks are compiled and evaluated by the API server."""
    before = world.reviews(), world.reviews("/validate-pods"), world.reviews("/validate-workloads")

    plain = a_container(limits={"cpu": "1", "memory": "1Gi"})
    world.made(a_pod("plain", plain, initContainers=[a_container("init")]))
    bare = {"name": "bare", "image": "registry.example/bare"}
    world.made(a_pod("bare", bare))
    world.made(a_workload("Deployment", "t4") | {"spec": _without_gpus("Deployment")})
    world.made(a_workload("CronJob", "t4") | {"spec": _without_gpus("CronJob")})
    system = asking("t4", name="system-pod")
    assert world.create(system, namespace="kube-system", dry_run=True).limits == {P + "t4": "1"}

    assert before == (
        world.reviews(),
        world.reviews("/validate-pods"),
        world.reviews("/validate-workloads"),
    )
    world.made(asking("t4", name="ours"))
    assert world.reviews() > before[0]
    assert world.reviews("/validate-pods") == before[1] + 1


def _without_gpus(kind: str) -> dict[str, Any]:
    spec: dict[str, Any] = a_workload(kind, "t4")["spec"]
    text = json.dumps(spec).replace(json.dumps({"limits": {f"{P}t4": "1"}}), "{}")
    assert P not in text
    return dict(json.loads(text))


def test_an_init_container_that_alone_asks_is_seen(world: World) -> None:
    pod = a_pod("init", initContainers=[a_container("first", limits={P + "l4": "1"})])

    answer = world.create(pod)

    assert answer.products() == {PRODUCTS["l4"]}
    assert answer.spec["initContainers"][0]["resources"]["limits"] == {GPU: "1"}


def test_a_forged_note_is_removed(world: World) -> None:
    pod = a_pod("forged")
    pod["metadata"]["annotations"] = {ANNOTATION: '{"class":"high"}'}

    answer = world.create(pod)

    assert answer.code in {201, 400, 403}, answer.message
    assert answer.code != 201 or ANNOTATION not in answer.body["metadata"].get("annotations", {})


def test_an_affinity_of_ones_own_is_kept_in_every_term(world: World) -> None:
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "ab"
    ]
    affinity = {"nodeAffinity": {key: {"nodeSelectorTerms": terms}}}

    answer = world.create(asking("t4", affinity=affinity))

    found = answer.spec["affinity"]["nodeAffinity"][key]["nodeSelectorTerms"]
    assert [{each["key"] for each in term["matchExpressions"]} for term in found] == [
        {"zone", LABEL}
    ] * 2


def test_what_is_only_tried_out_is_answered_in_full_and_counts_no_demand(world: World) -> None:
    line = (
        'gpu_admission_asks_total{class="low",minimum_vram_gb="0",name="h100",namespace="default"'
    )

    answer = world.create(asking("h100"), dry_run=True)

    assert answer.products() == {PRODUCTS["h100"]}
    assert world.served.metric(line) is None
    world.made(asking("h100"))
    assert world.served.metric(line) == 1


def test_one_that_asks_for_the_nodes_resource_itself_is_told_how_to_do_better(world: World) -> None:
    answer = world.create(a_pod("raw", a_container(limits={GPU: "1"})))

    assert answer.code == 201
    assert any(P in each for each in answer.warnings), answer.warnings


def test_what_pods_want_is_told_while_they_wait_and_while_they_run(world: World) -> None:
    """From the note that admission leaves, since what they ask for is the nodes' resource by then."""

    def wanted(name: str, state: str) -> float | None:
        labels = (
            f'class="high",minimum_vram_gb="24",name="{name}",namespace="default",state="{state}"'
        )
        return demand(world, labels)

    for number in range(2):
        world.made(asking("any-24gb", "3", name=f"train-{number}", priority=HIGH))
    wait_until("both", lambda: (wanted("any", "running"), wanted("any", "pending")) == (3, 3))
    for number in range(2):
        world.delete("Pod", f"train-{number}")
    wait_until("none", lambda: (wanted("any", "running"), wanted("any", "pending")) == (None, None))


def demand(world: World, labels: str) -> float | None:
    wanted = set(labels.split(","))
    for line in world.served.get("/metrics")[1].splitlines():
        name, _, rest = line.partition("{")
        if name == "gpu_admission_demand_gpus" and set(rest.partition("}")[0].split(",")) == wanted:
            return float(rest.rpartition(" ")[2])
    return None


# Workloads.


@pytest.mark.parametrize(
    "kind", ["Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob", "DaemonSet"]
)
def test_a_bad_spec_is_refused_where_the_user_looks(world: World, kind: str) -> None:
    answer = world.create(a_workload(kind, "a1000"))

    assert answer.code == 400, answer
    assert 'did you mean "a100"' in answer.message


def test_a_daemonset_with_a_gpu_is_refused(world: World) -> None:
    answer = world.create(a_workload("DaemonSet", "t4"))

    assert answer.code == 403
    assert "DaemonSet" in answer.message


def test_a_deployments_pods_land_on_nodes_with_the_gpu(world: World) -> None:
    """The template stays as its author wrote it; its pods, and the ReplicaSet's, are not judged twice."""
    workload = a_workload("Deployment", "l4", name="serve")
    workload["spec"]["replicas"] = 3

    stored = world.made(workload)

    template = stored["spec"]["template"]["spec"]
    assert template["containers"][0]["resources"]["limits"] == {P + "l4": "1"}
    wait_until("three pods", lambda: len(_nodes(world, "app%3Dserve")) == 3, 60)
    assert _nodes(world, "app%3Dserve") == ["n-l4"] * 3


def _nodes(world: World, selector: str) -> list[str]:
    pods = world.items("Pod", selector=selector)
    return [node for each in pods if (node := each["spec"].get("nodeName"))]


def test_a_jobs_pod_lands_on_a_node_with_the_gpu(world: World) -> None:
    world.made(a_workload("Job", "a100-40gb", name="train"))

    wait_until("its pod", lambda: _nodes(world, "job-name%3Dtrain") == ["n-a100"], 60)


def test_a_cronjob_with_a_good_spec_is_taken(world: World) -> None:
    assert world.create(a_workload("CronJob", "any-40gb")).code == 201


def test_a_change_that_leaves_the_template_alone_is_taken_though_the_spec_went_bad(
    world: World,
) -> None:
    """A model was taken out of the catalogue: whoever scales the old Deployment down must be able to."""
    stored = world.made(a_workload("Deployment", "l4", name="old"))
    catalogue = yaml.safe_load((DEPLOY / "base" / "catalogue.yaml").read_text("utf-8"))
    models = [each for each in catalogue["models"] if each["id"] != "l4"]
    world.catalogue({**catalogue, "models": models})
    try:
        assert world.create(a_workload("Deployment", "l4", name="new")).code == 400
        answer = world.call(
            "PATCH",
            f"/apis/apps/v1/namespaces/default/deployments/{stored['metadata']['name']}",
            {"spec": {"replicas": 0}},
            "application/merge-patch+json",
        )
        assert answer.code == 200, answer.message
        assert any("l4" in each for each in answer.warnings), answer.warnings
    finally:
        world.catalogue(catalogue)


# With the rest of the API server.


def test_a_quota_counts_what_the_pod_has_become(world: World) -> None:
    namespace = "quota"
    world.made({"kind": "Namespace", "metadata": {"name": namespace}})
    hard = {f"requests.{GPU}": "2"}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}}
    world.made(quota, namespace)
    wait_until(
        "the quota to be counted", lambda: _used(world, namespace) == {f"requests.{GPU}": "0"}
    )

    world.made(asking("t4", "2", name="first"), namespace)
    refused = world.create(asking("any", "1", name="second"), namespace=namespace)

    assert _used(world, namespace) == {f"requests.{GPU}": "2"}
    assert refused.code == 403
    assert f"exceeded quota: gpus, requested: requests.{GPU}=1" in refused.message


def _used(world: World, namespace: str) -> Any:
    return world.get("ResourceQuota", "gpus", namespace).body.get("status", {}).get("used")


def test_the_default_priority_class_counts_where_the_pod_names_none(world: World) -> None:
    body = {
        "kind": "PriorityClass",
        "metadata": {"name": "everybody-is-high"},
        "value": 5000,
        "globalDefault": True,
    }
    world.made(body)
    try:
        wait_until(
            "the API server to use it",
            lambda: world.create(asking("any-24gb"), dry_run=True).spec["priority"] == 5000,
        )
        assert world.create(asking("any-24gb"), dry_run=True).products() == {PRODUCTS["l4"]}
    finally:
        world.delete("PriorityClass", "everybody-is-high")
        wait_until(
            "it to be forgotten",
            lambda: world.create(asking("any-24gb"), dry_run=True).spec["priority"] == 0,
        )


def test_a_class_that_preempts_nobody_stays_so(world: World) -> None:
    """Priority and what comes with it are the API server's; to change them would be refused."""
    body = {
        "kind": "PriorityClass",
        "metadata": {"name": "patient"},
        "value": 2000,
        "preemptionPolicy": "Never",
    }
    world.made(body)
    try:
        spec = world.create(asking("any", priority="patient")).spec
        assert (spec["priority"], spec["preemptionPolicy"]) == (2000, "Never")
    finally:
        world.delete("PriorityClass", "patient")


class Sidecar(http.server.BaseHTTPRequestHandler):
    """A mutating webhook that adds a container with a GPU spec of its own, once."""

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        containers = review["request"]["object"]["spec"]["containers"]
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": True}
        if all(each["name"] != "sidecar" for each in containers):
            sidecar = a_container("sidecar", limits={P + "a100": "1"})
            patch = json.dumps([{"op": "add", "path": "/spec/containers/-", "value": sidecar}])
            response |= {"patchType": "JSONPatch", "patch": b64encode(patch.encode()).decode()}
        body = json.dumps({**review, "request": None, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""


@pytest.fixture
def sidecar(world: World, tmp_path: Path) -> Iterator[str]:
    """Its name comes after ours, so that it is called after us."""
    authority = an_authority(tmp_path / "sidecar")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sidecar)
    server.socket = _context(authority).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    name = "zz-sidecar"
    world.made(_registration(name, authority, server.server_address[1]))
    yield name
    world.delete("MutatingWebhookConfiguration", name)
    server.shutdown()
    thread.join()
    server.server_close()
    wait_until("it to be forgotten", lambda: _containers(world) == ["train"])


def _context(authority: Authority) -> ssl.SSLContext:
    certificate = authority.issue("sidecar")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context


def _registration(name: str, authority: Authority, port: int) -> dict[str, Any]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    client = {
        "url": f"https://127.0.0.1:{port}/",
        "caBundle": b64encode(authority.file.read_bytes()).decode(),
    }
    webhook = {
        "name": "sidecar.example.com",
        "clientConfig": client,
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


def _containers(world: World) -> list[str]:
    found = world.create(asking("any", name="looking"), dry_run=True).spec["containers"]
    return [each["name"] for each in found]


def test_a_container_that_another_webhook_adds_after_us_is_seen_in_the_second_round(
    world: World, sidecar: str
) -> None:
    """And what the first round has done is not done twice."""
    wait_until("both webhooks", lambda: "sidecar" in _containers(world))

    answer = world.create(asking("any", name="both"))

    limits = [each["resources"]["limits"] for each in answer.spec["containers"]]
    assert limits == [{GPU: "1"}] * 2
    assert answer.products() <= {PRODUCTS["a100-40gb"], PRODUCTS["a100-80gb"]}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = answer.spec["affinity"]["nodeAffinity"][key]["nodeSelectorTerms"]
    assert len(terms) == 1
    said = json.loads(answer.body["metadata"]["annotations"][ANNOTATION])
    assert {"train", "sidecar"} <= set(json.dumps(said).replace('"', " ").split())


def test_without_us_a_gpu_spec_is_refused_with_a_text_and_all_else_goes_on(world: World) -> None:
    """Changing fails open; what is left over is refused by what cannot be reached: with the webhook's name."""
    world.doorway.ports = ()
    world.served.terminate()
    try:
        assert world.create(a_pod("plain")).code == 201
        answer = world.create(asking("t4", name="stuck"))
        assert answer.code == 500
        assert "gpu-pods.nodemend.dev" in answer.message
        assert the_api_server_counts(world, "fail_open_count", "gpus.nodemend.dev")
        assert the_api_server_counts(world, "rejection_count", "gpu-pods.nodemend.dev")
        ours = world.create(asking("t4", name="gpu-admission-0"), namespace=NAMESPACE, dry_run=True)
        assert ours.code == 201
        assert world.create(a_workload("Deployment", "t4")).code == 201
    finally:
        world.start(world.served)


def test_a_webhook_that_hangs_costs_seconds_and_not_the_whole_request(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hole:
        world.doorway.lead_only_to(hole.getsockname()[1])
        try:
            began = time.monotonic()
            assert world.create(a_pod("plain")).code == 201
            answer = world.create(asking("t4", name="waiting"))
            took = time.monotonic() - began
        finally:
            world.open_the_doorway()
    assert answer.code == 500
    assert "deadline exceeded" in answer.message or "timeout" in answer.message.lower()
    assert took < 15
    wait_until("it to be reached again", world.answers)


def the_api_server_counts(world: World, what: str, webhook: str) -> bool:
    """What deploy/prometheus/gpu-admission-rules.yaml counts on."""
    metrics = world.api.kubectl("get", "--raw", "/metrics").stdout.splitlines()
    lines = [each for each in metrics if each.startswith(f"apiserver_admission_webhook_{what}{{")]
    named = [each for each in lines if f'name="{webhook}"' in each]
    return bool(named) and ("fail_open" in what or 'error_type="calling_webhook_error"' in named[0])


def test_what_slipped_through_is_refused_with_what_to_do(world: World) -> None:
    """Only the mutating webhook is away: its configuration was lost, or a call took too long."""
    configuration = world.get("MutatingWebhookConfiguration", NAME).body
    world.delete("MutatingWebhookConfiguration", NAME)
    try:
        wait_until(
            "it to be forgotten",
            lambda: (
                not world.create(a_pod("x", a_container(limits={GPU: "1"})), dry_run=True).warnings
            ),
        )
        answer = world.create(asking("t4", name="left-over"))
        assert answer.code in {400, 403, 503}
        assert P + "t4" in answer.message
    finally:
        for field in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
            configuration["metadata"].pop(field, None)
        world.made(configuration)
        wait_until("it to be back", world.answers)


# The README.


def test_the_example_of_the_readme_lands_on_the_right_node(world: World) -> None:
    """As a person would: kubectl apply, and the scheduler decides."""
    manifest = readme_example()
    name = manifest["metadata"]["name"]

    done = world.api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))

    assert done.returncode == 0, done.stderr
    assert landed(world, name) in {"n-l4", "n-a100"}


def test_the_try_of_the_documents_shows_what_it_says(world: World) -> None:
    text = (DEPLOY.parents[1] / "docs" / "deploying.md").read_text("utf-8")
    (line,) = [each for each in text.splitlines() if each.strip().startswith("kubectl run train")]

    done = world.api.kubectl(*shlex.split(line)[1:])

    assert done.returncode == 0, done.stderr
    pod = yaml.safe_load(done.stdout)
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1"}
    assert LABEL in yaml.safe_dump(pod["spec"]["affinity"])


def readme_example() -> dict[str, Any]:
    """The pod of the README with a GPU spec in it."""
    text = (DEPLOY.parents[1] / "README.md").read_text("utf-8")
    blocks = [each.partition("```")[0] for each in text.split("```yaml\n")[1:]]
    (block,) = [each for each in blocks if f"{P}any-24gb" in each]
    found = yaml.safe_load(block)
    if "kind" in found:
        return dict(found)
    pod = a_pod("readme")
    pod["spec"]["containers"][0]["resources"] = found.get("resources", found)
    return pod
