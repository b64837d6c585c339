"""What a bookie reads and writes in its cluster's metadata, on any store, in BookKeeper's layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from walkeeper.metadata import (
    Cluster,
    Cookie,
    Endpoint,
    Layout,
    LedgerManager,
    ListedLedger,
    MetadataStore,
    MissingError,
    ServiceInfo,
    Versioned,
    Watch,
    open_store,
)
from walkeeper_bookie._kinds import Address

__all__ = ["BookieMetadata", "LayoutError", "open_metadata"]


def open_metadata(uri: str, session_timeout: float, *, create: bool) -> BookieMetadata:
    """Opens the store that a URI names. Raises MetadataError; UnavailableError where it does not answer now;
    MissingError where it is not there, and `create` does not say to make it."""
    opened = open_store(uri, session_timeout=session_timeout, create=create)
    return BookieMetadata(opened.store, opened.root, opened.manager)


class LayoutError(Exception):
    """The cluster's ledgers have other keys than the metadata URI says; `hint` is what to do."""

    def __init__(self, wanted: str, found: str) -> None:
        super().__init__(f"the metadata URI names the layout {wanted}, and the cluster has {found} (LAYOUT)")
        self.hint = "name that one, or none: zk://… takes what the cluster has"


class BookieMetadata:
    """One bookie's view of the cluster. From any thread. Every call raises MetadataError where the store fails it.

    `manager`: the layout that was asked for, or None: what the cluster has, and BookKeeper's default for a new one.
    """

    def __init__(self, store: MetadataStore, root: str, manager: LedgerManager | None = None) -> None:
        self._store, self._root, self._manager = store, root, manager
        self._cluster = Cluster(store, root)
        self._registration = self._cluster.registration(keep=False)  # Registrar does, who looks at the cluster first
        self._cookie: Cookie | None = None
        self._service_info = ServiceInfo()
        self.uri = store.uri

    def close(self) -> None:
        self._store.close()

    def session(self) -> int:
        return self._store.session()

    def on_session(self, callback: Callable[[Literal["lost", "new"]], None]) -> Watch:
        return self._store.on_session(callback)

    # ---- the cluster ----

    def instance_id(self) -> str | None:
        """Which cluster this is, by a linearizable read; None: there is none."""
        return self._cluster.instance_id()

    def initialize(self) -> str:
        """Makes of the cluster's layout what is missing, and overwrites nothing; its INSTANCEID. LayoutError."""
        instance_id = self._cluster.init(self._manager)
        self.check_layout()
        return instance_id

    def check_layout(self) -> None:
        """LayoutError where the cluster has another layout than was asked for; none where there is no cluster."""
        if self._manager is None:
            return
        try:
            found = self._cluster.layout().factory
        except MissingError:
            return
        wanted = Layout.of(self._manager).factory
        if found != wanted:
            raise LayoutError(wanted, found)

    # ---- cookies ----

    def cookie(self, bookie_id: str) -> Cookie | None:
        """By a linearizable read."""
        found = self._cluster.cookies.get(bookie_id)
        return found.value if found is not None else None

    def create_cookie(self, cookie: Cookie) -> None:
        """ExistsError, also where the cookie there is the same: who has written it, this cannot tell, and two bookies
        may be started with the same settings. UnknownOutcomeError."""
        self._store.create(f"{self._root}/cookies/{cookie.bookie_id}", cookie.serialise(), parents=True)

    # ---- starts ----

    def starts(self, bookie_id: str, instance_id: str) -> Versioned[int] | None:
        """How often this bookie was started, by a linearizable read; None: nobody counted yet."""
        return self._cluster.starts.get(bookie_id, instance_id)

    def put_starts(self, bookie_id: str, instance_id: str, number: int, version: int | None) -> None:
        """Instead of what has that version, or with None nothing. ConflictError, MissingError, ExistsError: another
        process did that meanwhile. UnknownOutcomeError."""
        self._cluster.starts.put(bookie_id, instance_id, number, version)

    # ---- ledgers ----

    def ledger_ids(self) -> Iterator[int]:
        """The ids of `listing`."""
        return self._cluster.ledgers.ids()

    def listing(self) -> Iterator[ListedLedger]:
        """All of them, under the keys of any layout, rising. One that ends without an exception is whole."""
        return self._cluster.ledgers.listing()

    def layout(self) -> str:
        """What LAYOUT says, in its words."""
        return self._cluster.layout().factory

    def ledger_exists(self, ledger_id: int) -> bool:
        """By linearizable reads under the keys of every layout, whatever LAYOUT says."""
        return self._cluster.ledgers.exists_linearizable(ledger_id)

    def ledger_members(self, ledger_id: int) -> frozenset[str] | None:
        """The bookies of all its ensembles; None: there is no such ledger under a key of any layout."""
        found = self._cluster.ledgers.read_under_any_key(ledger_id)
        if found is None:
            return None
        return frozenset(member for ensemble in found.segments.values() for member in ensemble)

    # ---- registration ----

    def publish(self, cookie: Cookie, address: Address, http: Address | None, free_bytes: int | None = None) -> None:
        """What the next registration says, the free space where it is known. The cookie is this bookie's, and it holds
        its directory's lock: what stands there of an earlier session is taken over."""
        endpoints = ServiceInfo.of_bookie(address.host, address.port).endpoints
        if http is not None:
            host = address.host if http.is_wildcard else http.host
            endpoints += (Endpoint("httpserver", host, http.port, "http"),)
        self._cookie, self._service_info = cookie, ServiceInfo(endpoints)
        if free_bytes is not None:
            self._service_info = self._service_info.with_free_bytes(free_bytes)

    def register(self, read_only: bool) -> None:
        """Registered so and not otherwise when it returns, in this session."""
        assert self._cookie is not None
        self._registration.register(self._cookie.bookie_id, self._service_info, read_only, cookie=self._cookie)

    def publish_free_bytes(self, free_bytes: int) -> None:
        """The registration says so when this returns, and so does the next one; clients find it all the while."""
        self._service_info = self._service_info.with_free_bytes(free_bytes)
        self._registration.update(self._service_info)

    def registered(self) -> bool:
        """Whether that is so, and clients find it."""
        return self._registration.check()

    def unregister(self) -> None:
        """Clients do not find it any more."""
        self._registration.unregister()
