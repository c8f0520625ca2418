"""Certificate files: read together, checked before use, handed to the server from memory.

The three files are read once into one value, so what was checked is what is served, whatever happens
to the files in between. Must not log or say anything of what is in a key.
"""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from chassis.errors import PermanentError
from chassis.serving import granian_worker
from chassis.serving.granian_worker import CertificatePaths
from chassis.serving.settings import TLSSettings

_CHECK_SECONDS = 30


class CertificateError(PermanentError):
    """Certificate files that cannot be served; the text names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The PEM bytes of a chain, its key, and the CAs whose client certificates are accepted."""

    chain: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None


def read_certificate(settings: TLSSettings) -> Certificate:
    """Read the files as they are now; whether they fit is for `check_certificate`.

    Raises:
        CertificateError: A file cannot be read.
    """
    ca = settings.client_ca_file
    return Certificate(
        chain=_read(settings.cert_file),
        key=_read(settings.key_file),
        client_ca=_read(ca) if ca is not None else None,
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}; is the secret mounted?") from error


@contextmanager
def as_files(certificate: Certificate) -> Iterator[tuple[CertificatePaths, tuple[int, ...]]]:
    """Paths and descriptors of files that exist in memory only, and only inside this block."""
    with ExitStack() as closing:

        def hold(content: bytes) -> int:
            fd = os.memfd_create("certificate")
            closing.callback(os.close, fd)
            os.write(fd, content)
            return fd

        parts = (certificate.chain, certificate.key, certificate.client_ca)
        fds = [hold(part) for part in parts if part is not None]
        paths = [f"/proc/self/fd/{fd}" for fd in fds]
        client_ca = None if certificate.client_ca is None else paths[2]
        yield CertificatePaths(paths[0], paths[1], client_ca), tuple(fds)


def check_certificate(certificate: Certificate, settings: TLSSettings) -> None:
    """Prove that the server can use it, without risking this process.

    OpenSSL goes first as its answers are better; what only the server's own TLS library refuses
    (a curve it does not know, say) is found by loading it in a short-lived child process.

    Raises:
        CertificateError: The pair cannot be served.
    """
    with as_files(certificate) as (paths, fds):
        _load_with_openssl(paths, settings)
        command = [sys.executable, "-I", granian_worker.__file__, paths.cert, paths.key]
        command += [paths.client_ca] if paths.client_ca else []
        try:
            done = subprocess.run(  # noqa: S603 (our own interpreter and file, no shell)
                command, pass_fds=fds, capture_output=True, timeout=_CHECK_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CertificateError(f"{settings.cert_file}: check did not finish") from error
    if done.returncode != 0:
        raise CertificateError(
            f"{settings.cert_file}: the server cannot use this pair"
            f" ({_panic(done.stderr)}); use an RSA key of 2048 bits or more, or EC P-256 or P-384"
        )


def end_of(certificate: Certificate) -> datetime:
    """When the first certificate of the chain ends, aware.

    Raises:
        CertificateError: It cannot be read.
    """
    from cryptography import x509  # noqa: PLC0415 - megabytes that only a service with TLS needs

    try:
        return x509.load_pem_x509_certificate(certificate.chain).not_valid_after_utc
    except ValueError as error:
        raise CertificateError(f"the certificate has no end that can be read: {error}") from error


def _load_with_openssl(paths: CertificatePaths, settings: TLSSettings) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(paths.cert, paths.key, password=_refuse_password)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(
            f"{settings.cert_file} and {settings.key_file} are no pair: {_reason(error)};"
            " both must be PEM, the key without a password and made for this certificate"
        ) from error
    if paths.client_ca is None:
        return
    try:
        context.load_verify_locations(paths.client_ca)
    except ssl.SSLError as error:
        raise CertificateError(
            f"{settings.client_ca_file}: no usable CA certificate in it: {_reason(error)}"
        ) from error


def _refuse_password() -> str:
    raise ValueError("the key has a password")


def _reason(error: Exception) -> str:
    return (isinstance(error, ssl.SSLError) and error.reason) or str(error)


def _panic(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").splitlines()
    told = [line for line in lines if line.startswith("called `") or "panicked at" in line]
    return told[-1][:200] if told else "it died while loading it"
