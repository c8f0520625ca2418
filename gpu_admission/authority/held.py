"""What the shared Secret holds: the authority, its successor, those before it, and the server's pair."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from chassis.errors import PermanentError

_FIELDS = {"authority": "ca", "server": "tls", "successor": "next-ca"}


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, each as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def parsed(self) -> x509.Certificate:
        """The certificate."""
        return x509.load_pem_x509_certificate(self.certificate)

    @property
    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """The key.

        Raises:
            PermanentError: It is not one that we make.
        """
        key = serialization.load_pem_private_key(self.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise PermanentError("the key is not an elliptic-curve key")
        return key

    @property
    def ends(self) -> datetime:
        """Not valid after, aware."""
        return self.parsed.not_valid_after_utc


@dataclass(frozen=True, slots=True)
class Held:
    """All of it. `bundle` is what callers must trust: the authority, its successor, those before."""

    authority: Pair
    server: Pair
    successor: Pair | None = None
    before: tuple[bytes, ...] = ()

    @property
    def bundle(self) -> bytes:
        """PEM of every authority whose certificates may be met."""
        successor = () if self.successor is None else (self.successor.certificate,)
        return b"".join((self.authority.certificate, *successor, *self.before))


def from_secret(data: Mapping[str, str]) -> Held:
    """Read a Secret's `data`, base64 as Kubernetes has it.

    Raises:
        PermanentError: It holds nothing that we could go on with.
    """
    try:
        pairs = {name: _pair(data, prefix) for name, prefix in _FIELDS.items()}
        before = tuple(
            each.public_bytes(serialization.Encoding.PEM)
            for each in _certificates(base64.b64decode(data.get("old-ca.crt", "")))
        )
        authority, server = pairs["authority"], pairs["server"]
        if authority is None or server is None:
            raise PermanentError("ca.crt, ca.key, tls.crt and tls.key are not all there")
        for pair in filter(None, pairs.values()):
            if pair.parsed.public_key() != pair.private_key.public_key():
                raise PermanentError("a key and its certificate do not belong together")
        return Held(authority, server, pairs["successor"], before)
    except (ValueError, TypeError, binascii.Error) as error:
        raise PermanentError(f"the certificates cannot be read: {type(error).__name__}") from error


def _pair(data: Mapping[str, str], prefix: str) -> Pair | None:
    certificate, key = (base64.b64decode(data.get(f"{prefix}.{end}", "")) for end in ("crt", "key"))
    return Pair(certificate, key) if certificate and key else None


def _certificates(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem) if pem else []


def to_secret(held: Held) -> dict[str, str]:
    """A Secret's `data`."""
    content = {"old-ca.crt": b"".join(held.before)}
    for name, prefix in _FIELDS.items():
        pair: Pair | None = getattr(held, name)
        content[f"{prefix}.crt"] = pair.certificate if pair else b""
        content[f"{prefix}.key"] = pair.key if pair else b""
    return {key: base64.b64encode(value).decode() for key, value in content.items() if value}
