"""From a round's findings to damped tracks: one bad look sets nothing, one good look clears nothing.

Pure. Knows one check at a time and nothing of conditions.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from exporters.verdict.findings import NODE, CheckReport, Damping, Finding, Result, Track

_WORST_FIRST = {Result.PROBLEM: 0, Result.INCONCLUSIVE: 1, Result.OK: 2}


def next_tracks(
    before: Mapping[str, Track], report: CheckReport, damping: Damping, patient: frozenset[str]
) -> tuple[Track, ...]:
    """The tracks of the report's check after it, sorted by subject; `before` are its own, by subject."""
    found = _worst_by_subject(report.findings)
    whole = found.get(NODE)
    blind = whole is not None and whole.result is Result.INCONCLUSIVE
    for subject, track in before.items():
        if subject in found:
            continue
        if blind and whole is not None and subject != NODE:
            found[subject] = replace(whole, subject=subject)
        elif track.standing:
            found[subject] = Finding(subject, Result.OK, "")
    moved = (
        (
            _moved(
                before.get(subject) or Track(report.check, subject),
                finding,
                damping,
                patient,
                report.completed_at,
            )
        )
        for subject, finding in sorted(found.items())
    )
    named = {finding.subject for finding in report.findings}
    return tuple(track for track in moved if track.subject in named or track.standing or blind)


def _worst_by_subject(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    """One finding a subject; which one does not depend on their order."""
    found: dict[str, Finding] = {}
    for finding in sorted(findings, key=_badness, reverse=True):
        found[finding.subject] = finding
    return found


def _badness(finding: Finding) -> tuple[int, bool, str, str]:
    return (
        _WORST_FIRST[finding.result],
        not finding.definite,
        finding.reason,
        finding.message,
    )


def _moved(
    track: Track, finding: Finding, damping: Damping, patient: frozenset[str], at: datetime
) -> Track:
    if finding.result is Result.INCONCLUSIVE:
        counted = 0 if finding.reason in patient else 1
        return replace(track, misses=track.misses + counted, doubt=finding.reason)
    if finding.result is Result.PROBLEM:
        fails = track.fails + 1
        return replace(
            track,
            standing=track.standing or finding.definite or fails >= damping.fail,
            reason=finding.reason,
            message=finding.message,
            fails=fails,
            oks=0,
            misses=0,
            doubt="",
            judged=at,
        )
    oks = track.oks + 1
    standing = track.standing and oks < damping.ok
    kept = (track.reason, track.message) if standing else ("", "")
    return replace(
        track,
        standing=standing,
        reason=kept[0],
        message=kept[1],
        fails=0,
        oks=oks,
        misses=0,
        doubt="",
        judged=at,
    )
