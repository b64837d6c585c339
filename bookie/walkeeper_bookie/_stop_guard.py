"""StopGuard: ends the process where its stop does not: at the second signal at once, and at a bound in any case.

Its thread waits for nothing but the signals' numbers, which the interpreter writes to a pipe on whatever thread the
signal arrives, and for the clock. So it acts while every other thread hangs: in C, on a disk, on the metadata store.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import threading
import time
from collections.abc import Callable

from walkeeper_bookie._exit_status import ExitStatus
from walkeeper_bookie._log import Log

__all__ = ["CLOSE_S", "StopGuard"]

CLOSE_S = 10.0
"""How long the stop may take beyond drain_timeout: for unregistering, and for closing the directory."""
LOG_S = 1.0
"""How long a full log pipe holds up the end."""
BEGUN = b"\0"
"""No signal has this number."""


class StopGuard:
    """`drain` gives the drain_timeout that counts, `step` what the stop waits for.

    The process ends by `os._exit`: what was acknowledged is durable, and the next start recovers the journal.
    """

    def __init__(self, log: Log, drain: Callable[[], float], step: Callable[[], str]) -> None:
        self._log, self._drain, self._step = log, drain, step
        self._told, self._tells = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._status = ExitStatus.NOT_STOPPED

    def start(self) -> None:
        """From the main thread, as signals are given to the interpreter. Raises OSError: there is no thread to have."""
        thread = threading.Thread(target=self._run, name="stop guard", daemon=True)
        try:
            thread.start()
        except RuntimeError as wrong:
            raise OSError(errno.EAGAIN, str(wrong)) from wrong
        signal.set_wakeup_fd(self._tells, warn_on_full_buffer=False)

    def begin(self, status: ExitStatus = ExitStatus.NOT_STOPPED) -> None:
        """The process stops, told to or not. At the bound it ends with `status`."""
        self._status = status
        with contextlib.suppress(BlockingIOError):  # signals wait there: they tell the same
            os.write(self._tells, BEGUN)

    def _run(self) -> None:
        signals, until = 0, None
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._told], [], [], left)[0]:
                self._end()
            numbers = os.read(self._told, select.PIPE_BUF)
            signals += sum(number in (signal.SIGTERM, signal.SIGINT) for number in numbers)
            if signals > 1:
                os._exit(ExitStatus.NOT_DRAINED)
            if until is None and (signals or BEGUN in numbers):
                until = time.monotonic() + self._drain() + CLOSE_S

    def _end(self) -> None:
        self._log.error(
            "stopping takes too long: the process ends as it is, and nothing acknowledged is lost",
            urgent=True,
            waits_for=self._step(),
            status=int(self._status),
        )
        self._log.flush(LOG_S)
        os._exit(self._status)
