"""The process: signals, the line that says ready, and how it ends. The bookie itself is Bookie."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import time
import traceback
from types import FrameType

from walkeeper.errors import DirectoryLockedError
from walkeeper_bookie._bookie import Bookie, StoppedError
from walkeeper_bookie._exit_status import ExitStatus
from walkeeper_bookie._failures import EXPECTED, hint_of, status_of
from walkeeper_bookie._line_writer import LineWriter
from walkeeper_bookie._log import Log, LogHandler, dropped_note
from walkeeper_bookie._notify import notify
from walkeeper_bookie._settings import Settings, SettingsError
from walkeeper_bookie._standard_streams import report_to
from walkeeper_bookie._stop_guard import StopGuard

__all__ = ["run"]

LOOK_S = 0.5
"""How often the process looks whether the journal failed, or a thread ended."""
FLUSH_S = 1.0
"""How long a log that nobody reads holds up the ready line, and the end."""


def run(settings: Settings, *, init: bool) -> int:
    """Runs a bookie until it is told to stop, or cannot go on; the exit status."""
    writer = LineWriter(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, dropped_note)
    log = Log(writer)
    report_to(log, writer)
    try:
        return Process(settings, log).run(init)
    except EXPECTED as wrong:
        status = status_of(wrong)
        log.error("the bookie does not start", urgent=True, reason=wrong, status=int(status))
        return status
    except Exception:
        log.error("the process ends: a defect", urgent=True, reason=traceback.format_exc())
        return ExitStatus.UNEXPECTED
    finally:
        log.flush(FLUSH_S)


class Process:
    """What signals turn to. SIGTERM and SIGINT: stop; the second time at once. SIGHUP: read the settings again."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings, self.log = settings, log
        log.level = settings.log_level
        self._stop = self._reload = False
        self._bookie: Bookie | None = None
        self._guard = StopGuard(log, lambda: self.settings.drain_timeout, self._stop_step)
        # A handler runs between two steps of the thread that waits: a lock that both take could not be had.
        self._woken, self._wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self, init: bool) -> int:
        os.umask(0o077)
        library = logging.getLogger("walkeeper")
        library.addHandler(LogHandler(self.log))
        library.setLevel(logging.DEBUG)  # what is written, log_level says
        self._guard.start()
        for number, handler in (
            (signal.SIGTERM, self._on_stop),
            (signal.SIGINT, self._on_stop),
            (signal.SIGHUP, self._on_reload),
        ):
            signal.signal(number, handler)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        if self.settings.advertised(0).port == 0 and self.settings.bookie_id is None:
            reason = "port 0 is another one at each start, and no id: set --bookie-id, or a port"
            status = ExitStatus.WRONG_USE
            self.log.error("the bookie does not start", urgent=True, reason=reason, status=int(status))
            return status
        bookie = self._bookie = Bookie(self.settings, self.log, lambda: self._stop)
        if (failed := self._started(bookie, init)) is not None:
            self._guard.begin(failed if failed != ExitStatus.DRAINED else ExitStatus.NOT_STOPPED)
            self._stop_bookie(bookie)
            return failed
        self._say_ready(bookie)
        status = self._serve(bookie)
        self._guard.begin(status if status != ExitStatus.DRAINED else ExitStatus.NOT_STOPPED)
        notify("STOPPING=1")
        self._stop_bookie(bookie)
        if status == ExitStatus.DRAINED:
            status = self._after(bookie)
        self.log.info("stopped", status=int(status))
        return status

    def _started(self, bookie: Bookie, init: bool) -> ExitStatus | None:
        """Starts it; the exit status where that came to nothing."""
        try:
            bookie.start(init)
        except StoppedError:
            return ExitStatus.DRAINED
        except EXPECTED as wrong:
            if isinstance(wrong, DirectoryLockedError) and self._stop:
                return ExitStatus.DRAINED
            status = status_of(wrong)
            facts: dict[str, object] = {"reason": wrong, "status": int(status)}
            if hint := hint_of(wrong):
                facts["hint"] = hint
            self.log.error("the bookie does not start", urgent=True, **facts)
            return status
        except Exception:
            self.log.error("the bookie does not start: a defect", reason=traceback.format_exc(), urgent=True)
            return ExitStatus.UNEXPECTED
        return None

    def _say_ready(self, bookie: Bookie) -> None:
        settings = self.settings
        host = settings.listen._replace(port=bookie.server.port)
        journal = "" if settings.journal is None else f", journal {settings.journal}"
        line = (
            f"walkeeper-bookie {bookie.bookie_id} ready on {host}, data {settings.data}{journal}, "
            f"metadata {settings.metadata}"
        )
        seconds = f"{bookie.start_seconds:.3f}"
        self.log.info("ready", bookie_id=bookie.bookie_id, listen=host, seconds=seconds, **bookie.backends())
        self.log.flush(FLUSH_S)  # whoever waits for the line below then finds in the log what came before it
        LineWriter(1).put(line)
        notify("READY=1")

    def _serve(self, bookie: Bookie) -> ExitStatus:
        """Returns when it is to end, and why."""
        while True:
            if select.select([self._woken], [], [], LOOK_S)[0]:
                os.read(self._woken, select.PIPE_BUF)
            if self._stop:
                return ExitStatus.DRAINED
            if bookie.journal_failed():
                # Adds cannot be answered any more, and what the disk says from now on cannot be believed.
                self.log.error(
                    "the journal failed: a write or a sync was refused by the disk, or the files are another process's",
                    urgent=True,
                )
                return ExitStatus.DISK_FAILED
            if bookie.crashed:
                name, error = bookie.crashed
                shown = "".join(traceback.format_exception(type(error), error, error.__traceback__))
                self.log.error("a thread ended: a defect", thread=name, reason=shown, urgent=True)
                return ExitStatus.UNEXPECTED
            if self._reload:
                self._reload = False
                self._read_settings_again(bookie)

    def _read_settings_again(self, bookie: Bookie) -> None:
        notify("RELOADING=1")
        try:
            settings, fixed = self.settings.reloaded()
        except SettingsError as wrong:
            self.log.error("the settings stay as they were", reason=wrong)
        else:
            self.settings = settings
            bookie.reload(settings)
            self.log.info("settings read again")
            if fixed:
                self.log.warning("these settings count from the next start on", settings=", ".join(fixed))
        notify("READY=1")

    def _stop_bookie(self, bookie: Bookie) -> None:
        """No handler runs in this thread while it is in C: the guard hears a second signal."""
        bookie.stop(time.monotonic() + self.settings.drain_timeout)

    def _stop_step(self) -> str:
        """What the stop waits for."""
        if self._bookie is None:
            return "the start"
        return self._bookie.stop_step or "the start"

    def _after(self, bookie: Bookie) -> ExitStatus:
        if bookie.close_error is not None:
            self.log.error("closing the directory", reason=bookie.close_error, urgent=True)
            return status_of(bookie.close_error)
        if not bookie.drained:
            self.log.warning("some requests were not answered in time")
            return ExitStatus.NOT_DRAINED
        return ExitStatus.DRAINED

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop = True
        self._wake()

    def _on_reload(self, number: int, frame: FrameType | None) -> None:
        self._reload = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it will wake as it is
            os.write(self._wakes, b"\0")
