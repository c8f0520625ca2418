"""The certificates: an authority, and a server's certificate that it signs (RFC 5280, P-256)."""

from dataclasses import replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpu_admission.authority.held import Held, Pair
from gpu_admission.authority.planning import Policy, Step

_EARLIER = timedelta(minutes=5)  # other machines' clocks are behind ours
_PEM = serialization.Encoding.PEM


def carry_out(step: Step, held: Held | None, policy: Policy, now: datetime) -> Held:
    """What is held after the step.

    Raises:
        ValueError: The step needs something that is not held.
    """
    if step is Step.FIRST or held is None:
        authority = _authority(policy, now)
        return Held(authority, _server(authority, policy, now))
    if step is Step.SUCCESSOR:
        return replace(held, successor=_authority(policy, now, backdate=timedelta(0)))
    if step is Step.SUCCEED:
        if held.successor is None:
            raise ValueError("there is no successor")
        before = tuple(
            each
            for each in (held.authority.certificate, *held.before)
            if x509.load_pem_x509_certificate(each).not_valid_after_utc > now
        )
        return Held(held.successor, _server(held.successor, policy, now), None, before)
    if step is Step.CERTIFICATE:
        return replace(held, server=_server(held.authority, policy, now))
    return held


def _authority(policy: Policy, now: datetime, *, backdate: timedelta = _EARLIER) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"{policy.names[0]} CA {now:%Y-%m-%dT%H:%M:%SZ}")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, key, now - backdate, now + policy.authority_lifetime)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def _server(authority: Pair, policy: Policy, now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.parsed
    names = x509.SubjectAlternativeName([x509.DNSName(each) for each in policy.names])
    signer = authority.private_key.public_key()
    certificate = (
        _builder(_name(policy.names[0]), key, now - _EARLIER, now + policy.lifetime)
        .issuer_name(issuer.subject)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
        .sign(authority.private_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def _builder(
    name: x509.Name, key: ec.EllipticCurvePrivateKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    private = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(_PEM), private)
