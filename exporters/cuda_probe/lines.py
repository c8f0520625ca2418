"""A ProbeReport as one line of JSON and back: what `exporters gpu-probe` prints and a probe pod's log holds. Pure."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from pydantic import TypeAdapter, ValidationError

from exporters.readings import ProbeEnd, ProbeReport

_REPORT = TypeAdapter(ProbeReport)
_EXIT_STATUS = {ProbeEnd.PASSED: 0, ProbeEnd.PROBLEM: 1, ProbeEnd.INCONCLUSIVE: 2}
_LONGEST_UUID = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE of nvml.h
_WORST_FIRST = (ProbeEnd.PROBLEM, ProbeEnd.INCONCLUSIVE, ProbeEnd.PASSED)


def format_report(report: ProbeReport) -> str:
    """One line, without its end."""
    return json.dumps(asdict(report))


def parse_reports(log: str) -> tuple[ProbeReport, ...]:
    """The reports in a log, in order; lines that are none are left out."""
    found = []
    for line in log.splitlines():
        try:
            report = _REPORT.validate_json(line)
        except ValidationError:
            continue
        if (
            report.uuid.isascii()
            and report.uuid.isprintable()
            and len(report.uuid) <= _LONGEST_UUID
        ):
            found.append(report)
    return tuple(found)


def exit_status(reports: Iterable[ProbeReport]) -> int:
    """0 all passed, 1 a problem, 2 no verdict for some. No report at all is no verdict."""
    ends = {each.end for each in reports}
    return next((_EXIT_STATUS[end] for end in _WORST_FIRST if end in ends), 2)
