"""What the tests of the Python package share: directories, and namespaces that are closed at the end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

import walkeeper

Open = Callable[..., walkeeper.Namespace]

# Modules of fixtures, which say what an assert in them saw.
pytest.register_assert_rewrite("bookie_commands", "hostile_bookie", "zookeeper_fixtures")


# New examples each time, in CI too, where hypothesis would repeat the same ones; and no machine is too slow.
hypothesis.settings.register_profile("walkeeper", deadline=None, derandomize=False, print_blob=True)


def pytest_configure() -> None:
    """A shell ignores SIGINT for what it starts in the background; tests send it, to this process and to others."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("walkeeper")


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
