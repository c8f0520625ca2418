"""Everything that one decision looks at: the operation's own node, and the fleet around it.

Pure data. Each part carries the time of its reading; what is too old holds an operation back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from remediator.cluster.views import (
    AlertView,
    JobState,
    JobView,
    NodeView,
    PodView,
    ProbeView,
    QueryView,
)


@dataclass(frozen=True, slots=True)
class Observation:
    """What is seen for one operation.

    `node` is None when there is none of this name. `pods` are all pods bound to the node, None
    when they were not read (only some phases need them). `job` is the Job of the present intent.
    `alerts` are by fingerprint, `queries` by name; a key that is missing is unknown.
    """

    as_of: datetime
    node: NodeView | None
    pods: tuple[PodView, ...] | None = None
    job: JobView | None = None
    alerts: Mapping[str, AlertView] = field(default_factory=dict)
    queries: Mapping[str, QueryView] = field(default_factory=dict)
    probe: ProbeView = field(default_factory=ProbeView)

    def stale(self, now: datetime, limit: timedelta) -> bool:
        """Whether the reading of the node is too old to act on; a clock set back is as bad."""
        return abs(now - self.as_of) > limit

    @property
    def job_state(self) -> JobState:
        """The state of the present Job, unknown when it was not read."""
        return JobState.UNKNOWN if self.job is None else self.job.state


@dataclass(frozen=True, slots=True)
class Pause:
    """Who stopped everything new, and why; also of one node."""

    by: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class BreakerState:
    """The breaker as the ConfigMap remembers it. `reset_at`: isolations before it do not count."""

    open: bool = False
    since: datetime | None = None
    text: str = ""
    reset_at: datetime | None = None
    reset_by: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes, by live reads, and the switches that hold for all of them.

    `state_known` is False when pause and breaker could not be read: then nothing new begins.
    `unreadable` are stored operations that somebody has edited into nonsense, with what is wrong.
    """

    as_of: datetime
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    pause: Pause | None = None
    breaker: BreakerState = field(default_factory=BreakerState)
    state_known: bool = True
    unreadable: Mapping[str, str] = field(default_factory=dict)
