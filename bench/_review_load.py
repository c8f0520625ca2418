"""Reviews on a schedule over keep-alive TLS, each timed from when it was due."""

import http.client
import ssl
import threading
import time
from pathlib import Path

CLIENTS = 8
_GIVE_UP_SECONDS = 5


def paced(port: int, path: str, body: Path, rate: int, seconds: float) -> list[float]:
    """Seconds that each answer took since its request was due, so a stall counts for all it delayed.

    Raises:
        RuntimeError: An answer was not 200.
    """
    content = body.read_bytes()
    taken: list[float] = []
    failures: list[str] = []
    start = time.monotonic() + 0.2

    def client(offset: int) -> None:
        context = ssl._create_unverified_context()  # noqa: SLF001 (the load is not about trust)
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
        connection.connect()
        for number in range(offset, int(rate * seconds), CLIENTS):
            due = start + number / rate
            if time.monotonic() - due > _GIVE_UP_SECONDS:
                failures.append("it cannot keep up")
                return
            time.sleep(max(0.0, due - time.monotonic()))
            connection.request("POST", path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.HTTPStatus.OK:
                failures.append(f"status {answer.status}")
                return
            taken.append(time.monotonic() - due)
        connection.close()

    threads = [threading.Thread(target=client, args=(offset,)) for offset in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(failures[0])
    return taken
