"""Which conditions and annotations are the agent's to write: by what is on the node, who probes, and what people ask."""

import pytest
from prometheus_client import CollectorRegistry

from chassis.contracts import (
    PROBE_OWNER_ANNOTATION,
    PROBE_REQUEST_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
    ConditionType,
    ProbeResult,
    ProbeVerdict,
)
from chassis.telemetry import get_logger
from exporters.condition_writer import NodeView, Wanted
from exporters.config.node_agent import NodeAgentSettings
from exporters.node_agent.board import Board, Boot
from exporters.node_agent.choices import policies
from exporters.node_agent.goal import FORGET_ANNOTATION, GPU_TYPES, NodeGoal
from exporters.node_agent.gpu_rounds import Presence
from exporters.node_agent.metrics import AgentMetrics
from exporters.readings import DriverReading, DriverStatus
from tests.exporters.check_builders import BOOT, NOW, A, a_driver, a_gpu

NO_GPU = DriverReading(DriverStatus.NOT_INSTALLED)
PROBED = ConditionType.GPU_RUNTIME_ERROR
HOST = {ConditionType.D_STATE_PROCESS, ConditionType.NFS_MOUNT_STUCK}


class Agent:
    """A goal and what it rests on, without anything that runs."""

    def __init__(self, mode: str = "in_place", driver: DriverReading | None = None) -> None:
        settings = NodeAgentSettings.model_validate({"probe_mode": mode})
        log = get_logger("test")
        metrics = AgentMetrics(CollectorRegistry(), "n1")
        self.board = Board(policies(settings, ()), Boot(BOOT, NOW), None, lambda: NOW)
        self.presence = Presence(metrics, log, lambda: None)
        if driver is not None:
            self.presence.note(driver, 0, 0)
        self.goal = NodeGoal(
            mode=settings.probe_mode,
            board=self.board,
            presence=self.presence,
            metrics=metrics,
            clock=lambda: NOW,
            log=log,
        )

    def wanted(self, **annotations: str) -> Wanted:
        view = a_view(**annotations)
        self.goal.meet(view)
        found = self.goal.wanted(view)
        assert found is not None
        return found


def a_view(version: str = "1", **annotations: str) -> NodeView:
    keys = {
        "owner": PROBE_OWNER_ANNOTATION,
        "request": PROBE_REQUEST_ANNOTATION,
        "result": PROBE_RESULT_ANNOTATION,
        "forget": FORGET_ANNOTATION,
    }
    return NodeView("n1", "uid-1", version, {keys[k]: v for k, v in annotations.items()}, {}, {})


GPUS = a_driver(a_gpu(A))


@pytest.mark.parametrize(
    ("driver", "written", "undecided"),
    [
        pytest.param(GPUS, set(ConditionType), set(), id="with GPUs, all"),
        pytest.param(NO_GPU, HOST, set(), id="without, those of the host alone"),
        pytest.param(a_driver(), HOST, set(), id="a driver without GPUs is no GPU"),
        pytest.param(None, HOST, GPU_TYPES, id="before that is known, GPUs' are left as they are"),
        pytest.param(
            DriverReading(DriverStatus.TIMED_OUT), HOST, GPU_TYPES, id="nor does a hung driver tell"
        ),
    ],
)
def test_conditions_of_gpus_are_for_nodes_with_gpus(
    driver: DriverReading | None, written: set[str], undecided: set[str]
) -> None:
    found = Agent(driver=driver).wanted()

    assert (set(found.conditions), set(found.undecided)) == (written, undecided)


def test_gpus_on_the_bus_or_in_the_inventory_are_gpus_whatever_the_driver_says() -> None:
    for expected, on_bus in ((2, 0), (0, 2)):
        agent = Agent()
        agent.presence.note(NO_GPU, expected, on_bus)
        assert agent.presence.there is True


@pytest.mark.parametrize(
    ("mode", "owner", "writes", "hands_over", "annotation"),
    [
        pytest.param("in_place", "", True, False, "node-agent", id="nobody's: taken"),
        pytest.param("in_place", "node-agent", True, False, "node-agent", id="ours: kept"),
        pytest.param("in_place", "gpu-monitor", False, True, "unchanged", id="another's: left"),
        pytest.param("scheduled", "node-agent", False, True, None, id="given to gpu-monitor"),
        pytest.param("scheduled", "gpu-monitor", False, True, "unchanged", id="gpu-monitor's"),
        pytest.param("off", "node-agent", False, False, None, id="nobody's any more: removed"),
    ],
)
def test_one_prober_owns_the_verdict_of_the_probe(
    mode: str, owner: str, writes: bool, hands_over: bool, annotation: str | None
) -> None:
    agent = Agent(mode, GPUS)
    found = agent.wanted(**({"owner": owner} if owner else {}))

    assert (PROBED in found.conditions, PROBED in found.handed_over) == (writes, hands_over)
    assert found.annotations.get(PROBE_OWNER_ANNOTATION, "unchanged") == annotation
    assert agent.goal.may_probe() is writes


def test_nothing_is_wanted_before_the_node_was_met() -> None:
    assert Agent(driver=GPUS).goal.wanted(a_view()) is None


def an_answer(
    operation: str = "op", boot: str = BOOT, end: ProbeVerdict = ProbeVerdict.PASSED
) -> str:
    return ProbeResult.of(operation, boot, NOW, {A: end}, complete=True).dump()


@pytest.mark.parametrize(
    ("annotations", "asked"),
    [
        pytest.param({}, None, id="nobody asks"),
        pytest.param({"request": "op"}, "op", id="somebody asks"),
        pytest.param({"request": ""}, None, id="an empty request is none"),
        pytest.param({"request": "o\np"}, None, id="nor is one that no answer can carry"),
        pytest.param({"request": "op", "result": an_answer()}, None, id="it was answered"),
        pytest.param({"request": "op", "result": an_answer("old")}, "op", id="another was answered"),
        pytest.param({"request": "op", "result": an_answer(boot="b0")}, "op", id="before the reboot"),
        pytest.param({"request": "op", "result": an_answer(end=ProbeVerdict.INCONCLUSIVE)}, "op", id="without a verdict"),
    ],
)  # fmt: skip
def test_a_request_is_open_until_this_boot_has_answered_it(
    annotations: dict[str, str], asked: str | None
) -> None:
    agent = Agent(driver=GPUS)
    agent.goal.see(a_view(**annotations))

    assert agent.goal.request() == asked


def test_an_answer_is_written_for_its_request_until_it_stands_on_the_node() -> None:
    agent = Agent(driver=GPUS)
    answer = an_answer()
    agent.goal.answered(ProbeResult.model_validate_json(answer))

    for other in ({"request": "op-2"}, {}):
        assert PROBE_RESULT_ANNOTATION not in agent.wanted(**other).annotations
    on_its_way = agent.wanted(request="op").annotations
    assert on_its_way[PROBE_RESULT_ANNOTATION] == answer
    assert agent.goal.request() is None

    assert PROBE_RESULT_ANNOTATION not in agent.wanted(request="op", result=answer).annotations
    assert agent.goal.request() is None


def test_an_answer_that_was_taken_away_is_not_written_again_and_its_request_is_open() -> None:
    agent = Agent(driver=GPUS)
    agent.goal.answered(ProbeResult.model_validate_json(an_answer()))
    agent.goal.wrote(a_view(request="op", result=an_answer()))

    taken_away = agent.wanted(request="op").annotations

    assert PROBE_RESULT_ANNOTATION not in taken_away
    assert agent.goal.request() == "op"


def test_a_wish_to_forget_is_fulfilled_and_taken_off_the_node() -> None:
    agent = Agent(driver=GPUS)

    found = agent.wanted(forget="GPUXIDError, Ready,,Nonsense")

    assert found.annotations[FORGET_ANNOTATION] is None
    assert agent.board.version > 1
