"""The server side of bench/serving.py: one candidate in a process of its own.

`python -m bench._serving_child KIND PORT CERT KEY`; SIGHUP reloads the certificate. The application
is a Flask route that reads its body and answers a few bytes.
"""

import importlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import structlog
from flask import Flask, request
from prometheus_client import CollectorRegistry

THREADS = 32

app = Flask("bench", static_folder=None)


@app.post("/v1/review")
def review() -> dict[str, int]:
    """Read the body, answer its size."""
    return {"bytes": len(request.get_data())}


def _on_hangup(reload: Any) -> None:
    wanted = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: wanted.set())
    while True:
        wanted.wait()
        wanted.clear()
        reload()


def serve_ours(port: str, cert: str, key: str, *, whole: bool) -> None:
    """Granian's worker inside this process, as chassis.serving does it."""
    from chassis.serving import Server, ServingSettings, TLSSettings  # noqa: PLC0415
    from chassis.webapp import create_app  # noqa: PLC0415

    structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=sys.stderr))
    log = structlog.get_logger()
    served = app
    if whole:
        served = create_app(
            "bench", registry=CollectorRegistry(), log=log, max_body_bytes=1 << 20, auth=None
        )
        served.add_url_rule("/v1/review", view_func=review, methods=["POST"])
    tls = TLSSettings(cert_file=Path(cert), key_file=Path(key))
    settings = ServingSettings(listen=f"127.0.0.1:{port}", tls=tls, threads=THREADS)
    server = Server(served, settings, log)
    server.start()
    _on_hangup(server.reload_certificates)


def serve_cheroot(port: str, cert: str, key: str) -> None:
    """Cheroot's threads inside this process; the certificate of a live context can be replaced."""
    adapters = importlib.import_module("cheroot.ssl.builtin")  # may be absent, so by name
    wsgi = importlib.import_module("cheroot.wsgi")
    server = wsgi.Server(("127.0.0.1", int(port)), app, numthreads=THREADS)
    server.ssl_adapter = adapters.BuiltinSSLAdapter(cert, key)
    threading.Thread(target=server.safe_start, daemon=True).start()
    _on_hangup(lambda: server.ssl_adapter.context.load_cert_chain(cert, key))


def serve_gunicorn(port: str, cert: str, key: str) -> None:
    """Gunicorn's gthread worker: a master and a worker process."""
    flags = f"-m gunicorn -k gthread -w 1 --threads {THREADS} --keep-alive 75 --bind"
    files = ["--certfile", cert, "--keyfile", key, "--log-level", "error"]
    _become([*flags.split(), f"127.0.0.1:{port}", *files, "bench._serving_child:app"])


def serve_granian(port: str, cert: str, key: str) -> None:
    """Granian's own command: a main and a worker process."""
    flags = f"-m granian --interface wsgi --http 1 --no-ws --blocking-threads {THREADS} --no-log"
    files = ["--ssl-certificate", cert, "--ssl-keyfile", key]
    _become([*flags.split(), "--port", port, *files, "bench._serving_child:app"])


def _become(arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, *arguments])


def main(kind: str, *where: str) -> None:
    port, cert, key = where
    if kind.startswith("ours"):
        serve_ours(port, cert, key, whole=kind == "ours-whole")
    {"cheroot": serve_cheroot, "gunicorn": serve_gunicorn, "granian": serve_granian}[kind](
        port, cert, key
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
