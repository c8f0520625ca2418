"""The only ways a Nodemend service may fail: again later, or never by itself.

Adapters translate the exceptions of their vendor library into one of these and chain the original.
Nothing here knows HTTP, Kubernetes or GitHub.

    NodemendError
    ├── TemporaryError       try later; the world may have changed by then
    └── PermanentError       trying again without a change gives the same answer
        └── ConfigError      a configuration file that a person must mend
"""

from collections.abc import Iterable
from datetime import timedelta


class NodemendError(Exception):
    """Base of all errors that Nodemend raises on purpose."""


class TemporaryError(NodemendError):
    """May work later. `retry_after` is the wait that the other side asked for, None if it did not."""

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PermanentError(NodemendError):
    """Will fail the same way until a person or another program changes something."""


class ConfigError(PermanentError):
    """A configuration that cannot be used, with every mistake found in it.

    Each mistake is one line: `FILE: path.to.key: what is wrong; what to do`.
    """

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes: tuple[str, ...] = tuple(mistakes)
        super().__init__("\n".join(self.mistakes))
