"""The keys of the configuration file, and what holds between them."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from chassis.config import Duration, Settings
from chassis.kube_client import KubeSettings
from chassis.kube_lease import LeaseSettings
from chassis.serving import ServingSettings
from chassis.serving.settings import PEMFile

PlainName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)
]


class SelfSignedSettings(Settings):
    """A certificate authority of our own, kept in a Secret that all replicas share.

    `directory` gets tls.crt and tls.key; it belongs to this process alone (an emptyDir). The CA is
    written into every webhook of the named configurations.
    """

    namespace: PlainName = "nodemend"
    service: PlainName = "nodemend-gpu-admission"
    secret: PlainName = "nodemend-gpu-admission-tls"  # noqa: S105 (the name of a Secret)
    directory: Path = Path("/run/nodemend/tls")
    mutating_webhooks: tuple[PlainName, ...] = ("nodemend-gpu-admission",)
    validating_webhooks: tuple[PlainName, ...] = ("nodemend-gpu-admission",)
    lifetime: Duration = timedelta(days=90)
    authority_lifetime: Duration = timedelta(days=3650)

    @model_validator(mode="after")
    def _authority_outlives(self) -> Self:
        if self.lifetime < timedelta(hours=1):
            raise ValueError("lifetime must be at least 1h, or replicas cannot keep up with it")
        if self.authority_lifetime < 4 * self.lifetime:
            raise ValueError("authority_lifetime must be at least four times lifetime")
        return self


class LeaderSettings(LeaseSettings):
    """The Lease of the one replica that keeps the nodes' capacity."""

    namespace: PlainName = "nodemend"
    lease: PlainName = "nodemend-gpu-admission"


class CapacitySettings(Settings):
    """Whether this process keeps the CPU resource on nodes as the catalogue's `cpu_policy` says."""

    enabled: bool = True
    resync: Duration = timedelta(minutes=5)


class DemandSettings(Settings):
    """Whether the demand of the cluster's pods is told; without, pods are not watched."""

    enabled: bool = True


class AdmissionConfig(Settings):
    """The whole file. Admission is served at `serving`, health and metrics at `monitoring`.

    The API server shows no credential to a webhook: who may call is for the network policy and,
    when `serving.tls.client_ca_file` is set, for client certificates.
    """

    catalogue_file: PEMFile
    serving: ServingSettings = ServingSettings(listen=":8443")
    monitoring: ServingSettings = ServingSettings(listen=":8080", threads=4)
    self_signed: SelfSignedSettings | None = None
    kubernetes: KubeSettings = KubeSettings()
    capacity: CapacitySettings = CapacitySettings()
    demand: DemandSettings = DemandSettings()
    leader: LeaderSettings = LeaderSettings()
    max_body_bytes: int = Field(default=10_000_000, ge=100_000, le=100_000_000)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("serving", mode="before")
    @classmethod
    def _its_own_port(cls, value: object) -> object:
        if isinstance(value, dict) and "listen" not in value:
            return {**value, "listen": ":8443"}
        return value

    @field_validator("monitoring", mode="before")
    @classmethod
    def _few_threads(cls, value: object) -> object:
        return {"listen": ":8080", "threads": 4, **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _one_certificate(self) -> Self:
        if self.serving.tls is None and self.self_signed is None:
            raise ValueError(
                "the API server calls webhooks over TLS only; set serving.tls to a certificate's"
                " files, or self_signed to have one made"
            )
        if self.serving.tls is not None and self.self_signed is not None:
            raise ValueError("serving.tls and self_signed exclude each other; remove one")
        return self
