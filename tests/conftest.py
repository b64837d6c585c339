"""What the tests of the Python package share: directories, and namespaces that are closed at the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

import walkeeper

Open = Callable[..., walkeeper.Namespace]

# Modules of fixtures, which say what an assert in them saw.
pytest.register_assert_rewrite("bookie_commands", "cluster.history", "hostile_bookie", "zookeeper_fixtures")


# New examples each time, in CI too, where hypothesis would repeat the same ones; and no machine is too slow.
hypothesis.settings.register_profile("walkeeper", deadline=None, derandomize=False, print_blob=True)


def pytest_configure() -> None:
    """A shell ignores SIGINT for what it starts in the background; tests send it, to this process and to others."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("walkeeper")


# ---- several workers of pytest-xdist at once ----

HERE = Path(__file__).parent


@contextlib.contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Holds a lock on the file, or on the directory. Children that inherit the descriptor do not prolong it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test that is marked `alone` waits until the other workers' tests have ended, and theirs wait until it has.

    Each test goes through a door into a room. The door is shut while a test waits to be alone in the room.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    how = fcntl.LOCK_SH if item.get_closest_marker("alone") is None else fcntl.LOCK_EX
    with contextlib.ExitStack() as room:
        with locked(HERE, fcntl.LOCK_EX):
            room.enter_context(locked(HERE / "conftest.py", how))
        return (yield)


# ---- where the minutes went: `make test` and `make check-shares` name the file with the seconds of each stage ----

started = time.monotonic()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    times = os.environ.get("WALKEEPER_TIMES")
    if times is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    rows = [line.rsplit(maxsplit=1) for line in Path(times).read_text().splitlines()]
    rows.append(["pytest", f"{time.monotonic() - started:.0f}"])
    terminalreporter.section("seconds of each stage")
    for name, seconds in [*rows, ["together", str(sum(int(seconds) for _, seconds in rows))]]:
        terminalreporter.write_line(f"{name:<14} {seconds:>5}")


# ---- fixtures ----


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where a namespace may be; nothing is there yet."""
    return tmp_path / "wal"


@pytest.fixture
def ns(directory: Path) -> Iterator[walkeeper.Namespace]:
    """An open namespace, empty."""
    with walkeeper.open(directory) as namespace:
        yield namespace


@pytest.fixture
def log(ns: walkeeper.Namespace) -> walkeeper.Log:
    """A log without records."""
    return ns.log("orders")
