"""DirectoryLog: a log of the engine of this process."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from walkeeper._log import Log, LogInfo, Segment, found_by, reader_starts_by
from walkeeper._native import ffi, lib
from walkeeper._options import (
    GAPS,
    Durability,
    Gaps,
    choice,
    durability_of,
    flag,
    milliseconds,
    name_of,
    natural,
    stored_log_options,
    uninterrupted,
)
from walkeeper._position import DLSN, Position, dlsn_of, position_of, sequence_id_of
from walkeeper._reader import Reader
from walkeeper._writer import Writer
from walkeeper.directory._cursor import DirectoryCursor
from walkeeper.errors import (
    CursorHoldsError,
    CursorNotFoundError,
    InvalidError,
    TruncatedError,
    check,
    new_error,
)

if TYPE_CHECKING:
    from walkeeper.directory._namespace import DirectoryNamespace

__all__ = ["DirectoryLog", "names_of"]

_TXID_SOURCES: dict[str, int] = {
    "unset": lib.WK_TXID_UNSET,
    "application": lib.WK_TXID_APPLICATION,
    "clock": lib.WK_TXID_CLOCK,
}
_SEGMENTS_AT_ONCE = 256


class DirectoryLog(Log):
    __slots__ = ("_native",)

    _namespace: DirectoryNamespace

    def __init__(self, namespace: DirectoryNamespace, name: str, native: Any) -> None:
        self._namespace = namespace
        self._name = name
        self._native = ffi.gc(native, lib.wk_log_release)

    @property
    def in_c(self) -> int:
        return int(ffi.cast("uintptr_t", self._native))

    @property
    def namespace(self) -> DirectoryNamespace:
        return self._namespace

    def writer(self, *, durability: Durability = "sync") -> Writer:
        by_default = durability_of(durability)  # before the earlier one is fenced
        out, error = ffi.new("wk_writer **"), new_error()
        status = uninterrupted(lambda _: lib.wk_writer_open(self._native, out, error))
        check(status, error, log=self._name)
        writer = Writer(self, out[0], by_default)
        self._namespace._look_at_the_clock()
        return writer

    def reader(
        self,
        start: Position | DLSN | Literal["start", "end"] = "start",
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        end: Position | DLSN | None = None,
        follow: bool = False,
        timeout: float | None = None,
        gaps: Gaps = "raise",
    ) -> Reader[Any]:
        options = ffi.new("wk_read_options *")
        lib.wk_read_options_init(options)
        options.follow = flag("follow", follow)
        yields_gaps = choice("gaps", gaps, GAPS) == GAPS["yield"]
        number = reader_starts_by(start, sequence_id=sequence_id, txid=txid, time=time)
        if number is not None:
            way, options.value = _way(*number, _FROM)
            setattr(options, "from", way)  # a word of Python
        elif isinstance(start, str):
            if start not in ("start", "end"):
                raise InvalidError(f'start={start!r}: a Position, a DLSN, "start" or "end"')
            setattr(options, "from", lib.WK_FROM_START if start == "start" else lib.WK_FROM_END)
        else:
            setattr(options, "from", lib.WK_FROM_DLSN)
            options.start = dlsn_of(start)
            options.value = sequence_id_of(start)
        if end is not None:
            options.has_end = True
            options.end = dlsn_of(end)
        out, error = ffi.new("wk_reader **"), new_error()
        status = uninterrupted(lambda _: lib.wk_reader_open(self._native, options, out, error))
        check(status, error, log=self._name)
        return Reader(self, out[0], timeout, yields_gaps)

    def info(self) -> LogInfo:
        native, error = ffi.new("wk_log_info *"), new_error()
        status = uninterrupted(lambda _: lib.wk_log_describe(self._native, native, error))
        check(status, error, log=self._name)
        return LogInfo(
            log_id=native.log_id,
            options=stored_log_options(native.options),
            txid_source=name_of(native.txid_source, _TXID_SOURCES),  # type: ignore[arg-type]
            end_of_stream=native.end_of_stream,
            segments_count=native.segments_count,
            first=position_of(native.first),
            last=position_of(native.last),
            next=position_of(native.next),
            count=native.count,
        )

    def find(
        self,
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        dlsn: Position | DLSN | None = None,
    ) -> Position:
        number = found_by(sequence_id=sequence_id, txid=txid, time=time, dlsn=dlsn)
        place = ffi.NULL
        if dlsn is not None:
            by, value, place = lib.WK_FIND_DLSN, sequence_id_of(dlsn), ffi.new("wk_dlsn *", dlsn_of(dlsn))
        else:
            by, value = _way(*number, _FIND)
        at, error = ffi.new("wk_position *"), new_error()
        status = uninterrupted(lambda _: lib.wk_log_find(self._native, by, value, place, at, error))
        check(status, error, log=self._name)
        return position_of(at)

    def truncate(self, position: Position | DLSN, *, force: bool = False) -> None:
        before, forced, error = ffi.new("wk_dlsn *", dlsn_of(position)), flag("force", force), new_error()
        status = uninterrupted(lambda _: lib.wk_log_truncate(self._native, before, forced, error))
        check(status, error, log=self._name, kinds={lib.WK_EXISTS: CursorHoldsError})

    def segments(self) -> list[Segment]:
        found: list[Segment] = []
        start = 0
        segments, count, error = ffi.new("wk_segment_info[]", _SEGMENTS_AT_ONCE), ffi.new("size_t *"), new_error()
        while True:
            status = lib.wk_log_segments(self._native, start, segments, _SEGMENTS_AT_ONCE, count, error)
            if status == lib.WK_INTERRUPTED:
                continue
            check(status, error, log=self._name)
            for index in range(count[0]):
                native = segments[index]
                found.append(Segment(**{name: getattr(native, name) for name in Segment.__dataclass_fields__}))
            if count[0] < _SEGMENTS_AT_ONCE:
                return found
            start = found[-1].segment + 1

    def cursor(self, name: str, *, create: bool = True) -> DirectoryCursor:
        cursor = self._cursor(name)
        made = flag("create", create)
        tried: Position | None = None
        while not cursor._exists():
            if not made:
                raise CursorNotFoundError(f"log {self._name!r} has no cursor {name!r}", log=self._name)
            first = self.info().first
            try:
                cursor._set(first)
                break
            except (InvalidError, TruncatedError):  # another made it and moved it on; or the first record was let go
                if first == tried:
                    raise
                tried = first
        return cursor

    def cursors(self) -> list[str]:
        names, size, count, error = (
            ffi.new("char **"),
            ffi.new("size_t *"),
            ffi.new("uint64_t *"),
            new_error(),
        )
        status = uninterrupted(lambda _: lib.wk_cursor_names(self._native, names, size, count, error))
        check(status, error, log=self._name)
        return names_of(names[0], size[0])

    def _cursor(self, name: str) -> DirectoryCursor:
        return DirectoryCursor(self, name)


_FROM: dict[str, int] = {
    "sequence_id": lib.WK_FROM_SEQUENCE_ID,
    "txid": lib.WK_FROM_TXID,
    "time": lib.WK_FROM_TIME_MS,
}
_FIND: dict[str, int] = {
    "sequence_id": lib.WK_FIND_SEQUENCE_ID,
    "txid": lib.WK_FIND_TXID,
    "time": lib.WK_FIND_TIME_MS,
}


def _way(name: str, value: Any, ways: dict[str, int]) -> tuple[int, int]:
    return ways[name], natural(name, milliseconds(value) if name == "time" else value)


def names_of(names: Any, size: int) -> list[str]:
    """The names in a list that C made (each followed by a NUL byte), which is freed."""
    try:
        text = bytes(ffi.buffer(names, size)) if size else b""
    finally:
        lib.wk_free(names)
    return [name.decode("utf-8") for name in text.split(b"\0")[:-1]]
