"""Settings, as the fields of the native options that they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walkeeper._native import lib
from walkeeper.errors import InvalidError
from walkeeper_bookie._disk_watch import Thresholds
from walkeeper_bookie._settings import Settings

__all__ = ["backend_name", "directory_options", "server_options", "set_fields", "thresholds"]

_BACKENDS = {"auto": lib.WK_BACKEND_AUTO, "io_uring": lib.WK_BACKEND_URING, "psync": lib.WK_BACKEND_PSYNC}
_VERIFY = {"off": lib.WK_VERIFY_DIGEST_OFF, "learned": lib.WK_VERIFY_DIGEST_LEARNED}

_NEVER = 2**64 - 1
_NO_PERCENT = 2**32 - 1


def directory_options(settings: Settings) -> Mapping[str, int]:
    """Fields of wk_open_options."""
    return {
        "backend": _BACKENDS[settings.backend],
        "memtable_bytes": settings.memtable,
        "cache_bytes": settings.cache,
        "range_bytes": settings.range,
        "in_flight_bytes": settings.in_flight,
        "file_size_min": settings.file_size_min,
        "file_size_max": settings.file_size_max,
        "block_size_max": settings.block_size_max,
        "deferred_delay_ns": _ns(settings.deferred_max_delay),
        "compact_rate": settings.compact_rate,
        "minor_percent": settings.minor_percent or _NO_PERCENT,
        "minor_interval_ns": _ns(settings.minor_interval),
        "major_percent": settings.major_percent or _NO_PERCENT,
        "major_interval_ns": _ns(settings.major_interval),
        "sort_memory": settings.sort_memory or _NEVER,
        "sort_wait_ns": _ns(settings.sort_wait),
        "scrub_rate": settings.scrub_rate,
    }


def server_options(settings: Settings) -> Mapping[str, int]:
    """Fields of wk_server_options, but for the address, and for connections_max, which descriptors limit."""
    return {
        "backend": _BACKENDS[settings.backend],
        "connections_per_address_max": settings.connections_per_address_max,
        "reader_threads": settings.reader_threads,
        "verify_digest": _VERIFY[settings.verify_digest],
        "frame_size_max": settings.frame_size_max,
        "receive_bytes": settings.receive_bytes,
        "reply_bytes": settings.reply_bytes,
        "reads_max": settings.reads_max,
        "batch_bytes_max": settings.batch_bytes_max,
        "frame_timeout_ns": _ns(settings.frame_timeout),
        "peer_timeout_ns": _ns(settings.peer_timeout),
        "poll_timeout_max_ns": _ns(settings.poll_timeout_max),
    }


def set_fields(native: Any, values: Mapping[str, int]) -> None:
    """Fills fields of a C struct. Raises InvalidError for a value that does not fit."""
    for name, value in values.items():
        try:
            setattr(native, name, value)
        except (OverflowError, TypeError) as wrong:  # noqa: PERF203 - it ends the loop
            raise InvalidError(f"{name}={value!r}: {wrong}") from None


def backend_name(number: int) -> str:
    """The word of the setting for an enum wk_backend."""
    return next(name for name, backend in _BACKENDS.items() if backend == number)


def thresholds(settings: Settings) -> Thresholds:
    """What must be free of the disk."""
    return Thresholds(
        read_only_free=settings.disk_read_only_free,
        read_only_part=settings.disk_read_only_percent / 100,
        writable_free=settings.disk_writable_free,
        writable_part=settings.disk_writable_percent / 100,
        recovery_free=settings.disk_recovery_free,
    )


def _ns(seconds: float) -> int:
    return max(1, round(seconds * 1e9))
