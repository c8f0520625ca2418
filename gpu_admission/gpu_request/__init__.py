"""What a pod asks for: the grammar of the resource keys, amounts, containers; and why it is refused.

Pure. Knows nothing of classes, policies or nodes: that is `selection`.
"""

from gpu_admission.gpu_request.grammar import (
    ANY,
    KeyProblem,
    KeySpec,
    capped,
    parse_amount,
    parse_key,
    shortened,
)
from gpu_admission.gpu_request.reading import (
    NO_REQUEST,
    ContainerRequest,
    PodRequest,
    SpecAmount,
    containers_of,
    requests_of,
)
from gpu_admission.gpu_request.reasons import Ask, Reason, Refusal

__all__ = [
    "ANY",
    "NO_REQUEST",
    "Ask",
    "ContainerRequest",
    "KeyProblem",
    "KeySpec",
    "PodRequest",
    "Reason",
    "Refusal",
    "SpecAmount",
    "capped",
    "containers_of",
    "parse_amount",
    "parse_key",
    "requests_of",
    "shortened",
]
