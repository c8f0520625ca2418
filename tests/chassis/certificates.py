"""Certificates for tests: an authority, and servers and clients that it vouches for."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from chassis.serving import TLSSettings

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Authority:
    """A CA with its files in `folder`."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def file(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, name: str, *, serial: int = 0, curve: ec.EllipticCurve | None = None) -> Path:
        """Write NAME.crt and NAME.key, in the place of older ones; the certificate's path."""
        key = ec.generate_private_key(curve or ec.SECP256R1())
        certificate = (
            _builder(name, self.certificate.subject, key.public_key(), serial)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
                ),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        path = self.folder / f"{name}.crt"
        _replace(path.with_suffix(".key"), _private(key))
        _replace(path, certificate.public_bytes(_PEM))
        return path

    def trusting(self, client: Path | None = None) -> ssl.SSLContext:
        """A client's context that trusts this authority and shows the certificate `client`."""
        context = ssl.create_default_context(cafile=self.file)
        if client is not None:
            context.load_cert_chain(client, client.with_suffix(".key"))
        return context


def an_authority(folder: Path) -> Authority:
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    certificate = (
        _builder("authority", name, key.public_key(), 0)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    authority = Authority(folder, key, certificate)
    _replace(authority.file, certificate.public_bytes(_PEM))
    return authority


def tls_settings(certificate: Path, client_ca: Path | None = None) -> TLSSettings:
    return TLSSettings(
        cert_file=certificate, key_file=certificate.with_suffix(".key"), client_ca_file=client_ca
    )


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, serial: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(content)
    fresh.replace(path)
