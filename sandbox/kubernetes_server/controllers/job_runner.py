"""The Job controller: makes the pods that Jobs want, keeps their status, removes Jobs after their time to live."""

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sandbox.kubernetes_rules import jobs
from sandbox.kubernetes_rules.resources import JOB, POD
from sandbox.kubernetes_rules.statuses import Refusal
from sandbox.kubernetes_server.controllers.frame import ACTOR, Change, Controller
from sandbox.kubernetes_server.objects import SUFFIX_LETTERS
from sandbox.kubernetes_server.storage import Body, Key, Record

_JOBS = JOB.qualified_plural


class JobRunner(Controller):
    """Looks at Jobs that changed, whose pods changed, or that wait for an instant."""

    collections = (_JOBS, POD.plural)
    period = 0.5

    def react(self, changes: Sequence[Change]) -> None:
        keys = {key for change in changes for key in _jobs_of(change)}
        keys |= {each.key for each in self.store.collection(_JOBS).records() if _waits(each)}
        for key in sorted(keys):
            record = self.store.collection(_JOBS).get(key)
            if record is not None and not self._expired(record):
                self._step(record)

    def _step(self, record: Record) -> None:
        job = record.body
        if job["metadata"].get("deletionTimestamp"):
            return
        pods = self.store.collection(POD.plural).records(record.key[0])
        by_name = {each.key[1]: each for each in pods}
        now = self.cluster.objects.now()
        step = jobs.job_step(job, [each.body for each in pods], now)
        for pod in step.delete:
            self.delete(POD, by_name[pod["metadata"]["name"]], propagationPolicy="Background")
        if step.status != job.get("status"):
            self._keep(record, step.status)
        for _ in range(step.create):
            suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))
            pod_body = jobs.job_pod(job, suffix)
            self.cluster.objects.create(POD, record.key[0], pod_body, ACTOR)

    def _keep(self, record: Record, status: Body) -> None:
        def change(body: Body) -> Body:
            return {**body, "status": status}

        try:
            self.cluster.objects.update(JOB, *record.key, change, ACTOR, "status")
        except Refusal as refusal:
            if refusal.reason != "NotFound":
                raise

    def _expired(self, record: Record) -> bool:
        """Whether its ttlSecondsAfterFinished has passed; then it is deleted."""
        seconds = record.body["spec"].get("ttlSecondsAfterFinished")
        ended = _end(record.body) if seconds is not None else None
        if ended is None or self.cluster.objects.now() < ended + timedelta(seconds=int(seconds)):
            return False
        self.delete(JOB, record, propagationPolicy="Background")
        return True


def _jobs_of(change: Change) -> Iterator[Key]:
    namespace, name = change.event.record.key
    if change.collection == _JOBS:
        yield namespace, name
        return
    for reference in change.event.record.body["metadata"].get("ownerReferences") or ():
        if reference["kind"] == "Job" and reference.get("controller"):
            yield namespace, reference["name"]


def _waits(record: Record) -> bool:
    spec = record.body["spec"]
    if jobs.is_finished(record.body):
        return spec.get("ttlSecondsAfterFinished") is not None
    return spec.get("activeDeadlineSeconds") is not None


def _end(job: Body) -> datetime | None:
    for each in (job.get("status") or {}).get("conditions") or ():
        if each["type"] in {"Complete", "Failed"} and each["status"] == "True":
            return datetime.fromisoformat(each["lastTransitionTime"])
    return None
