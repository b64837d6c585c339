"""The pool of dealt ensembles on every store: the lease is one client's, a batch fits, and a claim is one ledger's."""

from __future__ import annotations

from collections import Counter

import pytest
from metadata.stores import Backing, until

from walkeeper.ledgers._ensemble_pool import POOL_ENSEMBLES, EnsemblePool
from walkeeper.ledgers.placement import Candidate, FairDealer
from walkeeper.metadata import Cluster, MetadataStore

QUORUMS = (3, 3, 2)


class Dealing(EnsemblePool):
    """Without a thread: the test takes its turns."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        super().__init__(store, root, FairDealer, lambda _: [Candidate(f"b{number}") for number in range(6)])

    def _begin(self) -> None:
        pass


@pytest.fixture
def pool(cluster: Cluster) -> Dealing:
    return Dealing(cluster.store, cluster.root)


@pytest.fixture
def beside(cluster: Cluster, other: MetadataStore) -> Dealing:
    return Dealing(other, cluster.root)


def test_one_deals_and_both_claim_each_ensemble_once(pool: Dealing, beside: Dealing, cluster: Cluster) -> None:
    assert list(pool.claims(QUORUMS)) == []
    assert pool.turn()
    assert not beside.turn()
    claimed = [ensemble for one in (pool, beside) * 4 for ensemble in one.claims(QUORUMS)]
    assert len(claimed) == 24
    left = cluster.store.children(f"{cluster.root}-walkeeper/placement/pool/3-3-2")
    assert len(left) == POOL_ENSEMBLES - 24
    while rest := list(beside.claims(QUORUMS)):
        claimed.extend(rest)
    slots = Counter(name for ensemble in claimed for name in ensemble)
    assert (len(claimed), sum(slots.values())) == (POOL_ENSEMBLES, 3 * POOL_ENSEMBLES)
    assert max(slots.values()) - min(slots.values()) <= 1
    assert pool.turn()


def test_the_lease_goes_with_its_session(
    pool: Dealing, beside: Dealing, cluster: Cluster, backing: Backing, store: MetadataStore
) -> None:
    list(pool.claims(QUORUMS))
    pool.turn()
    assert not beside.turn()
    backing.expire(store)
    key = f"{cluster.root}-walkeeper/placement/lease"
    until(lambda: cluster.store.get(key, linearizable=True) is None)
    while list(beside.claims(QUORUMS)):
        pass
    assert beside.turn(), "it is another client's now"
    assert not pool.turn()
    pool._resign()
    assert beside.turn() is False, "and nobody resigns for another"
    assert cluster.store.get(key, linearizable=True) is not None
