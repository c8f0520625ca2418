"""What can come out for a pod: changed, left as it is, or denied; each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_admission.gpu_request import Ask
from gpu_admission.judging import Denied
from gpu_admission.review import Answer, Operation
from gpu_admission.selection import Selection


class UnchangedReason(StrEnum):
    """Why a pod is let in as it is; also the label of the metric."""

    NO_GPU = "no_gpu"
    """It asks for no GPU, and nothing else is to be done to it."""
    ALREADY_DONE = "already_done"
    """It is what we made of it before: the webhook was called again."""
    RAW_GPU = "raw_gpu"
    """It asks for the nodes' resource directly, which the policy lets it."""
    MIRROR_POD = "mirror_pod"
    """It mirrors a static pod, which runs already."""
    EXCLUDED_NAMESPACE = "excluded_namespace"
    """Its namespace is none of ours."""
    NOT_A_POD = "not_a_pod"
    """It has no spec; the API server says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Mutated:
    """A pod to be changed by a JSON Patch. `selection` is None where only CPUs or zeros were at stake."""

    patch: tuple[Operation, ...]
    class_name: str
    selection: Selection | None = None
    asks: tuple[Ask, ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)

    def answer(self) -> Answer:
        """For the API server."""
        return Answer(
            allowed=True,
            patch=self.patch,
            warnings=self.warnings,
            audit_annotations=self.audit_annotations,
        )


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A pod that is fine as it is."""

    reason: UnchangedReason
    warnings: tuple[str, ...] = ()
    asks: tuple[Ask, ...] = ()
    class_name: str = ""

    def answer(self) -> Answer:
        """For the API server."""
        return Answer(allowed=True, warnings=self.warnings)


Decision = Mutated | Unchanged | Denied
