"""Namespace: the logs under one URI; and `open`, the one way in, which dispatches by the URI."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from walkeeper._options import OnDamage

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from walkeeper._log import Log
    from walkeeper._options import AnyOpenOptions, NewLogOptions

__all__ = ["Namespace", "RecoveryReport", "Stats", "open"]

_CLUSTER = re.compile(r"(sqlite|memory|etcd|zk|zk\+[a-z]*):", re.IGNORECASE)
"""What the URI of a metadata store begins with."""


def open(
    uri: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    on_damage: OnDamage = "stop",
    **options: Unpack[AnyOpenOptions],
) -> Namespace:
    """Opens the namespace at `uri`: a directory, as a path or a file: URI, or a namespace of a cluster, by the URI of
    its metadata store ("zk://HOST:PORT/ledgers", "sqlite:PATH"). It is made where there is none.

    Of a cluster nothing is locked: each log has one writer, in whichever process. `create` makes the namespace, never
    the cluster: bookies do that. For the further options see ClusterOptions. What follows is of a directory.

    When it returns, everything an earlier process was told is durable can be read again, and a torn tail was cut.
    One process writes a directory; `read_only` opens follow it live. `on_damage` says what becomes of acknowledged
    records that cannot be read: "stop" raises DamagedError, "point_in_time" cuts each affected log at its first loss,
    "skip" leaves gaps; with `read_only` the directory is left as it is, and the repair takes place in memory: a look at
    one moment, whose reads raise DirectoryLockedError once somebody has opened the directory for writing. For the
    further options see OpenOptions. Where this process has the directory open for writing, a second open shares that:
    its options are checked and otherwise ignored (but `read_only` makes a handle that only reads).

    Raises DirectoryLockedError, NotFoundError (without `create`; there is no cluster), DamagedError, UnsupportedError,
    StorageError, UnavailableError (the metadata store does not answer), and InvalidError for an option or a path that
    cannot be, or an option of the other kind.
    A str that begins like a URI is one; write "./etcd:1" for a directory that looks like that. A relative path means
    what it means when open is called, wherever the process goes while it waits.
    """
    if isinstance(uri, str) and is_cluster(uri):
        from walkeeper.cluster._namespace import open_cluster

        return open_cluster(uri, create, read_only, on_damage, dict(options))
    from walkeeper.directory._namespace import open_directory

    return open_directory(uri, create, read_only, on_damage, options)


def is_cluster(uri: str) -> bool:
    """Whether open() takes this for the URI of a metadata store, and so of a cluster; else it is a directory."""
    return _CLUSTER.match(uri) is not None


@dataclass(frozen=True)
class RecoveryReport:
    """What an open had to do; all zero after a clean start, but for the times and files_scanned, footers_read."""

    files_scanned: int
    footers_read: int
    bytes_scanned: int
    blocks_accepted: int
    cut_bytes: int
    """Bytes of a torn tail that were cut: never acknowledged."""
    cut_file: int
    """The number of the journal file with the torn tail, in hexadecimal its name; 0 for none."""
    cut_offset: int
    damaged_blocks: int
    """Accepted loss: so many blocks of the journal were not whole. Entries in them that were intact are kept."""
    unknown_blocks: int
    """Of these, it cannot be told which ledgers they held entries of: a log may have lost its end without a gap."""
    lost_entries: int
    """Entries of damaged blocks that could be named, but not kept."""
    lost_records: int
    """Sequence ids that this open recorded as gaps: readers tell of them for ever, nobody gets them again."""
    lost_files: int
    """Entry logs whose index cannot be read: set aside, as entries/<id>.damaged."""
    catalogue_fallbacks: int
    """1 where the newest snapshot of the catalogue cannot be read: the one before it was used, nothing is lost."""
    catalogue_lost: int
    """Entries of the catalogue that cannot be read: what they changed (logs, segments, truncations) is not known."""
    unconfirmed_blocks: int
    """Read-only, without a writer: so many blocks at the end are whole but not known durable, and are not shown.

    No call that wrote them returned success; the next open for writing decides about them."""
    adopted_ledgers: int
    """Ledgers that no log names any more: each is a log now, "recovered-ledger-<id>"."""
    lock_wait_ns: int
    elapsed_ns: int
    """Without the wait for the lock."""


@dataclass(frozen=True)
class Stats:
    """Counts of a namespace. Sizes are bytes; what is marked so counts since open."""

    logs_count: int
    journal_files: int
    prepared_files: int
    entry_logs: int
    disk_bytes: int
    """All files of the directory."""
    live_bytes: int
    """Entries that are not truncated or deleted."""
    appended_records: int
    """Since open."""
    appended_bytes: int
    """Payload, since open."""
    written_bytes: int
    """To the disk, of all kinds, since open."""
    blocks_count: int
    """Since open."""
    syncs_count: int
    """Durable points, since open."""
    durable_block: int
    memory_logs: int
    memory_ranges: int
    """Of that, what range_bytes limits."""
    range_reads: int
    """Ledgers whose ranges were read again from the index file, since open."""
    memory_memtable: int
    memory_cache: int
    memory_in_flight: int
    memory_readers: int
    """Records that were read and are still held, and what readers read ahead."""
    recycled_files: int
    """Since open."""
    memory_sort: int
    """A bookie's; of a namespace of logs 0."""
    compacted_bytes: int
    """Since open."""
    sorted_bytes: int
    """Since open; a bookie's, of a namespace of logs 0."""
    scrubbed_bytes: int
    """Read again by the background scrub, since open."""
    scrub_damaged: int
    """Entries that the background scrub found damaged, since open."""
    clock_jumps: int
    """Jumps of the wall clock by more than an hour, noticed where it stamped txids, since open (ClockJumpWarning)."""
    clock_jump_ms: int
    """The last of them: above 0 forwards, below 0 backwards."""
    oldest_file: int
    """The number of the file that pins space longest, in hexadecimal its name; 0 for none."""
    oldest_ledger: int
    """A ledger that pins it, -1 for none."""
    backend: str
    """"uring" or "psync"."""
    sync_method: str
    """"dsync" or "write_then_sync"; "probe" where a read-only open finds that this device was never measured."""
    blocks_in_flight: int
    disk_full: bool
    failed: bool
    """A write or sync failed: this namespace only reads and closes."""
    probed: bool
    """This device was measured with several blocks in flight too, in idle time: that chose the method and how many."""


class Namespace(ABC):
    """The logs under one URI: in one directory, or on the bookies of a cluster. Made by walkeeper.open().

    Every method may be called from any thread. A context manager: leaving it closes the namespace. One that nobody
    closes is closed as garbage or at the exit of the process, so that deferred records become durable.
    """

    _has_eventfd = False
    """Whether an event loop can listen for what becomes durable."""

    _path: str
    _read_only: bool

    @property
    def path(self) -> str:
        """The directory, or the URI that a cluster was opened by."""
        return self._path

    @property
    def read_only(self) -> bool:
        """Whether it was opened to read only."""
        return self._read_only

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether close() was called."""

    @abstractmethod
    def log(self, name: str, *, create: bool = True, **options: Unpack[NewLogOptions]) -> Log:
        """The log of that name; created, with `options`, where there is none. An existing log keeps its own options.

        Raises LogNotFoundError without `create`, and of a namespace that was opened read-only; InvalidError for a name
        that is empty, longer than 255 bytes of UTF-8, begins with ".", ends with "/", or holds a space, a control
        character, "<" or ">".
        """

    @abstractmethod
    def logs(self, prefix: str = "") -> list[str]:
        """The names of the logs that begin with `prefix`, in byte order."""

    @abstractmethod
    def delete_log(self, name: str) -> None:
        """Deletes a log with its cursors; durable when it returns. Its space is given back in the background.

        Handles on it raise LogDeletedError from now on. Raises LogNotFoundError.
        """

    @abstractmethod
    def rename_log(self, old: str, new: str) -> None:
        """Renames a log; durable when it returns. Raises LogNotFoundError, and ExistsError where `new` is taken.

        The log keeps its positions: one of an earlier log with the new name may mean another record in it.
        """

    @abstractmethod
    def backup(self, destination: str | os.PathLike[str], *, journal: str | os.PathLike[str] | None = None) -> None:
        """Makes a consistent copy of the live directory, by hard links. Appends go on meanwhile.

        `destination` must not exist; it lies on the same file system, outside the directory itself. The copy is a
        namespace of its own; an unfinished one is removed. With `journal`, which must not exist either, the copy has
        that journal directory; without it none, also where this one has one, whose files are then copied byte by byte.

        Raises ExistsError, InvalidError, ReadOnlyError, StorageError.
        """

    @abstractmethod
    def stats(self) -> Stats:
        """Counts and sizes, now."""

    @abstractmethod
    def recovery(self) -> RecoveryReport:
        """What opening the directory had to do."""

    @abstractmethod
    def close(self, timeout: float | None = None) -> None:
        """Waits (up to `timeout` seconds; None: for ever) until everything accepted is durable, and closes.

        The namespace is closed whatever comes of it; where it raises TimeoutError or JournalFailedError, what was not
        durable has an unknown outcome. After a TimeoutError a write may still be under way, and the directory stays
        locked until the process ends: give seconds, for a disk that stalls, and not 0. Records that were read stay
        valid. Closing twice is fine. In a forked child it only forgets the handle: the namespace is the parent's.

        A signal handler may call it, and a future's callback: the call that the handler interrupted, and what other
        threads call later, raises ClosedError.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self._read_only else "open"
        return f"<walkeeper.Namespace {self._path!r}, {state}>"

    @abstractmethod
    def _back_up(self, path: bytes, journal: bytes | None) -> None:
        """backup(), to places that were settled."""

    @abstractmethod
    def _look_at_the_clock(self) -> None:
        """Warns of jumps of the clock since the last look."""
