"""chassis.webapp: who may call the protected paths, and that no secret gets out."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import structlog
from flask.testing import FlaskClient
from prometheus_client import CollectorRegistry
from pydantic import ValidationError
from structlog.testing import capture_logs
from werkzeug.test import EnvironBuilder, run_wsgi_app

from chassis.webapp import AuthSettings, create_app

TOKEN, SECOND, PASSWORD = "first-token", "second-token", "pass:with:colons-é"


def basic(username: str, password: str) -> str:
    return "Basic " + b64encode(f"{username}:{password}".encode()).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in (("one", TOKEN), ("two", SECOND), ("password", PASSWORD)):
        (tmp_path / name).write_text(content + "\n")
    return tmp_path


@pytest.fixture
def auth(folder: Path) -> AuthSettings:
    return AuthSettings.model_validate(
        {
            "bearer_token_file": [str(folder / "one"), str(folder / "two")],
            "basic_auth": {"username": "am", "password_file": str(folder / "password")},
        }
    )


def a_client(auth: AuthSettings | None) -> FlaskClient:
    app = create_app(
        "my_service",
        registry=CollectorRegistry(),
        log=structlog.get_logger(),
        max_body_bytes=1000,
        auth=auth,
    )
    app.add_url_rule("/v1/webhook", "webhook", lambda: "taken", methods=["POST"])
    app.add_url_rule("/v10", "other", lambda: "open", methods=["POST"])
    return app.test_client()


def open_raw(client: FlaskClient, **environ: Any) -> tuple[int, bytes]:
    """Call the application with an environ that no client would have made; status and body."""
    whole = EnvironBuilder(path="/v1/webhook", method="POST").get_environ() | environ
    chunks, status, _ = run_wsgi_app(client.application, whole)
    return int(status[:3]), b"".join(chunks)


def post(client: FlaskClient, credential: str | None, path: str = "/v1/webhook") -> int:
    headers = {} if credential is None else {"Authorization": credential}
    return client.post(path, data=b"body", headers=headers).status_code


@pytest.mark.parametrize(
    ("credential", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"Bearer {SECOND}", 200),
        (basic("am", PASSWORD), 200),
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (TOKEN, 401),
        (f"Digest {TOKEN}", 401),
        (basic("am", TOKEN), 401),
        (basic("other", PASSWORD), 401),
        (basic("", ""), 401),
        ("Basic !!!", 401),
        (f"Bearer {b64encode(TOKEN.encode()).decode()}", 401),
        ("Bearer \xff", 401),
    ],
    ids=[
        "a token",
        "the scheme in small letters",
        "the second token",
        "name and password",
        "nothing",
        "an empty header",
        "a scheme alone",
        "an empty token",
        "a longer token",
        "a shorter token",
        "a token without scheme",
        "another scheme",
        "a token as password",
        "another name",
        "empty name and password",
        "broken base64",
        "an encoded token",
        "bytes that are no text",
    ],
)
def test_only_known_credentials_are_let_in(
    auth: AuthSettings, credential: str | None, status: int
) -> None:
    environ = {} if credential is None else {"HTTP_AUTHORIZATION": credential}

    assert open_raw(a_client(auth), **environ)[0] == status


def test_without_auth_settings_anybody_is_let_in() -> None:
    assert post(a_client(None), None) == 200


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/nowhere", "/v1//webhook", "//v1/webhook", "/v1/webhook/"]
)
def test_below_a_protected_prefix_nothing_is_told_to_strangers(
    auth: AuthSettings, path: str
) -> None:
    status, body = open_raw(a_client(auth), PATH_INFO=path)

    assert status == 401 or (status == 308 and path == "//v1/webhook")
    assert b"taken" not in body


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_and_scrapes_need_no_credential(auth: AuthSettings, path: str) -> None:
    assert a_client(auth).get(path).status_code == 200


def test_a_path_that_only_begins_alike_is_not_protected(auth: AuthSettings) -> None:
    assert post(a_client(auth), None, "/v10") == 200


def test_a_refusal_says_how_to_authenticate(auth: AuthSettings) -> None:
    answer = a_client(auth).post("/v1/webhook")

    assert answer.headers.getlist("WWW-Authenticate") == [
        'Bearer realm="nodemend"',
        'Basic realm="nodemend", charset="UTF-8"',
    ]
    assert answer.json is not None
    assert answer.json["reason"] == "unauthorized"


def test_a_changed_file_counts_at_once(auth: AuthSettings, folder: Path) -> None:
    client = a_client(auth)
    assert post(client, f"Bearer {TOKEN}") == 200

    (folder / "one").write_text("rotated")

    assert post(client, "Bearer rotated") == 200
    assert post(client, f"Bearer {TOKEN}") == 401
    assert post(client, f"Bearer {SECOND}") == 200


class Untouched:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the body of a stranger was touched: {name}")


def test_the_body_of_a_stranger_is_not_read(auth: AuthSettings) -> None:
    environ = {"wsgi.input": Untouched(), "CONTENT_LENGTH": "1000000"}

    assert open_raw(a_client(auth), **environ)[0] == 401


def test_no_secret_is_in_a_log_or_an_answer(auth: AuthSettings) -> None:
    client = a_client(auth)
    wrong = (f"Bearer {TOKEN}x", basic("am", PASSWORD + "x"), f"Digest {TOKEN}")
    with capture_logs() as logs:
        answers = [
            client.post("/v1/webhook", headers={"Authorization": credential}).text
            for credential in wrong
        ]

    said = f"{logs} {answers} {auth!r}"
    assert [each["event"] for each in logs] == ["request_unauthorized"] * 3
    for secret in (TOKEN, SECOND, PASSWORD, b64encode(f"am:{PASSWORD}x".encode()).decode()):
        assert secret not in said


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "set bearer_token_file or basic_auth"),
        ({"bearer_token_file": "nowhere"}, "cannot read nowhere"),
        ({"basic_auth": {"username": "a:b", "password_file": "x"}}, "username"),
        ({"token": "secret"}, "token"),
    ],
)
def test_unusable_settings_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        AuthSettings.model_validate(settings)
