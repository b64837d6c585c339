"""Checked lines: how a bookie keeps small things in files of its own. docs/formats/bookie_state.md has the bytes.

A file is JSON, an object a line; before each stands a CRC-32 of it and of the lines before it, and the last line says
how many there were. A file is replaced as a whole: after a crash there is the old one or the new one.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from walkeeper_bookie._emergency_space import EmergencySpace, is_no_space

__all__ = ["StateFileError", "read_lines", "replace_file", "sync_directory", "write_lines"]

VERSION = 1
LINE_MAX = 1 << 20


class StateFileError(OSError):
    """A file of the bookie's own cannot be understood. The text names file, line and remedy."""


def read_lines(path: Path, name: str, remedy: str) -> list[dict[str, Any]] | None:
    """The objects in the file, head and end left out; None where there is no file. StateFileError, OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    found: list[dict[str, Any]] = []
    crc = 0
    with open(descriptor, "rb") as file:
        while line := file.readline(LINE_MAX):
            text = line[9:-1]
            crc = zlib.crc32(text, crc)
            if line[:9] != b"%08x " % crc or line[-1:] != b"\n":
                raise damaged(path, len(found) + 1, "its checksum does not match", remedy)
            found.append(object_of(path, len(found) + 1, text, remedy))
    if not found or found[0].get("file") != name:
        raise damaged(path, 1, f"the first line of a file `{name}` was expected", remedy)
    if found[0].get("version") != VERSION:
        raise StateFileError(
            f"{path} has version {found[0].get('version')!r}, and this walkeeper knows {VERSION}: it was written by a "
            "newer one. Nothing was changed; run that one"
        )
    if len(found) < 2 or found[-1] != {"end": len(found) - 1}:
        raise damaged(path, len(found) + 1, "its end is missing", remedy)
    return found[1:-1]


def object_of(path: Path, number: int, text: bytes, remedy: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise damaged(path, number, "it is no JSON object", remedy)
    return value


def damaged(path: Path, number: int, what: str, remedy: str) -> StateFileError:
    return StateFileError(f"{path} is damaged at line {number}: {what}. {remedy}")


def write_lines(path: Path, name: str, lines: Iterable[dict[str, Any]], spare: EmergencySpace | None = None) -> None:
    """Replaces the file; durable when it returns. After an OSError there is the old file or the new one."""
    written: list[bytes] = []
    crc = 0

    def write(value: dict[str, Any]) -> None:
        nonlocal crc
        text = json.dumps(value, separators=(",", ":")).encode("ascii")
        crc = zlib.crc32(text, crc)
        written.append(b"%08x %s\n" % (crc, text))

    write({"file": name, "version": VERSION})
    for line in lines:
        write(line)
    write({"end": len(written)})
    replace_file(path, b"".join(written), spare)


def replace_file(path: Path, data: bytes, spare: EmergencySpace | None = None) -> None:
    """The file holds these bytes, durably, when it returns; on a full disk in the space of the spare. OSError: the old
    ones, or these."""
    unfinished = path.with_name(path.name + ".tmp")
    try:
        _write(unfinished, data, os.O_TRUNC)
    except OSError as wrong:
        if spare is None or not is_no_space(wrong) or not spare.give(unfinished):
            raise
        _write(unfinished, data)
    os.replace(unfinished, path)
    sync_directory(path.parent)
    if spare is not None:
        spare.keep()


def _write(path: Path, data: bytes, flags: int = 0) -> None:
    """The file has these bytes, durably. One that failed leaves none: it would hold the space that was missing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise


def sync_directory(path: Path) -> None:
    """The names in it are durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
