"""What probes have found: the news for the checks that want them, and what is known of each GPU. No I/O."""

import threading
from collections.abc import Collection, Mapping
from datetime import datetime

from exporters.readings import ProbeEnd, ProbeReport

_MOST_WAITING = 4096
LAST_RUN, LAST_SUCCESS, SUCCESS, SECONDS = "last_run", "last_success", "success", "seconds"


class ProbeLog:
    """Safe to use from several threads. Coverage is by UUID: times in seconds of the epoch, success 0 or 1."""

    def __init__(
        self, readers: Collection[str], coverage: Mapping[str, Mapping[str, float]]
    ) -> None:
        self._waiting: dict[str, list[ProbeReport]] = {name: [] for name in readers}
        self._coverage = {uuid: dict(each) for uuid, each in coverage.items()}
        self._lock = threading.Lock()

    def add(self, report: ProbeReport, at: datetime) -> None:
        """A probe has ended; one that never started is none."""
        with self._lock:
            for waiting in self._waiting.values():
                waiting.append(report)
                del waiting[:-_MOST_WAITING]
            if not report.uuid:
                return
            known = self._coverage.setdefault(report.uuid, {})
            known[LAST_RUN], known[SECONDS] = at.timestamp(), report.seconds
            if report.end is not ProbeEnd.INCONCLUSIVE:
                known[SUCCESS] = float(report.end is ProbeEnd.PASSED)
            if report.end is ProbeEnd.PASSED:
                known[LAST_SUCCESS] = at.timestamp()

    def take(self, reader: str) -> tuple[ProbeReport, ...]:
        """The reports since this reader last asked."""
        with self._lock:
            found = tuple(self._waiting[reader])
            self._waiting[reader].clear()
            return found

    def keep_only(self, uuids: Collection[str]) -> None:
        """Forget GPUs that are gone."""
        with self._lock:
            self._coverage = {uuid: each for uuid, each in self._coverage.items() if uuid in uuids}

    def coverage(self) -> dict[str, dict[str, float]]:
        with self._lock:
            return {uuid: dict(each) for uuid, each in self._coverage.items()}
