"""What keeps a bookie from starting, or from closing its directory: the exit status, and what can be done about it."""

from __future__ import annotations

import errno

from walkeeper.errors import (
    DamagedError,
    DirectoryLockedError,
    Error,
    InvalidError,
    JournalFailedError,
    NoSpaceError,
    NotFoundError,
    UnsupportedError,
)
from walkeeper.metadata import MetadataError
from walkeeper_bookie._addresses import AddressError
from walkeeper_bookie._bookie import MetadataUnreachableError, MetadataUriError
from walkeeper_bookie._collector import WrongClusterError
from walkeeper_bookie._exit_status import ExitStatus
from walkeeper_bookie._identity import IdentityError
from walkeeper_bookie._metadata import LayoutError

__all__ = ["EXPECTED", "hint_of", "status_of"]

OURS = (IdentityError, WrongClusterError, AddressError, LayoutError, MetadataUnreachableError, MetadataUriError)
EXPECTED = (Error, MetadataError, OSError, MemoryError, *OURS)
"""What is no defect."""

STATUSES: tuple[tuple[type[BaseException], ExitStatus], ...] = (
    (MetadataUnreachableError, ExitStatus.METADATA_UNREACHABLE),
    (MetadataUriError, ExitStatus.WRONG_USE),
    (LayoutError, ExitStatus.WRONG_USE),
    (IdentityError, ExitStatus.OTHER_IDENTITY),
    (WrongClusterError, ExitStatus.OTHER_IDENTITY),
    (AddressError, ExitStatus.ADDRESS_IN_USE),
    (DirectoryLockedError, ExitStatus.DIRECTORY_LOCKED),
    (InvalidError, ExitStatus.WRONG_USE),
    (NotFoundError, ExitStatus.WRONG_USE),
    (UnsupportedError, ExitStatus.WRONG_USE),
    (MetadataError, ExitStatus.OTHER_IDENTITY),
    (NoSpaceError, ExitStatus.NO_SPACE),
    (JournalFailedError, ExitStatus.DISK_FAILED),
    (MemoryError, ExitStatus.SHORT_OF_RESOURCES),
    (Error, ExitStatus.DISK_FAILED),
    (OSError, ExitStatus.DISK_FAILED),
)
"""The first that fits."""

NOT_DAMAGE = {
    errno.EACCES: ExitStatus.WRONG_USE,
    errno.EPERM: ExitStatus.WRONG_USE,
    errno.EROFS: ExitStatus.WRONG_USE,
    errno.ENOSPC: ExitStatus.NO_SPACE,
    errno.EDQUOT: ExitStatus.NO_SPACE,
}
"""Refusals of the kernel that say nothing of the device's health."""

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""Of the process or of the machine, and gone in a moment."""

HINTS = {
    ExitStatus.DIRECTORY_LOCKED: "stop that process, or wait longer for it: --lock-timeout",
    ExitStatus.NO_SPACE: "free space on the disk, and start it again: nothing is lost",
    ExitStatus.SHORT_OF_RESOURCES: "start it again; where it comes back, look at the limits of the process",
}


def status_of(error: BaseException) -> ExitStatus:
    """The exit status of what kept the bookie from starting, or from closing its directory."""
    status = next(status for kind, status in STATUSES if isinstance(error, kind))
    number = system_error(error)
    # What a failed journal met may have been a sync's: whatever it was, the bytes may be gone.
    if number in SHORTAGES and not isinstance(error, (JournalFailedError, DirectoryLockedError)):
        return ExitStatus.SHORT_OF_RESOURCES
    return NOT_DAMAGE.get(number, status) if status == ExitStatus.DISK_FAILED else status


def system_error(error: BaseException) -> int:
    """The errno of what it comes from; 0 where it has none. An address may be refused for want of a descriptor."""
    if isinstance(error, AddressError) and error.__cause__ is not None:
        error = error.__cause__
    number = error.errno if isinstance(error, OSError) else getattr(error, "system_error", None)
    return number or 0


def hint_of(error: BaseException) -> str | None:
    """What an operator can do. What walkeeper's errors say themselves is for programs with an embedded log, which can
    open a directory otherwise."""
    if (hint := HINTS.get(status_of(error))) is not None:
        return hint
    if isinstance(error, DamagedError):
        return (
            "walkeeper verify shows the extent. Where the journal alone is damaged, --on-damage skip goes on behind "
            "what is lost; else see A lost disk in the operations page"
        )
    return getattr(error, "hint", None)
