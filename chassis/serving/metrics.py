"""What is measured about the served certificate. Must not read one."""

from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge


class CertificateMetrics:
    """`<service>_certificate_last_reload_successful`, the last success, and when what is served ends."""

    def __init__(self, service: str, registry: CollectorRegistry | None) -> None:
        self._successful = Gauge(
            f"{service}_certificate_last_reload_successful",
            "1 when the certificate files and what is served agree, 0 when the last good is kept.",
            registry=registry,
        )
        self._since = Gauge(
            f"{service}_certificate_last_reload_success_timestamp_seconds",
            "When the certificate files were last found usable.",
            registry=registry,
        )
        self._ends = Gauge(
            f"{service}_certificate_not_after_timestamp_seconds",
            "When the certificate that is served ends.",
            registry=registry,
        )

    def serves(self, ends: datetime) -> None:
        """Another certificate is served from now on."""
        self._ends.set(ends.timestamp())
        self.took()

    def took(self) -> None:
        self._successful.set(1)
        self._since.set_to_current_time()

    def refused(self) -> None:
        self._successful.set(0)
