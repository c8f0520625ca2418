"""When to make what. A successor is trusted by all callers before it signs anything.

The order keeps every call working: the new authority joins the bundle; callers learn of it; only
then a certificate of it is served; the old one stays in the bundle until it ends.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cryptography import x509

from gpu_admission.authority.held import Held


class Step(StrEnum):
    """What is to be done with what is held."""

    NOTHING = "Nothing"
    FIRST = "First"
    SUCCESSOR = "Successor"
    SUCCEED = "Succeed"
    CERTIFICATE = "Certificate"


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things last, the names that are served, and how long callers get to learn of a CA."""

    names: tuple[str, ...]
    lifetime: timedelta
    authority_lifetime: timedelta
    settle: timedelta = timedelta(minutes=10)


def next_step(held: Held | None, policy: Policy, now: datetime) -> tuple[Step, str]:
    """The one next step and why; call again after it is stored."""
    if held is None:
        return Step.FIRST, "there is no authority yet"
    if held.authority.ends <= now:
        return Step.FIRST, "the authority has ended"
    if held.successor is not None:
        known_for = now - held.successor.parsed.not_valid_before_utc
        if known_for >= policy.settle or held.authority.ends - now < policy.settle:
            return Step.SUCCEED, "its successor is known by now"
    elif held.authority.ends - now < 2 * policy.lifetime:
        return Step.SUCCESSOR, "the authority ends soon"
    return _of_certificate(held, policy, now)


def _of_certificate(held: Held, policy: Policy, now: datetime) -> tuple[Step, str]:
    certificate = held.server.parsed
    if certificate.not_valid_after_utc - now < policy.lifetime / 3:
        return Step.CERTIFICATE, "the certificate ends soon"
    if now < certificate.not_valid_before_utc:
        return Step.CERTIFICATE, "the certificate is not valid yet; the clock has gone back"
    if _names(certificate) != set(policy.names):
        return Step.CERTIFICATE, "the certificate is for other names"
    if certificate.issuer != held.authority.parsed.subject:
        return Step.CERTIFICATE, "another authority has signed the certificate"
    return Step.NOTHING, "all is well"


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return set(found.value.get_values_for_type(x509.DNSName))
