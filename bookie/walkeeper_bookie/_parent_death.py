"""A bookie that is told to end when the process that started it is gone, however that went.

    python -m walkeeper_bookie._parent_death PROCESS OPTION...

PROCESS started it by a thread that lives as long as itself: to the kernel the parent is that thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from walkeeper_bookie._exit_status import ExitStatus

PR_SET_PDEATHSIG = 1


def tie(process: int) -> bool:
    """SIGTERM comes when this process is gone; False: it is gone already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    return os.getppid() == process


if __name__ == "__main__":
    if not tie(int(sys.argv.pop(1))):
        sys.exit(ExitStatus.DRAINED)
    from walkeeper_bookie._main import main

    main()
