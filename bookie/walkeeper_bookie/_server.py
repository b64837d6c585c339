"""Server: the native server of a directory. Numbers go in and out here; no entry ever comes to Python."""

from __future__ import annotations

import socket
import threading
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walkeeper._native import ffi, lib
from walkeeper.errors import TimeoutError, check, new_error
from walkeeper_bookie._histogram import Histogram
from walkeeper_bookie._native_options import set_fields

if TYPE_CHECKING:
    from walkeeper_bookie._directory import Directory

__all__ = ["OPERATIONS", "Server", "ServerStats"]

OPERATIONS = {
    "read": 1,
    "add": 2,
    "auth": 5,
    "write_lac": 6,
    "read_lac": 7,
    "bookie_info": 8,
    "start_tls": 9,
    "force": 10,
    "list_entries": 11,
    "batch_read": 12,
}
"""Names of wk_wire_operation that somebody may ask for."""

_NUMBERS = (
    "connections",
    "connections_total",
    "connections_refused",
    "accept_shortages",
    "added_bytes",
    "read_bytes",
    "received_bytes",
    "sent_bytes",
    "fences",
    "recovery_adds",
    "long_polls",
    "digest_mismatches",
    "protocol_errors",
    "frame_timeouts",
    "too_many_requests",
    "receive_memory",
    "reply_memory",
    "ledgers_memory",
    "ledgers",
    "backend",
)


@dataclass(frozen=True)
class ServerStats:
    """Counts since the start, and sizes now; times are nanoseconds."""

    requests: Mapping[str, int]
    failures: Mapping[str, int]
    connections: int
    connections_total: int
    connections_refused: int
    accept_shortages: int
    added_bytes: int
    read_bytes: int
    received_bytes: int
    sent_bytes: int
    fences: int
    recovery_adds: int
    long_polls: int
    digest_mismatches: int
    protocol_errors: int
    frame_timeouts: int
    too_many_requests: int
    receive_memory: int
    reply_memory: int
    ledgers_memory: int
    ledgers: int
    backend: int
    """enum wk_backend"""
    add_ns: Histogram
    read_ns: Histogram
    batch: Histogram
    failed: bool


class Server:
    """Serves from `start` to `stop`. Every method may be called from any thread; after `stop` they do nothing."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._lock = threading.Lock()  # nobody is inside when the native server is freed
        self._last: ServerStats | None = None  # once it is being stopped

    @classmethod
    def start(cls, directory: Directory, options: Mapping[str, int] | None = None) -> Server:
        """It is ready to serve when it returns: read-only and with every ledger in limbo, until it is told what holds.
        Nobody can connect to it until `listen`.

        `options` are further fields of wk_server_options.

        Raises StorageError, InvalidError, UnsupportedError.
        """
        native_options = ffi.new("wk_server_options *")
        lib.wk_server_options_init(native_options)
        set_fields(native_options, options or {})
        native_options.listen_later = native_options.read_only = native_options.limbo_all = True
        out, error = ffi.new("wk_server **"), new_error()
        check(lib.wk_server_start(directory.native, native_options, out, error), error)
        return cls(out[0])

    def listen(self, bound: socket.socket) -> None:
        """Whoever connects to this bound socket is served from here on; the socket is the server's then. Raises
        StorageError: the address is in use."""
        error = new_error()
        with self._lock:
            if self._native is not None:
                check(lib.wk_server_listen(self._native, bound.fileno(), error), error)
                bound.detach()

    def stop(self, drain: float) -> bool:
        """Answers what was accepted, for at most `drain` seconds, and ends. False: some were not answered."""
        with self._lock:
            if self._native is None:
                return True
            self._last = self._counted()
            native, self._native = self._native, None
        error = new_error()
        try:
            check(lib.wk_server_stop(native, int(drain * 1e9), error), error)
        except TimeoutError:
            return False
        return True

    @property
    def port(self) -> int:
        """Where it listens; 0: it does not."""
        with self._lock:
            return int(lib.wk_server_port(self._native)) if self._native is not None else 0

    def set_read_only(self, read_only: bool, high_priority: bool) -> None:
        """Read-only: adds are refused, those of recovery taken if `high_priority`; reads and fences go on."""
        with self._lock:
            if self._native is not None:
                lib.wk_server_set_read_only(self._native, read_only, high_priority)
                self._heard()

    def set_space(self, total_bytes: int, free_bytes: int) -> None:
        """What clients are told of the disk."""
        with self._lock:
            if self._native is not None:
                lib.wk_server_set_space(self._native, total_bytes, free_bytes)

    def set_limbo(self, everything: bool, ledger_ids: Iterable[int] = ()) -> None:
        """Of these ledgers, or of all but these, nothing is said to be absent once it returns. Raises NoMemoryError."""
        ids, error = array("q", ledger_ids), new_error()
        with self._lock:
            if self._native is not None:
                check(lib.wk_server_set_limbo(self._native, everything, _pointer(ids), len(ids), error), error)
                self._heard()

    def set_deleted(self, ledger_ids: Iterable[int]) -> None:
        """Adds and fences of these ids are refused once it returns, and of no others. Raises NoMemoryError."""
        ids, error = array("q", ledger_ids), new_error()
        with self._lock:
            if self._native is not None:
                check(lib.wk_server_set_deleted(self._native, _pointer(ids), len(ids), error), error)
                self._heard()

    def _heard(self) -> None:
        """Returns when the server's thread goes by what it was told: it answers this in its turn."""
        lib.wk_server_stats_get(self._native, ffi.new("wk_server_stats *"))

    def stats(self) -> ServerStats:
        """Counts, now; from `stop` on those of its beginning."""
        with self._lock:
            return self._counted() if self._last is None else self._last

    def _counted(self) -> ServerStats:
        """Counts, now. The caller holds the lock."""
        stats = ffi.new("wk_server_stats *")
        lib.wk_server_stats_get(self._native, stats)
        return ServerStats(
            requests={name: int(stats.requests[number]) for name, number in OPERATIONS.items()},
            failures={name: int(stats.failures[number]) for name, number in OPERATIONS.items()},
            add_ns=Histogram.of(stats.add_ns),
            read_ns=Histogram.of(stats.read_ns),
            batch=Histogram.of(stats.batch),
            failed=bool(stats.failed),
            **{name: int(getattr(stats, name)) for name in _NUMBERS},
        )


def _pointer(ids: array[int]) -> Any:
    return ffi.from_buffer("int64_t[]", ids) if ids else ffi.NULL
