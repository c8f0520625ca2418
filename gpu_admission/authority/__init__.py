"""A certificate authority for one webhook: what to do next, and the certificates themselves.

Decides from what a Secret holds and the time; makes keys. Must not talk to the cluster or keep files.
"""

from gpu_admission.authority.held import Held, Pair, from_secret, to_secret
from gpu_admission.authority.making import carry_out
from gpu_admission.authority.planning import Policy, Step, next_step

__all__ = [
    "Held",
    "Pair",
    "Policy",
    "Step",
    "carry_out",
    "from_secret",
    "next_step",
    "to_secret",
]
