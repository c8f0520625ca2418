"""How a service's configuration speaks of leader election."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from chassis.config import Duration, Settings
from chassis.kube_lease.term import LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, LeaseTimes

_LEAST = timedelta(milliseconds=100)


def _no_tight_loop(value: timedelta) -> timedelta:
    if value < _LEAST:
        raise ValueError("must be at least 100ms")
    return value


_Wait = Annotated[Duration, AfterValidator(_no_tight_loop)]


class LeaseSettings(Settings):
    """The times of a Lease; each service adds the Lease's name, and where it lies."""

    lease_duration: _Wait = LEASE_DURATION
    renew_deadline: _Wait = RENEW_DEADLINE
    retry_period: _Wait = RETRY_PERIOD

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        LeaseTimes(self.lease_duration, self.renew_deadline, self.retry_period)
        return self
