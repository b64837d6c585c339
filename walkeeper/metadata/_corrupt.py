"""What is raised where bytes from a metadata store are not what they should be."""

from __future__ import annotations

from typing import NoReturn

from walkeeper.metadata._store import MetadataError

SHOWN_MAX = 64  # bytes of what was found that an exception shows


class MetadataFormatError(MetadataError):
    """Bytes of a metadata store that cannot be used. Nothing was concluded from them.

    `what` was being parsed, `offset` bytes behind its beginning something is wrong, and `found` stands there.
    """

    def __init__(self, what: str, offset: int, problem: str, found: bytes = b"") -> None:
        shown = f": {found[:SHOWN_MAX]!r}{' ...' if len(found) > SHOWN_MAX else ''}" if found else ""
        super().__init__(f"{what}, at byte {offset}: {problem}{shown}")
        self.what = what
        self.offset = offset
        self.problem = problem
        self.found = found[:SHOWN_MAX]


class CorruptMetadataError(MetadataFormatError):
    """The bytes break the rules of their format."""


class UnsupportedMetadataError(MetadataFormatError):
    """The bytes say that they are of a version, or of a kind, that is not known here."""


def corrupt(what: str, offset: int, problem: str, data: bytes = b"") -> NoReturn:
    """Raises CorruptMetadataError; `data` is the whole, of which what stands at `offset` is shown."""
    raise CorruptMetadataError(what, offset, problem, bytes(data[offset : offset + SHOWN_MAX + 1]))


def unsupported(what: str, offset: int, problem: str, data: bytes = b"") -> NoReturn:
    """Raises UnsupportedMetadataError; `data` is the whole, of which what stands at `offset` is shown."""
    raise UnsupportedMetadataError(what, offset, problem, bytes(data[offset : offset + SHOWN_MAX + 1]))


def utf8(what: str, data: bytes) -> str:
    """The text that `data` is. CorruptMetadataError where it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        corrupt(what, error.start, "these bytes are not UTF-8", data)
