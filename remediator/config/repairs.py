"""What a rung can do to a node: exactly one repair each, with what is true of it.

Describes only; `repair_jobs` turns a repair into a Job. There is no way to name a Job from outside.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from chassis.config import MatcherList, Settings
from remediator.config.common import PlainName, Word, entries


class Reboot(Settings):
    """`systemctl reboot` in the host's namespaces."""


class RebootNow(Settings):
    """The kernel's SysRq s, u, b: for a shutdown that would hang; unsaved data is lost."""


class RemountNFS(Settings):
    """Lazy force unmount and mount of the hung mount.

    The alert's label `mount_label` names it; if no cause has that label, all hung ones are taken.
    """

    mount_label: Word = "mountpoint"


class ResetGPU(Settings):
    """`nvidia-smi --gpu-reset` of the GPU that the alert's label `uuid_label` names, else of all."""

    uuid_label: Word = "uuid"


RESTARTABLE_UNITS = ("kubelet.service", "containerd.service", "nvidia-fabricmanager.service")
"""What restart_unit restarts; its script has the same list and refuses all else."""


def _unit(value: str) -> str:
    if value not in RESTARTABLE_UNITS:
        known = ", ".join(RESTARTABLE_UNITS)
        raise ValueError(
            f"{value} is not restarted by restart_unit, only {known}; use run_job for others"
        )
    return value


class RestartUnit(Settings):
    """`systemctl restart UNIT` in the host's namespaces, of one of RESTARTABLE_UNITS."""

    unit: Annotated[Word, AfterValidator(_unit)]


class PowerCycle(Settings):
    """The admin's own Job, run on another node, that switches the machine off and on."""

    template: PlainName


class RestartPods(Settings):
    """Deletes the pods on the node that the selector fits, through the API."""

    namespace: PlainName
    selector: Annotated[MatcherList, entries(1)]


class RunJob(Settings):
    """The admin's own Job.

    `on_node` pins it to the node; `reboots` says that a new boot id must follow; `repeatable` that
    doing it twice does no harm.
    """

    template: PlainName
    on_node: bool = True
    reboots: bool = False
    repeatable: bool = False


class HandOver(Settings):
    """No known fix: a person is told what to do. The node stays isolated unless `isolate` is off."""

    text: Annotated[str, Field(min_length=1, max_length=800)]
    isolate: bool = True


RepairKind = Literal[
    "reboot",
    "reboot_now",
    "remount_nfs",
    "reset_gpu",
    "restart_unit",
    "power_cycle",
    "restart_pods",
    "run_job",
    "hand_over",
]
KINDS: tuple[RepairKind, ...] = (
    "reboot",
    "reboot_now",
    "remount_nfs",
    "reset_gpu",
    "restart_unit",
    "power_cycle",
    "restart_pods",
    "run_job",
    "hand_over",
)
_REBOOTS = frozenset({"reboot", "reboot_now", "power_cycle"})
_HARMLESS_TWICE = frozenset({"remount_nfs", "restart_unit", "restart_pods", "hand_over"})


class Repair(Settings):
    """Exactly one of these."""

    reboot: Reboot | None = None
    reboot_now: RebootNow | None = None
    remount_nfs: RemountNFS | None = None
    reset_gpu: ResetGPU | None = None
    restart_unit: RestartUnit | None = None
    power_cycle: PowerCycle | None = None
    restart_pods: RestartPods | None = None
    run_job: RunJob | None = None
    hand_over: HandOver | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(given := self._given()) != 1:
            found = f"here are {', '.join(given)}" if given else "here is none"
            raise ValueError(f"give exactly one of {', '.join(KINDS)}; {found}")
        return self

    def _given(self) -> list[RepairKind]:
        return [kind for kind in KINDS if getattr(self, kind) is not None]

    @property
    def kind(self) -> RepairKind:
        """Which one it is."""
        return self._given()[0]

    @property
    def reboots(self) -> bool:
        """Whether it is proven by a new boot id."""
        return self.kind in _REBOOTS or (self.run_job is not None and self.run_job.reboots)

    @property
    def destructive(self) -> bool:
        """Whether doing it twice would harm, so that an unknown outcome ends the ladder."""
        if self.run_job is not None:
            return not self.run_job.repeatable
        return self.kind not in _HARMLESS_TWICE

    @property
    def on_node(self) -> bool:
        """Whether its Job runs on the node itself, where the boot id can be compared."""
        if self.run_job is not None:
            return self.run_job.on_node
        return self.kind not in {"power_cycle", "restart_pods", "hand_over"}

    @property
    def template(self) -> str | None:
        """The name of the admin's Job, None if the repair is ours."""
        named = self.power_cycle or self.run_job
        return named.template if named else None


class JobTemplate(Settings):
    """A Job of the admin's: `pod` is a PodSpec as Kubernetes has it, `labels` and `annotations` the pod's.

    The names of node and operation and the boot id reach it as environment variables.
    """

    pod: dict[str, Any]
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _runs_something(self) -> Self:
        containers = self.pod.get("containers")
        if not isinstance(containers, list) or not containers:
            raise ValueError("pod must be a PodSpec with at least one entry in containers")
        if not all(isinstance(each, dict) and each.get("image") for each in containers):
            raise ValueError("each of pod.containers needs an image")
        if self.pod.get("restartPolicy", "Never") != "Never":
            raise ValueError(
                "pod.restartPolicy must be Never: a repair that ends is not begun again"
            )
        return self
