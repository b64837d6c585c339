"""What a bookie reads and writes in its cluster's metadata, on any store, in BookKeeper's layout."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from walkeeper.metadata import (
    ConflictError,
    Cookie,
    CorruptMetadataError,
    Endpoint,
    ExistsError,
    Layout,
    LedgerManager,
    LedgerMetadata,
    MetadataError,
    MetadataStore,
    MissingError,
    Operation,
    ServiceInfo,
    UnknownOutcomeError,
    Watch,
    open_store,
)
from walkeeper_bookie._kinds import Address

__all__ = ["BookieMetadata", "open_metadata"]

REGISTER_TRIES = 10


def open_metadata(uri: str, session_timeout: float) -> BookieMetadata:
    """Opens the store that a URI names. Raises MetadataError; UnavailableError where it does not answer now."""
    store, root, _ = open_store(uri, session_timeout=session_timeout)
    return BookieMetadata(store, root)


class BookieMetadata:
    """One bookie's view of the cluster. From any thread. Every call raises MetadataError where the store fails it."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store, self._root = store, root
        self.uri = store.uri
        self._manager: LedgerManager | None = None
        self._bookie_id = ""
        self._service_info = b""
        self._registered: tuple[int, str, int] | None = None
        """Session, key and version of the registration that was made here."""

    def close(self) -> None:
        self._store.close()

    def session(self) -> int:
        return self._store.session()

    def on_session(self, callback: Callable[[Literal["lost", "new"]], None]) -> Watch:
        return self._store.on_session(callback)

    # ---- the cluster ----

    def instance_id(self) -> str | None:
        """Which cluster this is, by a linearizable read; None: there is none."""
        value = self._store.get(f"{self._root}/INSTANCEID", linearizable=True)
        return value.data.decode("utf-8", "replace").strip() if value is not None else None

    def initialize(self) -> str:
        """Makes of the cluster's layout what is missing, and overwrites nothing; its INSTANCEID."""
        for key in ("", "/available", "/available/readonly", "/cookies"):
            self._make(self._root + key, b"")
        self._make(f"{self._root}/LAYOUT", Layout().serialise())
        self._make(f"{self._root}/INSTANCEID", str(uuid.uuid4()).encode())
        found = self.instance_id()
        if found is None:
            raise MetadataError("the INSTANCEID that was just there is gone")
        return found

    def _make(self, key: str, data: bytes) -> None:
        if self._store.get(key) is None:
            try:
                self._store.create(key, data, parents=True)
            except ExistsError:
                pass

    # ---- cookies ----

    def cookie(self, bookie_id: str) -> Cookie | None:
        value = self._store.get(f"{self._root}/cookies/{bookie_id}", linearizable=True)
        return Cookie.parse(value.data, f"the cookie of {bookie_id} in the cluster") if value is not None else None

    def create_cookie(self, cookie: Cookie) -> None:
        """ExistsError; UnknownOutcomeError."""
        self._store.create(f"{self._root}/cookies/{cookie.bookie_id}", cookie.serialise(), parents=True)

    # ---- ledgers ----

    def ledger_ids(self) -> Iterator[int]:
        """All of them, in any order. One that ends without an exception is whole."""
        manager = self._ledger_manager()
        for levels in manager.levels:
            for path in self._below(self._root, "", levels):
                ledger_id = manager.ledger_id(path)
                if ledger_id is not None:
                    yield ledger_id
        if self._store.get(f"{self._root}/INSTANCEID") is None:
            raise MetadataError("the cluster vanished while its ledgers were listed")

    def _below(self, key: str, path: str, levels: Sequence[re.Pattern[str]]) -> Iterator[str]:
        try:
            names = [name for name in self._store.scan(key) if levels[0].fullmatch(name)]
        except MissingError:
            if not path:
                raise
            return  # a key above ledgers goes with the last of them
        for name in names:
            below = f"{path}/{name}" if path else name
            if len(levels) == 1:
                yield below
            else:
                yield from self._below(f"{key}/{name}", below, levels[1:])

    def ledger_exists(self, ledger_id: int) -> bool:
        """By a linearizable read."""
        return self._store.get(self._ledger_key(ledger_id), linearizable=True) is not None

    def ledger_members(self, ledger_id: int) -> frozenset[str] | None:
        """The bookies of all its ensembles; None: there is no such ledger."""
        value = self._store.get(self._ledger_key(ledger_id))
        if value is None:
            return None
        found = LedgerMetadata.parse(value.data, f"the metadata of ledger {ledger_id}")
        return frozenset(member for ensemble in found.segments.values() for member in ensemble)

    def _ledger_key(self, ledger_id: int) -> str:
        try:
            return f"{self._root}/{self._ledger_manager().path(ledger_id)}"
        except ValueError as wrong:
            raise MetadataError(str(wrong)) from None

    def _ledger_manager(self) -> LedgerManager:
        """As LAYOUT says; it never changes."""
        if self._manager is None:
            value = self._store.get(f"{self._root}/LAYOUT", linearizable=True)
            if value is None:
                raise CorruptMetadataError("LAYOUT", 0, "the cluster has none; --init makes it")
            self._manager = Layout.parse(value.data).manager
        return self._manager

    # ---- registration ----

    def publish(self, bookie_id: str, address: Address, http_port: int | None) -> None:
        """What the next registration says."""
        info = ServiceInfo.of_bookie(address.host, address.port)
        endpoints = info.endpoints
        if http_port is not None:
            endpoints += (Endpoint("httpserver", address.host, http_port, "http"),)
        self._bookie_id = bookie_id
        self._service_info = ServiceInfo(endpoints).serialise()

    def register(self, read_only: bool) -> None:
        """Registered so and not otherwise when it returns, in this session. What stands there of an earlier session is
        taken over: who calls holds the directory's lock and a matching cookie."""
        wanted, other = self._keys(read_only)
        for _ in range(REGISTER_TRIES):
            session = self._store.session()
            try:
                self._register(session, wanted, other)
            except (ExistsError, ConflictError, MissingError, UnknownOutcomeError):
                continue  # another session's end came between, or nobody knows: look again
            return
        raise MetadataError(f"{wanted} changes whenever it is looked at")

    def _register(self, session: int, wanted: str, other: str) -> None:
        there, elsewhere = self._store.get(wanted, linearizable=True), self._store.get(other, linearizable=True)
        steps = [Operation("delete", other, version=elsewhere.version)] if elsewhere is not None else []
        if there is not None:
            if self._registered == (session, wanted, there.version):
                if steps:
                    self._store.transact(steps)
                return
            self._store.delete(wanted, there.version)
        versions = self._store.transact([Operation("create", wanted, self._service_info, ephemeral=True), *steps])
        assert versions[0] is not None
        self._registered = (session, wanted, versions[0])

    def registered(self, read_only: bool) -> bool:
        """Whether that is so, and by this session."""
        wanted, _ = self._keys(read_only)
        there = self._store.get(wanted, linearizable=True)
        return there is not None and self._registered == (self._store.session(), wanted, there.version)

    def unregister(self) -> None:
        """Clients do not find it any more."""
        if self._registered is None:
            return
        session, key, version = self._registered
        self._registered = None
        if session == self._store.session():
            try:
                self._store.delete(key, version)
            except (MissingError, ConflictError):
                pass

    def _keys(self, read_only: bool) -> tuple[str, str]:
        writable = f"{self._root}/available/{self._bookie_id}"
        below = f"{self._root}/available/readonly/{self._bookie_id}"
        return (below, writable) if read_only else (writable, below)
