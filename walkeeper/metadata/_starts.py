"""Starts: how often each bookie was started, so that an older copy of its directory is told from it.

These keys are our own, and stand beside BookKeeper's tree and not in it: its tools take what they find there for
ledgers and bookies.
"""

from __future__ import annotations

import re

from walkeeper.metadata._bookie_id import check_bookie_id
from walkeeper.metadata._corrupt import corrupt, unsupported, utf8
from walkeeper.metadata._settle import Versioned, settle
from walkeeper.metadata._store import MetadataStore

_FORMAT = re.compile("([0-9]{1,9})\n(?:([^\n]{1,256})\n([0-9]{1,18})\n)?")
_VERSION = 1


class Starts:
    """The numbers of starts in the cluster below `root`."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store = store
        self._folder = f"{root}-walkeeper/starts"

    def get(self, bookie_id: str, instance_id: str) -> Versioned[int] | None:
        """The bookie's number, not older than any write that ended before; None where there is none. 0 where it was
        counted in another cluster: one that was at this root before.

        CorruptMetadataError, UnsupportedMetadataError.
        """
        key = self._key(bookie_id)
        found = self._store.get(key, linearizable=True)
        if found is None:
            return None
        cluster, number = _parse(found.data, key)
        return Versioned(number if cluster == instance_id else 0, found.version)

    def put(self, bookie_id: str, instance_id: str, number: int, version: int | None) -> int:
        """Instead of the one with that version, or with None the first; the new version. ConflictError, MissingError,
        ExistsError."""
        key, data = self._key(bookie_id), f"{_VERSION}\n{instance_id}\n{number}\n".encode()

        def write() -> int:
            if version is None:
                return self._store.create(key, data, parents=True)
            return self._store.put(key, data, version)

        def find() -> int | None:
            found = self._store.get(key, linearizable=True)
            return found.version if found is not None and found.data == data else None

        return settle(write, find)

    def _key(self, bookie_id: str) -> str:
        return f"{self._folder}/{check_bookie_id(bookie_id)}"


def _parse(data: bytes, key: str) -> tuple[str, int]:
    """The cluster's instance id, and the number."""
    found = _FORMAT.match(utf8(key, data))
    if found is not None and int(found[1]) > _VERSION:
        unsupported(key, 0, f"version {_VERSION} is known", data)
    if found is None or found[3] is None or found.end() != len(found.string) or int(found[1]) != _VERSION:
        corrupt(key, 0, "a version, an instance id and a number were expected, a line each", data)
    return found[2], int(found[3])
