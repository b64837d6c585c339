"""LedgerClient: the ledgers of a cluster."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from walkeeper import metadata as stores
from walkeeper._native import ffi, lib
from walkeeper._options import BACKENDS, FOREVER, Backend, choice, flag, nanoseconds, natural, time_left, uninterrupted
from walkeeper.errors import InvalidError, NotFoundError, UnsupportedError, new_error, shown
from walkeeper.ledgers._bookie_choice import BookieChoice, Racks, racks_of
from walkeeper.ledgers._bookie_numbers import BookieNumbers, address_of
from walkeeper.ledgers._completions import Completions
from walkeeper.ledgers._ensemble_change import EnsembleChanges
from walkeeper.ledgers._ensemble_pool import EnsemblePool
from walkeeper.ledgers._errors import failure, translated
from walkeeper.ledgers._metadata_change import End, read, recover
from walkeeper.ledgers._native_handles import NativeClient, NativeHandle
from walkeeper.ledgers._reader import LedgerReader
from walkeeper.ledgers._spec import Digest, Secret, check_password, digest_type, new_spec, secret_of
from walkeeper.ledgers._writer import LedgerWriter
from walkeeper.ledgers.placement import DealingPolicy, PlacementPolicy, policy_of
from walkeeper.metadata import Cluster, LedgerManager, LedgerMetadata, Ledgers, MetadataStore, OpenedStore, open_store

__all__ = ["BookieInfo", "BookieState", "LedgerClient"]

BookieState = Literal["writable", "read-only", "down"]
_AT_EXIT_NS = 1_000_000_000
"""How long the exit of the process waits for the callbacks of futures."""


@dataclass(frozen=True, slots=True)
class BookieInfo:
    """A bookie of the cluster, as the metadata have it."""

    bookie_id: str
    state: BookieState
    """Whether it takes new entries, only reads, or is not registered: not up, or cut off from the metadata."""
    address: str | None
    """HOST:PORT at which it serves; None where it is down and its id is no address."""


class LedgerClient:
    """A client of the ledgers of one cluster. Every method may be called from any thread.

    `metadata` is the URI of the cluster's metadata store ("zk://HOST:PORT/ledgers", "sqlite:PATH"), or a store that was
    opened by walkeeper.metadata.open_store, which the client then owns. `create` makes the cluster's metadata where
    there are none. `session_timeout`: seconds after which a silent connection to the store is given up.

    Of bookies, in seconds: `connect_timeout`; `add_timeout`, after which a bookie that does not answer an add is left
    out; `read_timeout`, after which one that does not answer a read has failed there (others are asked long before).
    `link_bytes`: requests to one bookie that are not sent yet; beyond it the bookie is left out.

    `placement` chooses the bookies of new ledgers, and others for those that fail: "random", "weighted" (by free
    space), "rack_aware", "centralised" (by free space, dealt by one client for all), a
    walkeeper.ledgers.placement.PlacementPolicy, or the name of an entry point in the group "walkeeper.placement".
    `racks` says in which rack a bookie stands: a mapping of bookie ids ("HOST:PORT") to racks ("/dc1/rack1"), or a
    callable. A bookie of which it says nothing is in "/default-rack".

    A context manager: leaving it closes the client. It closes no ledger: writers do. A client belongs to the process
    that made it: in a forked child every call but close() raises ForkedError.

    Raises, here and in every method that asks the store: UnavailableError where the store does not answer (its
    `outcome` is "unknown" where something may have been written). Here also NotFoundError: there is no cluster;
    UnsupportedError: the URI, or what the cluster has, is not known here.
    """

    def __init__(
        self,
        metadata: str | OpenedStore,
        *,
        create: bool = False,
        session_timeout: float = 10.0,
        connect_timeout: float = 5.0,
        add_timeout: float = 5.0,
        read_timeout: float = 5.0,
        link_bytes: int = 64 * 1024 * 1024,
        backend: Backend = "auto",
        placement: str | PlacementPolicy = "random",
        racks: Racks | None = None,
    ) -> None:
        policy, rack_of = policy_of(placement), racks_of(racks)
        options = ffi.new("wk_client_options *")
        lib.wk_client_options_init(options)
        options.backend = choice("backend", backend, BACKENDS)
        # C takes 0 for "the default"; a caller who writes 0 means as little as can be.
        options.connect_timeout_ns = max(1, nanoseconds(connect_timeout, "connect_timeout"))
        options.add_timeout_ns = max(1, nanoseconds(add_timeout, "add_timeout"))
        options.read_timeout_ns = max(1, nanoseconds(read_timeout, "read_timeout"))
        options.link_bytes_max = max(1, natural("link_bytes", link_bytes))
        makes = flag("create", create)
        if not isinstance(metadata, (str, OpenedStore)):
            raise InvalidError(f"metadata={shown(metadata)}: a URI is wanted, or an opened store")
        opened = metadata
        if isinstance(opened, str):
            with translated(f"opening {opened!r}", otherwise=UnsupportedError):
                opened = open_store(opened, session_timeout=session_timeout, create=makes)
        try:
            self._uri = opened.store.uri
            self._cluster = _cluster_of(opened, makes)
            self._native = NativeClient(options)
        except BaseException:
            opened.store.close()
            raise
        self._completions = Completions(self._native)
        self._numbers = BookieNumbers(self._native, self._cluster.bookies)
        self._choice = BookieChoice(self._cluster.bookies, policy, rack_of)
        pool = None
        if isinstance(policy, DealingPolicy):
            pool = EnsemblePool(opened.store, self._cluster.root, policy.dealer, self._choice.candidates)
            self._choice.claim_from(pool)
        self._changes = EnsembleChanges(self._native, self._cluster, self._numbers, self._choice)
        self._finalizer = weakref.finalize(
            self, _close, self._native, self._completions, self._changes, pool, opened.store, _AT_EXIT_NS
        )
        self._pool = pool

    @property
    def uri(self) -> str:
        """The metadata store."""
        return self._uri

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._native.closed

    def create(
        self,
        *,
        ensemble_size: int = 3,
        write_quorum: int = 3,
        ack_quorum: int = 2,
        digest: Digest = "crc32c",
        password: bytes = b"",
        custom_metadata: Mapping[str, bytes] | None = None,
        ledger_id: int | None = None,
    ) -> LedgerWriter:
        """A new ledger, and its writer. Its metadata are stored when this returns; no bookie is asked.

        Entries are spread over `ensemble_size` bookies that are up and writable; the placement policy chooses. Each
        goes to `write_quorum` of them, and is confirmed when `ack_quorum` have it durable: it survives the loss of
        `ack_quorum` - 1 bookies, and adds go on while `write_quorum` - `ack_quorum` of them are down. `digest` is what
        shows that an entry is whole; "hmac" shows also that its writer knew `password`. The metadata hold the password
        and `custom_metadata` in clear. Without `ledger_id` the cluster gives the next one.

        InvalidError: sizes, digest or id that cannot be. Nothing was created: NotEnoughBookiesError; ExistsError (there
        is a ledger with that id). UnavailableError, with outcome "unknown" where an empty ledger may have been created.
        """
        secret = secret_of(password, digest)
        size = natural("ensemble_size", ensemble_size)
        quorums = natural("write_quorum", write_quorum), natural("ack_quorum", ack_quorum)
        wanted = None if ledger_id is None else natural("ledger_id", ledger_id)
        if not 1 <= quorums[1] <= quorums[0] <= size <= lib.WK_ENSEMBLE_MAX:
            raise InvalidError(
                f"ensemble_size={size}, write_quorum={quorums[0]}, ack_quorum={quorums[1]}: each is at most the one"
                f" before, all at least 1, and the first at most {lib.WK_ENSEMBLE_MAX}",
                outcome="not_written",
            )
        self._check()
        with translated("creating a ledger", ledger_id=wanted, writes=True):
            ensemble = self._choice.new_ensemble(size, *quorums)
            numbers = self._numbers.of(ensemble)
            metadata = LedgerMetadata(
                size,
                *quorums,
                segments={0: ensemble},
                digest_type=digest_type(digest),
                password=bytes(password),
                ctime=time.time_ns() // 1_000_000,
                custom_metadata=_custom(custom_metadata),
            )
            created = self._cluster.ledgers.create(metadata, wanted)
        spec, kept = new_spec(created.ledger_id, metadata, numbers, secret)
        handle = NativeHandle(self._native, created.ledger_id, spec, lib.WK_HANDLE_WRITE)
        del kept  # until here C looked at it
        return LedgerWriter(self, handle, metadata)

    def open(
        self, ledger_id: int, *, password: bytes = b"", digest: Digest = "crc32", timeout: float | None = None
    ) -> LedgerReader:
        """A reader of the whole ledger, whose end is known and fixed when this returns.

        A ledger that is not closed is recovered: its bookies are fenced, so that its writer is told of no further add;
        its end is found, and written to the metadata. Every entry that the writer was told is confirmed is there. One
        that was on its way may be there. Several clients may do this at once: they agree on the end.

        `digest` counts only where the metadata name none (those that BookKeeper wrote before version 4.2). `timeout`,
        in seconds, is for the recovery.

        LedgerNotFoundError; UnauthorizedError: another password. UnavailableError: too few bookies answer to be certain
        of the end; DamagedError: an entry that was perhaps acknowledged is on no bookie that answers as it should be;
        TimeoutError. Then the ledger is fenced, or not, and stays in recovery: open it again when more bookies are up.
        """
        secret, timeout_ns = secret_of(password, digest), nanoseconds(timeout)
        ledger_id = natural("ledger_id", ledger_id)
        self._check()
        metadata = self._metadata_of(ledger_id)
        check_password(ledger_id, metadata, password)
        reader = LedgerReader(self, self._read_handle(ledger_id, metadata, secret), metadata, secret)
        if metadata.is_closed:
            return reader
        started = time.monotonic_ns()

        def find_end(now: LedgerMetadata) -> End:
            reader._go_by(now)
            return _recovered(reader._native, time_left(started, timeout_ns))

        with translated(f"recovering ledger {ledger_id}", ledger_id=ledger_id):
            found = recover(self._cluster.ledgers, ledger_id, find_end)
        reader._go_by(found.value)
        return reader

    def open_no_recovery(self, ledger_id: int, *, password: bytes = b"", digest: Digest = "crc32") -> LedgerReader:
        """A reader that leaves a ledger's writer alone. Of a ledger that is not closed it reads up to the LAC that its
        bookies know; read_last_confirmed() asks for a newer one.

        LedgerNotFoundError; UnauthorizedError; UnavailableError: too few bookies answer to know the LAC. `digest` is as
        for open.
        """
        secret = secret_of(password, digest)
        ledger_id = natural("ledger_id", ledger_id)
        self._check()
        metadata = self._metadata_of(ledger_id)
        check_password(ledger_id, metadata, password)
        reader = LedgerReader(self, self._read_handle(ledger_id, metadata, secret), metadata, secret)
        if not metadata.is_closed:
            reader._ask(FOREVER)
        return reader

    def delete(self, ledger_id: int) -> None:
        """The ledger is gone when this returns; one that is not there is no error. Its bookies give the space back when
        they next look which ledgers there are.

        A writer of the ledger is not told before it closes. UnavailableError, with outcome "unknown" where the ledger
        may be gone.
        """
        ledger_id = natural("ledger_id", ledger_id)
        self._check()
        with translated(f"deleting ledger {ledger_id}", ledger_id=ledger_id, writes=True):
            self._cluster.ledgers.delete(ledger_id)

    def list(self) -> Iterator[int]:
        """The ids of all ledgers, rising. One that is created or deleted meanwhile may be missing or not.

        A listing that ended by an error is none.
        """
        self._check()
        return self._listed()

    def _listed(self) -> Iterator[int]:
        with translated("listing the ledgers"):
            for listed in self._cluster.ledgers.listing():
                if listed.own:
                    yield listed.ledger_id

    def metadata(self, ledger_id: int) -> LedgerMetadata:
        """What the metadata store has of the ledger: its state, its bookies, its end. LedgerNotFoundError."""
        self._check()
        return self._metadata_of(natural("ledger_id", ledger_id))

    def bookies(self) -> tuple[BookieInfo, ...]:
        """All bookies that the cluster knows, by id: those that are up, and those that have a cookie."""
        self._check()
        bookies = self._cluster.bookies
        with translated("listing the bookies"):
            writable, read_only = set(bookies.writable_bookies()), set(bookies.read_only_bookies())
            found = []
            for bookie_id in sorted({*bookies.all_bookies(), *writable, *read_only}):
                state: BookieState = "read-only" if bookie_id in read_only else "down"
                if bookie_id in writable:
                    state = "writable"
                address = address_of(bookies, bookie_id)
                found.append(BookieInfo(bookie_id, state, None if address is None else _shown(*address)))
            return tuple(found)

    def close(self, timeout: float | None = None) -> None:
        """Closes the connections. Calls that wait raise ClosedError; adds whose futures are not done are of unknown
        outcome. Ledgers that are not closed stay so: close their writers before.

        `timeout`, in seconds, is for the callbacks of futures that are being called. Closing twice is fine. In a forked
        child it only forgets the client: it is the parent's.
        """
        timeout_ns = nanoseconds(timeout)
        if self._finalizer.detach() is not None:
            _close(self._native, self._completions, self._changes, self._pool, self._cluster.store, timeout_ns)

    def __enter__(self) -> LedgerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<walkeeper.LedgerClient of {self._uri!r}, {'closed' if self.closed else 'open'}>"

    def _check(self) -> None:
        """Raises ClosedError, ForkedError."""
        with self._native:
            pass

    @property
    def _ledgers(self) -> Ledgers:
        self._check()
        return self._cluster.ledgers

    def _metadata_of(self, ledger_id: int) -> LedgerMetadata:
        with translated(f"reading the metadata of ledger {ledger_id}", ledger_id=ledger_id):
            return read(self._ledgers, ledger_id).value

    def _spec_of(self, ledger_id: int, metadata: LedgerMetadata, secret: Secret) -> tuple[Any, Any]:
        """A wk_ledger_spec with the bookies that the metadata name, and what it points to."""
        with translated(f"looking for the bookies of ledger {ledger_id}", ledger_id=ledger_id):
            numbers = self._numbers.of(name for names in metadata.segments.values() for name in names)
        return new_spec(ledger_id, metadata, numbers, secret)

    def _read_handle(self, ledger_id: int, metadata: LedgerMetadata, secret: Secret) -> NativeHandle:
        spec, kept = self._spec_of(ledger_id, metadata, secret)
        handle = NativeHandle(self._native, ledger_id, spec, lib.WK_HANDLE_READ)
        del kept  # until here C looked at it
        return handle


def _cluster_of(opened: OpenedStore, create: bool) -> Cluster:
    """The cluster in the store. NotFoundError, UnsupportedError."""
    cluster = Cluster(opened.store, opened.root)
    uri = opened.store.uri
    with translated(f"opening {uri!r}"):
        if create:
            cluster.init(opened.manager or LedgerManager.HIERARCHICAL)
        try:
            found = cluster.layout().manager
        except stores.MissingError as error:
            hint = "a bookie that is started with --init makes one"
            raise NotFoundError(f"there is no cluster at {uri}: {error}", hint=hint) from error
        if opened.manager not in (None, found):
            raise UnsupportedError(f"{uri!r} names the layout {opened.layout}, and the cluster has {found.value}")
    return cluster


def _custom(custom_metadata: Mapping[str, bytes] | None) -> dict[str, bytes]:
    """A copy. InvalidError where it is not bytes by text."""
    found = dict(custom_metadata or {})
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, bytes):
            raise InvalidError(f"custom_metadata={shown(custom_metadata)}: a mapping of str to bytes is wanted")
    return found


def _recovered(handle: NativeHandle, timeout_ns: int) -> End:
    """What the bookies say of the end of a ledger that is IN_RECOVERY."""
    last, length, error = ffi.new("int64_t *", -1), ffi.new("uint64_t *"), new_error()
    with handle as native:
        status = uninterrupted(lambda left: lib.wk_handle_recover(native, left, last, length, error), timeout_ns)
    if status != lib.WK_OK:
        raise failure(status, error, handle.ledger_id)
    return int(last[0]), int(length[0])


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _close(
    native: NativeClient,
    completions: Completions,
    changes: EnsembleChanges,
    pool: EnsemblePool | None,
    store: MetadataStore,
    timeout_ns: int,
) -> None:
    changes.stop()
    if pool is not None:
        pool.stop()
    native.stop()
    if not native.forked:
        completions.stop(timeout_ns)
        store.close()
        if pool is not None:
            pool.join()
