"""Directory: the path that a caller named, of a namespace or of a backup."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

from walkeeper._native import ffi, lib
from walkeeper.errors import InvalidError, UnsupportedError, check, new_error

if TYPE_CHECKING:
    from walkeeper._options import OpenOptions

__all__ = [
    "absolute",
    "backup_places",
    "directory_of",
    "journal_of",
    "path_bytes",
    "rebuild_superblock",
    "remove_empty",
    "with_absolute_journal",
]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def directory_of(uri: str | os.PathLike[str]) -> str:
    """The path that a caller named. Raises UnsupportedError for a scheme that is not file:, InvalidError for what is no
    path."""
    path = os.fspath(uri)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if isinstance(uri, str) and (match := _SCHEME.match(uri)):
        scheme = match.group()[:-1].lower()
        if scheme != "file":
            raise UnsupportedError(
                f"cannot open {uri!r}: there are no namespaces by {scheme}:",
                hint="a directory is a path, or file:///path; a cluster the URI of its metadata store (sqlite:PATH, zk://…,"
                ' etcd://…); write "./..." for a path with a colon',
            )
        path = _path_of(uri, uri[match.end() :])
    path_bytes(path, f"open {uri!r}")
    return path


def _path_of(uri: str, rest: str) -> str:
    """The path in what stands behind "file:". Not urlsplit(), which leaves out tabs and ends of lines."""
    authority = ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    if authority not in ("", "localhost") or "?" in rest or "#" in rest:
        raise InvalidError(f"cannot open {uri!r}: a file: URI has a path and nothing else: file:///var/lib/app/wal")
    return unquote(rest, errors="surrogateescape")


def path_bytes(path: str | bytes | os.PathLike[str], doing: str) -> bytes:
    """A path as the kernel takes it. Raises InvalidError for one that no file can have."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError as wrong:
        raise InvalidError(f"cannot {doing}: no path can be written so: {wrong.reason}") from None
    if not encoded or b"\0" in encoded:
        raise InvalidError(f"cannot {doing}: a directory has a path without NUL bytes")
    return encoded


def absolute(path: bytes) -> bytes:
    """What a path means just now: for what is done in several steps, as the process may change its directory."""
    text = lib.wk_absolute_path(path)
    if text == ffi.NULL:
        raise MemoryError
    return bytes(ffi.string(ffi.gc(text, lib.wk_free)))


def with_absolute_journal(options: OpenOptions) -> OpenOptions:
    """The options, with a path of the journal directory that means the same in every step of an open."""
    if "journal" not in options:
        return options
    named = absolute(path_bytes(options["journal"], "open a journal directory"))
    return cast("OpenOptions", {**options, "journal": named})


def journal_of(directory: str | os.PathLike[str]) -> str | None:
    """Where the journal directory was when the directory was last opened for writing; None where it has none, or where
    that cannot be told (what hinders it hinders an open)."""
    out, error = ffi.new("char **"), new_error()
    check(lib.wk_journal_of(path_bytes(directory, f"look at {directory!r}"), out, error), error)
    if out[0] == ffi.NULL:
        return None
    return os.fsdecode(bytes(ffi.string(ffi.gc(out[0], lib.wk_free))))


def rebuild_superblock(
    directory: str | os.PathLike[str],
    journal: str | os.PathLike[str] | None,
    journal_name: str | os.PathLike[str] | None,
) -> dict[str, int] | None:
    """Makes a superblock for a copy that lacks its own, from its files: what was found. None where it has its own.

    The journal directory is at `journal`, and will be at `journal_name`.
    """
    doing = f"rebuild the superblock of {directory!r}"
    paths = [ffi.NULL if path is None else absolute(path_bytes(path, doing)) for path in (journal, journal_name)]
    report, error = ffi.new("wk_rebuild_report *"), new_error()
    check(lib.wk_rebuild_superblock(absolute(path_bytes(directory, doing)), *paths, report, error), error)
    if not report.rebuilt:
        return None
    return {name: int(getattr(report, name)) for name, _ in ffi.typeof("wk_rebuild_report").fields if name != "rebuilt"}


def backup_places(
    destination: str | os.PathLike[str], journal: str | os.PathLike[str] | None
) -> tuple[bytes, bytes | None]:
    """Where a backup is made, and its journal directory, just now."""
    doing = f"back up to {destination!r}"
    return absolute(path_bytes(destination, doing)), None if journal is None else absolute(path_bytes(journal, doing))


def remove_empty(backup: bytes, journal: bytes | None = None) -> None:
    """The directories of a backup that failed; its files are removed already."""
    folders = [os.path.join(backup, folder) for folder in (b"entries", b"index")]
    folders += [os.path.join(journal or backup, b"journal"), journal or backup, backup]
    for folder in folders:
        with suppress(OSError):
            os.rmdir(folder)
