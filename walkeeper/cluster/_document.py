"""LogDocument: all that the metadata store has of a log but its cursors: one value, in JSON.

The bytes: docs/formats/log_document.md.

Segments are lists of numbers, as there may be thousands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from walkeeper._options import LogOptions
from walkeeper._position import DLSN, Position
from walkeeper.errors import CorruptError, LimitError, UnsupportedError
from walkeeper.metadata import VALUE_BYTES_MAX

__all__ = ["NO_POSITION", "LogDocument", "StoredSegment", "position_from", "position_list"]

VERSION = 1
NO_POSITION = Position((0, -1, -1, -1, -1))
"""Of a log without a record: where its last one would be."""


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A log segment. What is behind `completed` counts where it is."""

    segment: int
    ledger_id: int
    first_sequence_id: int
    created_ms: int
    completed: bool = False
    last_entry: int = -1
    """Of the ledger, which may end with an entry that has no record (the end of the stream)."""
    last: Position = NO_POSITION
    """Its last record."""
    records_count: int = 0
    payload_bytes: int = 0

    def to_list(self) -> list[Any]:
        head = [self.segment, self.ledger_id, self.first_sequence_id, self.created_ms]
        if not self.completed:
            return head
        return [*head, self.last_entry, *position_list(self.last), self.records_count, self.payload_bytes]

    @classmethod
    def from_list(cls, stored: list[Any]) -> StoredSegment:
        if len(stored) == 4:
            return cls(*stored)
        number, ledger_id, first, created_ms, last_entry, *last, records_count, payload_bytes = stored
        position = position_from(last)
        return cls(number, ledger_id, first, created_ms, True, last_entry, position, records_count, payload_bytes)


def position_list(position: Position) -> list[int]:
    """Five numbers: segment, entry, slot, sequence id, txid."""
    return [*position.dlsn, position.sequence_id, position.txid]


def position_from(stored: list[int]) -> Position:
    segment, entry_id, slot, sequence_id, txid = stored
    return Position((segment, entry_id, slot, sequence_id, txid))


@dataclass(frozen=True)
class LogDocument:
    """A log, as the metadata store has it."""

    name: str
    options: LogOptions
    txid_source: str = "unset"
    """"unset", "application" or "clock"."""
    writer: int = 0
    """Raised by each writer that takes over: an older one finds that it is not its own."""
    owner: str = ""
    """Who that was, for people."""
    next_segment: int = 1
    intent: int | None = None
    """A ledger that is being made for the next segment."""
    deleting: tuple[int, ...] = ()
    """Ledgers that no segment needs, and that may be there still."""
    first: Position = field(default_factory=lambda: Position((1, 0, 0, 0, -1)))
    """The first record that is not truncated, or where the first one will be."""
    end_of_stream: bool = False
    deleted: bool = False
    segments: tuple[StoredSegment, ...] = ()
    last: Position = NO_POSITION
    """The last record of the segments that were completed, also where they were truncated since."""
    change: str = ""
    """A token of the change that wrote this: whoever does not know whether its change was written looks for it."""

    def serialise(self) -> bytes:
        """The bytes. LimitError: too many segments for one value."""
        stored = {
            "walkeeper": VERSION,
            "name": self.name,
            "options": {name: getattr(self.options, name) for name in LogOptions.__dataclass_fields__},
            "txid_source": self.txid_source,
            "writer": self.writer,
            "owner": self.owner,
            "next_segment": self.next_segment,
            "intent": self.intent,
            "deleting": list(self.deleting),
            "first": position_list(self.first),
            "end_of_stream": self.end_of_stream,
            "deleted": self.deleted,
            "segments": [segment.to_list() for segment in self.segments],
            "last": position_list(self.last),
            "change": self.change,
        }
        data = json.dumps(stored, separators=(",", ":")).encode()
        if len(data) > VALUE_BYTES_MAX:
            raise LimitError(
                f"log {self.name!r} has {len(self.segments)} segments: the metadata store has no room for more",
                log=self.name,
                hint="truncate the log, or let a retention do it",
            )
        return data

    @classmethod
    def parse(cls, data: bytes, what: str) -> LogDocument:
        """CorruptError, UnsupportedError."""
        try:
            stored: Mapping[str, Any] = json.loads(data)
            if stored["walkeeper"] != VERSION:
                raise UnsupportedError(f"{what} was written by a newer walkeeper (version {stored['walkeeper']})")
            return cls(
                name=stored["name"],
                options=LogOptions(**stored["options"]),
                txid_source=stored["txid_source"],
                writer=stored["writer"],
                owner=stored["owner"],
                next_segment=stored["next_segment"],
                intent=stored["intent"],
                deleting=tuple(stored["deleting"]),
                first=position_from(stored["first"]),
                end_of_stream=stored["end_of_stream"],
                deleted=stored["deleted"],
                segments=tuple(map(StoredSegment.from_list, stored["segments"])),
                last=position_from(stored["last"]),
                change=stored["change"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(f"{what} is no document of a log: {error!r}") from error

    # ---- looks ----

    @property
    def open_segment(self) -> StoredSegment | None:
        """The last segment, where it is not completed. Only the last one may be open."""
        last = self.segments[-1] if self.segments else None
        return last if last is not None and not last.completed else None

    def segment(self, number: int) -> StoredSegment | None:
        return next((one for one in self.segments if one.segment == number), None)

    def behind(self, number: int) -> StoredSegment | None:
        """The first segment with a higher number."""
        return next((one for one in self.segments if one.segment > number), None)

    # ---- changes ----

    def with_segment(self, segment: StoredSegment) -> LogDocument:
        """Another one last; its ledger is no intent any more."""
        return replace(self, segments=(*self.segments, segment), next_segment=segment.segment + 1, intent=None)

    def completing(self, segment: StoredSegment, end_of_stream: bool) -> LogDocument:
        """The segment of that number is completed; one without records is let go of."""
        ends = self.end_of_stream or end_of_stream
        if segment.records_count == 0:
            kept = tuple(one for one in self.segments if one.segment != segment.segment)
            return replace(self, segments=kept, deleting=(*self.deleting, segment.ledger_id), end_of_stream=ends)
        kept = tuple(segment if one.segment == segment.segment else one for one in self.segments)
        return replace(self, segments=kept, last=segment.last, end_of_stream=ends)

    def truncated(self, first: Position) -> LogDocument:
        """Records before `first` are gone; completed segments that hold nothing else go to `deleting`."""
        if first.dlsn <= self.first.dlsn:
            return self
        gone = [one for one in self.segments if one.completed and one.segment < first.dlsn.segment]
        kept = tuple(one for one in self.segments if one not in gone)
        return replace(self, first=first, segments=kept, deleting=(*self.deleting, *(one.ledger_id for one in gone)))


def dlsn_behind(position: Position) -> DLSN:
    """Just behind a record."""
    segment, entry_id, slot = position.dlsn
    return DLSN(segment, entry_id, slot + 1)
