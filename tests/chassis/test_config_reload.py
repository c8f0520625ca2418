"""A running service follows its file, and a broken file never replaces a good one."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import CapturingLogger
from structlog.typing import FilteringBoundLogger

from chassis.config import ConfigWatcher, SecretFile, Settings
from chassis.errors import ConfigError, PermanentError

FAST = timedelta(milliseconds=10)
NEVER = timedelta(hours=1)


class Example(Settings):
    name: str
    token_file: SecretFile | None = None


class Service:
    """A watcher with all that it tells."""

    def __init__(self, path: Path, poll: timedelta) -> None:
        self.told: list[str] = []
        self.refuse: Exception | None = None
        self.registry = CollectorRegistry()
        self.captured = CapturingLogger()
        log: FilteringBoundLogger = structlog.wrap_logger(
            self.captured,
            processors=[lambda _logger, _method, event: ((), event)],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )
        self.watcher = ConfigWatcher(
            path,
            Example,
            on_reload=self.on_reload,
            registry=self.registry,
            log=log,
            service="demo",
            poll=poll,
        )

    def on_reload(self, settings: Example) -> None:
        self.told.append(settings.name)
        if self.refuse is not None:
            raise self.refuse

    @property
    def name(self) -> str:
        return self.watcher.current.name

    @property
    def events(self) -> list[str]:
        return [call.kwargs["event"] for call in self.captured.calls]

    @property
    def successful(self) -> float | None:
        return self.registry.get_sample_value("demo_config_last_reload_successful")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline, "did not happen within 10 s"
        time.sleep(0.005)


def put(path: Path, text: str) -> None:
    """Write at once, so that no half of the file can be seen."""
    fresh = path.with_name("fresh")
    fresh.write_text(text)
    fresh.rename(path)


Start = Callable[..., Service]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Service] = []

    def started(path: Path, poll: timedelta = FAST) -> Service:
        service = Service(path, poll)
        service.watcher.start()
        running.append(service)
        return service

    yield started
    for service in running:
        service.watcher.stop()
        assert service.watcher._thread is not None
        assert not service.watcher._thread.is_alive()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("name: one\n")
    return path


def test_the_first_load_counts_as_success(path: Path, start: Start) -> None:
    before = time.time()
    service = start(path)

    loaded_at = service.registry.get_sample_value(
        "demo_config_last_reload_success_timestamp_seconds"
    )
    assert service.name == "one"
    eventually(lambda: service.successful == 1)
    assert loaded_at is not None
    assert before - 1 <= loaded_at <= time.time() + 1


def test_a_broken_first_load_is_an_error(path: Path) -> None:
    put(path, "nome: one\n")

    with pytest.raises(ConfigError, match='did you mean "name"'):
        Service(path, FAST)


def test_a_rewritten_file_is_taken(path: Path, start: Start) -> None:
    service = start(path)

    path.write_text("name: two\n")

    eventually(lambda: service.name == "two")
    assert service.told == ["two"]


def test_a_file_renamed_into_place_is_taken(path: Path, start: Start) -> None:
    service = start(path)

    (path.parent / "next").write_text("name: two\n")
    (path.parent / "next").rename(path)

    eventually(lambda: service.name == "two")


def test_a_file_that_is_still_being_written_is_not_taken(path: Path) -> None:
    service = Service(path, NEVER)
    look = service.watcher._check

    for part in ("name: tw", "name: two-and-a-ha"):
        path.write_text(part)
        look(forced=False)
    assert service.told == []

    path.write_text("name: two-and-a-half\n")
    look(forced=False)
    look(forced=False)
    assert service.told == ["two-and-a-half"]


def test_the_swapped_link_of_a_kubernetes_volume_is_taken(tmp_path: Path, start: Start) -> None:
    def publish(version: str, name: str, token: str) -> None:
        folder = tmp_path / version
        folder.mkdir()
        (folder / "config.yaml").write_text(f"name: {name}\ntoken_file: token\n")
        (folder / "token").write_text(token)
        (tmp_path / "..next").symlink_to(version)
        (tmp_path / "..next").rename(tmp_path / "..data")

    publish("..1", "one", "first")
    for name in ("config.yaml", "token"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    service = start(tmp_path / "config.yaml")
    secret = service.watcher.current.token_file

    publish("..2", "two", "second")
    for old in (tmp_path / "..1").iterdir():
        old.unlink()  # as the kubelet does

    eventually(lambda: service.name == "two")
    assert secret is not None
    assert secret.read() == "second"


def test_sighup_reloads_without_a_change_and_without_waiting(path: Path, start: Start) -> None:
    service = start(path, NEVER)

    service.watcher.request_reload()

    eventually(lambda: service.told == ["one"])


def test_a_broken_reload_keeps_the_last_good_and_is_told_once(path: Path, start: Start) -> None:
    service = start(path)

    put(path, "nome: two\n")
    eventually(lambda: service.successful == 0)
    for _ in range(3):
        service.watcher.request_reload()
    eventually(service.watcher._wakeups.empty)

    assert service.name == "one"
    assert service.told == []
    eventually(lambda: service.events == ["config_reload_refused"])
    assert service.captured.calls[0].kwargs["mistakes"] == [
        f'{path}: nome: unknown key; did you mean "name"?',
    ]


def test_a_mended_file_is_taken_again(path: Path, start: Start) -> None:
    service = start(path)
    put(path, "nome: two\n")
    eventually(lambda: service.successful == 0)

    put(path, "name: three\n")

    eventually(lambda: service.name == "three")
    eventually(lambda: service.successful == 1)
    eventually(lambda: service.events == ["config_reload_refused", "config_reloaded"])


def test_a_file_put_back_as_it_was_is_good_again(path: Path, start: Start) -> None:
    service = start(path)
    put(path, "nome: two\n")
    eventually(lambda: service.successful == 0)

    put(path, "name: one\n")

    eventually(lambda: service.successful == 1)


def test_a_deleted_file_keeps_the_last_good(path: Path, start: Start) -> None:
    service = start(path)

    path.unlink()
    eventually(lambda: service.successful == 0)
    assert service.name == "one"

    put(path, "name: two\n")
    eventually(lambda: service.name == "two")


def test_a_rotated_secret_is_a_reload(path: Path, start: Start) -> None:
    put(path.parent / "token", "old")
    put(path, "name: one\ntoken_file: token\n")
    service = start(path)

    put(path.parent / "token", "new")

    eventually(lambda: service.told == ["one"])
    secret = service.watcher.current.token_file
    assert secret is not None
    assert secret.read() == "new"


def test_a_secret_that_comes_after_its_configuration_mends_it(path: Path, start: Start) -> None:
    service = start(path)
    put(path, "name: two\ntoken_file: token\n")
    eventually(lambda: service.successful == 0)

    put(path.parent / "token", "s")

    eventually(lambda: service.name == "two")


def test_settings_that_the_service_refuses_do_not_become_current(path: Path, start: Start) -> None:
    service = start(path)
    service.refuse = PermanentError("no such credential")

    put(path, "name: two\n")

    eventually(lambda: service.successful == 0)
    assert service.name == "one"


def test_a_crash_in_the_service_does_not_end_the_watching(path: Path, start: Start) -> None:
    service = start(path, NEVER)
    service.refuse = RuntimeError("a bug")
    service.watcher.request_reload()
    eventually(lambda: service.events == ["config_reload_crashed"])
    eventually(lambda: service.successful == 0)

    service.refuse = None
    service.watcher.request_reload()

    eventually(lambda: service.successful == 1)
