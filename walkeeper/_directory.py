"""Directory: the path that a caller named, of a namespace or of a backup."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from urllib.parse import unquote

from walkeeper._native import ffi, lib
from walkeeper.errors import InvalidError, UnsupportedError

__all__ = ["absolute", "directory_of", "path_bytes", "remove_empty"]

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
                f"cannot open {uri!r}: walkeeper {scheme}: namespaces do not exist today",
                hint='a directory is what exists today: a path, or file:///path; write "./..." for a path with a colon',
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


def path_bytes(path: str | os.PathLike[str], doing: str) -> bytes:
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


def remove_empty(backup: bytes) -> None:
    """The directories of a backup that failed; its files are removed already."""
    for folder in (b"journal", b"entries", b"index", b""):
        with suppress(OSError):
            os.rmdir(os.path.join(backup, folder))
