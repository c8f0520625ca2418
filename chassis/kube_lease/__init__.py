"""Leader election on a Lease: of all candidates at most one leads, also while the API is away.

The API never says "you are no longer the leader", so the leader itself must stop in time: it
leads only for `renew_deadline` after the *sending* of its last successful renewal, while others
take over no sooner than `lease_duration` after they have *seen* that renewal. Only durations are
compared, each on one machine's monotonic clock; the times in the Lease are for people.

Whether a leader stops in time is up to what it does between two looks at its term; effects that
must not happen twice are fenced by their resourceVersion as well.
"""

from chassis.kube_lease.election import LeaderElection
from chassis.kube_lease.settings import LeaseSettings
from chassis.kube_lease.term import Term

__all__ = ["LeaderElection", "LeaseSettings", "Term"]
