"""Options: what callers may ask for, as C structs; and time-outs, in seconds outside and nanoseconds inside."""

from __future__ import annotations

import math
import operator
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict
from weakref import WeakKeyDictionary

from walkeeper._native import ffi, lib
from walkeeper.directory._paths import path_bytes
from walkeeper.errors import InvalidError, shown

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from walkeeper.ledgers._bookie_choice import Racks
    from walkeeper.ledgers.placement import PlacementPolicy

__all__ = [
    "AnyOpenOptions",
    "Backend",
    "ClusterOptions",
    "Codec",
    "Durability",
    "Gaps",
    "LogOptions",
    "NewLogOptions",
    "OnDamage",
    "OpenOptions",
    "SyncMethod",
]

Durability = Literal["sync", "deferred"]
OnDamage = Literal["stop", "point_in_time", "skip"]
Gaps = Literal["raise", "yield"]
Backend = Literal["auto", "uring", "psync"]
SyncMethod = Literal["probe", "dsync", "write_then_sync"]
Codec = Literal["none", "lz4", "zstd"]

FOREVER: int = 2**64 - 1
INT64_MAX: int = 2**63 - 1
"""The largest sequence id, txid, part of a DLSN, and time in milliseconds."""

_ON_DAMAGE: dict[str, int] = {
    "stop": lib.WK_ON_DAMAGE_STOP,
    "point_in_time": lib.WK_ON_DAMAGE_POINT_IN_TIME,
    "skip": lib.WK_ON_DAMAGE_SKIP,
}
BACKENDS: dict[str, int] = {"auto": lib.WK_BACKEND_AUTO, "uring": lib.WK_BACKEND_URING, "psync": lib.WK_BACKEND_PSYNC}
SYNC_METHODS: dict[str, int] = {
    "probe": lib.WK_SYNC_PROBE,
    "dsync": lib.WK_SYNC_DSYNC,
    "write_then_sync": lib.WK_SYNC_WRITE_THEN_SYNC,
}
_CODECS: dict[str, int] = {"none": lib.WK_CODEC_NONE, "lz4": lib.WK_CODEC_LZ4, "zstd": lib.WK_CODEC_ZSTD}
GAPS: dict[str, int] = {"raise": 0, "yield": 1}
_DURABILITIES: dict[str, int] = {"sync": lib.WK_SYNC, "deferred": lib.WK_DEFERRED}


class OpenOptions(TypedDict, total=False):
    """The further options of walkeeper.open. Times are seconds, sizes bytes; 0 in a limit means its default."""

    lock_timeout: float
    """How long to wait for another process to let go of the directory (10 s; 0: do not wait)."""
    unsafe_fs: bool
    """Accept a network file system."""
    backend: Backend
    sync_method: SyncMethod
    blocks_in_flight: int
    """Sync writes at once, 1 to 8 (0: as the probe chose for this device, 2 before it ran)."""
    file_size_min: int
    """Journal files start at this size (4 MiB, at least 64 KiB) ..."""
    file_size_max: int
    """... and double up to this (64 MiB)."""
    block_size_max: int
    """A block is submitted at this size at the latest (512 KiB)."""
    memtable_bytes: int
    """Recently written blocks kept for readers (8 MiB)."""
    cache_bytes: int
    """Index pages kept, and a quarter for what a bookie reads ahead (8 MiB)."""
    range_bytes: int
    """Lists kept of which files a ledger's entries are in (64 MiB)."""
    in_flight_bytes: int
    """Accepted and not yet durable; at the limit appends wait (8 MiB)."""
    read_bytes: int
    """Records that were read and are still held; at the limit reading raises LimitError (256 MiB, at least 4 MiB)."""
    deferred_max_delay: float
    """A deferred append is durable after at most this (0.1 s)."""
    confirm_delay: float
    """A confirm block is written after this long without appends (0.1 s)."""
    commit_wait: float
    """Seconds that a block waits for more appends before it is submitted (0)."""
    compact_rate: int
    """Bytes a second that compaction may copy (64 MiB)."""
    minor_percent: int
    """Minor compaction takes files with less than this percentage alive (20; 0: none)."""
    major_percent: int
    """Major compaction takes files with less than this percentage alive (80; 0: none)."""
    minor_interval: float
    major_interval: float
    scrub_rate: int
    """Bytes a second read again in the background to find damage (0: off); see Stats.scrub_damaged."""
    check_all: bool
    """Where on_damage accepts loss: read every entry, so that all of it is found now, and none when it is read."""
    ignore_footers: bool
    """Tests: scan every journal file from its first block."""
    journal: str | bytes | os.PathLike[str]
    """A directory for the journal alone, at best on a device of its own (by default it is in the directory). Decided
    when the directory is made; to be named at each open for writing, wherever it is then. Who only reads finds it where
    it was when it was last opened for writing."""


class ClusterOptions(TypedDict, total=False):
    """The further options of walkeeper.open for the URI of a metadata store. Times are seconds, sizes bytes.

    Of those of a directory it takes `backend`, and `read_bytes`, which then limits each reader."""

    namespace: str
    """Which namespace of the cluster ("default")."""
    ensemble_size: int
    """Bookies of a segment (3)."""
    write_quorum: int
    """To how many of them each entry goes (3)."""
    ack_quorum: int
    """How many must have it before it is acknowledged (2)."""
    strict: bool
    """Where fewer bookies than ensemble_size are up, begin no segment (False: one on those that are up)."""
    password: bytes
    """Of the ledgers (empty). It is kept in the metadata, in clear. Whoever reads a log or takes it over gives it."""
    session_timeout: float
    """After so much silence a connection to the metadata store is given up (10)."""
    connect_timeout: float
    """For a connection to a bookie (5)."""
    add_timeout: float
    """A bookie that answers an add later is left out (5)."""
    read_timeout: float
    """The next bookie is asked after it (5)."""
    placement: str | PlacementPolicy
    """What chooses the bookies of a segment ("random"); see LedgerClient."""
    racks: Racks | None
    """The rack of each bookie, for "rack_aware"; see LedgerClient."""


class AnyOpenOptions(OpenOptions, ClusterOptions, total=False):
    """The further options of walkeeper.open: those of a directory, and those of a cluster."""


FOR_BOTH = frozenset({"backend", "read_bytes"})
CLUSTER_ONLY = frozenset(ClusterOptions.__annotations__)
DIRECTORY_ONLY = frozenset(OpenOptions.__annotations__) - FOR_BOTH


def refuse_options(options: Iterable[str], others: frozenset[str], why: str) -> None:
    """InvalidError where one of the options is among `others`."""
    for name in options:
        if name in others:
            raise InvalidError(f"{name}= is no option here: {why}")


_OPEN_TIMES = {
    "lock_timeout": "lock_timeout_ns",
    "deferred_max_delay": "deferred_delay_ns",
    "confirm_delay": "confirm_delay_ns",
    "commit_wait": "commit_wait_ns",
    "minor_interval": "minor_interval_ns",
    "major_interval": "major_interval_ns",
}


_kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What an option of C points to, for as long as the options."""

_OPEN_PERCENTS = ("minor_percent", "major_percent")
_NEVER = 2**32 - 1

_OPEN_FLAGS = ("unsafe_fs", "check_all", "ignore_footers")


class NewLogOptions(TypedDict, total=False):
    """What may be chosen when a log is created; it is stored with the log."""

    segment_bytes: int
    """Roll to a new log segment at this many payload bytes (256 MiB)."""
    segment_seconds: int
    """... or when the segment is this old (7200; 0: never)."""
    retention_seconds: int
    """Completed segments older than this go by themselves, but never past a cursor.
    0, the default: only what the application truncates goes."""
    codec: Codec
    """Compression of entries ("none"). zstd is not readable by Java's DistributedLog."""


@dataclass(frozen=True)
class LogOptions:
    """The options that a log was created with."""

    segment_bytes: int
    segment_seconds: int
    retention_seconds: int
    codec: Codec


def open_options(create: bool, read_only: bool, on_damage: OnDamage, options: OpenOptions) -> Any:
    """A wk_open_options. Raises TypeError for a name that is not an option, InvalidError for a value it cannot have."""
    native = ffi.new("wk_open_options *")
    lib.wk_open_options_init(native)
    native.create, native.read_only = flag("create", create), flag("read_only", read_only)
    native.on_damage = choice("on_damage", on_damage, _ON_DAMAGE)
    for name, value in options.items():
        if name not in OpenOptions.__annotations__:
            raise TypeError(f"walkeeper.open has no option {name!r}")
        if name == "backend":
            native.backend = choice(name, value, BACKENDS)
        elif name == "sync_method":
            native.sync_method = choice(name, value, SYNC_METHODS)
        elif name == "journal":
            _kept[native] = native.journal = ffi.new("char[]", path_bytes(value, "open a journal directory"))  # type: ignore[arg-type]
        elif name in _OPEN_FLAGS:
            setattr(native, name, flag(name, value))
        elif name in _OPEN_TIMES:
            # C takes 0 for "the default"; a caller who writes 0 means no time at all (commit_wait's default is that).
            shortest = 0 if name == "commit_wait" else 1
            setattr(native, _OPEN_TIMES[name], max(shortest, nanoseconds(value, name)))  # type: ignore[arg-type]
        else:
            set_number(native, name, value)
            if name in _OPEN_PERCENTS and value == 0:  # in C the default, here nothing is less alive than that
                setattr(native, name, _NEVER)
    return native


def log_options(options: NewLogOptions) -> Any:
    """A wk_log_options. Raises TypeError for a name that is not an option, InvalidError for a value it cannot have."""
    native = ffi.new("wk_log_options *")
    lib.wk_log_options_init(native)
    for name, value in options.items():
        if name not in NewLogOptions.__annotations__:
            raise TypeError(f"a log has no option {name!r}")
        if name == "codec":
            native.codec = choice(name, value, _CODECS)
        else:
            set_number(native, name, value)
    return native


def stored_log_options(native: Any) -> LogOptions:
    """What a wk_log_options says."""
    return LogOptions(
        segment_bytes=native.segment_bytes,
        segment_seconds=native.segment_seconds,
        retention_seconds=native.retention_seconds,
        codec=name_of(native.codec, _CODECS),  # type: ignore[arg-type]
    )


def durability_of(durability: Durability) -> int:
    return choice("durability", durability, _DURABILITIES)


def choice(option: str, value: object, choices: dict[str, int]) -> int:
    """The number of a named choice; InvalidError that lists the names for any other."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidError(f"{option}={shown(value)}: it is one of {', '.join(map(repr, choices))}")
    return choices[value]


def name_of(number: int, choices: dict[str, int]) -> str:
    """The name of a choice, from C's number."""
    return next((name for name, value in choices.items() if value == number), f"unknown ({number})")


def flag(name: str, value: object) -> bool:
    """Yes or no: True or False, or 1 or 0. Raises InvalidError for anything else: "no" would count as True."""
    if isinstance(value, int) and value in (0, 1):
        return value != 0
    raise InvalidError(f"{name}={shown(value)}: True or False is wanted")


def set_number(native: Any, name: str, value: object) -> None:
    if isinstance(value, bool):
        raise InvalidError(f"{name}={shown(value)}: a whole number is wanted")
    try:
        setattr(native, name, value)
    except (OverflowError, TypeError, ValueError) as wrong:
        raise InvalidError(f"{name}={shown(value)}: {wrong}") from None


def nanoseconds(seconds: float | None, name: str = "timeout") -> int:
    """A time-out as C takes it; None is for ever. What is too long to be counted is centuries, the longest it takes.
    Raises InvalidError for less than 0, NaN, and what is no number."""
    if seconds is None:
        return FOREVER
    try:
        if seconds == math.inf:
            return FOREVER
        if seconds >= 0 and not isinstance(seconds, bool):
            return min(round(seconds * 1e9), FOREVER - 1)
    except OverflowError:
        return FOREVER - 1
    except (ArithmeticError, TypeError):
        pass
    raise InvalidError(f"{name}={shown(seconds)}: seconds, 0 or more, or None to wait for ever")


def seconds_of(timeout_ns: int) -> float | None:
    """A time-out as asyncio takes it, from nanoseconds(): None is for ever."""
    return None if timeout_ns == FOREVER else timeout_ns / 1e9


def milliseconds(moment: datetime | float) -> int:
    """A moment as logs store it: whole milliseconds since 1970. Raises InvalidError for a datetime without a zone, for
    what is no number, and for a moment before 1970."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise InvalidError(f"time={moment!r} has no time zone: its instant is not known")
        found = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    else:
        try:
            found = math.floor(math.nan if isinstance(moment, bool) else moment * 1000)
        except (ArithmeticError, TypeError, ValueError):
            raise InvalidError(f"time={shown(moment)}: an aware datetime, or seconds since 1970") from None
    if found < 0:
        raise InvalidError(f"time={shown(moment)} lies before 1970")
    return found


def natural(name: str, value: object) -> int:
    """A whole number from 0 that C can store. Raises InvalidError for anything else, True and False among it."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise InvalidError(f"{name}={shown(value)}: a whole number is wanted")
    if not 0 <= number <= INT64_MAX:
        raise InvalidError(f"{name}={shown(value)}: 0 or more, and below 2**63")
    return number


def uninterrupted(call: Callable[[int], int], timeout_ns: int = FOREVER) -> int:
    """The status of `call(nanoseconds left)`, called again for as long as a signal cuts it short.

    Between two calls Python runs its signal handlers, and what they raise goes to the caller.
    """
    started = time.monotonic_ns()
    left = timeout_ns
    while (status := call(left)) == lib.WK_INTERRUPTED:
        left = time_left(started, timeout_ns)
    return status


def time_left(started_ns: int, timeout_ns: int) -> int:
    """What is left of a time-out that began at time.monotonic_ns() == started_ns."""
    if timeout_ns == FOREVER:
        return FOREVER
    return max(0, timeout_ns - (time.monotonic_ns() - started_ns))


def name_bytes(name: str) -> bytes:
    """A log's or cursor's name as C takes it."""
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {shown(name)}")
    try:
        return name.encode("utf-8")
    except UnicodeEncodeError as wrong:
        raise InvalidError(f"the name {name!r} cannot be written in UTF-8: {wrong.reason}") from None


if TYPE_CHECKING:
    Payload = Buffer

    class ArrowArray(Protocol):
        """What has the Arrow PyCapsule interface: an Array of pyarrow, or of another library."""

        def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
