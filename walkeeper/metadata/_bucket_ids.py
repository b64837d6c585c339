"""BucketIds: new ids for ledgers on etcd, by BookKeeper's rule there.

There are 128 buckets. An id is a bucket's number and how often the bucket's key was written: etcd counts that, so that
its clients and ours never take the same id.
"""

from __future__ import annotations

import itertools
import os

from walkeeper.metadata._ledger_ids import LedgerIdOverflowError
from walkeeper.metadata._settle import TRIES_MAX
from walkeeper.metadata._store import MetadataError, MetadataStore, UnknownOutcomeError

BUCKETS = 128
COUNT_BITS = 56
COUNT_MAX = 2**COUNT_BITS - 1


def count_up(store: MetadataStore, key: str) -> int:
    """Writes the key, empty; how often it was written since it was made. MissingError: there is no key above it.

    MetadataError where the store does not count writes: etcd alone does.
    """
    count = getattr(store, "count_up", None)
    if count is None:
        raise MetadataError(f"{store.uri} does not count the writes of a key: ids by buckets are etcd's", key)
    counted: int = count(key)
    return counted


class BucketIds:
    """The buckets below `root`, one after another; which is the first is chance."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store = store
        self._folder = f"{root}/buckets"
        self._turns = itertools.count(int.from_bytes(os.urandom(4), "big") % BUCKETS)

    def next_id(self) -> int:
        """An id that was not given before. LedgerIdOverflowError; MissingError where there is no cluster.

        Where nobody knows whether a bucket was counted up, its number is lost, and the next bucket is asked.
        """
        unsure: UnknownOutcomeError | None = None
        for _ in range(TRIES_MAX):
            bucket = next(self._turns) % BUCKETS
            key = f"{self._folder}/{bucket:03d}"
            try:
                count = count_up(self._store, key)
            except UnknownOutcomeError as error:
                unsure = error
                continue
            if count > COUNT_MAX:
                raise LedgerIdOverflowError(f"{key} has given all ids up to {COUNT_MAX}", key)
            return bucket << COUNT_BITS | count
        assert unsure is not None
        raise unsure
