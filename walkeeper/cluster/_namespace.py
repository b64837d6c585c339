"""ClusterNamespace: logs on the bookies of a cluster; and what its logs share: the store, the ledgers, the writers."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, unquote

from walkeeper._namespace import Namespace, RecoveryReport, Stats
from walkeeper._native import lib
from walkeeper._options import (
    DIRECTORY_ONLY,
    FOR_BOTH,
    ClusterOptions,
    flag,
    log_options,
    name_bytes,
    natural,
    refuse_options,
    stored_log_options,
    time_left,
)
from walkeeper.cluster._document import LogDocument, StoredSegment
from walkeeper.cluster._ledgers import LogLedgers
from walkeeper.cluster._log import ClusterLog
from walkeeper.cluster._log_store import LogStore
from walkeeper.cluster._retention import NEVER, Retention
from walkeeper.cluster._writer import WRITERS, ClusterWriter
from walkeeper.directory._paths import absolute, path_bytes
from walkeeper.errors import (
    ClosedError,
    Error,
    ExistsError,
    InvalidError,
    LogDeletedError,
    LogNotFoundError,
    NotFoundError,
    ReadOnlyError,
    UnsupportedError,
    shown,
)
from walkeeper.ledgers import LedgerClient
from walkeeper.ledgers._errors import translated

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from walkeeper._options import NewLogOptions
    from walkeeper.ledgers._native_handles import NativeHandle

__all__ = ["ClusterNamespace", "open_cluster", "settled_uri"]


def settled_uri(uri: str) -> str:
    """The URI, with a path that means the same wherever the process goes."""
    scheme, _, rest = uri.partition(":")
    if scheme.lower() != "sqlite" or rest.startswith("/") or not rest or "?" in rest or "#" in rest:
        return uri
    path = absolute(path_bytes(unquote(rest, errors="surrogateescape"), f"open {uri!r}"))
    return f"sqlite:{quote(os.fsdecode(path), errors='surrogateescape')}"


def open_cluster(uri: str, create: bool, read_only: bool, on_damage: str, options: dict[str, Any]) -> ClusterNamespace:
    """walkeeper.open() for the URI of a metadata store."""
    if on_damage != "stop":
        raise UnsupportedError("on_damage= is for a directory: bookies keep several copies of each record")
    refuse_options(options, DIRECTORY_ONLY, f"{uri!r} is a cluster")
    for name in options:
        if name not in ClusterOptions.__annotations__ and name not in FOR_BOTH:
            raise TypeError(f"walkeeper.open has no option {name!r}")
    name = options.get("namespace", "default")
    if not isinstance(name, str) or not name:
        raise InvalidError(f"namespace={shown(name)}: a name is wanted")
    quorums = tuple(natural(one, options.get(one, default)) for one, default in _QUORUMS.items())
    if not 1 <= quorums[2] <= quorums[1] <= quorums[0] <= lib.WK_ENSEMBLE_MAX:
        raise InvalidError(
            f"ensemble_size, write_quorum, ack_quorum are {quorums}: each is at most the one before, and the first at"
            f" most {lib.WK_ENSEMBLE_MAX}"
        )
    password = options.get("password", b"")
    if not isinstance(password, bytes):
        raise InvalidError("password=: bytes are wanted")
    read_bytes = natural("read_bytes", options.get("read_bytes", 0))
    if 0 < read_bytes < READ_BYTES_MIN:
        raise InvalidError(f"read_bytes={read_bytes}: at least {READ_BYTES_MIN}, or 0 for the default")
    strict = flag("strict", options.get("strict", False))
    makes, only_reads = flag("create", create), flag("read_only", read_only)
    try:
        client = LedgerClient(uri, **{one: value for one, value in options.items() if one in _OF_THE_CLIENT})
    except NotFoundError as error:
        error.hint = f"start bookies: walkeeper cluster up, or walkeeper-bookie --metadata {uri} --init"
        raise
    try:
        cluster = client._cluster
        with translated(f"opening {uri!r}"):
            instance_id = cluster.instance_id() or ""
        store = LogStore(cluster.store, name, client._check, root=cluster.root, instance_id=instance_id)
        if not store.prepare(makes and not only_reads):
            raise NotFoundError(f"{uri!r} has no namespace {name!r}")
        ledgers = LogLedgers(client, name, quorums, strict, password)  # type: ignore[arg-type]
        return ClusterNamespace(uri, client, store, ledgers, only_reads, read_bytes)
    except BaseException:
        client.close()
        raise


AT_EXIT_NS = 5_000_000_000
READ_BYTES_MIN = 4 * 1024 * 1024
_OF_THE_CLIENT = (
    *("session_timeout", "connect_timeout", "add_timeout", "read_timeout", "backend"),
    *("placement", "racks"),
)
_QUORUMS = {"ensemble_size": 3, "write_quorum": 3, "ack_quorum": 2}


class ClusterNamespace(Namespace):
    """The logs of one namespace of a cluster. What it promises is what a directory's promises, but for what
    docs/guarantees.md lists: backup(), recovery() and stats() raise UnsupportedError."""

    _has_eventfd = False

    def __init__(
        self, uri: str, client: LedgerClient, store: LogStore, ledgers: LogLedgers, read_only: bool, read_bytes: int = 0
    ) -> None:
        self._path = uri
        self._read_only = read_only
        self._read_bytes = read_bytes
        """What the records of a reader that are still held may take; 0: C's default."""
        self._client = client
        self._store = store
        self._ledgers = ledgers
        self._writers: weakref.WeakValueDictionary[str, ClusterWriter] = weakref.WeakValueDictionary()
        self._retention = Retention(self)
        self._at_exit = weakref.finalize(self, _close_at_exit, client, self._writers, os.getpid())

    @property
    def closed(self) -> bool:
        return self._client.closed

    def log(self, name: str, *, create: bool = True, **options: Unpack[NewLogOptions]) -> ClusterLog:
        name_bytes(name)
        stored, made = stored_log_options(log_options(options)), flag("create", create)
        _check_name(name)
        self._check()
        while True:
            log_id = self._store.find(name)
            if log_id is not None:
                there = self._store.look(log_id)
                if there is not None and not there[0].deleted:
                    self._keep(log_id, there[0])
                    return ClusterLog(self, name, log_id)
                self._finish_deletion(name, log_id)  # somebody was about to
                continue
            if not made or self._read_only:
                raise LogNotFoundError(f"there is no log {name!r}", log=name)
            try:
                log_id = self._store.create(LogDocument(name, stored))
                self._keep(log_id, LogDocument(name, stored))
                return ClusterLog(self, name, log_id)
            except ExistsError:
                continue  # somebody was quicker

    def logs(self, prefix: str = "") -> list[str]:
        name_bytes(prefix)
        self._check()
        return self._store.names(prefix)

    def delete_log(self, name: str) -> None:
        name_bytes(name)
        self._check()
        self._check_writes()
        log_id = self._store.find(name)
        if log_id is None:
            raise LogNotFoundError(f"there is no log {name!r}", log=name)

        def decide(now: LogDocument) -> LogDocument | None:
            ledgers = [one.ledger_id for one in now.segments]
            if now.intent is not None:
                ledgers.append(now.intent)
            return replace(now, deleted=True, writer=now.writer + 1, intent=None, deleting=(*now.deleting, *ledgers))

        try:
            document: LogDocument | None = self._store.change(log_id, decide)
        except LogDeletedError:
            document = None
        if document is not None:
            segment = document.open_segment
            if segment is not None:  # its writer is to learn of it
                try:
                    self._ledgers.recovered(segment)
                except Error:
                    pass  # it learns when it begins another segment
        self._finish_deletion(name, log_id)

    def _finish_deletion(self, name: str, log_id: str) -> None:
        """What a log that was deleted still has goes, the ledgers first: its document is all that knows of them."""
        there = self._store.look(log_id)
        for ledger_id in there[0].deleting if there is not None else ():
            self._ledgers.delete(ledger_id)
        self._store.forget(name, log_id, there[0].next_segment if there is not None else 1)

    def rename_log(self, old: str, new: str) -> None:
        name_bytes(old)
        name_bytes(new)
        _check_name(new)
        self._check()
        self._check_writes()
        self._store.rename(old, new)

    def backup(self, destination: str | os.PathLike[str], *, journal: str | os.PathLike[str] | None = None) -> NoReturn:
        self._check()
        raise UnsupportedError("a namespace on a cluster has no backup: its records are on several bookies")

    def _back_up(self, path: bytes, journal: bytes | None) -> NoReturn:
        self.backup(path.decode(errors="surrogateescape"))

    def stats(self) -> Stats:
        self._check()
        raise UnsupportedError("a namespace on a cluster has no disk of its own: each bookie has metrics")

    def recovery(self) -> RecoveryReport:
        self._check()
        raise UnsupportedError("a namespace on a cluster is not recovered when it is opened: a writer recovers its log")

    def close(self, timeout: float | None = None) -> None:
        """Ends what its writers began as far as `timeout` seconds allow, and closes the connections."""
        from walkeeper._options import nanoseconds

        timeout_ns = nanoseconds(timeout)
        if self.closed:
            return
        self._at_exit.detach()
        self._retention.stop()
        failed: Error | None = None
        for writer in list(self._writers.values()):
            try:
                if not self._client._native.forked:
                    writer.close(timeout_ns)
            except Error as error:  # noqa: PERF203
                failed = error
        self._client.close(timeout)
        if failed is not None:
            raise failed

    # ---- what its logs share ----

    def _keep(self, log_id: str, document: LogDocument) -> None:
        """Old segments of the log go while this namespace is open."""
        if not self._read_only:
            self._retention.watch(log_id, document.options.retention_seconds)

    def _look_at_the_clock(self) -> None:
        """Nothing is measured here: the C writer never lets txids fall."""

    def _check(self) -> None:
        """ClosedError, ForkedError."""
        if self.closed:
            raise ClosedError(f"the namespace {self._path!r} was closed")
        self._client._check()

    def _check_writes(self) -> None:
        if self._read_only:
            raise ReadOnlyError(f"{self._path!r} was opened read-only")

    def _lac(self, log_id: str, segment: StoredSegment, handle: NativeHandle | None) -> int:
        """The last entry of an open segment that is confirmed. A writer in this process knows it at once."""
        writer = WRITERS.get(log_id)
        if writer is not None:
            ledger_id, lac = writer.lac
            if ledger_id == segment.ledger_id:
                return lac
        assert handle is not None
        metadata = self._ledgers.refresh(handle)
        return metadata.last_entry_id if metadata.is_closed else self._ledgers.lac(handle)

    def _delete_leftovers(self, log_id: str, document: LogDocument) -> None:
        """Ledgers that no segment needs go, and then leave the document."""
        if not document.deleting:
            return
        for ledger_id in document.deleting:
            self._ledgers.delete(ledger_id)
        gone = set(document.deleting)

        def decide(now: LogDocument) -> LogDocument | None:
            left = tuple(one for one in now.deleting if one not in gone)
            return replace(now, deleting=left) if left != now.deleting else None

        self._store.change(log_id, decide)

    def _retain(self, log_id: str, document: LogDocument) -> None:
        """Behind a segment's end: completed segments that are old enough go, never past a cursor."""
        seconds = document.options.retention_seconds
        oldest_ms = time.time_ns() // 1_000_000 - seconds * 1000
        if seconds in NEVER:
            self._delete_leftovers(log_id, document)
            return
        cursors = self._store.cursors(log_id)
        first = document.first
        for segment in document.segments[:-1]:
            if segment.created_ms >= oldest_ms:
                break
            following = document.behind(segment.segment)
            if following is None:
                break
            begin = type(first)((following.segment, 0, 0, following.first_sequence_id, -1))
            if any(at.sequence_id < begin.sequence_id for at in cursors.values()):
                break
            first = begin
        if first is not document.first:
            wanted = first

            def decide(now: LogDocument) -> LogDocument | None:
                changed = now.truncated(wanted)
                return None if changed is now else changed

            document = self._store.change(log_id, decide)
        self._delete_leftovers(log_id, document)


def _close_at_exit(client: LedgerClient, writers: Mapping[str, ClusterWriter], pid: int) -> None:
    """Nobody closed the namespace: what was accepted becomes durable, as far as a few seconds allow."""
    if os.getpid() != pid or client.closed:
        return
    started = time.monotonic_ns()
    for writer in list(writers.values()):
        with suppress(Error):
            writer.finish(time_left(started, AT_EXIT_NS))


def _check_name(name: str) -> None:
    """As a directory has it."""
    wrong = not name or len(name.encode()) > 255 or name.startswith(".") or name.endswith("/")
    if wrong or any(one in " <>" or ord(one) < 32 or ord(one) == 127 for one in name):
        raise InvalidError(
            f"{name!r} is no name of a log: 1 to 255 bytes of UTF-8, not beginning with '.', not ending with '/',"
            " without spaces, control characters, '<' and '>'",
            log=name,
        )
