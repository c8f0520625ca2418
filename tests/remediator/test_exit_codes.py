"""What each exit code of each repair script leads to: the scripts' codes and the lifecycle's reading, held together."""

import re
from typing import Any

import pytest

from remediator.cluster import JobState
from remediator.config import Repair
from remediator.operation import AttemptOutcome, Phase, Reason
from remediator.repair_jobs import Ending, ending_of
from remediator.repairs import SCRIPTS, script
from tests.remediator.building import seen
from tests.remediator.deciding import POWER, TEMPLATES, decide, executing, job, ours, status, went

CODES = {"done_with": 0, "failed": 70, "unknown": 72, "misused": 76, "refuse": 76}
"""The scripts' ways to end; `guard` and `claim`, which all of them call, add 71, 75 and 76."""
REPAIRS: dict[str, dict[str, Any]] = {
    "reboot": {},
    "reboot_now": {},
    "remount_nfs": {},
    "reset_gpu": {},
    "restart_unit": {"unit": "kubelet.service"},
}

Follows = tuple[Phase, Reason, AttemptOutcome]
DONE = (Phase.AWAITING_RETURN, Reason.JOB_SUCCEEDED, AttemptOutcome.DONE)
OTHER_BOOT = (Phase.AWAITING_RETURN, Reason.WAITS_FOR_REBOOT, AttemptOutcome.AMBIGUOUS)
AGAIN = (Phase.RETRYING, Reason.JOB_FAILED, AttemptOutcome.FAILED)
BY_BOOT_ID = (Phase.AWAITING_RETURN, Reason.JOB_FAILED, AttemptOutcome.TIMED_OUT)
PERSON = (Phase.ESCALATED, Reason.AMBIGUOUS, AttemptOutcome.AMBIGUOUS)

CUT_OFF = (None, 1, 2, 137, 143)
"""What is no word of a script: its shell ended by itself, by a signal, or its pod is gone."""
REBOOTS: dict[int | None, Follows] = {
    0: DONE,
    70: BY_BOOT_ID,
    71: BY_BOOT_ID,
    72: BY_BOOT_ID,
    75: OTHER_BOOT,
    76: AGAIN,
    **dict.fromkeys(CUT_OFF, BY_BOOT_ID),
}
HARMLESS: dict[int | None, Follows] = {
    0: DONE,
    70: AGAIN,
    71: AGAIN,
    72: AGAIN,
    75: OTHER_BOOT,
    76: AGAIN,
    **dict.fromkeys(CUT_OFF, AGAIN),
}
ONCE: dict[int | None, Follows] = {
    0: DONE,
    70: AGAIN,
    71: PERSON,
    72: PERSON,
    75: OTHER_BOOT,
    76: AGAIN,
    **dict.fromkeys(CUT_OFF, PERSON),
}
TABLE: dict[str, dict[int | None, Follows]] = {
    "reboot": REBOOTS,
    "reboot_now": REBOOTS,
    "remount_nfs": HARMLESS,
    "reset_gpu": ONCE,
    "restart_unit": HARMLESS,
}
ROWS = {
    f"{name} ends with {code}": (name, code, follows)
    for name, codes in TABLE.items()
    for code, follows in codes.items()
}


def spoken(name: str) -> set[int]:
    """The codes with which a script can end by its own word."""
    words = set(re.findall(r"\b[a-z_]+\b", script(name)))
    codes = {CODES[word] for word in words & set(CODES)}
    ends = re.findall(r"^ *finish [a-z_\"]+ (\d+)", script(name), re.MULTILINE)
    return codes | {int(code) for code in ends}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_table_has_each_code_that_a_script_can_speak(name: str) -> None:
    assert spoken(name) == {code for code in TABLE[name] if code not in CUT_OFF}
    for word, code in CODES.items():
        assert re.search(rf'^{word}\(\) {{ finish "?[a-z]+"? {code} ', script(name), re.MULTILINE)


@pytest.mark.parametrize("sentence", ROWS)
def test_what_follows_from_an_exit_code(sentence: str) -> None:
    name, code, follows = ROWS[sentence]
    state = JobState.SUCCEEDED if code == 0 else JobState.FAILED
    rung = {"name": "reboot", "repair": {name: REPAIRS[name]}, "attempts": 2}
    step = decide(
        executing(), seen(ours(), job=job(state, exit_code=code)), playbook={"ladder": [rung]}
    )

    assert (*went(step), status(step).attempts[-1].outcome) == follows


ADMINS: dict[int | None, Ending] = {
    1: Ending.FAILED,
    70: Ending.FAILED,
    71: Ending.UNKNOWN,
    72: Ending.UNKNOWN,
    75: Ending.OTHER_BOOT,
    76: Ending.NOTHING_DONE,
    127: Ending.FAILED,
    137: Ending.UNKNOWN,
    143: Ending.UNKNOWN,
    None: Ending.UNKNOWN,
}


@pytest.mark.parametrize("code", ADMINS)
def test_an_admins_job_may_speak_the_same_codes(code: int | None) -> None:
    repair = Repair.model_validate({"run_job": {"template": "fix"}})

    assert ending_of(job(JobState.FAILED, exit_code=code), repair) is ADMINS[code]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (1, AttemptOutcome.TIMED_OUT),
        (72, AttemptOutcome.AMBIGUOUS),
        (137, AttemptOutcome.AMBIGUOUS),
        (None, AttemptOutcome.AMBIGUOUS),
    ],
)
def test_a_power_cycle_of_which_nobody_knows_is_remembered_as_such(
    code: int | None, outcome: AttemptOutcome
) -> None:
    look = seen(ours(), job=job(JobState.FAILED, exit_code=code))
    step = decide(executing(), look, playbook=POWER, job_templates=TEMPLATES)

    assert went(step) == (Phase.AWAITING_RETURN, Reason.JOB_FAILED)
    assert status(step).attempts[-1].outcome is outcome


def test_a_pod_that_never_began_did_nothing() -> None:
    repair = Repair.model_validate({"reset_gpu": {}})

    assert ending_of(job(JobState.FAILED, began=False), repair) is Ending.NOTHING_DONE
