"""The ids that a cluster gives to new ledgers: each once, to whoever asks, whatever fails.

By ZooKeeper's rule, on every store. Where BookKeeper has another one: test_etcd_layout.py.
"""

from __future__ import annotations

import pytest

from walkeeper.metadata import (
    ZOOKEEPER_KEYS,
    Cluster,
    FaultyStore,
    LedgerIdOverflowError,
    LedgerManager,
    Ledgers,
    MemoryStore,
    MetadataError,
    MetadataStore,
    UnavailableError,
    UnknownOutcomeError,
)
from walkeeper.metadata._settle import TRIES_MAX


@pytest.fixture
def cluster(tree: Cluster) -> Cluster:
    return tree


def test_ids_begin_at_0_rise_and_are_given_once_to_all_sessions(
    cluster: Cluster, other: MetadataStore, place: str
) -> None:
    theirs = Cluster(other, place, ZOOKEEPER_KEYS).ledgers
    assert [each.next_id() for each in (cluster.ledgers, theirs) * 3] == list(range(6))
    assert cluster.store.children(f"{place}/idgen") == [], "the nodes that the numbers came from are gone"


def test_where_there_are_long_ids_everybody_takes_them(cluster: Cluster, place: str) -> None:
    cluster.ledgers.next_id()
    cluster.store.create(f"{place}/idgen-long")
    assert [cluster.ledgers.next_id() for _ in range(2)] == [1 << 32, (1 << 32) + 1]
    assert cluster.store.children(f"{place}/idgen-long") == ["HOB-0000000001"]


class _UsedUp(FaultyStore):
    """The numbers of one folder are used up, as BookKeeper's clients find it: by a number that is too large."""

    def __init__(self, store: MetadataStore, *folders: str) -> None:
        super().__init__(store)
        self.folders = folders

    def create_sequential(self, prefix: str, data: bytes = b"", *, ephemeral: bool = False) -> str:
        key = super().create_sequential(prefix, data, ephemeral=ephemeral)
        if not prefix.startswith(self.folders):
            return key
        self.store.delete(key)
        return f"{prefix}2147483647"


def test_short_ids_that_are_used_up_are_followed_by_long_ones(cluster: Cluster, place: str) -> None:
    ledgers = Ledgers(_UsedUp(cluster.store, f"{place}/idgen/"), place, LedgerManager.HIERARCHICAL)
    assert [ledgers.next_id() for _ in range(2)] == [1 << 32, (1 << 32) + 1]
    assert cluster.ledgers.next_id() == (1 << 32) + 2, "and for everybody"


def test_of_the_folders_of_long_ids_three_stay(cluster: Cluster, place: str) -> None:
    names = [f"HOB-{high:010d}" for high in (1, 2, 3, 4)]
    for name in names:
        cluster.store.create(f"{place}/idgen-long/{name}", parents=True)
    ledgers = Ledgers(_UsedUp(cluster.store, f"{place}/idgen-long/{names[-1]}"), place, LedgerManager.HIERARCHICAL)
    assert ledgers.next_id() == 5 << 32
    assert cluster.store.children(f"{place}/idgen-long") == ["HOB-0000000003", "HOB-0000000004", "HOB-0000000005"]


def test_the_largest_folder_counts_whatever_else_is_there(cluster: Cluster, place: str) -> None:
    for name in ("HOB-0000000009", "HOB-0000000010", "HOB-x", "other"):
        cluster.store.create(f"{place}/idgen-long/{name}", parents=True)
    assert cluster.ledgers.next_id() == 10 << 32


@pytest.mark.parametrize("manager", [LedgerManager.LEGACY_HIERARCHICAL, LedgerManager.FLAT])
def test_older_layouts_have_no_long_ids(store: MetadataStore, place: str, manager: LedgerManager) -> None:
    Cluster(store, place, ZOOKEEPER_KEYS).init(manager)
    ledgers = Ledgers(store, place, manager)
    first = ledgers.next_id()
    assert ledgers.next_id() == first + 1, "the first of a flat one may be larger: ZooKeeper counts all children"
    with pytest.raises(LedgerIdOverflowError):
        Ledgers(_UsedUp(store, place), place, manager).next_id()


def test_long_ids_end_as_well(cluster: Cluster, place: str) -> None:
    cluster.store.create(f"{place}/idgen-long/HOB-2147483647", parents=True)
    ledgers = Ledgers(_UsedUp(cluster.store, f"{place}/idgen-long"), place, LedgerManager.HIERARCHICAL)
    with pytest.raises(LedgerIdOverflowError):
        ledgers.next_id()


@pytest.mark.parametrize("seed", range(20))
def test_no_id_is_given_twice_whatever_fails(seed: int) -> None:
    cluster = Cluster(MemoryStore())
    cluster.init()
    faulty = FaultyStore(cluster.store, seed, {"before": 0.1, "after": 0.2, "never": 0.2})
    ledgers = Ledgers(faulty, cluster.root, LedgerManager.HIERARCHICAL)
    given: list[int] = []
    for _ in range(60):
        try:
            given.append(ledgers.next_id())
        except (UnavailableError, UnknownOutcomeError):  # noqa: PERF203
            pass
    assert given == sorted(set(given))
    assert len(given) > 5


def test_an_id_that_is_never_known_is_an_error(cluster: Cluster, place: str) -> None:
    cluster.ledgers.next_id()
    faulty = FaultyStore(cluster.store)
    faulty.script(["none", *["after"] * TRIES_MAX])
    with pytest.raises(MetadataError):
        Ledgers(faulty, place, LedgerManager.HIERARCHICAL).next_id()
