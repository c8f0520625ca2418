"""There are two ways to fail, and each carries what the caller needs to go on."""

from datetime import timedelta

import pytest

from chassis.errors import ConfigError, NodemendError, PermanentError, TemporaryError


def test_a_temporary_error_carries_the_wait_that_was_asked_for() -> None:
    error = TemporaryError("busy", retry_after=timedelta(seconds=30))

    assert str(error) == "busy"
    assert error.retry_after == timedelta(seconds=30)


def test_a_temporary_error_without_a_wait_says_so() -> None:
    assert TemporaryError("busy").retry_after is None


@pytest.mark.parametrize("kind", [TemporaryError, PermanentError])
def test_both_kinds_are_errors_of_nodemend_and_not_of_each_other(
    kind: type[NodemendError],
) -> None:
    other = PermanentError if kind is TemporaryError else TemporaryError

    assert issubclass(kind, NodemendError)
    assert not issubclass(kind, other)


def test_a_config_error_is_permanent_and_keeps_each_mistake() -> None:
    error = ConfigError(line for line in ["c.yaml: a: wrong", "c.yaml: b: wrong"])

    assert isinstance(error, PermanentError)
    assert error.mistakes == ("c.yaml: a: wrong", "c.yaml: b: wrong")
    assert str(error) == "c.yaml: a: wrong\nc.yaml: b: wrong"
