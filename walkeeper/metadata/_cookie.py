"""A bookie's cookie: which directories it has, and of which cluster. It stands in each of them, and in the store.

A bookie whose cookies differ must not start: with a directory that is empty or another's, it would answer "no such
entry" for what it once acknowledged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from walkeeper.metadata._bookie_id import InvalidBookieIdError, check_bookie_id
from walkeeper.metadata._corrupt import corrupt, unsupported, utf8
from walkeeper.metadata._protobuf import SIZE_MAX, Field, Message
from walkeeper.metadata._protobuf_text import decode_text, encode_text
from walkeeper.metadata._store import MetadataError

LAYOUT_VERSION = 5
_LAYOUT_LINE = re.compile(rb"[ \t]*([0-9]{1,9})[ \t]*\r?\n")
_MAY_GROW = ("ledger_dirs", "index_dirs")
COOKIE_FORMAT = Message(
    "CookieFormat",
    (
        Field(1, "bookieHost", "string", "required"),
        Field(2, "journalDir", "string", "required"),
        Field(3, "ledgerDirs", "string", "required"),
        Field(4, "instanceId", "string"),
        Field(5, "indexDirs", "string"),
    ),
)


class Difference(NamedTuple):
    """One thing in which two cookies differ: the name of the field, its value here, and there."""

    field: str
    here: str | tuple[str, ...] | None
    there: str | tuple[str, ...] | None


class CookieMismatchError(MetadataError):
    """Two cookies of one bookie differ: directories are missing, or belong to another bookie or cluster."""

    def __init__(self, differences: tuple[Difference, ...]) -> None:
        shown = "; ".join(f"{name} is {here!r} here and {there!r} there" for name, here, there in differences)
        super().__init__(f"the cookies differ: {shown}")
        self.differences = differences


@dataclass(frozen=True)
class Cookie:
    """Who a bookie is. `index_dirs` None: the ledger directories; `instance_id` None: of no known cluster."""

    bookie_id: str
    journal_dirs: tuple[str, ...]
    ledger_dirs: tuple[str, ...]
    instance_id: str | None = None
    index_dirs: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_bookie_id(self.bookie_id)
        for directory in self.journal_dirs:
            if not directory or "," in directory:
                raise ValueError(f"{directory!r} cannot stand among journal directories, which are joined by commas")
        for directory in (*self.ledger_dirs, *(self.index_dirs or ())):
            if not directory or "\t" in directory:
                raise ValueError(f"{directory!r} cannot stand among directories, which are joined by tabs")
        if not (self.journal_dirs and self.ledger_dirs) or self.index_dirs == ():
            raise ValueError("a bookie has a journal directory and a ledger directory at least")
        if self.instance_id == "":
            raise ValueError("an instance id is not empty")

    def differences(self, other: Cookie, *, expansion: bool = False) -> tuple[Difference, ...]:
        """In what the cookies differ; nothing: they are the same bookie's.

        `expansion`: ledger and index directories that are here and not there are no difference.
        """
        pairs = (
            Difference("bookie_id", self.bookie_id, other.bookie_id),
            Difference("journal_dirs", self.journal_dirs, other.journal_dirs),
            Difference("ledger_dirs", self.ledger_dirs, other.ledger_dirs),
            Difference("index_dirs", self.index_dirs or self.ledger_dirs, other.index_dirs or other.ledger_dirs),
            Difference("instance_id", self.instance_id, other.instance_id),
        )
        differ = [pair for pair in pairs if pair.here != pair.there]
        if expansion:
            differ = [d for d in differ if d.field not in _MAY_GROW or not set(d.here or ()) >= set(d.there or ())]
        return tuple(differ)

    def check(self, other: Cookie, *, expansion: bool = False) -> None:
        """Returns where `other` is this bookie's cookie too. CookieMismatchError says what differs."""
        differences = self.differences(other, expansion=expansion)
        if differences:
            raise CookieMismatchError(differences)

    @classmethod
    def parse(cls, data: bytes, what: str = "cookie") -> Cookie:
        """The cookie that the bytes are, of layout 3, 4 or 5. CorruptMetadataError, UnsupportedMetadataError."""
        data = bytes(data)
        if len(data) > SIZE_MAX:
            corrupt(what, 0, f"{len(data)} bytes: at most {SIZE_MAX} are read")
        version = _LAYOUT_LINE.match(data)
        if version is None:
            corrupt(what, 0, "a line with the version of the layout was expected", data)
        if int(version[1]) not in (3, 4, 5):
            unsupported(what, 0, "layouts 3 to 5 are known", data)
        if int(version[1]) == 3:
            lines = utf8(what, data).split("\n")
            if len(lines) < 4 or any(lines[4:]):
                corrupt(what, version.end(), "three lines were expected: bookie, journal, ledger directories", data)
            bookie_id, journal, ledgers, instance_id, indexes = *lines[1:4], "", ""
        else:
            values = decode_text(COOKIE_FORMAT, data, what, version.end())
            bookie_id, journal, ledgers = values["bookieHost"], values["journalDir"], values["ledgerDirs"]
            instance_id, indexes = values.get("instanceId", ""), values.get("indexDirs", "")
        try:
            index_dirs = _directories(indexes) if indexes else None
            return cls(bookie_id, tuple(journal.split(",")), _directories(ledgers), instance_id or None, index_dirs)
        except (ValueError, InvalidBookieIdError) as error:
            corrupt(what, version.end(), str(error), data)

    def serialise(self) -> bytes:
        """The bytes, in layout 5: the same in the store and in the file VERSION of each directory."""
        values = {
            "bookieHost": self.bookie_id,
            "journalDir": ",".join(self.journal_dirs),
            "ledgerDirs": "\t".join([str(len(self.ledger_dirs)), *self.ledger_dirs]),
        }
        if self.instance_id is not None:
            values["instanceId"] = self.instance_id
        if self.index_dirs is not None:
            values["indexDirs"] = "\t".join([str(len(self.index_dirs)), *self.index_dirs])
        return b"%d\n" % LAYOUT_VERSION + encode_text(COOKIE_FORMAT, values)


def _directories(text: str) -> tuple[str, ...]:
    """The directories of "2<tab>/a<tab>/b"."""
    count, *directories = text.split("\t")
    if count != str(len(directories)):
        raise ValueError(f"{text!r} is no list of directories: their number, and each behind a tab")
    return tuple(directories)
