"""How to reach the Kubernetes API: the keys under `kubernetes:` of every service's configuration.

Only says; `chassis.kube_client.credentials` does.
"""

from datetime import timedelta
from pathlib import Path

from pydantic import Field, model_validator

from chassis.config import Duration, Settings


class KubeSettings(Settings):
    """Where the API is and how hard to press it.

    Attributes:
        kubeconfig: A kubeconfig file; None means the pod's own service account.
        context: A context of that file; None means its current one.
        timeout: How long one request may take without a byte from the server.
        qps: Requests a second that this process allows itself on average; 0 is no limit.
        burst: How many may go at once before `qps` counts.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    timeout: Duration = timedelta(seconds=30)
    qps: float = Field(default=50.0, ge=0, allow_inf_nan=False)
    burst: int = Field(default=100, ge=1)

    @model_validator(mode="after")
    def _usable(self) -> "KubeSettings":
        if self.timeout <= timedelta(0):
            raise ValueError("timeout must be longer than 0s")
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("context names a part of a kubeconfig file; set kubeconfig, too")
        return self
