"""The self-signed authority: no call fails for years, whatever copies of the bundle callers still have."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from chassis.errors import PermanentError
from gpu_admission.authority import (
    Held,
    Policy,
    Step,
    carry_out,
    from_secret,
    next_step,
    to_secret,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NAMES = ("gpu.nodemend.svc", "gpu.nodemend.svc.cluster.local")
POLICY = Policy(NAMES, timedelta(days=90), timedelta(days=3650))


def trusts(bundle: bytes, held: Held, now: datetime, name: str = NAMES[0]) -> bool:
    """Whether a caller with this bundle accepts what is served; the library's own verifier decides."""
    verifier = (
        PolicyBuilder()
        .store(Store(x509.load_pem_x509_certificates(bundle)))
        .time(now)
        .build_server_verifier(x509.DNSName(name))
    )
    try:
        verifier.verify(held.server.parsed, [])
    except VerificationError:
        return False
    return True


def settled(held: Held | None, now: datetime, policy: Policy = POLICY) -> Held:
    """All steps that are due, one after the other."""
    for _ in range(5):
        step, _why = next_step(held, policy, now)
        if step is Step.NOTHING:
            break
        held = carry_out(step, held, policy, now)
    else:
        pytest.fail("it never comes to rest")
    assert held is not None
    return held


def test_the_first_certificate_is_accepted_for_each_name() -> None:
    held = settled(None, NOW)

    assert all(trusts(held.bundle, held, NOW, name) for name in NAMES)
    assert not trusts(held.bundle, held, NOW, "other.nodemend.svc")


def test_a_caller_with_a_bundle_of_yesterday_accepts_each_certificate_for_ever() -> None:
    """Replicas look each day here; the bundle that callers use is a day old; authorities last 90 days."""
    policy = Policy(NAMES, timedelta(days=9), timedelta(days=90), timedelta(days=1))
    held = settled(None, NOW, policy)
    bundle = held.bundle
    authorities = {held.authority.certificate}
    for day in range(1, 300):
        now = NOW + timedelta(days=day)
        held = settled(held, now, policy)
        assert trusts(bundle, held, now), f"refused on day {day}"
        bundle = held.bundle
        authorities.add(held.authority.certificate)
    assert len(authorities) > 3
    assert len(held.before) <= 1, "authorities that have ended leave the bundle"


def test_a_successor_signs_only_after_callers_had_time_to_learn_of_it() -> None:
    held = settled(None, NOW)
    late = held.authority.ends - timedelta(days=100)
    held = settled(held, late)
    assert held.successor is not None
    before = held.server.parsed.issuer

    assert settled(held, late + timedelta(minutes=9)).server.parsed.issuer == before
    assert settled(held, late + timedelta(minutes=10)).server.parsed.issuer != before


@pytest.mark.parametrize(
    ("change", "later", "step"),
    [
        pytest.param({}, timedelta(days=59), Step.NOTHING, id="a young certificate stays"),
        pytest.param(
            {}, timedelta(days=61), Step.CERTIFICATE, id="it is renewed in its last third"
        ),
        pytest.param({}, -timedelta(days=1), Step.CERTIFICATE, id="the clock went back a day"),
        pytest.param(
            {"names": ("new.nodemend.svc",)},
            timedelta(0),
            Step.CERTIFICATE,
            id="the service was renamed",
        ),
        pytest.param({}, timedelta(days=4000), Step.FIRST, id="all was down until the CA ended"),
    ],
)
def test_what_is_done_when(
    change: dict[str, tuple[str, ...]], later: timedelta, step: Step
) -> None:
    held = settled(None, NOW)
    policy = Policy(
        change.get("names", NAMES), POLICY.lifetime, POLICY.authority_lifetime, POLICY.settle
    )

    assert next_step(held, policy, NOW + later)[0] is step


def test_a_secret_holds_all_of_it() -> None:
    held = settled(None, NOW)
    held = settled(held, held.authority.ends - timedelta(days=100))

    assert from_secret(to_secret(held)) == held


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda _: {}, id="an empty Secret"),
        pytest.param(lambda data: {**data, "tls.key": "bm8="}, id="a key that is none"),
        pytest.param(lambda data: {**data, "ca.crt": "%"}, id="not base64"),
        pytest.param(lambda data: {**data, "tls.key": data["ca.key"]}, id="another one's key"),
        pytest.param(
            lambda data: {key: value for key, value in data.items() if key != "ca.key"},
            id="the authority's key is missing",
        ),
    ],
)
def test_an_unusable_secret_is_refused(spoil: object) -> None:
    data = to_secret(settled(None, NOW))
    assert callable(spoil)

    with pytest.raises(PermanentError):
        from_secret(spoil(data))


def test_no_key_shows_in_a_repr() -> None:
    assert "PRIVATE" not in repr(settled(None, NOW))
