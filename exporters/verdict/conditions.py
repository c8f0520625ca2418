"""From the reports of checks to a Node Condition, one step a report.

Pure; the three promises of this module: never False without a completed check of this boot behind it, never a True
cleared by a look that gave no verdict, and the time of transition moves with the status alone.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from chassis.contracts import ConditionReason
from exporters.verdict.damping import next_tracks
from exporters.verdict.findings import (
    NODE,
    CheckReport,
    ConditionPolicy,
    ConditionState,
    Status,
    Track,
)
from exporters.verdict.message import MAX_BYTES, bounded_message, clean, cut

_NEVER = "no check has completed since the node started"


def unchecked(condition: str, now: datetime) -> ConditionState:
    """The state of a condition that nobody has judged yet."""
    return ConditionState(condition, Status.UNKNOWN, ConditionReason.NOT_YET_CHECKED, _NEVER, now)


def adopt(
    found: ConditionState | None,
    heartbeat: datetime | None,
    boot_time: datetime,
    policy: ConditionPolicy,
    now: datetime,
) -> ConditionState:
    """What to start from, given the condition as it was found on the node.

    A True stays until every check has spoken against it; a False counts only when it was asserted in this boot.

    Args:
        found: The condition on the node without tracks, None if it has none.
        heartbeat: When it was last asserted.
        boot_time: When the node started.
        policy: The condition's.
        now: The present.
    """
    if found is None:
        return unchecked(policy.type, now)
    if found.status is Status.TRUE:
        return replace(found, tracks=(), adopted=True)
    if found.status is Status.FALSE and heartbeat is not None and heartbeat >= boot_time:
        return replace(found, tracks=(), adopted=False)
    since = found.last_transition if found.status is Status.UNKNOWN else now
    return replace(unchecked(policy.type, now), last_transition=since)


def step(
    previous: ConditionState | None, report: CheckReport, policy: ConditionPolicy, now: datetime
) -> ConditionState:
    """The condition after one more report. A report of a check that the policy does not know changes nothing."""
    state = previous or unchecked(policy.type, now)
    damping = policy.checks.get(report.check)
    if damping is None:
        return state
    own = {track.subject: track for track in state.tracks if track.check == report.check}
    others = [
        track
        for track in state.tracks
        if track.check != report.check and track.check in policy.checks
    ]
    tracks = (*others, *next_tracks(own, report, damping, policy.patient))
    ordered = tuple(sorted(tracks, key=lambda track: (track.check, track.subject)))
    return _judged(replace(state, tracks=ordered), policy, now)


def standing_problems(state: ConditionState) -> tuple[Track, ...]:
    """Everything that is wrong now, whole: what the message may have had to leave out."""
    return tuple(track for track in state.tracks if track.standing)


def _judged(state: ConditionState, policy: ConditionPolicy, now: datetime) -> ConditionState:
    problems = standing_problems(state)
    if problems:
        reason = _worst(problems, policy)
        message = _problem_message(problems, policy)
        if not policy.message_follows and (state.status, state.reason) == (Status.TRUE, reason):
            message = state.message
        return _moved(state, Status.TRUE, reason, message, now)
    if state.adopted and not _disproved(state.tracks, policy):
        return state
    state = replace(state, adopted=False)
    doubts = [track for track in state.tracks if _doubtful(track, policy)]
    stays = state.status is Status.FALSE and not doubts
    if stays or _all_judged(state.tracks, policy):
        return _moved(state, Status.FALSE, policy.healthy_reason, policy.healthy_message, now)
    reason, message = _unknown_because(state.tracks, doubts, policy)
    return _moved(state, Status.UNKNOWN, reason, message, now)


def _moved(
    state: ConditionState, status: Status, reason: str, message: str, now: datetime
) -> ConditionState:
    since = state.last_transition if status is state.status else now
    return replace(state, status=status, reason=reason, message=message, last_transition=since)


def _worst(problems: Iterable[Track], policy: ConditionPolicy) -> str:
    rank = {reason: place for place, reason in enumerate(policy.severity)}
    return min(
        (track.reason for track in problems),
        key=lambda reason: (rank.get(reason, len(rank)), reason),
    )


def _problem_message(problems: Iterable[Track], policy: ConditionPolicy) -> str:
    late = [
        track.judged
        for track in problems
        if track.misses >= policy.checks[track.check].unknown and track.judged
    ]
    tail = f"; last verdict {min(late):%Y-%m-%dT%H:%M:%SZ}" if late else ""
    if policy.plain_messages:
        texts = sorted({clean(track.message) or track.reason for track in problems})
        whole = ", ".join(texts) + tail
        return bounded_message(texts, tail) if len(texts) > 1 else cut(whole, MAX_BYTES)
    return bounded_message((f"{track.subject}={track.reason}" for track in problems), tail)


def _disproved(tracks: tuple[Track, ...], policy: ConditionPolicy) -> bool:
    """Whether every check has given its oks on all that it knows of: only then may a found True go."""
    for name, damping in policy.checks.items():
        own = [track for track in tracks if track.check == name]
        if not damping.required and own and all(_inapplicable(track, policy) for track in own):
            continue
        if not own or any(track.oks < damping.ok for track in own):
            return False
    return True


def _inapplicable(track: Track, policy: ConditionPolicy) -> bool:
    return track.judged is None and track.doubt in policy.inapplicable


def _doubtful(track: Track, policy: ConditionPolicy) -> bool:
    damping = policy.checks[track.check]
    return damping.required and track.misses >= damping.unknown


def _all_judged(tracks: tuple[Track, ...], policy: ConditionPolicy) -> bool:
    """Whether every required check has looked at all its subjects and stands by that.

    A first problem below the damping's bound is a verdict too, but none that a False could rest on.
    """
    for name, damping in policy.checks.items():
        own = [track for track in tracks if track.check == name]
        if not damping.required:
            if any(track.fails for track in own):
                return False
            continue
        if not own or any(track.oks == 0 or track.misses >= damping.unknown for track in own):
            return False
    return any(damping.required for damping in policy.checks.values())


def _unknown_because(
    tracks: tuple[Track, ...], doubts: list[Track], policy: ConditionPolicy
) -> tuple[str, str]:
    # Without a doubt that has lasted, tell why a first verdict is still missing.
    silent = doubts or [track for track in tracks if track.doubt and not track.oks]
    if not silent:
        return ConditionReason.NOT_YET_CHECKED, "not every check has given a verdict yet"
    reason = _worst([replace(track, reason=track.doubt) for track in silent], policy)
    whole = [track for track in silent if track.subject == NODE]
    return reason, bounded_message(f"{track.subject}={track.doubt}" for track in whole or silent)
