"""What Nodemend's services say to each other: conditions, timeline entries, annotation keys.

Pure, and the only place for these names: services never import each other.
Changing a value here is a change of interface between versions that run side by side.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

DOMAIN = "nodemend.dev"
PROBE_REQUEST_ANNOTATION = f"{DOMAIN}/probe-request"
"""On a Node: the UID of the operation that wants a probe."""
PROBE_RESULT_ANNOTATION = f"{DOMAIN}/probe-result"
"""On a Node: the answer, with operation UID, boot id and a verdict for each GPU UUID."""
PROBE_OWNER_ANNOTATION = f"{DOMAIN}/probe-owner"
"""On a Node: which prober owns GPURuntimeError there, a ProbeOwner; the other refuses."""
OPERATION_TAINT = f"{DOMAIN}/operation"
"""The taint of a Node that an operation has isolated; its value names the operation."""
SCALE_DOWN_DISABLED_ANNOTATION = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""On a Node, the cluster autoscaler's own key: "true" keeps it from removing the node."""


class ConditionType(StrEnum):
    """Node Conditions that Nodemend writes; True is always the problem."""

    GPU_RUNTIME_ERROR = "GPURuntimeError"
    GPU_IS_LOST = "GPUIsLost"
    GPU_PENDING_PAGE = "GPUPendingPage"
    PCIE_LINK_DEGRADED = "PCIeLinkDegraded"
    D_STATE_PROCESS = "DStateProcess"
    NFS_MOUNT_STUCK = "NFSMountStuck"
    GPU_XID_ERROR = "GPUXIDError"


class ConditionReason(StrEnum):
    """Why a condition is as it is. Closed, except for XIDs: those are `Xid` and the code."""

    HEALTHY = "Healthy"
    NOT_YET_CHECKED = "NotYetChecked"
    OTHER = "Other"

    CUDA_INIT_FAILED = "CudaInitFailed"
    CUDA_CONTEXT_FAILED = "CudaContextFailed"
    CUDA_MEMORY_FAILED = "CudaMemoryFailed"
    CUDA_LAUNCH_FAILED = "CudaLaunchFailed"
    CUDA_RESULT_MISMATCH = "CudaResultMismatch"
    CUDA_TIMEOUT = "CudaTimeout"
    SYSTEM_NOT_READY = "SystemNotReady"
    GPU_IS_LOST = "GPUIsLost"
    GPU_COUNT_MISMATCH = "GPUCountMismatch"
    GPU_FALLEN_OFF_BUS = "GPUFallenOffBus"
    RESET_REQUIRED = "ResetRequired"
    PAGE_RETIREMENT_PENDING = "PageRetirementPending"
    ROW_REMAP_PENDING = "RowRemapPending"
    ROW_REMAP_FAILED = "RowRemapFailed"
    LINK_WIDTH_REDUCED = "LinkWidthReduced"
    LINK_SPEED_REDUCED = "LinkSpeedReduced"
    PROCESS_STUCK = "ProcessStuck"
    GPU_PROCESS_STUCK = "GPUProcessStuck"
    MOUNT_TIMEOUT = "MountTimeout"
    SERVER_NOT_RESPONDING = "ServerNotResponding"
    STALE_HANDLE = "StaleHandle"

    GPU_BUSY = "GPUBusy"
    PROBE_PENDING = "ProbePending"
    PROBE_PREEMPTED = "ProbePreempted"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    DRIVER_MISMATCH = "DriverMismatch"
    OUT_OF_MEMORY = "OutOfMemory"
    NVML_LIBRARY_MISSING = "NVMLLibraryMissing"
    DRIVER_NOT_LOADED = "DriverNotLoaded"
    NO_PERMISSION = "NoPermission"
    VERSION_MISMATCH = "VersionMismatch"
    TIMEOUT = "Timeout"
    NOT_SUPPORTED = "NotSupported"
    GPU_IDLE = "GPUIdle"
    PROC_UNREADABLE = "ProcUnreadable"
    MOUNT_INFO_UNREADABLE = "MountInfoUnreadable"
    CHILD_LIMIT = "ChildLimit"
    KMSG_UNREADABLE = "KmsgUnreadable"
    KMSG_OVERRUN = "KmsgOverrun"


_Reason = ConditionReason

PROBLEM_REASONS: Mapping[ConditionType, frozenset[ConditionReason]] = MappingProxyType(
    {
        ConditionType.GPU_RUNTIME_ERROR: frozenset(
            {
                _Reason.CUDA_INIT_FAILED,
                _Reason.CUDA_CONTEXT_FAILED,
                _Reason.CUDA_MEMORY_FAILED,
                _Reason.CUDA_LAUNCH_FAILED,
                _Reason.CUDA_RESULT_MISMATCH,
                _Reason.CUDA_TIMEOUT,
                _Reason.SYSTEM_NOT_READY,
            }
        ),
        ConditionType.GPU_IS_LOST: frozenset(
            {
                _Reason.GPU_IS_LOST,
                _Reason.GPU_COUNT_MISMATCH,
                _Reason.GPU_FALLEN_OFF_BUS,
                _Reason.RESET_REQUIRED,
            }
        ),
        ConditionType.GPU_PENDING_PAGE: frozenset(
            {
                _Reason.PAGE_RETIREMENT_PENDING,
                _Reason.ROW_REMAP_PENDING,
                _Reason.ROW_REMAP_FAILED,
            }
        ),
        ConditionType.PCIE_LINK_DEGRADED: frozenset(
            {_Reason.LINK_WIDTH_REDUCED, _Reason.LINK_SPEED_REDUCED}
        ),
        ConditionType.D_STATE_PROCESS: frozenset(
            {_Reason.PROCESS_STUCK, _Reason.GPU_PROCESS_STUCK}
        ),
        ConditionType.NFS_MOUNT_STUCK: frozenset(
            {_Reason.MOUNT_TIMEOUT, _Reason.SERVER_NOT_RESPONDING, _Reason.STALE_HANDLE}
        ),
        ConditionType.GPU_XID_ERROR: frozenset(),
    }
)
"""The reasons that may stand beside status True; those of GPUXIDError are `Xid` and a code."""

_REASON_TEXTS = frozenset(str(each) for each in ConditionReason)
_XID = re.compile(r"Xid(?:0|[1-9][0-9]{0,4})", re.ASCII)


def xid_reason(code: int) -> str:
    """The reason of GPUXIDError for an XID code of NVIDIA's driver, such as `Xid79`."""
    reason = f"Xid{code}"
    if not _XID.fullmatch(reason):
        raise ValueError(f"{code} is no XID code")
    return reason


def known_reason(text: str) -> str:
    """`text` if it is a reason of ours, else `Other`: keeps label values of metrics bounded."""
    known = text in _REASON_TEXTS or _XID.fullmatch(text)
    return str(text) if known else ConditionReason.OTHER.value


class TimelinePhase(StrEnum):
    """The phases of a node operation, as in the status of NodeOperation."""

    RECEIVED = "Received"
    GATED = "Gated"
    RESERVED = "Reserved"
    ISOLATED = "Isolated"
    DRAINING = "Draining"
    EXECUTING = "Executing"
    AWAITING_RETURN = "AwaitingReturn"
    VERIFYING = "Verifying"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    RETRYING = "Retrying"
    NEXT_RUNG = "NextRung"
    ESCALATED = "Escalated"
    CANCELLED = "Cancelled"
    SUPERSEDED = "Superseded"
    NODE_GONE = "NodeGone"

    @property
    def is_final(self) -> bool:
        """Whether the operation will tell nothing after it."""
        return self in _FINAL_PHASES

    @property
    def holds_auto_close(self) -> bool:
        """Whether an issue must stay open for it: the operation runs, or waits for a person."""
        return self is TimelinePhase.ESCALATED or not self.is_final


_FINAL_PHASES = frozenset(
    {
        TimelinePhase.SUCCEEDED,
        TimelinePhase.ESCALATED,
        TimelinePhase.CANCELLED,
        TimelinePhase.SUPERSEDED,
        TimelinePhase.NODE_GONE,
    }
)


class TimelineOutcome(StrEnum):
    """How an operation ended."""

    HEALED = "healed"
    NOT_HEALED = "not_healed"
    REFUSED = "refused"
    CANCELLED = "cancelled"


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("no time that exists in UTC") from error


def _storable(text: str) -> str:
    if re.search("[\x00\ud800-\udfff]", text):
        raise ValueError("holds NUL or half a surrogate pair")
    return text


_PROBE_WORD = re.compile(r"[ -~]{1,253}", re.ASCII)
_Word = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[ -~]+$")]
_Utc = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class TimelineEntry(BaseModel):
    """One step of a node operation, posted to `/v1/timeline` for the issue of its alert.

    The alert is named by fingerprint and start. An entry told again with the same `key` changes
    nothing. Times are UTC. `attempt` counts how often the operation came to this phase, from 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
    starts_at: _Utc
    operation: _Word
    phase: TimelinePhase
    node: _Word
    at: _Utc
    text: Annotated[
        str, StringConstraints(min_length=1, max_length=4096), AfterValidator(_storable)
    ]
    attempt: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    outcome: TimelineOutcome | None = None

    @property
    def key(self) -> tuple[str, TimelinePhase, int]:
        """The idempotency key: operation, phase, attempt."""
        return (self.operation, self.phase, self.attempt)


def probe_request(text: str | None) -> str:
    """The operation that a probe-request annotation names; empty if none that an answer could carry."""
    return text if text and _PROBE_WORD.fullmatch(text) else ""


class ProbeOwner(StrEnum):
    """Who probes a node's GPUs and writes its GPURuntimeError."""

    NODE_AGENT = "node-agent"
    GPU_MONITOR = "gpu-monitor"


class ProbeVerdict(StrEnum):
    """What a probe on request found, on one GPU or on all."""

    PASSED = "pass"
    PROBLEM = "problem"
    INCONCLUSIVE = "inconclusive"


class ProbeResult(BaseModel):
    """The answer to a probe request: the JSON value of the annotation `probe-result`.

    `gpus` has a verdict for each GPU (or MIG device) by UUID. `result` passes only when the whole
    node was probed and every GPU passed. It counts for `bootID` alone. Unknown keys are ignored,
    so that a newer prober may say more.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    operation: _Word
    boot_id: Annotated[_Word, Field(alias="bootID")]
    at: _Utc
    gpus: Mapping[_Word, ProbeVerdict]
    result: ProbeVerdict

    @model_validator(mode="after")
    def _stands_on_its_gpus(self) -> Self:
        if self.result is ProbeVerdict.PASSED and set(self.gpus.values()) != {ProbeVerdict.PASSED}:
            raise ValueError("passes, yet not every GPU did, or there is none")
        return self

    @classmethod
    def of(
        cls,
        operation: str,
        boot_id: str,
        at: datetime,
        gpus: Mapping[str, ProbeVerdict],
        *,
        complete: bool,
    ) -> Self:
        """The answer that these verdicts give; `complete` says that no GPU of the node is missing.

        Raises:
            ValueError: Operation, boot id or a UUID is empty, or `at` has no zone.
        """
        found = set(gpus.values())
        result = ProbeVerdict.INCONCLUSIVE
        if ProbeVerdict.PROBLEM in found:
            result = ProbeVerdict.PROBLEM
        elif complete and found == {ProbeVerdict.PASSED}:
            result = ProbeVerdict.PASSED
        return cls(operation=operation, boot_id=boot_id, at=at, gpus=dict(gpus), result=result)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The answer in an annotation's value; None when it is none that can be believed."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return None

    def dump(self) -> str:
        """The annotation's value."""
        return self.model_dump_json(by_alias=True)
