"""What the bookie says: a line an event, nobody else's line, and not too many."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import pytest

from walkeeper_bookie._log import BURST, LINES_PER_SECOND, Log, LogHandler


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_line_is_logfmt(clock: Clock) -> None:
    out = io.StringIO()
    Log(out, monotonic=clock, wall=lambda: 1.5).info("two words", count=3, path="/a", text='say "x" = \\', none="")
    assert out.getvalue() == (
        'time=1970-01-01T00:00:01.500Z level=info msg="two words" count=3 path=/a text="say \\"x\\" = \\\\" none=""\n'
    )


@pytest.mark.parametrize("evil", ["a\nlevel=error msg=x", "a\rb", "\x1b[2J", "a\u2028b", "a\x85b", "a\x00b", "\u202e"])
def test_nothing_in_a_value_begins_a_line_or_moves_a_cursor(clock: Clock, evil: str) -> None:
    out = io.StringIO()
    Log(out, monotonic=clock).warning("found", what=evil)
    line = out.getvalue()
    assert len(line.splitlines()) == 1
    assert re.fullmatch(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202e]*\n", line)


def test_lines_are_limited_and_the_next_one_says_how_many_are_missing(clock: Clock) -> None:
    out = io.StringIO()
    log = Log(out, monotonic=clock)
    for number in range(BURST + 25):
        log.warning("again", number=number)
    assert out.getvalue().count("\n") == BURST
    clock.now += 1
    log.warning("later")
    assert out.getvalue().endswith("msg=later lines_left_out=25\n")
    for _ in range(100):
        log.warning("again")
    assert out.getvalue().count("\n") == BURST + LINES_PER_SECOND


def test_what_is_urgent_is_always_said(clock: Clock) -> None:
    out = io.StringIO()
    log = Log(out, monotonic=clock)
    for _ in range(2 * BURST):
        log.info("again")
    log.error("the end", urgent=True)
    assert "the end" in out.getvalue()


def test_levels(clock: Clock) -> None:
    out = io.StringIO()
    log = Log(out, monotonic=clock)
    log.level = "warning"
    log.debug("1")
    log.info("2")
    log.warning("3")
    log.error("4")
    assert re.findall(r"msg=(\d)", out.getvalue()) == ["3", "4"]


def test_a_stream_that_is_gone_is_no_error(clock: Clock) -> None:
    out = io.StringIO()
    out.close()
    Log(out, monotonic=clock).error("nobody hears it")


@pytest.fixture
def library() -> Iterator[tuple[Log, io.StringIO]]:
    """A log that takes the library's lines."""
    out = io.StringIO()
    log = Log(out, wall=lambda: 0.0)
    logger, handler = logging.getLogger("walkeeper"), LogHandler(log)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield log, out
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def test_what_the_library_logs_are_lines_like_others(library: tuple[Log, io.StringIO]) -> None:
    log, out = library
    logging.getLogger("walkeeper.metadata").warning("%s is away", "zk")
    logging.getLogger("walkeeper.metadata").debug("nobody asked")
    assert out.getvalue() == 'time=1970-01-01T00:00:00.000Z level=warning msg="zk is away"\n'
    log.level = "debug"
    logging.getLogger("walkeeper.metadata").debug("somebody asks")
    assert 'level=debug msg="somebody asks"' in out.getvalue()


def test_an_exception_that_the_library_logs_is_one_line(library: tuple[Log, io.StringIO]) -> None:
    _, out = library
    try:
        raise KeyError("why")
    except KeyError:
        logging.getLogger("walkeeper.metadata").exception("failed")
    assert len(out.getvalue().splitlines()) == 1
    assert "level=error msg=failed reason=" in out.getvalue()
    assert "KeyError: 'why'" in out.getvalue()


@pytest.mark.parametrize(("level", "written"), [("info", False), ("debug", True)])
def test_kazoo_s_own_lines_are_for_debugging(library: tuple[Log, io.StringIO], level: str, written: bool) -> None:
    from walkeeper.metadata._log import kazoo_log

    log, out = library
    log.level = level
    kazoo_log.warning("Connection dropped")
    assert ("level=debug" in out.getvalue()) == written
    assert "level=warning" not in out.getvalue()
