"""Keys of a GitHub App, and the JWT that it signs with them."""

import time
from collections.abc import Callable

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


@pytest.fixture(scope="session")
def app_keys() -> tuple[str, str]:
    return a_key_pair()


def a_key_pair() -> tuple[str, str]:
    """Private and public key, PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


@pytest.fixture(scope="session")
def app_jwt(app_keys: tuple[str, str]) -> Callable[[int], str]:
    def signed(app_id: int) -> str:
        now = int(time.time())
        claims = {"iss": str(app_id), "iat": now - 30, "exp": now + 300}
        return jwt.encode(claims, app_keys[0], algorithm="RS256")

    return signed
