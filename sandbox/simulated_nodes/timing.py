"""How long things take at a simulated node, in seconds. Pure."""

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Timing:
    """The defaults are those of a kubelet and of an ordinary server."""

    heartbeat: float = 10
    lease_duration: float = 40
    status_report: float = 300
    """How often the whole status is written although nothing changed."""
    agent_report: float = 300
    """The same for the conditions of the node's agent."""
    monitor_grace: float = 50
    """After which silence the control plane calls a node's state unknown."""
    container_start: float = 0.5
    pull_retry: float = 10
    crash_retry: float = 10
    shutdown: float = 5
    """From the request of a reboot until the machine is off."""
    reboot: float = 90
    """From off until the kubelet is back."""
    api_retry: float = 1
    probe: float = 2
    """From a probe's request to its result."""
    scale: float = 1
    """Real seconds for a second that a pod or a fault names, such as a grace period."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ValueError(f"{field.name} must be more than 0 seconds")

    def faster(self, speed: float) -> "Timing":
        """Everything but the heartbeat and its lease `speed` times as fast."""
        if speed <= 0:
            raise ValueError(f"speed must be more than 0, not {speed}")
        kept = {"heartbeat", "lease_duration"}  # another program judges these by its own clock
        return replace(
            self,
            **{
                field.name: getattr(self, field.name) / speed
                for field in fields(self)
                if field.name not in kept
            },
        )
