"""Fields of requests about logs: positions, places to read from, what is known of a log, and options of a new one."""

from __future__ import annotations

import enum
import struct
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walkeeper import DLSN, AppendRange, LogInfo, LogOptions, Position
from walkeeper.errors import InvalidError
from walkeeper.gateway._protocol import Body, Refused, Status

if TYPE_CHECKING:
    from walkeeper import NewLogOptions

__all__ = [
    "End",
    "Place",
    "Way",
    "info_of",
    "new_log_options_of",
    "packed_info",
    "packed_new_log_options",
    "packed_place",
    "packed_position",
    "place_of",
    "position_of",
    "range_of",
]

_POSITION = struct.Struct(">5q")
_PLACE = struct.Struct(">B4q")
_INFO_HEAD = struct.Struct(">QBBB5Q")
_OPTIONS = struct.Struct(">3qB")

_CODECS: tuple[Literal["none"], Literal["lz4"], Literal["zstd"]] = ("none", "lz4", "zstd")
_TXID_SOURCES = ("unset", "application", "clock")
_NUMBERS = ("segment_bytes", "segment_seconds", "retention_seconds")
_BY_DEFAULT = 255
"""Instead of a codec: the one that new logs have."""


class Way(enum.IntEnum):
    """How a place in a log is named."""

    START = 0
    END = 1
    DLSN = 2
    SEQUENCE_ID = 3
    TXID = 4
    TIME = 5
    """Milliseconds since 1970."""


class End(enum.IntEnum):
    """What the answer of a read says of the log behind its records."""

    MORE = 0
    """There may be more: read on."""
    NOW = 1
    OF_STREAM = 2
    """There is nothing more, and there never will be."""


class Place(NamedTuple):
    """Where to read from, or what to find."""

    way: Way
    value: int = -1
    """The number, by which it is named; of a DLSN the sequence id that goes with it, -1 where that is not known."""
    segment: int = 0
    entry_id: int = 0
    slot: int = 0

    @classmethod
    def at(cls, position: Position | DLSN) -> Place:
        """By its DLSN."""
        if isinstance(position, Position):
            return cls(Way.DLSN, position.sequence_id, *position.dlsn)
        return cls(Way.DLSN, -1, *position)

    @property
    def dlsn(self) -> Position:
        """As the embedded API takes it."""
        return Position((self.segment, self.entry_id, self.slot, self.value, -1))

    def arguments(self) -> dict[str, Any]:
        """Of Log.find and, but for a DLSN, of Log.reader."""
        if self.way == Way.DLSN:
            return {"dlsn": self.dlsn}
        if self.way == Way.TIME:
            return {"time": _moment(self.value)}
        return {"sequence_id" if self.way == Way.SEQUENCE_ID else "txid": self.value}


def _moment(milliseconds: int) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise InvalidError(f"{milliseconds} ms since 1970 lie behind the year 9999") from None


def packed_place(place: Place) -> bytes:
    return _PLACE.pack(*place)


def place_of(body: Body) -> Place:
    way, *cells = _PLACE.unpack(body.raw(_PLACE.size))
    if way not in Way._value2member_map_:
        raise Refused(Status.INVALID, f"there is no way {way} to name a place in a log")
    return Place(Way(way), *cells)


def packed_position(position: Position) -> bytes:
    return _POSITION.pack(*position.dlsn, position.sequence_id, position.txid)


def position_of(body: Body) -> Position:
    return Position(_POSITION.unpack(body.raw(_POSITION.size)))


def range_of(body: Body) -> AppendRange:
    """What an append wrote."""
    return AppendRange(position_of(body), position_of(body), body.u32())


def packed_info(info: LogInfo) -> bytes:
    options = info.options
    head = _INFO_HEAD.pack(
        info.log_id,
        _TXID_SOURCES.index(info.txid_source),
        info.end_of_stream,
        _CODECS.index(options.codec),
        *(getattr(options, name) for name in _NUMBERS),
        info.segments_count,
        info.count,
    )
    return head + b"".join(map(packed_position, (info.first, info.last, info.next)))


def info_of(body: Body) -> LogInfo:
    log_id, source, ends, codec, *numbers, segments_count, count = _INFO_HEAD.unpack(body.raw(_INFO_HEAD.size))
    return LogInfo(
        log_id=log_id,
        options=LogOptions(**dict(zip(_NUMBERS, numbers, strict=True)), codec=_CODECS[codec]),
        txid_source=_TXID_SOURCES[source],  # type: ignore[arg-type]
        end_of_stream=bool(ends),
        segments_count=segments_count,
        first=position_of(body),
        last=position_of(body),
        next=position_of(body),
        count=count,
    )


def packed_new_log_options(options: NewLogOptions) -> bytes:
    """Raises InvalidError for a value that a log cannot have, TypeError for a name that is no option."""
    for name in options:
        if name not in (*_NUMBERS, "codec"):
            raise TypeError(f"a log has no option {name!r}")
    codec = options.get("codec")
    if codec is not None and codec not in _CODECS:
        raise InvalidError(f"codec={codec!r}: it is one of {', '.join(map(repr, _CODECS))}")
    numbers = []
    for name in _NUMBERS:
        number: Any = options.get(name, -1)
        if isinstance(number, bool) or not isinstance(number, int) or not -1 <= number < 2**63:
            raise InvalidError(f"{name}={number!r}: a whole number is wanted")
        if number < 0 and name in options:
            raise InvalidError(f"{name}={number!r}: 0 or more")
        numbers.append(number)
    return _OPTIONS.pack(*numbers, _BY_DEFAULT if codec is None else _CODECS.index(codec))


def new_log_options_of(body: Body) -> NewLogOptions:
    *numbers, codec = _OPTIONS.unpack(body.raw(_OPTIONS.size))
    options: dict[str, Any] = {name: number for name, number in zip(_NUMBERS, numbers, strict=True) if number >= 0}
    if codec != _BY_DEFAULT:
        if codec >= len(_CODECS):
            raise Refused(Status.INVALID, f"there is no codec {codec}")
        options["codec"] = _CODECS[codec]
    return options  # type: ignore[return-value]
