"""What the configuration of gpu-monitor may say: one file for each way to be wrong, and what the rest means."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chassis.config import load_settings
from chassis.errors import ConfigError
from exporters.config.gpu_monitor import GpuMonitorSettings
from exporters.gpu_monitor.settings import plan_policy, recipe_of
from exporters.probe_pods import Probe, Purpose, pod_body
from tests.exporters.probe_builders import a_probe_node

BAD = Path(__file__).parents[1] / "bad_configs" / "exporters"
PREFIX = "gpu_monitor_"

MISTAKES = {
    "command_text": "pod.command: must be a list, not a text; start each entry with a dash",
    "deadline_long": "pod: deadline must be at most 1h: a probe that hangs holds its GPUs",
    "empty_image": "pod.image: is empty; leave the key out if nothing is meant",
    "gpus_all": "gpus: write all_free, or a number from 1 to 1024",
    "gpus_zero": "gpus: write all_free, or a number from 1 to 1024",
    "grace_long": "pod: grace must be at most 30s: a user's pod waits for it",
    "lease_order": "leader: retry_period must be below renew_deadline, and that below lease_duration",
    "namespace_upper": "namespace: not a name that Kubernetes takes; use a-z, 0-9 and -, at most 63",
    "no_image": "pod.image: missing; add it",
    "no_namespace": "namespace: missing; add it",
    "pending_zero": "pending_timeout: must be at least 1s",
    "period_short": "period must be longer than pod.deadline and pending_timeout together",
    "period_zero": "period must be at least 1m; to probe nothing, write enabled: false",
    "resource": "resource: not the key of a Kubernetes label or resource, like nvidia.com/gpu",
    "selector_empty": "node_selector: is empty; leave the key out if nothing is meant",
    "share_percent": "max_share: must be less than or equal to 1",
    "share_zero": "max_share: must be greater than 0",
    "unknown_key": 'priority: unknown key; did you mean "proof_retry"?',
}  # fmt: skip


def a_config(**changes: Any) -> GpuMonitorSettings:
    whole = {"namespace": "nodemend", "pod": {"image": "nodemend:1"}, **changes}
    return GpuMonitorSettings.model_validate(whole)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_what_to_do(name: str) -> None:
    file = BAD / f"{PREFIX}{name}.yaml"

    with pytest.raises(ConfigError) as caught:
        load_settings(file, GpuMonitorSettings)

    assert caught.value.mistakes == (f"{file}: {MISTAKES[name]}",)


def test_each_bad_file_has_its_mistake() -> None:
    assert {path.stem.removeprefix(PREFIX) for path in BAD.glob(f"{PREFIX}*")} == set(MISTAKES)


def test_the_defaults_probe_each_node_once_an_hour_and_a_twentieth_at_once() -> None:
    policy = plan_policy(a_config())

    assert policy.period == timedelta(hours=1)
    assert policy.max_share == 0.05
    assert policy.pending_timeout == timedelta(seconds=60)
    assert policy.enabled


def test_the_documented_way_to_switch_it_off_works() -> None:
    assert not plan_policy(a_config(enabled=False)).enabled


def test_what_is_configured_is_in_the_pod() -> None:
    pod = {
        "image": "registry.example/nodemend:1",
        "image_pull_secrets": ["pull"],
        "args": ["--memory-mib", "128"],
        "runtime_class": "nvidia",
        "service_account": "probe",
        "labels": {"team": "gpu", "app.kubernetes.io/name": "not-this"},
        "deadline": "90s",
        "grace": "2s",
    }
    recipe = recipe_of(a_config(resource="nvidia.com/mig-1g.5gb", pod=pod))

    body = pod_body(Probe(a_probe_node(), Purpose.PERIODIC, 1), recipe)

    spec, container = body["spec"], body["spec"]["containers"][0]
    assert body["metadata"]["labels"]["team"] == "gpu"
    assert body["metadata"]["labels"]["app.kubernetes.io/name"] == "nodemend-gpu-probe"
    assert (spec["runtimeClassName"], spec["serviceAccountName"]) == ("nvidia", "probe")
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert (spec["activeDeadlineSeconds"], spec["terminationGracePeriodSeconds"]) == (90, 2)
    assert container["command"] + container["args"] == ["exporters", "gpu-probe", "--memory-mib", "128"]  # fmt: skip
    assert container["resources"]["limits"] == {"nvidia.com/mig-1g.5gb": "1"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
