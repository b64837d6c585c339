"""How `walkeeper-bookie` ends: the one list of its exit statuses, from which its help and documents are made."""

from __future__ import annotations

import textwrap
from enum import IntEnum


class ExitStatus(IntEnum):
    """What whoever started the bookie may conclude; a unit of systemd can tell which of them to start again."""

    DRAINED = 0
    UNEXPECTED = 1
    WRONG_USE = 2
    METADATA_UNREACHABLE = 3
    OTHER_IDENTITY = 4
    DISK_FAILED = 5
    DIRECTORY_LOCKED = 6
    ADDRESS_IN_USE = 7
    NOT_DRAINED = 8
    NO_SPACE = 9
    SHORT_OF_RESOURCES = 10
    NOT_STOPPED = 11


MEANINGS: dict[ExitStatus, tuple[str, str]] = {
    ExitStatus.DRAINED: ("It was told to stop, answered what it had accepted, and closed its directory.", "-"),
    ExitStatus.UNEXPECTED: ("A defect: the traceback stands in its log.", "Report it; start it again."),
    ExitStatus.WRONG_USE: (
        "An option, the configuration file or the metadata URI is wrong, or the bookie's user may not enter or write "
        "what they name; nothing was touched.",
        "Correct what the message names. Starting it again changes nothing.",
    ),
    ExitStatus.METADATA_UNREACHABLE: (
        "The metadata store did not answer within `start_timeout`.",
        "Start it again: nothing is lost.",
    ),
    ExitStatus.OTHER_IDENTITY: (
        "The directory's cookie, the cluster's and the settings do not name the same bookie; or the directory is new, "
        "or the cluster, and --init was not given.",
        "See *Identity and cookies* in the operations page. Starting it again changes nothing.",
    ),
    ExitStatus.DISK_FAILED: (
        "The journal's device failed, or the directory is damaged or no ledger store.",
        "Look at the device; `walkeeper verify` shows the extent. See *A lost disk*.",
    ),
    ExitStatus.DIRECTORY_LOCKED: (
        "Another process has the directory open.",
        "Stop that one; a bookie that was just killed lets go within a second.",
    ),
    ExitStatus.ADDRESS_IN_USE: (
        "It could not listen on `listen` or `http`: in use, not this machine's, or not permitted.",
        "Free the address, or set another one.",
    ),
    ExitStatus.NOT_DRAINED: (
        "Told to stop, it did not answer all requests within `drain_timeout`, or was told a second time; nothing "
        "acknowledged is lost.",
        "-",
    ),
    ExitStatus.NO_SPACE: (
        "The disk has no room for what a start, or the closing, writes; nothing acknowledged is lost.",
        "Free space; start it again.",
    ),
    ExitStatus.SHORT_OF_RESOURCES: (
        "Short of resources: memory, descriptors or threads, of the process or of the machine; nothing acknowledged is "
        "lost.",
        "Start it again; where it comes back, look at the limits (LimitNOFILE, TasksMax, MemoryMax).",
    ),
    ExitStatus.NOT_STOPPED: (
        "Told to stop, it had not ended 10 s after `drain_timeout`, and ended as it was; nothing acknowledged is lost.",
        "The log says what it waited for (`waits_for`). Look at that: the disk, the metadata store.",
    ),
}
"""What happened, and what to do about it."""


def help_text() -> str:
    """The statuses as the command's help shows them."""
    paragraphs = [
        textwrap.fill(happened.replace("`", ""), 78, initial_indent=f"{int(status):>2}  ", subsequent_indent="    ")
        for status, (happened, _) in MEANINGS.items()
    ]
    return "\n".join(paragraphs)


def rows() -> list[tuple[str, str, str]]:
    """The statuses as a table: number, what happened, what to do."""
    return [(str(int(status)), happened, remedy) for status, (happened, remedy) in MEANINGS.items()]
