"""A cluster on etcd has the keys, values and ids of BookKeeper's own driver: worked examples, there and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from etcd_fixtures import Open, Raw
from etcd_server import EtcdServer

from walkeeper.metadata import (
    ETCD_KEYS,
    Cluster,
    Cookie,
    FaultyStore,
    InvalidBookieIdError,
    Layout,
    LedgerIdOverflowError,
    LedgerManager,
    LedgerMetadata,
    Ledgers,
    ListedLedger,
    MemoryStore,
    MetadataError,
    MissingError,
    ServiceInfo,
    UnavailableError,
    UnknownOutcomeError,
)
from walkeeper.metadata._bucket_ids import BUCKETS, COUNT_BITS, COUNT_MAX, BucketIds
from walkeeper.metadata._etcd import EtcdStore
from walkeeper.metadata._etcd_client import put, range_of, read, transaction
from walkeeper.metadata._settle import TRIES_MAX

pytest_plugins = ["etcd_fixtures"]

METADATA = LedgerMetadata(2, 2, 1, {0: ("a:1", "b:1")}, ctime=5)
COOKIE = Cookie("127.0.0.1:3181", ("/j",), ("/l",), "an-instance")
LAYOUT = b"2\norg.apache.bookkeeper.metadata.etcd.EtcdLedgerManagerFactory:0"


@pytest.fixture
def scope(root: str) -> str:
    return f"{root}/scope"


@pytest.fixture
def cluster(other: EtcdStore, scope: str) -> Cluster:
    made = Cluster(other, scope)
    made.init()
    return made


def test_a_new_cluster_is_the_one_that_upstream_makes(cluster: Cluster, raw: Raw, scope: str) -> None:
    found = raw.values(scope)
    instance_id = found.pop(f"{scope}/instanceid")
    assert found == {
        scope: b"",
        f"{scope}/layout": LAYOUT,
        f"{scope}/cookies": b"",
        f"{scope}/bookies": b"",
        f"{scope}/bookies/writable": b"",
        f"{scope}/bookies/readonly": b"",
        f"{scope}/ledgers": b"",
        f"{scope}/buckets": b"",
        f"{scope}/underreplication": b"",
    }
    assert instance_id.decode() == cluster.instance_id()
    assert len(instance_id) == 36
    assert cluster.layout() == Layout.of(LedgerManager.ETCD)


def test_every_key_of_a_cluster_in_use_is_one_that_upstream_knows(cluster: Cluster, raw: Raw, scope: str) -> None:
    before = set(raw.found(scope))
    cluster.cookies.create(COOKIE)
    registration = cluster.registration()
    registration.register(COOKIE.bookie_id, ServiceInfo.of_bookie("127.0.0.1", 3181), cookie=COOKIE)
    ledger_id = cluster.ledgers.create(METADATA).ledger_id
    cluster.starts.put(COOKIE.bookie_id, "an-instance", 1, None)
    found = raw.found(scope)
    assert set(found) - before == {
        f"{scope}/cookies/127.0.0.1:3181",
        f"{scope}/bookies/writable/127.0.0.1:3181",
        f"{scope}/ledgers/{LedgerManager.ETCD.path(ledger_id).removeprefix('ledgers/')}",
        f"{scope}/buckets/{ledger_id >> COUNT_BITS:03d}",
        *(f"{scope}-walkeeper{below}" for below in ("", "/starts", "/starts/127.0.0.1:3181")),  # another scope
    }
    assert found[f"{scope}/cookies/127.0.0.1:3181"].value == COOKIE.serialise()
    registered = found[f"{scope}/bookies/writable/127.0.0.1:3181"]
    assert (registered.value, registered.lease) == (b"", cluster.store.session())
    registration.set_read_only(True)
    assert f"{scope}/bookies/readonly/127.0.0.1:3181" in raw.found(scope)
    assert f"{scope}/bookies/writable/127.0.0.1:3181" not in raw.found(scope)
    registration.unregister()


def test_a_scope_that_upstream_made_is_a_cluster(server: EtcdServer, open_store: Open, raw: Raw, root: str) -> None:
    """Upstream makes no key above the scope, and no key below it needs one."""
    scope = f"{root}/not/there/scope"
    names = ["", "/cookies", "/bookies", "/bookies/writable", "/bookies/readonly", "/ledgers", "/buckets"]
    values = {**dict.fromkeys(names, b""), "/underreplication": b"", "/layout": LAYOUT, "/instanceid": b"theirs"}
    values["/ledgers/00000000-0000-0000-0000-000000000001"] = METADATA.serialise()
    values["/bookies/writable/127.0.0.1:9"] = b""
    puts = [put(f"{scope}{name}".encode(), value) for name, value in values.items()]
    raw.stubs.kv.Txn(transaction((), puts), timeout=30)
    cluster = Cluster(open_store(server.hosts), scope)
    assert cluster.instance_id() == cluster.init() == "theirs"
    assert raw.values(scope) == {f"{scope}{name}": value for name, value in values.items()}
    assert cluster.bookies.writable_bookies() == ["127.0.0.1:9"]
    assert cluster.bookies.service_info("127.0.0.1:9") == ServiceInfo.of_bookie_id("127.0.0.1:9")
    assert list(cluster.ledgers.ids()) == [1]
    found = cluster.ledgers.read(1)
    assert found is not None
    assert found.value == METADATA
    cluster.ledgers.write(1, replace(METADATA, custom_metadata={"k": b"v"}), found.version)
    assert cluster.ledgers.create(METADATA).ledger_id > 1


def test_a_scope_without_a_tree_above_it_is_made_with_one(
    server: EtcdServer, open_store: Open, raw: Raw, root: str
) -> None:
    cluster = Cluster(open_store(server.hosts), f"{root}/a/b")
    cluster.init()
    assert raw.values(f"{root}/a")[f"{root}/a"] == b""


# ---- ledgers ----


def test_versions_are_mod_revisions(cluster: Cluster, raw: Raw, scope: str) -> None:
    ledger_id, version = cluster.ledgers.create(METADATA, 7)
    key = f"{scope}/ledgers/00000000-0000-0000-0000-000000000007"
    assert raw.found(key)[key].mod_revision == version
    later = cluster.ledgers.write(ledger_id, METADATA, version)
    assert raw.found(key)[key].mod_revision == later > version


def test_a_new_ledger_has_its_creators_token_until_it_is_rewritten(cluster: Cluster, raw: Raw, scope: str) -> None:
    """Field 12 of the format. Upstream's readers take any number there; its writers on etcd write 0."""
    _, version = cluster.ledgers.create(METADATA, 7)
    key = f"{scope}/ledgers/00000000-0000-0000-0000-000000000007"
    first = LedgerMetadata.parse(raw.values(key)[key])
    assert first.ctoken is not None
    assert replace(first, ctoken=None) == METADATA
    cluster.ledgers.write(7, first, version)
    assert LedgerMetadata.parse(raw.values(key)[key]) == METADATA


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_ledgers_are_listed_in_rising_order(cluster: Cluster, other: EtcdStore, scope: str, page: int) -> None:
    ids = [5, 0, 3, 12345, 2**31, 2**40 + 7, 127 << COUNT_BITS | 1, 2**63 - 1]
    for ledger_id in ids:
        cluster.ledgers.create(METADATA, ledger_id)
    for name in ("x", "00000000-0000-0001-0000-000000000001", "00000000-0000-0000-8000-000000000001"):
        other.create(f"{scope}/ledgers/{name}")
    assert list(cluster.ledgers.listing(page=page)) == [ListedLedger(ledger_id, True) for ledger_id in sorted(ids)]
    cluster.ledgers.delete(5)
    assert not cluster.ledgers.exists_linearizable(5)
    assert cluster.ledgers.exists_linearizable(3)


def test_the_last_ledger_leaves_the_folder(cluster: Cluster) -> None:
    cluster.ledgers.create(METADATA, 5)
    cluster.ledgers.delete(5)
    assert list(cluster.ledgers.ids()) == []


def test_a_scope_without_its_folder_is_an_error_and_not_a_cluster_without_ledgers(
    cluster: Cluster, other: EtcdStore, scope: str
) -> None:
    other.delete(f"{scope}/ledgers")
    with pytest.raises(MissingError):
        list(cluster.ledgers.ids())


# ---- ids ----


def upstream_id(raw: Raw, scope: str, bucket: int) -> int:
    """What upstream's client does for a new id: writes the bucket, empty, and reads how often that was done."""
    key = f"{scope}/buckets/{bucket:03d}".encode()
    answer = raw.stubs.kv.Txn(transaction((), [put(key, b""), read(range_of(key))]), timeout=30)
    return bucket << COUNT_BITS | int(answer.responses[1].response_range.kvs[0].version)


def test_ids_are_the_bucket_and_how_often_it_was_written(
    cluster: Cluster, other: EtcdStore, raw: Raw, scope: str
) -> None:
    ours = BucketIds(other, scope)
    first = ours.next_id()
    assert first & COUNT_MAX == 1
    bucket = first >> COUNT_BITS
    assert 0 <= bucket < BUCKETS
    assert upstream_id(raw, scope, bucket) == first + 1
    others = [ours.next_id() for _ in range(BUCKETS)]
    assert [ledger_id >> COUNT_BITS for ledger_id in others] == [(bucket + n) % BUCKETS for n in range(1, BUCKETS + 1)]
    assert others[-1] == first + 2
    assert all(ledger_id & COUNT_MAX == 1 for ledger_id in others[:-1])
    assert raw.values(f"{scope}/buckets/")[f"{scope}/buckets/{bucket:03d}"] == b""


def test_an_id_whose_bucket_may_have_been_counted_up_is_lost_and_no_other_is(cluster: Cluster) -> None:
    faulty = FaultyStore(cluster.store, 0, {"before": 0.1, "after": 0.2, "never": 0.2})
    ids = BucketIds(faulty, cluster.root)
    given: list[int] = []
    for _ in range(400):
        try:
            given.append(ids.next_id())
        except (UnavailableError, UnknownOutcomeError):  # noqa: PERF203
            pass
    assert len(given) == len(set(given)) > 200
    assert faulty.seen["after"] > 0
    faulty.script(["never"] * TRIES_MAX)
    with pytest.raises(UnknownOutcomeError):
        ids.next_id()


def test_the_ids_of_a_bucket_end(cluster: Cluster) -> None:
    class UsedUp(FaultyStore):
        def count_up(self, key: str) -> int:
            return super().count_up(key) + COUNT_MAX

    with pytest.raises(LedgerIdOverflowError):
        BucketIds(UsedUp(cluster.store), cluster.root).next_id()


def test_where_there_is_no_cluster_there_are_no_ids(other: EtcdStore, root: str) -> None:
    with pytest.raises(MissingError):
        BucketIds(other, f"{root}/none").next_id()


def test_a_store_that_does_not_count_says_so() -> None:
    ledgers = Ledgers(MemoryStore(), "/ledgers", LedgerManager.ETCD)
    with pytest.raises(MetadataError, match="does not count"):
        ledgers.next_id()


# ---- registrations ----


@pytest.mark.parametrize(
    ("bookie_id", "info"),
    [
        ("one", ServiceInfo.of_bookie("127.0.0.1", 3181)),
        ("127.0.0.1:3181", ServiceInfo.of_bookie("127.0.0.1", 3182)),
        ("127.0.0.1:3181", ServiceInfo()),
    ],
)
def test_a_bookie_that_clients_would_not_find_is_refused(
    cluster: Cluster, other: EtcdStore, bookie_id: str, info: ServiceInfo
) -> None:
    with pytest.raises(InvalidBookieIdError, match="must be its address"):
        cluster.registration().register(bookie_id, info)
    assert other.children(f"{cluster.root}/{ETCD_KEYS.writable}") == []
