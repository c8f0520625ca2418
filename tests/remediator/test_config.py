"""What remediator's configuration may say: one file for each way to be wrong, and what defaults hold."""

from pathlib import Path
from typing import Any

import pytest

from chassis.config import load_settings
from chassis.errors import ConfigError
from remediator.config import KINDS, Config, Repair, Share
from tests.remediator.building import MINUTE, playbook_of

BAD = Path(__file__).parents[1] / "bad_configs" / "remediator"

MISTAKES = {
    "alertmanager_twice": "alertmanagers[1].url: this Alertmanager is listed twice; remove one",
    "alertmanager_url": "alertmanagers[0].url: not a web address; write it like https://HOST[:PORT]/PATH",
    "breaker_allows_nothing": "breaker.max_unavailable: 0% allows nothing; to hold everything back, use `remediator pause`",
    "budget_allows_nothing": "budgets[0].max_unavailable: 0 allows nothing; to hold everything back, use `remediator pause`",
    "budget_no_percentage": "budgets[0].max_unavailable: write a number like 2, or a percentage like 10%",
    "budget_over_everything": "budgets[0].max_unavailable: a percentage is at most 100%",
    "budget_twice": "budgets[1].name: another one has this name; give each its own",
    "ca_file": "alertmanagers[0].ca_file: cannot read the file /no/such/ca.pem; correct the path or put the file there",
    "condition_status": "playbooks[0].conditions.any[0].status: must be 'True', 'False' or 'Unknown'",
    "checkpoint_outlasts_drain": "playbooks[0].ladder[0].drain: checkpoint.wait must be shorter than deadline, or no pod ever leaves",
    "conditions_two_lists": "playbooks[0].conditions: give exactly one of all and any, with at least one condition",
    "cooldown_forgotten_too_soon": "playbooks[0].gates.cooldown: 31d is longer than keep_finished (30d), so operations would be forgotten before they stop counting; raise keep_finished",
    "drain_deadline": "playbooks[0].ladder[0].drain.deadline: must be at least 1s",
    "driver_root_relative": "jobs.driver_root: write an absolute path on the nodes, like /run/nvidia/driver",
    "drain_strategy": "playbooks[0].ladder[0].drain.strategy: must be 'None', 'Evict', 'Delete', 'ForceDelete' or 'WaitForCompletion'",
    "empty_ladder": "playbooks[0].ladder: give at least 1 entry",
    "guard_without_prometheus": "playbooks[0].gates.guards: queries need a Prometheus; set `prometheus.url`",
    "hand_over_too_long": "playbooks[0].ladder[0].repair.hand_over.text: string should have at most 800 characters",
    "hand_over_first": "playbooks[0]: ladder: hand_over ends the ladder; put it last",
    "isolate_after_repair": "playbooks[0]: ladder: isolate: false is for a playbook that only hands over; after a repair the node stays isolated",
    "job_template_begins_again": "job_templates.fix: pod.restartPolicy must be Never: a repair that ends is not begun again",
    "job_template_without_containers": "job_templates.fix: pod must be a PodSpec with at least one entry in containers",
    "job_template_without_image": "job_templates.fix: each of pod.containers needs an image",
    "lease_order": "leader: retry_period must be below renew_deadline, and that below lease_duration",
    "limit_forgotten_too_soon": "playbooks[0].operations_limit.within: 60d is longer than keep_finished (30d), so operations would be forgotten before they stop counting; raise keep_finished",
    "match_nearly_everything": 'playbooks[0]: match: an entry that fits an alert without labels takes nearly every alert; let one matcher demand a label, like alertname="GPUIsLost"',
    "match_takes_everything": "playbooks[0]: match: an entry without matchers takes every alert; name some labels",
    "matcher": "playbooks[0].match[0]: 'alertname': after 'alertname' one of =, !=, =~, !~ is missing; write it like severity=\"critical\" or node=~\"gpu-.*\"",
    "no_attempts": "playbooks[0].ladder[0].attempts: must be greater than or equal to 1",
    "no_playbooks": "playbooks: give at least 1 entry",
    "no_repair": "playbooks[0].ladder[0].repair: give exactly one of reboot, reboot_now, remount_nfs, reset_gpu, restart_unit, power_cycle, restart_pods, run_job, hand_over; here is none",
    "node_template_constant": "playbooks[0].node.template: every alert would name the same node; write it like {{ labels.node }}",
    "node_template_includes": "playbooks[0].node.template: cannot use this template: it must not include, import or extend others",
    "node_template_no_node": "playbooks[0].node.template: every alert would name the same node; write it like {{ labels.node }}",
    "node_template_other_names": "playbooks[0].node.template: a template sees labels and annotations, not group_labels",
    "node_template_syntax": "playbooks[0].node.template: cannot use this template: unexpected end of template, expected 'end of print statement'.",
    "node_two_sources": "playbooks[0].node: give exactly one of label and template",
    "playbook_name": "playbooks[0].name: name playbooks with small letters, digits and hyphens, at most 63, like gpu-reset",
    "playbook_never_reached": "playbooks[1].match[1]: playbook gpu takes these alerts before; remove one of the two",
    "playbook_twice": "playbooks[1].name: another one has this name; give each its own",
    "playbook_without_match": "playbooks[0]: give match, conditions or both; nothing else begins it",
    "proof_of_nothing": "playbooks[0].proof: nothing is proven; set alerts, conditions, queries or probe",
    "proof_without_alertmanager": "playbooks[0].proof.alerts: a resolved alert is seen at the Alertmanagers only; list them under `alertmanagers`, or set it to false and prove by conditions, queries or the probe",
    "query_empty": "playbooks[0].proof.queries[0].expr: write a PromQL expression",
    "query_twice": "playbooks[0].proof: queries: give each its own name",
    "query_without_prometheus": "playbooks[0].proof.queries: queries need a Prometheus; set `prometheus.url`",
    "rate_limit_forgotten_too_soon": "rate_limit.per: 31d is longer than keep_finished (30d), so operations would be forgotten before they stop counting; raise keep_finished",
    "rate_limit_nothing": "rate_limit.isolations: must be greater than or equal to 1",
    "restart_all_pods": "playbooks[0].ladder[0].repair.restart_pods.selector: give at least 1 entry",
    "rung_twice": "playbooks[0]: ladder: give each rung its own name",
    "soak_longer_than_deadline": "playbooks[0].proof: deadline must be longer than soak, or no node is ever proven",
    "token_in_place": 'alertmanagers[0].bearer_token: unknown key; did you mean "bearer_token_file"?',
    "two_repairs": "playbooks[0].ladder[0].repair: give exactly one of reboot, reboot_now, remount_nfs, reset_gpu, restart_unit, power_cycle, restart_pods, run_job, hand_over; here are reboot, reset_gpu",
    "unit_name": "playbooks[0].ladder[0].repair.restart_unit.unit: kubelet is not restarted by restart_unit, only kubelet.service, containerd.service, nvidia-fabricmanager.service; use run_job for others",
    "unit_not_restartable": "playbooks[0].ladder[0].repair.restart_unit.unit: sshd.service is not restarted by restart_unit, only kubelet.service, containerd.service, nvidia-fabricmanager.service; use run_job for others",
    "unknown_key": 'playbooks[0].laddr: unknown key; did you mean "ladder"?',
    "unknown_template": "playbooks[0].ladder[0].repair.run_job.template: no such template; `job_templates` has none",
    "unknown_window": "playbooks[0].gates.windows[0]: no such window; `windows` has none",
    "timeline_cluster": "alerts2gh.cluster: string should match pattern '^[!-~]*$'",
    "window_day": "windows.night.days[0]: must be 'mon', 'tue', 'wed', 'thu', 'fri', 'sat' or 'sun'",
    "window_time": 'windows.night.start: write the time of day as "HH:MM", in quotes',
    "window_without_length": "windows.night: the window must have a length; end differs from start",
    "window_zone": "windows.night.time_zone: 'Asia/Tokio' is no IANA time zone, like Asia/Tokyo",
}


def test_each_bad_file_has_its_mistake_here() -> None:
    assert {path.stem for path in BAD.glob("*.yaml")} == set(MISTAKES)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_file_is_told_in_one_line(name: str) -> None:
    file = BAD / f"{name}.yaml"

    with pytest.raises(ConfigError) as refused:
        load_settings(file, Config)

    assert refused.value.mistakes == (f"{file}: {MISTAKES[name]}",)


def test_a_secret_is_not_told() -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(BAD / "token_in_place.yaml", Config)

    assert "sesame" not in str(refused.value)


SMALLEST = """
playbooks:
  - name: gpu
    conditions: {any: [{type: GPUIsLost}]}
    ladder: [{name: reboot, repair: {reboot: {}}}]
"""


def loaded(folder: Path, text: str) -> Config:
    file = folder / "remediator.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, Config)


def test_a_playbook_starts_in_dry_run_and_the_rest_has_careful_defaults(tmp_path: Path) -> None:
    config = loaded(tmp_path, SMALLEST)
    (playbook,) = config.playbooks

    assert playbook.dry_run
    assert playbook.node.label == "node"
    assert not playbook.gates.control_plane
    assert config.breaker.enabled
    assert config.breaker.max_unavailable == Share(30, percent=True)
    assert playbook.conditions is not None
    assert playbook.conditions.any[0].for_ == MINUTE
    assert config.playbook("gpu") is playbook
    assert config.playbook("other") is None


FULL = """
serving: {listen: "127.0.0.1:0"}
kubernetes: {qps: 200, burst: 400}
leader: {namespace: ops, lease: r, state: s}
alertmanagers: [{url: "http://a.example:9093"}]
prometheus: {url: "http://p.example:9090"}
alerts2gh: {url: "http://g.example", cluster: lab}
windows: {night: {days: [sat, sun], start: "22:00", end: "06:00", time_zone: Asia/Tokyo}}
budgets:
  - {name: all, max_unavailable: 10%}
  - {name: rack, selector: 'pool="gpu"', max_unavailable: 1, topology_key: rack}
  - {name: gpus, max_unavailable: 64, gpus: true}
job_templates:
  bmc: {pod: {containers: [{name: bmc, image: "ops/bmc:1"}]}, labels: {team: ops}}
playbooks:
  - name: nfs
    description: A mount that hangs.
    match: ['alertname="NFSMountStuck"', ['alertname="NFSDown"', 'severity="critical"']]
    conditions: {all: [{type: NFSMountStuck, status: "True", for: 5m}]}
    node: {template: "{{ labels.instance.split(':')[0] }}"}
    dry_run: false
    ladder:
      - name: remount
        repair: {remount_nfs: {}}
        drain: {strategy: None}
      - name: reboot
        repair: {reboot: {}}
        attempts: 2
        cooldown: 10m
        drain:
          deadline: 1h
          on_deadline: force_delete
          rules: [{namespace: train, selector: 'app="llm"', strategy: WaitForCompletion}]
          checkpoint: {selector: 'app="llm"', wait: 10m}
      - {name: power, repair: {power_cycle: {template: bmc}}}
      - {name: person, repair: {hand_over: {text: Call the vendor.}}}
    proof: {soak: 5m, queries: [{name: mounts, expr: 'up{node="{{ node }}"}'}], probe: true}
    gates:
      approval: true
      windows: [night]
      guards: [{name: quiet, expr: up}]
      exclude: 'owner="ada"'
    operations_limit: {count: 2, within: 3d}
"""


def test_a_file_that_uses_everything_can_be_used(tmp_path: Path) -> None:
    config = loaded(tmp_path, FULL)
    (playbook,) = config.playbooks

    assert [len(matchers) for matchers in playbook.match] == [1, 2]
    assert [rung.repair.kind for rung in playbook.ladder] == [
        "remount_nfs",
        "reboot",
        "power_cycle",
        "hand_over",
    ]
    assert playbook.ladder[2].repair.template == "bmc"


def repair(kind: str, **arguments: Any) -> Repair:
    needed = {
        "restart_unit": {"unit": "kubelet.service"},
        "power_cycle": {"template": "x"},
        "restart_pods": {"namespace": "x", "selector": 'a="b"'},
        "run_job": {"template": "x"},
        "hand_over": {"text": "x"},
    }
    return Repair.model_validate({kind: needed.get(kind, {}) | arguments})


@pytest.mark.parametrize(
    ("made", "reboots", "destructive", "on_node"),
    [
        (repair("reboot"), True, True, True),
        (repair("reboot_now"), True, True, True),
        (repair("power_cycle"), True, True, False),
        (repair("reset_gpu"), False, True, True),
        (repair("remount_nfs"), False, False, True),
        (repair("restart_unit"), False, False, True),
        (repair("restart_pods"), False, False, False),
        (repair("run_job"), False, True, True),
        (repair("run_job", repeatable=True, on_node=False, reboots=True), True, False, False),
        (repair("hand_over"), False, False, False),
    ],
)
def test_what_is_true_of_a_repair(
    made: Repair, reboots: bool, destructive: bool, on_node: bool
) -> None:
    assert (made.reboots, made.destructive, made.on_node) == (reboots, destructive, on_node)


@pytest.mark.parametrize(
    ("written", "root"), [("/", "/"), ("/run/nvidia/driver/", "/run/nvidia/driver")]
)
def test_the_drivers_folder_is_told_in_one_way(tmp_path: Path, written: str, root: str) -> None:
    assert loaded(tmp_path, SMALLEST).jobs.driver_root == "/"
    text = f"jobs: {{driver_root: {written}}}\n{SMALLEST}"
    assert loaded(tmp_path, text).jobs.driver_root == root


def test_playbooks_for_different_nodes_may_take_the_same_alerts(tmp_path: Path) -> None:
    book = """
  - name: {name}
    match: ['alertname="GPUIsLost"']
    nodes: {nodes}
    ladder: [{{name: reboot, repair: {{reboot: {{}}}}}}]
    proof: {{conditions: [GPUIsLost], alerts: false}}
"""
    pools = [("a", '["pool=a"]'), ("b", '["pool=b", gpu]'), ("rest", "[]")]
    text = "playbooks:" + "".join(book.format(name=n, nodes=m) for n, m in pools[::2])
    config = loaded(tmp_path, text)

    assert [config.selects_nodes(each) for each in ("a", "rest", "none")] == [True, False, False]
    with pytest.raises(ConfigError, match=r"playbooks\[1\]\.nodes"):
        loaded(tmp_path, "playbooks:" + "".join(book.format(name=n, nodes=m) for n, m in pools[:2]))


def test_every_kind_of_repair_is_a_key() -> None:
    assert set(KINDS) == set(Repair.model_fields)


@pytest.mark.parametrize(
    ("share", "total", "limit"),
    [
        (Share(3), 100, 3),
        (Share(10, percent=True), 100, 10),
        (Share(10, percent=True), 19, 1),
        (Share(10, percent=True), 3, 1),
        (Share(10, percent=True), 0, 0),
    ],
)
def test_a_percentage_is_rounded_down_but_not_to_nothing(
    share: Share, total: int, limit: int
) -> None:
    assert share.limit(total) == limit


def test_the_builders_playbook_acts_for_real() -> None:
    assert Config.model_validate({"playbooks": [playbook_of()]}).playbooks[0].dry_run is False
