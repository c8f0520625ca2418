"""`make demo`, to the last line: pods get their GPUs, one breaks, its node is repaired and proven, its issue closes."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox import programs
from sandbox.demo.admission import registrations
from sandbox.demo.admission_story import products_with, smallest_with
from sandbox.demo.monitoring import PROGRAMS, rules
from sandbox.demo.services import playbook
from sandbox.simulated_nodes import MODELS

ROOT = Path(__file__).parents[2]
CHECKS = 23
NODE = "gpu-0003"
"""The node that breaks."""
COMMAND = [sys.executable, "-m", "sandbox", "demo"]


def environment(path: str | None = None, **more: str) -> dict[str, str]:
    """The environment of a demo, with another PATH if given."""
    chosen = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return chosen if path is None else {**chosen, "PATH": path}


def demo(path: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Play it once in a process of its own."""
    return subprocess.run(
        COMMAND,
        env=environment(path, ONCE="1", **more),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def need_programs() -> None:
    for name in PROGRAMS:
        if programs.find(name) is None:
            pytest.skip(f"{name} is not installed. {programs.HOW_TO_GET[name]}")


def not_held(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What was found, by the rule that does not hold at the end."""
    found = re.findall(r"\[NO\] (.+) \(found: (.*)\)$", done.stdout, re.MULTILINE)
    return dict(found)


def test_without_prometheus_a_feed_stands_in_and_all_of_the_story_holds(tmp_path: Path) -> None:
    done = demo(path=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "so a small feed stands in for them" in done.stdout
    for name in PROGRAMS:
        assert f"{name} is not installed ({programs.HOW_TO_GET[name]})" in done.stdout
    assert not not_held(done)
    assert done.stdout.count("[ok]") == CHECKS
    assert "All of it holds." in done.stdout
    assert_pods_are_told_of(done.stdout)


def assert_pods_are_told_of(story: str) -> None:
    """What was asked for, what became of it, where it runs; and what is refused, before anything breaks."""
    opening, _ = story.split(f"A GPU of {NODE} stops allocating memory.")
    assert "  |     preferred.jp/gpu-any-40gb: 1\n" in opening
    assert "nvidia.com/gpu: 1, on a node with NVIDIA-A100-SXM4-80GB" in opening
    assert f"It runs on {NODE}, which has NVIDIA-L40S." in opening
    assert "nvidia.com/gpu: 1, on a node with NVIDIA-A30.\n" in opening
    refused = next(line for line in opening.splitlines() if "denied the request" in line)
    assert 'unknown GPU "a1000"' in refused
    assert 'did you mean "a100"?' in refused


def test_an_unknown_break_is_told() -> None:
    done = demo(BREAK="everything")
    assert done.returncode == 2
    assert (
        "BREAK=everything is unknown; there is: admission, assign, condition, metric, probe"
        in done.stdout
    )


BREAKS = {
    "admission": (
        "what people asked for in gpu_admission's words is the nodes' own resource in their pods",
        r"preferred\.jp/gpu-any-40gb: 1",
    ),
    "assign": ("it is assigned to alice", r"nobody"),
    "condition": (
        f"Kubernetes saw GPURuntimeError of {NODE} become True and then False",
        r"False",
    ),
    "metric": ("{reader} saw the metric rise and fall", r"0 changes"),
    "probe": ("the operation went its whole way and succeeded", r"Gated .+ Escalated \(\w+\)"),
}
"""What must be found not to hold; and how it is found."""


def assert_it_fails(done: subprocess.CompletedProcess[str], broken: str, reader: str) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    rule, found = BREAKS[broken]
    failures = not_held(done)
    assert re.fullmatch(found, failures[rule.format(reader=reader)]), done.stdout
    if broken == "assign":
        assert len(failures) == 1
    if broken == "admission":
        assert (
            "The demo failed: waited for the pod of training to run, and the scheduler says: "
            in (done.stdout)
        )
    if broken == "probe":
        assert_a_person_is_asked(done, failures)


def assert_a_person_is_asked(
    done: subprocess.CompletedProcess[str], failures: dict[str, str]
) -> None:
    """Everything but the probe calls the node well again, and still it stays isolated and its issue open."""
    taint = failures["the node was isolated for the operation, and takes pods again"]
    assert re.fullmatch(r"isolated for nobody, no-\w+; now nodemend.dev/operation", taint)
    closed = "it is closed at the end, as the alert is over and the node is back"
    assert failures[closed] == "open"
    assert "[ok] its boot id changed exactly once" in done.stdout
    told = next(line for line in done.stdout.splitlines() if "**Escalated**" in line)
    assert "the probe found a problem" in told
    assert "Next: a person must look at the node" in told
    assert f"remediator release {NODE}" in told


def test_without_gpu_admission_the_training_finds_no_node_and_the_demo_fails(
    tmp_path: Path,
) -> None:
    assert_it_fails(demo(path=str(tmp_path), BREAK="admission"), "admission", "the feed")


@pytest.mark.slow
@pytest.mark.parametrize("broken", [each for each in BREAKS if each != "admission"])
def test_without_prometheus_each_break_is_found(tmp_path: Path, broken: str) -> None:
    assert_it_fails(demo(path=str(tmp_path), BREAK=broken), broken, "the feed")


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["metric", "probe"])
def test_with_real_programs_a_break_is_found(broken: str) -> None:
    need_programs()
    assert_it_fails(demo(BREAK=broken), broken, "Prometheus")


@pytest.mark.slow
def test_with_real_programs_all_of_the_story_holds() -> None:
    need_programs()
    done = demo()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Alerts come from a real Prometheus and Alertmanager" in done.stdout
    assert not not_held(done)
    assert done.stdout.count("[ok]") == CHECKS


@contextmanager
def playing(path: str | None = None, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A demo that goes on until it is stopped."""
    process = subprocess.Popen(
        COMMAND,
        env=environment(path, ONCE="", BREAK="", **more),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()  # killed, it could not stop what it started
        process.communicate(timeout=60)


def told_until(process: subprocess.Popen[str], words: str) -> str:
    """What it has told up to the line with these words."""
    told = []
    assert process.stdout
    for line in process.stdout:
        told.append(line)
        if words in line:
            return "".join(told)
    pytest.fail(f"it ended before it said {words!r}:\n{''.join(told)}")


def left_over(folder: Path) -> list[str]:
    """Files in the folder, and the command lines of processes that name it."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has just ended
    return [*map(str, folder.iterdir()), *(c for c in commands if str(folder) in c)]


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with playing(path=str(tmp_path), TMPDIR=str(folder)) as process:
        told_until(process, "Everything keeps running")
        assert left_over(folder)
        process.send_signal(signal.SIGINT)
        assert told_until(process, "Stopped.")
        assert process.wait(30) == 0
    assert left_over(folder) == []


def test_ctrl_c_in_the_middle_ends_the_story(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with playing(path=str(tmp_path), TMPDIR=str(folder)) as process:
        told_until(process, "1. An embedded GitHub")
        process.send_signal(signal.SIGINT)
        assert told_until(process, "Stopped before the story was over.")
        assert process.wait(30) == 0
    assert left_over(folder) == []


@pytest.mark.slow
def test_with_real_programs_the_addresses_answer_until_ctrl_c(tmp_path: Path) -> None:
    need_programs()
    folder = tmp_path / "temporary"
    folder.mkdir()
    with playing(TMPDIR=str(folder)) as process:
        told = told_until(process, "Everything keeps running")
        addresses = re.findall(r"http://\S+", told)
        # GitHub, two of metrics, alerts2gh, remediator, Prometheus, Alertmanager, the operation; the issue twice.
        assert len(addresses) == 10
        for address in addresses:
            with urllib.request.urlopen(address, timeout=10) as answer:
                assert answer.status == 200
        kubeconfig = re.search(r"kubectl --kubeconfig (\S+) get nodes,nodeoperations", told)
        assert kubeconfig is not None
        assert yaml.safe_load(Path(kubeconfig[1]).read_text())["kind"] == "Config"
        process.send_signal(signal.SIGINT)
        assert told_until(process, "Stopped.")
        assert process.wait(60) == 0
    assert left_over(folder) == []


def test_the_demos_rule_is_the_shipped_one() -> None:
    shipped = yaml.safe_load((ROOT / "deploy/prometheus/exporters-rules.yaml").read_text())
    by_name = {rule.get("alert"): rule for group in shipped["groups"] for rule in group["rules"]}
    ours = rules()["groups"][0]["rules"][0]
    theirs = by_name[ours["alert"]]
    assert " ".join(theirs["expr"].split()) == ours["expr"]
    assert (theirs["labels"], theirs.get("for")) == (ours["labels"], ours.get("for"))


def test_the_demos_playbook_is_the_shipped_one_but_for_its_times() -> None:
    text = (ROOT / "deploy/remediator/playbooks/gpu-runtime-error.yaml").read_text()
    (theirs,) = yaml.safe_load(text)["playbooks"]
    ours = playbook()
    for key in ("name", "description", "match"):
        assert ours[key] == theirs[key]
    assert [(rung["name"], *rung["repair"]) for rung in ours["ladder"]] == [
        (rung["name"], *rung["repair"]) for rung in theirs["ladder"]
    ]
    for key in ("conditions", "probe"):
        assert ours["proof"][key] == theirs["proof"][key]


def test_the_demos_resource_is_the_shipped_one() -> None:
    link = ROOT / "sandbox/demo/nodeoperations.yaml"
    assert link.resolve() == (ROOT / "deploy/remediator/crd.yaml").resolve()


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_the_demos_webhooks_are_the_shipped_ones_but_for_address_and_time(kind: str) -> None:
    shipped = yaml.safe_load((ROOT / f"deploy/gpu-admission/base/{kind}.yaml").read_text())
    found = {body["kind"]: body for _, body in registrations("https://127.0.0.1:1", "Q0E=")}
    ours = found[shipped["kind"]]
    assert ours["metadata"] == shipped["metadata"]
    for mine, theirs in zip(ours["webhooks"], shipped["webhooks"], strict=True):
        path = theirs["clientConfig"]["service"]["path"]
        assert mine["clientConfig"] == {"url": f"https://127.0.0.1:1{path}", "caBundle": "Q0E="}
        assert without_address_and_time(mine) == without_address_and_time(theirs)


def without_address_and_time(webhook: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in webhook.items() if k not in {"clientConfig", "timeoutSeconds"}}


def test_the_demos_catalogue_knows_each_simulated_gpu_and_its_memory() -> None:
    catalogue = yaml.safe_load((ROOT / "sandbox/demo/catalogue.yaml").read_text())
    said = {
        value: variant["vram_gb"]
        for model in catalogue["models"]
        for variant in model["variants"]
        for value in variant["node_label_values"]
    }
    assert said.keys() == MODELS.keys()
    for product, gigabytes in said.items():
        assert product in products_with(gigabytes)
        assert product not in products_with(gigabytes + 8)
    assert smallest_with(24) == {"NVIDIA-A30"}
