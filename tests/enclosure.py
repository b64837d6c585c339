"""enclosure.py COMMAND...: runs it and ends as it did; nothing that it started, in whatever session, outlives it.

SIGTERM, and the end of the thread that started this, end all of it at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def children() -> Iterator[int]:
    """Those whose parent we are; a process that loses its parent becomes ours."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(entry.name)


def end_all() -> None:
    """Returns when we have no descendants any more."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def told_to_end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def main(command: list[str]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    signal.signal(signal.SIGTERM, told_to_end)
    for option, value in ((PR_SET_CHILD_SUBREAPER, 1), (PR_SET_PDEATHSIG, int(signal.SIGTERM))):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    try:
        process = subprocess.Popen(command)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command as well, which decides
        return process.wait()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_all()


if __name__ == "__main__":
    status = main(sys.argv[1:])
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no other
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
