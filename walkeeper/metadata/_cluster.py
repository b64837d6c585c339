"""Cluster: the root of a cluster's metadata, in BookKeeper's layout, and the ways to what is below it."""

from __future__ import annotations

import uuid

from walkeeper.metadata._bookies import Bookies
from walkeeper.metadata._cluster_keys import ClusterKeys
from walkeeper.metadata._cookies import Cookies
from walkeeper.metadata._corrupt import corrupt, unsupported, utf8
from walkeeper.metadata._keys import check_new, parent_of
from walkeeper.metadata._layout import Layout, LedgerManager
from walkeeper.metadata._ledgers import Ledgers
from walkeeper.metadata._registration import Registration
from walkeeper.metadata._settle import TRIES_MAX
from walkeeper.metadata._starts import Starts
from walkeeper.metadata._store import (
    ExistsError,
    MetadataError,
    MetadataStore,
    MissingError,
    Operation,
    UnknownOutcomeError,
)

INSTANCE_ID_SIZE_MAX = 256


class Cluster:
    """A cluster on a store. Making one asks the store nothing; `init` makes the cluster itself.

    `keys` are those that BookKeeper uses on such a store, unless others are given.
    """

    def __init__(self, store: MetadataStore, root: str = "/ledgers", keys: ClusterKeys | None = None) -> None:
        self.store = store
        self.root = check_new(root)
        self.keys = ClusterKeys.of(store) if keys is None else keys
        self.cookies = Cookies(store, root)
        self.bookies = Bookies(store, root, self.keys)
        self.starts = Starts(store, root)
        self._ledgers: Ledgers | None = None

    def init(self, manager: LedgerManager | None = None) -> str:
        """The cluster is there when this returns; its instance id. Without `manager` a new one gets BookKeeper's
        default.

        What was there already stays as it is, the instance id before all: a bookie whose cookie has another one may let
        nobody lose what it stores.
        """
        if manager is None:
            manager = self.keys.managers[0]
        elif manager not in self.keys.managers:
            known = ", ".join(each.name for each in self.keys.managers)
            raise MetadataError(f"{self.store.uri} keeps ledgers by {known}, not by {manager.name}")
        wanted = {
            self.root: b"",
            **{f"{self.root}/{name}": b"" for name in self.keys.folders},
            self._instance_key: str(uuid.uuid4()).encode(),
            self._layout_key: Layout.of(manager).serialise(),
        }
        unsure: UnknownOutcomeError | None = None
        for _ in range(TRIES_MAX):
            missing = [key for key in wanted if self.store.get(key, linearizable=True) is None]
            if not missing:
                return self._instance_id()
            try:
                if self.root in missing and self.store.get(parent_of(self.root), linearizable=True) is None:
                    self.store.create(parent_of(self.root), parents=True)
                self.store.transact([Operation("create", key, wanted[key]) for key in missing])
            except (ExistsError, MissingError):
                pass  # somebody else does the same
            except UnknownOutcomeError as error:
                unsure = error
        raise unsure or UnknownOutcomeError(f"{self.root} changes as often as it is looked at", self.root)

    def instance_id(self) -> str | None:
        """The id of the cluster, not older than any write that ended before; None where there is no cluster."""
        try:
            return self._instance_id()
        except MissingError:
            return None

    def _instance_id(self) -> str:
        found = self.store.get(self._instance_key, linearizable=True)
        if found is None:
            raise MissingError(
                f"there is no cluster at {self.root}: it has no {self.keys.instance_id}", self._instance_key
            )
        text = utf8(self._instance_key, found.data)
        if not text or len(text) > INSTANCE_ID_SIZE_MAX or not text.isprintable():
            corrupt(self._instance_key, 0, "this is no instance id", found.data)
        return text

    def layout(self) -> Layout:
        """How ledgers are spread over keys, not older than any write that ended before. MissingError where there is no
        cluster; CorruptMetadataError."""
        found = self.store.get(self._layout_key, linearizable=True)
        if found is None:
            raise MissingError(f"there is no cluster at {self.root}: it has no {self.keys.layout}", self._layout_key)
        return Layout.parse(found.data, self._layout_key)

    @property
    def ledgers(self) -> Ledgers:
        """The cluster's ledgers; asks for the layout at the first time, and raises what `layout` does.

        UnsupportedMetadataError where the layout names a manager that is not known here, or that does not keep ledgers
        on such a store: under the keys of another one there would seem to be none.
        """
        if self._ledgers is None:
            layout = self.layout()
            manager = layout.manager
            if manager not in self.keys.managers:
                unsupported(self._layout_key, 0, f"no ledgers are kept so on {self.store.uri}", layout.serialise())
            self._ledgers = Ledgers(self.store, self.root, manager)
        return self._ledgers

    def registration(self, *, keep: bool = True) -> Registration:
        """A registration for one bookie, which does nothing yet."""
        return Registration(self.store, self.root, self.keys, keep=keep)

    @property
    def _instance_key(self) -> str:
        return f"{self.root}/{self.keys.instance_id}"

    @property
    def _layout_key(self) -> str:
        return f"{self.root}/{self.keys.layout}"
