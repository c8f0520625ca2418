"""Posts timeline entries to alerts2gh; the only place that speaks HTTP to it.

The bearer token is read at each post, so that a rotated one counts at once.
"""

from collections.abc import Sequence

import requests

from chassis.contracts import TimelineEntry
from chassis.errors import PermanentError, TemporaryError
from chassis.telemetry import redact_text
from remediator.config import TimelinePeer

_PATH = "/v1/timeline"
_MOST_TEXT = 300
_TAKEN = range(200, 300)
_REFUSALS = range(400, 500)
_MAY_CHANGE = frozenset({401, 403, 404, 408, 425, 429})
"""A wrong token or path is mended by people: what waits is told then."""


class Poster:
    """Posts to one alerts2gh."""

    def __init__(self, peer: TimelinePeer) -> None:
        self._peer = peer
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(peer.ca_file) if peer.ca_file else True

    def close(self) -> None:
        """Close the idle connection."""
        self._session.close()

    def post(self, entries: Sequence[TimelineEntry]) -> None:
        """Post them in one request.

        Raises:
            TemporaryError: Not taken yet.
            PermanentError: Never taken: alerts2gh finds them wrong.
        """
        url = f"{self._peer.url}{_PATH}"
        body = {"entries": [each.model_dump(mode="json") for each in entries]}
        try:
            answer = self._session.post(
                url,
                json=body,
                headers=self._headers(),
                timeout=self._peer.timeout.total_seconds(),
                allow_redirects=False,  # a POST that is sent on becomes a GET, which would look taken
            )
        except (requests.RequestException, OSError) as error:
            raise TemporaryError(f"{url}: no answer: {redact_text(str(error))}") from error
        _refuse(url, answer)

    def _headers(self) -> dict[str, str]:
        if self._peer.bearer_token_file is None:
            return {}
        token = self._peer.bearer_token_file.read()
        if not token.isascii() or not token.isprintable():
            # Said here, since the HTTP library would show the token in its error.
            raise TemporaryError("alerts2gh.bearer_token_file holds what no header can carry")
        return {"Authorization": f"Bearer {token}"}


def _refuse(url: str, answer: requests.Response) -> None:
    status = answer.status_code
    if status in _TAKEN:
        return
    text = f"{url} answered {status}: {redact_text(answer.text[:_MOST_TEXT])}"
    if answer.is_redirect:
        text = f"{url} sends on to another address ({status}); set alerts2gh.url to that one"
    if status in _REFUSALS and status not in _MAY_CHANGE:
        raise PermanentError(text)
    raise TemporaryError(text)
