"""Self-signed certificates for benchmarks; needs the package `cryptography`."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_pair(folder: Path) -> tuple[Path, Path]:
    """A new pair in `folder` (tls.crt, tls.key), in the place of an older one."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths = folder / "tls.crt", folder / "tls.key"
    for path, content in zip(paths, (certificate.public_bytes(pem), private), strict=True):
        fresh = path.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(path)
    return paths
