"""Makes a certificate authority and a server certificate for one run of a server on this machine."""

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class ServerTLS:
    """What the server needs, and the authority's certificate that clients need."""

    context: ssl.SSLContext
    authority_pem: bytes


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A server's certificate and key, and the authority's certificate; all PEM."""

    certificate_pem: bytes
    key_pem: bytes
    authority_pem: bytes


def make_certificate(host: str, name: str = "sandbox-kubernetes") -> ServerCertificate:
    """Valid for `host`, localhost and 127.0.0.1, for ten days, since nothing here lives longer."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate(f"{name}-ca", authority_key, None, [])
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName("localhost"), *(_address(each) for each in {host, "127.0.0.1", "::1"})]
    leaf = _certificate(name, key, (authority, authority_key), names)
    private = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ServerCertificate(leaf.public_bytes(_PEM), private, authority.public_bytes(_PEM))


def make_tls(host: str) -> ServerTLS:
    """A server's context for `host`, and the authority that clients need."""
    made = make_certificate(host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys from files only
        file = Path(folder) / "server.pem"
        file.touch(mode=0o600)
        file.write_bytes(made.certificate_pem + made.key_pem)
        context.load_cert_chain(file)
    return ServerTLS(context, made.authority_pem)


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
    names: list[x509.GeneralName],
) -> x509.Certificate:
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer[1] if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=10))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
