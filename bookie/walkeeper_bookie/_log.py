"""The bookie's log: one line an event on stderr, and not more lines a second than somebody can read.

Logging never blocks the bookie: the process gives its Log a LineWriter, which drops lines while nobody reads them.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from walkeeper_bookie._line_writer import LineWriter

__all__ = ["Log", "LogHandler", "dropped_note", "logfmt"]

LEVELS = ("debug", "info", "warning", "error")
LINES_PER_SECOND = 10
BURST = 50
VALUE_MAX = 2000


class Log:
    """Writes lines of logfmt: time, level, what happened, then facts as key=value.

    Lines are limited to LINES_PER_SECOND, after a burst of BURST; how many were left out stands in the next one that is
    written. What is `urgent` (the bookie ends, data may be lost) is always written. From any thread. A stream that
    cannot be written to is no error of the bookie.

    `out`: a LineWriter, for which no caller waits; or a stream, which is written to at once. None: sys.stderr, at once.
    """

    def __init__(
        self,
        out: LineWriter | TextIO | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._out = out
        self._monotonic, self._wall = monotonic, wall
        self._lock = threading.RLock()  # a finalizer may log in the middle of a line
        self._tokens, self._filled = float(BURST), monotonic()
        self._left_out = 0
        self.level = "info"
        """Lines below it are not written."""

    def debug(self, what: str, /, **facts: object) -> None:
        self._write("debug", what, facts)

    def info(self, what: str, /, **facts: object) -> None:
        self._write("info", what, facts)

    def warning(self, what: str, /, **facts: object) -> None:
        self._write("warning", what, facts)

    def error(self, what: str, /, *, urgent: bool = False, **facts: object) -> None:
        self._write("error", what, facts, urgent=urgent)

    def writes(self, level: str) -> bool:
        """Whether lines of that level are written."""
        return LEVELS.index(level) >= LEVELS.index(self.level)

    def _write(self, level: str, what: str, facts: dict[str, object], *, urgent: bool = False) -> None:
        if not self.writes(level):
            return
        with self._lock:
            now = self._monotonic()
            self._tokens = min(BURST, self._tokens + (now - self._filled) * LINES_PER_SECOND)
            self._filled = now
            if self._tokens < 1 and not urgent:
                self._left_out += 1
                return
            self._tokens = max(0.0, self._tokens - 1)
            if self._left_out:
                facts = {**facts, "lines_left_out": self._left_out}
                self._left_out = 0
            line = stamped(level, what, facts, self._wall())
            if isinstance(self._out, LineWriter):
                self._out.put(line, urgent)
                return
            stream = self._out or sys.stderr
            if stream is None:  # Python's own, where the process was started without one
                return
            try:
                stream.write(line + "\n")
                stream.flush()
            except (OSError, ValueError):
                pass

    @property
    def dropped(self) -> int:
        """Lines that nobody read in time, or that could not be written, so far."""
        return self._out.dropped if isinstance(self._out, LineWriter) else 0

    def flush(self, seconds: float) -> bool:
        """Waits at most so long for the lines that are queued; whether none is left."""
        return self._out.flush(seconds) if isinstance(self._out, LineWriter) else True


class LogHandler(logging.Handler):
    """Makes lines of a Log of what the library logs."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = {"critical": "error"}.get(record.levelname.lower(), record.levelname.lower())
        if level not in LEVELS or not self._log.writes(level):
            return
        try:
            what = record.getMessage()
            shown = logging.Formatter().formatException(record.exc_info) if record.exc_info else None
        except Exception:
            self.handleError(record)
        else:
            getattr(self._log, level)(what, **({} if shown is None else {"reason": shown}))


def stamped(level: str, what: str, facts: dict[str, object], moment: float) -> str:
    """A line of the log, of that moment."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03d}Z"
    return logfmt({"time": stamp, "level": level, "msg": what, **facts})


def dropped_note(count: int) -> str:
    """The line that a LineWriter writes where lines are missing."""
    reason = "nobody read the log, or it could not be written"
    return stamped("warning", f"{count} lines were dropped", {"reason": reason}, time.time())


def logfmt(facts: dict[str, object]) -> str:
    """key=value, quoted where a value is not one plain word; nothing in it can begin a line or move a cursor."""
    return " ".join(f"{key}={_value(value)}" for key, value in facts.items())


def _value(value: object) -> str:
    text = str(value)
    if len(text) > VALUE_MAX:
        text = text[:VALUE_MAX] + "..."
    if text and all(c.isprintable() and c not in ' "=\\' for c in text):
        return text
    shown = "".join(
        {'"': '\\"', "\\": "\\\\", "\n": "\\n"}.get(c) or (c if c.isprintable() else f"\\u{ord(c):04x}") for c in text
    )
    return f'"{shown}"'
