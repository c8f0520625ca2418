"""From a review to its answer: picks the decision, counts what was asked for, logs what was denied.

Decides nothing about GPUs, and reads only what it is handed: no API call, no clock of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from structlog.typing import FilteringBoundLogger

from gpu_admission.catalogue import Catalogue, NamespaceView, PriorityClasses
from gpu_admission.judging import Denied
from gpu_admission.metrics import ReviewMetrics
from gpu_admission.mutation import Decision, Mutated, mutate
from gpu_admission.review import Answer, Review
from gpu_admission.validation import Verdict, validate_pod, validate_workload

_NOT_OURS = Answer(allowed=True)
ADMITTED, DENIED, UNCHANGED = "admitted", "denied", "unchanged"


@dataclass(frozen=True, slots=True)
class State:
    """What decisions need of the world: the catalogue, the priority classes, the namespaces."""

    catalogue: Catalogue
    priorities: PriorityClasses
    namespace: Callable[[str], NamespaceView]


@dataclass(frozen=True, slots=True)
class Told:
    """An answer with the words for the metrics."""

    answer: Answer
    outcome: str
    reason: str = ""


class Desk:
    """The three endpoints."""

    def __init__(
        self,
        state: Callable[[], State | None],
        *,
        clock: Callable[[], datetime],
        metrics: ReviewMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        """`state` gives None until there is a catalogue."""
        self._state = state
        self._clock = clock
        self._metrics = metrics
        self._log = log

    @property
    def open(self) -> bool:
        """Whether there is a catalogue to decide by."""
        return self._state() is not None

    def endpoints(self) -> dict[str, Callable[[Review], Told]]:
        """By path."""
        return {
            "/mutate-pods": self.mutate_pod,
            "/validate-pods": self.validate_pod,
            "/validate-workloads": self.validate_workload,
        }

    def mutate_pod(self, review: Review) -> Told:
        """A new pod: placed, left alone, or denied."""
        state = self._state()
        if state is None or not review.is_pod_creation or review.object is None:
            return Told(_NOT_OURS, UNCHANGED, "NotAPodsCreation")
        namespace = state.namespace(review.namespace)
        decided = mutate(review.object, namespace, state.catalogue, self._clock(), state.priorities)
        if isinstance(decided, Mutated):
            self._count(review, decided, ADMITTED, "")
            return Told(decided.answer(), ADMITTED)
        if isinstance(decided, Denied):
            self._count(review, decided, DENIED, str(decided.reason))
            self._tell(review, str(decided.reason), decided.text)
            return Told(decided.answer(), DENIED, str(decided.reason))
        # What asks for the nodes' resource directly is demand as well.
        self._count(review, decided, ADMITTED, str(decided.reason))
        return Told(decided.answer(), UNCHANGED, str(decided.reason))

    def validate_pod(self, review: Review) -> Told:
        """A new pod as it will be stored: nothing of ours may be left over or weakened."""
        state = self._state()
        if state is None or not review.is_pod_creation or review.object is None:
            return Told(_NOT_OURS, UNCHANGED, "NotAPodsCreation")
        namespace = state.namespace(review.namespace)
        decided = validate_pod(
            review.object, namespace, state.catalogue, self._clock(), state.priorities
        )
        return self._validated(review, decided)

    def validate_workload(self, review: Review) -> Told:
        """A Deployment or its like: its template's pods must not be denied later."""
        state = self._state()
        if state is None or review.object is None or review.subresource:
            return Told(_NOT_OURS, UNCHANGED, "NotATemplate")
        namespace = state.namespace(review.namespace)
        decided = validate_workload(
            review.kind,
            review.object,
            review.old_object,
            namespace,
            state.catalogue,
            self._clock(),
            priorities=state.priorities,
        )
        return self._validated(review, decided)

    def _validated(self, review: Review, decided: Verdict) -> Told:
        if isinstance(decided, Denied):
            self._tell(review, str(decided.reason), decided.text)
            return Told(decided.answer(), DENIED, str(decided.reason))
        return Told(decided.answer(), ADMITTED)

    def _count(self, review: Review, decided: Decision, outcome: str, reason: str) -> None:
        if not review.dry_run:
            self._metrics.asks(decided.asks, decided.class_name, review.namespace, outcome, reason)

    def _tell(self, review: Review, reason: str, text: str) -> None:
        self._log.info(
            "denied",
            kind=review.kind,
            namespace=review.namespace,
            name=review.name,
            reason=reason,
            text=text,
            dry_run=review.dry_run,
        )
