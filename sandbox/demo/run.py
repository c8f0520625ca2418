"""Plays the demo: starts everything, has the story told, checks the end, stops everything."""

import contextlib
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from sandbox import programs
from sandbox.demo.admission_story import check_admission
from sandbox.demo.alert_feed import AlertFeed
from sandbox.demo.cluster_story import check_cluster
from sandbox.demo.fleet import Fleet
from sandbox.demo.monitoring import PROGRAMS, Alerts, Monitoring
from sandbox.demo.services import GPU_ADMISSION, NODE_CONDITIONS, REMEDIATOR, Services
from sandbox.demo.story import REPOSITORY, Check, check_end
from sandbox.demo.telling import Stage, Telling
from sandbox.demo.terminal import DemoError, StoppedError, Story, aside, say
from sandbox.github_server import SandboxGitHub

BREAKS = ("admission", "assign", "condition", "metric", "probe")
"""gpu_admission is not registered; nobody can be assigned; the nodes' agents lie; the exporter sees no node; the repair
does not help, which only the probe finds."""
_WRONG_USE = 2
_NOWHERE = "nodemend.dev/rack=nowhere"


def run(*, once: bool, break_what: str | None) -> int:
    """Play the demo. With `once`, check the end and return 0 or 1; else wait for Ctrl-C and return 0.

    `break_what` switches something off underneath (one of BREAKS), to show that the check can fail.
    """
    if break_what is not None and break_what not in BREAKS:
        say(f"BREAK={break_what} is unknown; there is: {', '.join(BREAKS)}")
        return _WRONG_USE
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    story, told = Story(stop), False
    try:
        with _stage(story, break_what) as stage:
            told = _play(story, stage)
            if once:
                failed = _judge(story, stage)
                return 0 if told and not failed else 1
            if not told and break_what is None:
                return 1
            say("Everything keeps running: open the addresses above. Ctrl-C stops all of it.")
            stop.wait()
    except StoppedError:
        say("Stopped before the story was over.")
        return 1 if once else 0
    except programs.ProgramError as error:
        say(f"The demo failed: {error}")
        return 1
    say("Stopped.")
    return 0 if told else 1


@contextlib.contextmanager
def _stage(story: Story, break_what: str | None) -> Iterator[Stage]:
    """Start all that runs; stop it in the opposite order."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nodemend-demo-")))
        github = stack.enter_context(SandboxGitHub(repositories=(REPOSITORY,)))
        github.state.switches.assignees_off = break_what == "assign"
        story.step(f"An embedded GitHub runs at {github.url}/{REPOSITORY}/issues")
        fleet = Fleet(folder)
        stack.callback(fleet.stop)
        services = Services(folder)
        stack.callback(services.stop)
        alerts = _alerts(folder, services)
        stack.callback(alerts.stop)
        _start(github, fleet, services, break_what)
        _introduce(story, fleet, services, registers=break_what != "admission")
        alerts.start()
        alerts.wait()
        story.step(alerts.description)
        for name in _missing():
            aside(f"{name} is not installed ({programs.HOW_TO_GET[name]}).")
        yield Stage(github, fleet, alerts, services.receivers, probe_fails=break_what == "probe")


def _missing() -> list[str]:
    return [name for name in PROGRAMS if programs.find(name) is None]


def _alerts(folder: Path, services: Services) -> Alerts:
    if _missing():
        return AlertFeed(services.metrics_url, services.receivers)
    return Monitoring(folder, services.port(NODE_CONDITIONS), services.receivers)


def _start(github: SandboxGitHub, fleet: Fleet, services: Services, break_what: str | None) -> None:
    """Start what needs time to come up; none waits for another."""
    services.start_alerts2gh(github)
    fleet.start()
    nodes = _NOWHERE if break_what == "metric" else None
    services.start_exporter(fleet.kubeconfig_for(NODE_CONDITIONS), nodes)
    services.start_remediator(fleet.kubeconfig_for(REMEDIATOR))
    services.start_gpu_admission(fleet.kubeconfig_for(GPU_ADMISSION))
    if break_what == "condition":
        fleet.let_agents_lie()


def _introduce(story: Story, fleet: Fleet, services: Services, *, registers: bool) -> None:
    """Wait for each and say where it is; `registers`: the API server is told of gpu_admission."""
    fleet.wait()
    story.step(
        f"An embedded Kubernetes has {len(fleet.specs)} simulated nodes, all of different kinds. Look at them:\n"
        f"   kubectl --kubeconfig {fleet.kubeconfig} get nodes,nodeoperations"
    )
    services.wait(NODE_CONDITIONS)
    story.step(f"exporters node-conditions shows their conditions at {services.metrics_url}")
    services.wait("alerts2gh")
    story.step(f"alerts2gh makes issues of alerts: {services.receivers.alerts2gh}/")
    services.wait(REMEDIATOR)
    story.step(f"remediator runs the known repairs: {services.receivers.remediator}/")
    services.wait(GPU_ADMISSION)
    if registers:
        services.register_gpu_admission(fleet.client)
    story.step(
        "gpu_admission says which GPUs a pod may have, by what it knows of them:\n"
        f"   {services.catalogue}\n   {services.url(GPU_ADMISSION)}/metrics"
    )


def _play(story: Story, stage: Stage) -> bool:
    """Tell the story; whether it came to its good end."""
    try:
        Telling(story, stage).tell()
    except DemoError as error:
        say(f"The demo failed: {error}")
        return False
    return True


def _judge(story: Story, stage: Stage) -> int:
    """Say what holds at the end; how many things do not."""
    story.step("What their own records say of it:")
    checks = (
        *check_admission(stage.fleet),
        *check_cluster(stage.fleet, stage.alerts),
        *check_end(stage.github),
    )
    for check in checks:
        aside(_line(check))
    failed = sum(not c.holds for c in checks)
    say("All of it holds." if not failed else f"{failed} of {len(checks)} do not hold.")
    return failed


def _line(check: Check) -> str:
    return f"[{'ok' if check.holds else 'NO'}] {check.rule} (found: {check.found})"
