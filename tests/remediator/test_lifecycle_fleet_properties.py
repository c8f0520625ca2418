"""Many operations at once: whoever is asked in which order, no budget is exceeded and nobody starves."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.budgets import unavailable
from remediator.cluster import Isolate, NodeView, Observation, Release
from remediator.config import Config
from remediator.lifecycle import Act, Policy, Record, next_step
from remediator.operation import NodeOperation, Phase
from tests.remediator.building import (
    HOUR,
    MINUTE,
    NOW,
    START,
    condition_of,
    config_of,
    faulty,
    fleet_of,
    operation_of,
    playbook_of,
)

RESTART = {"name": "units", "repair": {"restart_pods": {"namespace": "gpu", "selector": 'a="b"'}}}


def fleet_config(limit: int, racks: bool) -> Config:
    budget = {"name": "all", "max_unavailable": limit} | ({"topology_key": "rack"} if racks else {})
    quick = playbook_of(ladder=[RESTART], proof={"soak": "0s", "deadline": "10m"})
    return config_of(quick, budgets=[budget], rate_limit={"isolations": 1000})


class Fleet:
    """Nodes with one operation each; a repair heals, and the log is the highest use ever seen."""

    def __init__(self, size: int, config: Config) -> None:
        self.config = config
        self.now = NOW
        self.nodes: dict[str, NodeView] = {}
        self.operations: dict[str, NodeOperation] = {}
        self.most: dict[str, int] = {}
        for index in range(size):
            node = faulty(f"n{index}", labels={"rack": str(index % 2)})
            self.nodes[node.name] = node
            made = operation_of(f"no-{index}", node=node.name)
            self.operations[made.name] = replace(made, created_at=START + index * MINUTE)

    def step(self, name: str, *, killed: bool) -> None:
        """One pass for one operation; killed: the decision is lost."""
        operation = self.operations[name]
        node = self.nodes[operation.spec.node]
        healed = bool(operation.status.attempts)
        status = condition_of("False" if healed else "True", heartbeat=self.now)
        look = Observation(self.now, replace(node, conditions={"GPUIsLost": status}), ())
        fleet = replace(fleet_of(*self.nodes.values()), as_of=self.now)
        others = tuple(self.operations.values())
        step = next_step(operation, look, Policy(self.config), fleet, others, self.now)
        if isinstance(step, Record) and not killed:
            self.operations[name] = replace(operation, status=step.status)
        elif isinstance(step, Act) and not killed:
            for effect in step.effects:
                if isinstance(effect, Isolate | Release):
                    taint = effect.operation if isinstance(effect, Isolate) else None
                    self.nodes[node.name] = replace(node, operation_taint=taint)
        self.now += MINUTE / 60
        self._count()

    def _count(self) -> None:
        fleet = fleet_of(*self.nodes.values())
        for name in unavailable(fleet, self.operations.values()):
            assert name in self.nodes
        for rack in ("0", "1", None):
            out = [
                name
                for name in unavailable(fleet, self.operations.values())
                if rack in {None, self.nodes[name].labels["rack"]}
            ]
            key = rack or "all"
            self.most[key] = max(self.most.get(key, 0), len(out))

    @property
    def done(self) -> bool:
        return all(not each.running for each in self.operations.values())


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(1, 2), st.booleans(), st.integers(0, 2**32))
def test_no_budget_is_exceeded_at_any_moment_and_everyone_gets_a_turn(
    size: int, limit: int, racks: bool, seed: int
) -> None:
    chance = Random(seed)
    fleet = Fleet(size, fleet_config(limit, racks))
    for _ in range(200):
        order = list(fleet.operations)
        chance.shuffle(order)
        for name in order:
            fleet.step(name, killed=chance.random() < 0.2)
        if fleet.done:
            break

    assert {each.status.phase for each in fleet.operations.values()} == {Phase.SUCCEEDED}
    assert all(fleet.most[rack] <= limit for rack in (("0", "1") if racks else ("all",)))
    assert all(node.operation_taint is None for node in fleet.nodes.values())
    assert fleet.now < NOW + 10 * HOUR
