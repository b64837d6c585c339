"""The process's standard streams: what anybody writes to stderr becomes lines of a LineWriter.

A pipe that nobody reads blocks whoever writes to it. So Python's own reports of exceptions and warnings, and what else
is written to sys.stderr, take the same way as the log. What C code writes to descriptor 2 (a failed assertion) does
not.
"""

from __future__ import annotations

import io
import sys
import threading
import traceback
import warnings
from types import TracebackType
from typing import Any

from walkeeper_bookie._line_writer import LineWriter
from walkeeper_bookie._log import Log

__all__ = ["LineStream", "report_to"]

PARTIAL_MAX = 64 * 1024


class LineStream(io.TextIOBase):
    """A text stream whose lines go to a LineWriter. From any thread."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._lock = threading.RLock()
        self._partial = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._partial = (self._partial + text).split("\n")
            if len(self._partial) > PARTIAL_MAX:
                lines, self._partial = [*lines, self._partial], ""
            for line in lines:
                self._writer.put(line)
        return len(text)

    def flush(self) -> None:
        """Lines are queued as they end; nobody waits for them."""


def report_to(log: Log, writer: LineWriter) -> None:
    """From now on exceptions that nobody catches, warnings, and what is written to sys.stderr do not block anybody."""
    sys.stderr = LineStream(writer)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.error("an exception: a defect", urgent=True, reason=_shown(kind, error, trace))

    def uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not SystemExit:
            name = args.thread.name if args.thread is not None else ""
            reason = _shown(args.exc_type, args.exc_value, args.exc_traceback)
            log.error("a thread ended: a defect", urgent=True, thread=name, reason=reason)

    def unraisable(args: Any) -> None:
        reason = _shown(args.exc_type, args.exc_value, args.exc_traceback)
        log.error(args.err_msg or "an exception was ignored", object=repr(args.object), reason=reason)

    def warn(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: object = None,
        line: str | None = None,
    ) -> None:
        log.warning(str(message), category=category.__name__, file=filename, line=lineno)

    sys.excepthook = uncaught
    threading.excepthook = uncaught_in_thread
    sys.unraisablehook = unraisable
    warnings.showwarning = warn


def _shown(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> str:
    return "".join(traceback.format_exception(kind, error, trace))
