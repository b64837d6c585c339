"""Paths of files behind a gateway: names in a table. They never reach a file system."""

from __future__ import annotations

from urllib.parse import quote, unquote

from walkeeper.gateway._protocol import Refused, Status

__all__ = ["Path", "data_prefix", "log_of", "parse", "root_of", "shown"]

Path = tuple[str, ...]
"""The names of a path, from the root on; () is "/"."""

NAME_MAX = 255
PATH_MAX = 4096
_LOG_NAME_MAX = 200
_LOGS = "files/"
_DATA = "files-data/"


def parse(text: str) -> Path:
    """Refused (INVALID) for what is not an absolute path in its one spelling."""
    if text == "/":
        return ()
    if not text.startswith("/") or len(text.encode()) > PATH_MAX:
        raise Refused(Status.INVALID, f"{text[:80]!r} is no path: it begins with / and has {PATH_MAX} bytes at most")
    names = tuple(text[1:].split("/"))
    for name in names:
        if not 0 < len(name.encode()) <= NAME_MAX or name in (".", "..") or "\0" in name:
            raise Refused(
                Status.INVALID,
                f"{text[:80]!r} is no path: a name has 1 to {NAME_MAX} bytes, no NUL, and is not . or ..",
            )
    log_of(names[0])
    return names


def shown(path: Path) -> str:
    return "/" + "/".join(path)


def log_of(root: str) -> str:
    """The log that has what is below a root."""
    quoted = quote(root, safe="")
    if len(quoted) > _LOG_NAME_MAX:
        raise Refused(Status.INVALID, f"{root[:80]!r} is too long for the first name of a path")
    return _LOGS + quoted


def root_of(log: str) -> str | None:
    """The root that a log is of; None: it is of something else."""
    return unquote(log[len(_LOGS) :]) if log.startswith(_LOGS) else None


def data_prefix(root: str) -> str:
    """What the names of the logs of its large files begin with."""
    return f"{_DATA}{quote(root, safe='')}/"
