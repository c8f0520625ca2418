"""What follows from a refused write: the rows about a locked conversation."""

import pytest

from alerts2gh.config import Recovery
from alerts2gh.incident import Incident, IntentAction
from alerts2gh.ports import Answer, Outcome
from alerts2gh.worker.aftermath import TRIES_BEFORE_GIVING_UP, Course, after_failure
from tests.alerts2gh.builders import NOW, a_member, an_incident, an_issue

LOCKED: Answer[object] = Answer(Outcome.LOCKED, text="locked", status=403)
FIRING = an_incident(a_member(), issue=an_issue())
RESOLVED = an_incident(a_member(firing=False), issue=an_issue())
LAST_TRY = an_incident(a_member(firing=False), issue=an_issue(), attempts=TRIES_BEFORE_GIVING_UP)


@pytest.mark.parametrize(
    ("incident", "kind", "can_move", "course"),
    [
        pytest.param(
            FIRING, IntentAction.COMMENT, True, Course.FALL_BACK, id="a comment while it fires"
        ),
        pytest.param(
            FIRING, IntentAction.EDIT, True, Course.FALL_BACK, id="any write while it fires"
        ),
        pytest.param(
            FIRING, IntentAction.COMMENT, False, Course.SKIP, id="a comment, with nowhere to go"
        ),
        pytest.param(
            RESOLVED, IntentAction.COMMENT, True, Course.SKIP, id="a comment when all is resolved"
        ),
        pytest.param(
            RESOLVED, IntentAction.CLOSE, True, Course.RETRY, id="a close that may work later"
        ),
        pytest.param(
            LAST_TRY, IntentAction.CLOSE, True, Course.GIVE_UP, id="a close that never works"
        ),
    ],
)
def test_a_locked_conversation(
    incident: Incident, kind: IntentAction, can_move: bool, course: Course
) -> None:
    aftermath = after_failure(incident, kind, LOCKED, Recovery(), NOW, can_move=can_move)

    assert aftermath.course is course
    assert aftermath.incident.intent is None
