"""A clock that jumps is warned of. That the engine notices is tested in tests/native/test_logs.c, which sets clocks."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import walkeeper
from walkeeper.directory import _namespace

HOUR_MS = 3_600_000


class Clock:
    """The library, but for the jumps that it has noticed."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self.jumps, self.by_ms = 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lib, name)

    def wk_namespace_clock_jumps(self, native: Any, by: Any) -> int:
        assert self._lib.wk_namespace_clock_jumps(native, by) == 0
        by[0] = self.by_ms
        return self.jumps


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(_namespace.lib)
    monkeypatch.setattr(_namespace, "lib", clock)
    return clock


def test_a_jump_is_warned_of_once(directory: Path, clock: Clock) -> None:
    with walkeeper.open(directory) as ns:
        log = ns.log("orders")
        with log.writer() as writer:
            writer.append(b"x")
            clock.jumps, clock.by_ms = 1, -2 * HOUR_MS - 90_000
            with pytest.warns(walkeeper.ClockJumpWarning, match="backwards by 2 h 1 min"):
                writer.flush()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                writer.flush()
                writer.close()
                log.writer().close()
        clock.jumps, clock.by_ms = 2, HOUR_MS + 60_000
        with pytest.warns(walkeeper.ClockJumpWarning, match="forwards by 1 h 1 min"):
            log.writer()


def test_stats_count_jumps(directory: Path) -> None:
    with walkeeper.open(directory) as ns, ns.log("orders").writer() as writer:
        writer.append(b"x")
        assert (ns.stats().clock_jumps, ns.stats().clock_jump_ms) == (0, 0)


def test_a_warning_made_an_error_leaves_nothing_behind(directory: Path, clock: Clock) -> None:
    with walkeeper.open(directory) as ns:
        writer = ns.log("orders").writer()
        at = writer.append(b"x")
        clock.jumps = 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(walkeeper.ClockJumpWarning):
                writer.close()
        assert writer.closed
        assert ns.log("orders").last() == at
