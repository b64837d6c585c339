"""Descriptors 0, 1 and 2 of a process whose standard streams are closed.

The kernel gives the lowest free number: a file or socket of ours would become "standard error", and whatever prints
there would write into it. The engine does the same for its own descriptors (native/io/descriptor.h).
"""

from __future__ import annotations

import fcntl
import os

LOWEST = 3
"""The lowest number that a descriptor of ours may have."""


def occupy_low_descriptors() -> None:
    """Occupies the numbers below LOWEST that are free, by descriptors that cannot be read or written (EBADF) and that
    no child has. Where none can be had the numbers stay free."""
    try:
        while (descriptor := os.open(os.devnull, os.O_PATH)) < LOWEST:
            pass
    except OSError:  # no /dev/null, or no descriptor to spare: whoever needs one is told
        return
    os.close(descriptor)


def moved_above(descriptor: int) -> int:
    """The descriptor, or a copy of it that is no standard stream; the low one is closed. OSError: there is none."""
    if descriptor >= LOWEST:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LOWEST)
    finally:
        os.close(descriptor)
