"""Liveness: which sessions of a file store live. Each holds the lock of a file, and writes into it that it goes on.

The kernel lets go of the lock when the process dies, however it dies. The heartbeat is for a process that hangs: it
keeps its lock. It is told by CLOCK_BOOTTIME, which nobody sets and which goes on while the machine sleeps, and counts
only under the boot id that it was written under. Neither is a safety argument: who was taken for dead may still write.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
import zlib
from contextlib import suppress
from pathlib import Path

from walkeeper._low_descriptors import moved_above

_RECORD_BYTES = 128
_TORN_READS_MAX = 10


def boot_id() -> str:
    """Another one under each kernel that was started, or under each container whose manager says so."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def boot_time_ns() -> int:
    """Nanoseconds since this kernel was started, sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SessionFile:
    """The file of one session of this process: locked from its making to its closing."""

    def __init__(self, folder: Path, timeout_ns: int) -> None:
        self._timeout_ns = timeout_ns
        self._boot_id = boot_id()  # asked once: a process without a descriptor to spare still beats
        folder.mkdir(exist_ok=True)
        while True:
            self.token = uuid.uuid4().hex
            self.path = folder / self.token
            self._descriptor = moved_above(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)  # who tidies up may hold it for a moment
                if os.fstat(self._descriptor).st_nlink:
                    self.beat()
                    return
            except BaseException:
                self.close()
                raise
            os.close(self._descriptor)  # tidied up between making and locking

    def beat(self) -> None:
        """Says that this process still goes on."""
        record = f"{self._boot_id} {boot_time_ns()} {self._timeout_ns} {os.getpid()}"
        record = f"{record} {zlib.crc32(record.encode()):08x}"
        os.pwrite(self._descriptor, record.ljust(_RECORD_BYTES - 1).encode() + b"\n", 0)

    def close(self) -> None:
        """The session is dead from here on."""
        if self._descriptor >= 0:
            with suppress(OSError):
                self.path.unlink()
            self.close_in_child()

    def close_in_child(self) -> None:
        """After a fork: the child must not keep the lock of its parent alive, and does not end the session."""
        os.close(self._descriptor)
        self._descriptor = -1


def is_alive(folder: Path, token: str) -> bool:
    """Whether the session of that file lives, as far as anybody can tell just now. OSError: nobody can."""
    try:
        descriptor = os.open(folder / token, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # nothing can be told; whoever may look will
    try:
        if not _is_locked(descriptor):
            return False
        for _ in range(_TORN_READS_MAX):
            beat = _read(descriptor)
            if beat is not None:
                boot, at_ns, timeout_ns = beat
                # Under another boot id the times do not compare, and the lock alone says it: no kernel remembers the
                # locks of the one before, so who holds it runs here, in a container that was given an id of its own.
                return boot != boot_id() or boot_time_ns() - at_ns <= timeout_ns
        return True  # being made just now
    finally:
        os.close(descriptor)


def tidy(folder: Path, known: set[str]) -> None:
    """Removes files that nobody holds and nobody knows: of processes that died while they made them. Whoever comes
    next removes what this one could not."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if name not in known:
                with suppress(OSError):
                    _remove_dead(folder, name)


def _remove_dead(folder: Path, name: str) -> None:
    if is_alive(folder, name):
        return
    descriptor = os.open(folder / name, os.O_RDONLY)
    try:
        if not _is_locked(descriptor):
            os.unlink(folder / name)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _read(descriptor: int) -> tuple[str, int, int] | None:
    """Boot id, time and time-out of the last heartbeat; None where it is not whole."""
    text, _, checksum = os.pread(descriptor, _RECORD_BYTES, 0).decode("ascii", "replace").strip().rpartition(" ")
    if checksum != f"{zlib.crc32(text.encode()):08x}":
        return None
    boot, at_ns, timeout_ns, _ = text.split(" ")
    return boot, int(at_ns), int(timeout_ns)
