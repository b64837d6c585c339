"""What keeps a bookie from starting, or from closing its directory: the exit status, and what can be done about it."""

from __future__ import annotations

import errno

from walkeeper.errors import DamagedError, DirectoryLockedError, Error, InvalidError, NoSpaceError, NotFoundError
from walkeeper.metadata import MetadataError
from walkeeper_bookie._addresses import AddressError
from walkeeper_bookie._bookie import MetadataUnreachableError, MetadataUriError
from walkeeper_bookie._collector import WrongClusterError
from walkeeper_bookie._exit_status import ExitStatus
from walkeeper_bookie._identity import IdentityError
from walkeeper_bookie._metadata import LayoutError

__all__ = ["EXPECTED", "hint_of", "status_of"]

OURS = (IdentityError, WrongClusterError, AddressError, LayoutError, MetadataUnreachableError, MetadataUriError)
EXPECTED = (Error, MetadataError, OSError, *OURS)
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
    (MetadataError, ExitStatus.OTHER_IDENTITY),
    (NoSpaceError, ExitStatus.NO_SPACE),
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

HINTS = {
    ExitStatus.DIRECTORY_LOCKED: "stop that process, or wait longer for it: --lock-timeout",
    ExitStatus.NO_SPACE: "free space on the disk, and start it again: nothing is lost",
}


def status_of(error: BaseException) -> ExitStatus:
    """The exit status of what kept the bookie from starting, or from closing its directory."""
    status = next(status for kind, status in STATUSES if isinstance(error, kind))
    if status != ExitStatus.DISK_FAILED:
        return status
    number = error.errno if isinstance(error, OSError) else getattr(error, "system_error", None)
    return NOT_DAMAGE.get(number or 0, status)


def hint_of(error: BaseException) -> str | None:
    """What an operator can do. What walkeeper's errors say themselves is for programs with an embedded log, which can
    open a directory otherwise."""
    if (hint := HINTS.get(status_of(error))) is not None:
        return hint
    if isinstance(error, DamagedError):
        return "walkeeper verify shows the extent; see A lost disk in the operations page"
    return getattr(error, "hint", None)
