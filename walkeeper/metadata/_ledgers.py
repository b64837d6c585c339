"""Ledgers: their metadata in the store. A ledger exists if and only if its metadata does."""

from __future__ import annotations

import heapq
import os
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from walkeeper.metadata._bucket_ids import BucketIds
from walkeeper.metadata._layout import LONG_LEVELS, SHORT_LEVELS, LedgerManager
from walkeeper.metadata._ledger_ids import LedgerIds
from walkeeper.metadata._ledger_metadata import FORMAT_VERSION, LedgerMetadata
from walkeeper.metadata._settle import TRIES_MAX, Versioned, settle, settle_delete
from walkeeper.metadata._store import (
    ExistsError,
    MetadataError,
    MetadataStore,
    MissingError,
)


class CreatedLedger(NamedTuple):
    """A new ledger, and the version of its metadata."""

    ledger_id: int
    version: int


class ListedLedger(NamedTuple):
    """A ledger of the listing. `own`: its key is that of the cluster's layout; else a client keeps it under another."""

    ledger_id: int
    own: bool


class Ledgers:
    """The ledgers of the cluster below `root`."""

    def __init__(self, store: MetadataStore, root: str, manager: LedgerManager) -> None:
        self._store = store
        self._root = root
        self._manager = manager
        self._ids: LedgerIds | BucketIds
        if manager is LedgerManager.ETCD:
            self._ids = BucketIds(store, root)
        else:
            self._ids = LedgerIds(store, root, manager)

    def next_id(self) -> int:
        """An id for a new ledger, which no other client is given. LedgerIdOverflowError."""
        return self._ids.next_id()

    def create(self, metadata: LedgerMetadata, ledger_id: int | None = None) -> CreatedLedger:
        """A new ledger, with the next id where none is given. ExistsError: the ledger with that id is another's."""
        if ledger_id is not None:
            return CreatedLedger(ledger_id, self._create(ledger_id, metadata))
        while True:
            ledger_id = self.next_id()
            try:
                return CreatedLedger(ledger_id, self._create(ledger_id, metadata))
            except ExistsError:
                pass  # somebody chose this id by himself

    def _create(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        """By the token the creator knows its own node again, when the answer to its first try was lost."""
        token = int.from_bytes(os.urandom(8), "big") >> 1
        data = replace(metadata, ctoken=token, format_version=FORMAT_VERSION).serialise()
        key = self._key(ledger_id)

        def create() -> int:
            for _ in range(TRIES_MAX):
                try:
                    return self._store.create(key, data, parents=True)
                except MissingError:  # noqa: PERF203 - it rarely is
                    pass  # whoever deleted the last ledger beside this one took the parents with it
            raise MetadataError(f"the parents of {key} vanish as often as they are made", key)

        def find() -> int | None:
            found = self.read(ledger_id, linearizable=True)
            return found.version if found is not None and found.value.ctoken == token else None

        return settle(create, find)

    def read(self, ledger_id: int, *, linearizable: bool = False) -> Versioned[LedgerMetadata] | None:
        """The ledger's metadata, None where there is no such ledger. CorruptMetadataError, UnsupportedMetadataError.

        `linearizable`: not older than any write that ended before.
        """
        key = self._key(ledger_id)
        found = self._store.get(key, linearizable=linearizable)
        return None if found is None else Versioned(LedgerMetadata.parse(found.data, key), found.version)

    def exists_linearizable(self, ledger_id: int) -> bool:
        """Whether there is such a ledger, under a key of any layout; True also of one whose metadata cannot be read."""
        return any(self._store.get(key, linearizable=True) is not None for key in self._keys(ledger_id))

    def read_under_any_key(self, ledger_id: int) -> LedgerMetadata | None:
        """The ledger's metadata, under the first key of any layout that has them; None where there is no such ledger.
        CorruptMetadataError, UnsupportedMetadataError."""
        for key in self._keys(ledger_id):
            found = self._store.get(key)
            if found is not None:
                return LedgerMetadata.parse(found.data, key)
        return None

    def write(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        version: int,
        done: Callable[[LedgerMetadata], bool] | None = None,
    ) -> int:
        """Instead of what has that version, in the format that `metadata` was read with; the new version.

        After an attempt whose outcome nobody knows the ledger is read again: where `done` says so of its metadata
        (else: where they are the same) the write counts as done, whoever made it.

        ConflictError, MissingError: somebody else wrote, or deleted it. Nothing of this was written, or, after such an
        attempt, it was written and overwritten: read, and decide again.
        """
        metadata = replace(metadata, ctoken=None)
        data = metadata.serialise(metadata.format_version)
        key = self._key(ledger_id)

        def find() -> int | None:
            found = self.read(ledger_id, linearizable=True)
            if found is None:
                return None
            value = replace(found.value, ctoken=None)
            return found.version if (value == metadata if done is None else done(value)) else None

        return settle(lambda: self._store.put(key, data, version), find)

    def delete(self, ledger_id: int, version: int | None = None) -> None:
        """The ledger is gone; one that is not there is no error. ConflictError where `version` is another one.

        The bookies learn of it when they next look which ledgers there are.
        """
        key = self._key(ledger_id)
        settle_delete(lambda: self._store.delete(key, version))
        self._prune(key)

    def _prune(self, key: str) -> None:
        """Empty parents go, as far as they can. On etcd there is one, which every cluster has."""
        if self._manager is LedgerManager.ETCD:
            return
        while (key := key.rpartition("/")[0]) != self._root:
            try:
                self._store.delete(key)
            except MissingError:  # noqa: PERF203 - the next may be there
                pass
            except MetadataError:
                return  # it is not empty, or the next deletion beside this one takes it

    def ids(self, *, page: int = 1000) -> Iterator[int]:
        """The ids of all ledgers, as `listing` has them."""
        return (listed.ledger_id for listed in self.listing(page=page))

    def listing(self, *, page: int = 1000) -> Iterator[ListedLedger]:
        """All ledgers, under the keys of any layout, their ids rising; the store is asked for `page` names at a time.

        A ledger that is made or deleted meanwhile may be missing or not. MissingError where there is no cluster. A
        listing that ended by an error is no listing.
        """
        if self._manager is LedgerManager.ETCD:
            for name in self._store.scan(f"{self._root}/ledgers", page=page):
                ledger_id = self._manager.ledger_id(f"ledgers/{name}")
                if ledger_id is not None:
                    yield ListedLedger(ledger_id, True)
            return
        short: list[str] = []
        long: list[str] = []
        flat: array[int] = array("q")
        for name in self._store.scan(self._root, page=page):
            if SHORT_LEVELS[0].fullmatch(name):
                short.append(name)
            elif LONG_LEVELS[0].fullmatch(name):
                long.append(name)
            elif (found := self._manager.ledger_id(name)) is not None:
                flat.append(found)
        is_flat = self._manager is LedgerManager.FLAT
        forms = (
            ((ledger_id, is_flat) for ledger_id in sorted(flat)),
            self._walk_folders(short, SHORT_LEVELS, page),
            self._walk_folders(long, LONG_LEVELS, page),
        )
        for ledger_id, keys in groupby(heapq.merge(*forms), lambda listed: listed[0]):
            yield ListedLedger(ledger_id, any(own for _, own in keys))

    def _walk_folders(self, names: list[str], form: Sequence[re.Pattern[str]], page: int) -> Iterator[tuple[int, bool]]:
        for name in names:
            yield from self._walk(name, form[1:], page)

    def _walk(self, path: str, form: Sequence[re.Pattern[str]], page: int) -> Iterator[tuple[int, bool]]:
        """The ledgers below a folder, each with whether its key is that of the layout. Names of one level are of one
        length, so that their byte order is that of the ids."""
        try:
            for name in self._store.scan(f"{self._root}/{path}", page=page):
                if not form[0].fullmatch(name):
                    continue
                below = f"{path}/{name}"
                if len(form) > 1:
                    yield from self._walk(below, form[1:], page)
                else:
                    ledger_id = self._manager.ledger_id(below)
                    if ledger_id is not None:
                        yield ledger_id, ledger_id <= self._manager.id_max and self._manager.path(ledger_id) == below
        except MissingError:
            pass  # its last ledger was deleted meanwhile, and the folder with it

    def _keys(self, ledger_id: int) -> Iterator[str]:
        return (f"{self._root}/{path}" for path in self._manager.paths(ledger_id))

    def _key(self, ledger_id: int) -> str:
        return f"{self._root}/{self._manager.path(ledger_id)}"
