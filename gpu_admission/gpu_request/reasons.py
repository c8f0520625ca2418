"""Why a pod is denied, and what is said about it."""

from dataclasses import dataclass
from enum import StrEnum

_MALFORMED = 400
_FORBIDDEN = 403
_TRY_AGAIN = 503


class Reason(StrEnum):
    """Why a pod or template is denied; also the label of the metric."""

    MALFORMED_KEY = "malformed_key"
    """The resource key does not follow the grammar."""
    UNKNOWN_GPU = "unknown_gpu"
    """The catalogue has no model or alias of this name."""
    WRONG_AMOUNT = "wrong_amount"
    """The amount is not a whole number of at least 0."""
    NOT_IN_LIMITS = "not_in_limits"
    """The key is in requests only, or with another amount there."""
    WRONG_PLACE = "wrong_place"
    """The key stands where Kubernetes knows no GPUs, such as the pod's own resources."""
    MIXED_WITH_RAW = "mixed_with_raw"
    """One container asks both by our key and by the nodes' resource."""
    NOT_ENOUGH_VRAM = "not_enough_vram"
    """No GPU of that name has so much VRAM."""
    NO_COMMON_MODEL = "no_common_model"
    """Each request can be met, but not all on one node."""
    NOT_ALLOWED = "not_allowed"
    """The namespace may not have the models that fit."""
    EXCLUDED_FROM_ANY = "excluded_from_any"
    """Only models fit that are taken out of `any`."""
    SMALLEST_EXCLUDED = "smallest_excluded"
    """The smallest size is taken out of `any`, and the policy is not to use the next."""
    NODE_TOO_SMALL = "node_too_small"
    """No node with a model that fits has so many GPUs."""
    TOO_MANY_GPUS = "too_many_gpus"
    """More GPUs than a pod of this namespace may have."""
    PINNED_ELSEWHERE = "pinned_elsewhere"
    """The pod's own node selector or affinity leaves none of the GPUs that it may have."""
    DAEMONSET = "daemonset"
    """GPUs by our key in a DaemonSet, whose controller does not see the affinity."""
    RAW_GPU = "raw_gpu"
    """The nodes' resource asked for directly, where the policy denies that."""
    NAMESPACE_UNKNOWN = "namespace_unknown"
    """The namespace's labels are not known yet; trying again helps."""
    LEFT_OVER = "left_over"
    """A key of ours reached validation: the mutating webhook was not called."""
    AFFINITY_WEAKENED = "affinity_weakened"
    """The pod's affinity lets it on nodes without the GPUs it was given."""
    ANNOTATION_FORGED = "annotation_forged"
    """The audit annotation does not tell what the pod asks for."""

    @property
    def code(self) -> int:
        """The HTTP status that the denial carries."""
        if self in _MALFORMED_REASONS:
            return _MALFORMED
        return _TRY_AGAIN if self is Reason.NAMESPACE_UNKNOWN else _FORBIDDEN


_MALFORMED_REASONS = frozenset(
    {
        Reason.MALFORMED_KEY,
        Reason.UNKNOWN_GPU,
        Reason.WRONG_AMOUNT,
        Reason.NOT_IN_LIMITS,
        Reason.WRONG_PLACE,
        Reason.MIXED_WITH_RAW,
    }
)


@dataclass(frozen=True, slots=True)
class Ask:
    """What was asked for, as metrics count it: `amount` GPUs of at least `min_vram_gb` (0: any size)."""

    name: str
    min_vram_gb: int
    amount: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod that is not let in: what, where, and what to do instead."""

    reason: Reason
    text: str
    asks: tuple[Ask, ...] = ()

    @property
    def code(self) -> int:
        """The HTTP status that goes with it."""
        return self.reason.code
