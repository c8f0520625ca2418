"""The embedded Job controller: what it does next for a Job and its pods."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandbox.kubernetes_rules.jobs import JobStep, is_finished, job_pod, job_step

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def a_job(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"l": "1"}}, "spec": {"restartPolicy": "Never"}}
    counts = {"completions": 1, "parallelism": 1, "backoffLimit": 0}
    return {
        "metadata": {"name": "j", "namespace": "n", "uid": "u"},
        "spec": {"template": template, **counts, **spec},
        "status": status or {},
    }


def a_pod(phase: str, *, code: int | None = None, owner: str = "u") -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase}
    if code is not None:
        status["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": code}}}]
    references = [{"uid": owner, "controller": True}]
    return {"metadata": {"name": f"p-{phase}", "ownerReferences": references}, "status": status}


def conditions(step: JobStep) -> list[tuple[str, str]]:
    found = step.status.get("conditions") or []
    return [(each["type"], each["reason"]) for each in found if each["status"] == "True"]


DONE = [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]
IGNORED = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]}
FATAL = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}


def failed(reason: str) -> list[tuple[str, str]]:
    return [("FailureTarget", reason), ("Failed", reason)]


@pytest.mark.parametrize(
    ("job", "pods", "create", "expected"),
    [
        pytest.param(a_job(), [], 1, [], id="a new job gets its pod"),
        pytest.param(a_job(), [a_pod("Running")], 0, [], id="one works"),
        pytest.param(a_job(), [a_pod("Succeeded")], 0, DONE, id="it is complete"),
        pytest.param(a_job(), [a_pod("Failed")], 0, failed("BackoffLimitExceeded"), id="it failed"),
        pytest.param(a_job(backoffLimit=1), [a_pod("Failed")], 1, [], id="it tries again"),
        pytest.param(
            a_job(completions=4, parallelism=2), [a_pod("Succeeded")], 2, [], id="two at a time"
        ),
        pytest.param(
            a_job(completions=2, parallelism=2), [a_pod("Succeeded")], 1, [], id="the last one"
        ),
        pytest.param(a_job(), [a_pod("Succeeded", owner="other")], 1, [], id="others' pods"),
        pytest.param(a_job(suspend=True), [], 0, [("Suspended", "JobSuspended")], id="suspended"),
        pytest.param(
            a_job(podFailurePolicy=IGNORED), [a_pod("Failed", code=3)], 1, [], id="ignored failure"
        ),
        pytest.param(
            a_job(podFailurePolicy=FATAL, backoffLimit=6),
            [a_pod("Failed", code=3)],
            0,
            failed("PodFailurePolicy"),
            id="a failure that ends it",
        ),
    ],
)
def test_the_next_step_of_a_job(
    job: dict[str, Any], pods: list[Any], create: int, expected: list[tuple[str, str]]
) -> None:
    step = job_step(job, pods, NOW)

    assert (step.create, conditions(step)) == (create, expected)


def test_a_job_over_its_deadline_ends_its_pods_before_it_has_failed() -> None:
    begun = job_step(a_job(activeDeadlineSeconds=60), [a_pod("Running")], NOW)
    job = a_job(begun.status, activeDeadlineSeconds=60)
    late = NOW + timedelta(seconds=60)

    ending = job_step(job, [a_pod("Running")], late)
    ended = job_step(a_job(ending.status, activeDeadlineSeconds=60), [], late)

    assert (len(ending.delete), conditions(ending)) == (1, [("FailureTarget", "DeadlineExceeded")])
    assert conditions(ended) == failed("DeadlineExceeded")


def test_a_finished_job_is_left_alone() -> None:
    job = a_job(job_step(a_job(), [a_pod("Succeeded")], NOW).status)

    step = job_step(job, [], NOW + timedelta(hours=1))

    assert is_finished(job)
    assert step == JobStep(job["status"])


def test_a_step_taken_again_changes_nothing() -> None:
    first = job_step(a_job(), [a_pod("Running")], NOW)
    later = NOW + timedelta(minutes=1)

    assert job_step(a_job(first.status), [a_pod("Running")], later).status == first.status


def test_a_jobs_pod_belongs_to_it() -> None:
    pod = job_pod(a_job(), "abcde")

    assert (pod["metadata"]["name"], pod["metadata"]["labels"]) == ("j-abcde", {"l": "1"})
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "u"
