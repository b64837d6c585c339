"""A cluster on a store: how it is made, its cookies and its ledgers, and calls whose outcome nobody knows."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from walkeeper.metadata import (
    ZOOKEEPER_KEYS,
    Cluster,
    ClusterKeys,
    ConflictError,
    Cookie,
    CorruptMetadataError,
    ExistsError,
    FaultyStore,
    InvalidBookieIdError,
    InvalidKeyError,
    Layout,
    LedgerManager,
    LedgerMetadata,
    Ledgers,
    LedgerState,
    MemoryStore,
    MetadataError,
    MetadataStore,
    MissingError,
    ServiceInfo,
    UnavailableError,
    UnknownOutcomeError,
    UnsupportedMetadataError,
    Versioned,
)
from walkeeper.metadata._settle import TRIES_MAX, settle, settle_delete

METADATA = LedgerMetadata(2, 2, 1, {0: ("a:1", "b:1")}, custom_metadata={"k": b"v"}, ctime=5)
COOKIE = Cookie("127.0.0.1:3181", ("/j",), ("/l",), "an-instance")


def ledgers_through(store: MetadataStore, cluster: Cluster) -> Ledgers:
    """The cluster's ledgers, through another store."""
    return Ledgers(store, cluster.root, cluster.keys.managers[0])


def key_of(cluster: Cluster, ledger_id: int) -> str:
    return f"{cluster.root}/{cluster.keys.managers[0].path(ledger_id)}"


def closed_at(metadata: LedgerMetadata, last: int) -> LedgerMetadata:
    return replace(metadata, state=LedgerState.CLOSED, last_entry_id=last, length=10 * (last + 1))


# init


def test_a_new_cluster_has_what_bookkeeper_expects(store: MetadataStore, place: str) -> None:
    """On ZooKeeper. What it expects on etcd: test_etcd_layout.py."""
    cluster = Cluster(store, place, ZOOKEEPER_KEYS)
    assert cluster.instance_id() is None
    instance_id = cluster.init()
    assert store.children(place) == ["INSTANCEID", "LAYOUT", "available"]
    assert store.children(f"{place}/available") == ["readonly"]
    assert cluster.instance_id() == instance_id
    assert len(instance_id) == 36
    assert cluster.layout() == Layout()


def test_init_again_changes_nothing(store: MetadataStore, other: MetadataStore, place: str) -> None:
    first = Cluster(store, place, ZOOKEEPER_KEYS).init()
    assert Cluster(other, place, ZOOKEEPER_KEYS).init(LedgerManager.FLAT) == first
    assert Cluster(other, place, ZOOKEEPER_KEYS).layout() == Layout()


def test_a_manager_that_others_would_not_look_for_is_refused(store: MetadataStore, place: str) -> None:
    cluster = Cluster(store, place)
    for manager in set(LedgerManager) - set(cluster.keys.managers):
        with pytest.raises(MetadataError, match=manager.name):
            cluster.init(manager)
    assert cluster.instance_id() is None


@pytest.mark.parametrize("lost", ["layout", "read_only"])
def test_init_makes_what_is_missing_and_leaves_the_rest(cluster: Cluster, place: str, lost: str) -> None:
    before = cluster.instance_id()
    key = f"{place}/{getattr(cluster.keys, lost)}"
    cluster.store.delete(key)
    assert cluster.init() == before
    assert cluster.store.get(key) is not None


def test_init_where_java_made_the_root_alone(store: MetadataStore, root: str) -> None:
    assert Cluster(store, root).init() == Cluster(store, root).instance_id()


@pytest.mark.parametrize("fault", ["before", "after", "never"])
@pytest.mark.parametrize("calls", range(9))
def test_init_with_a_call_that_fails_is_done_or_can_be_done_again(
    store: MetadataStore, place: str, fault: str, calls: int
) -> None:
    faulty = FaultyStore(store)
    faulty.script([*["none"] * calls, fault])  # type: ignore[list-item]
    try:
        instance_id = Cluster(faulty, place).init()
        assert Cluster(store, place).instance_id() == instance_id
    except UnavailableError:
        instance_id = Cluster(store, place).init()
        assert fault != "none"
    assert Cluster(store, place).init() == instance_id


def keys_below(store: MetadataStore, root: str) -> list[str]:
    return [
        key
        for name in store.children(root)
        for key in (name, *(f"{name}/{below}" for below in keys_below(store, f"{root}/{name}")))
    ]


JAVAS_KEYS = re.compile(
    r"LAYOUT|INSTANCEID|available(/readonly)?(/[^/]+:\d+)?|cookies(/[^/]+:\d+)?|idgen(-long(/HOB-\d{10})?)?"
    r"|\d{2}(/\d{4}(/L\d{4})?)?|\d{3}(/\d{4}){0,3}|\d{3}(/\d{4}){3}/L\d{4}"
)


def test_cluster_rule_20_every_key_in_the_tree_is_one_that_java_knows(tree: Cluster, place: str) -> None:
    """Java lists the tree's children and takes what it does not know for a ledger's, so nothing of our own is there."""
    registrations = [tree.registration() for _ in range(2)]
    for number, registration in enumerate(registrations):
        bookie_id = f"127.0.0.1:{3181 + number}"
        tree.cookies.create(replace(COOKIE, bookie_id=bookie_id))
        registration.register(bookie_id, ServiceInfo.of_bookie("127.0.0.1", 3181 + number), number == 1)
    tree.ledgers.create(METADATA)
    tree.store.create(f"{place}/idgen-long")
    tree.ledgers.create(METADATA)
    gone = tree.ledgers.create(METADATA)
    tree.ledgers.delete(gone.ledger_id)
    tree.starts.put("127.0.0.1:3181", "an-instance", 1, None)
    keys = keys_below(tree.store, place)
    assert len(keys) == 20, keys
    assert [key for key in keys if not JAVAS_KEYS.fullmatch(key)] == []
    for registration in registrations:
        registration.unregister()


def test_starts_are_counted_beside_the_tree_for_one_cluster(cluster: Cluster, place: str) -> None:
    assert cluster.starts.get("a:1", "this") is None
    version = cluster.starts.put("a:1", "this", 1, None)
    assert cluster.starts.put("a:1", "this", 1, None) == version  # the same, whoever wrote it
    with pytest.raises(ExistsError):
        cluster.starts.put("a:1", "this", 2, None)
    newer = cluster.starts.put("a:1", "this", 2, version)
    with pytest.raises(ConflictError):
        cluster.starts.put("a:1", "this", 3, version)
    assert cluster.starts.get("a:1", "this") == Versioned(2, newer)
    assert cluster.starts.get("a:1", "another") == Versioned(0, newer)
    found = cluster.store.get(f"{place}-walkeeper/starts/a:1")
    assert found is not None
    assert found.data == b"1\nthis\n2\n"


@pytest.mark.parametrize(
    "data",
    [b"", b"1\n", b"1\nx\n", b"1\nx\n-1\n", b"1\nx\n1", b"1\nx\n1\n\n", b"0\nx\n1\n", b"1\n\xff\n1\n"],
)
def test_a_number_of_starts_that_is_none(cluster: Cluster, place: str, data: bytes) -> None:
    cluster.store.create(f"{place}-walkeeper/starts/a:1", data, parents=True)
    with pytest.raises(CorruptMetadataError):
        cluster.starts.get("a:1", "x")
    cluster.store.put(f"{place}-walkeeper/starts/a:1", b"2\nanything\n")
    with pytest.raises(UnsupportedMetadataError):
        cluster.starts.get("a:1", "x")


def test_of_many_who_make_a_cluster_at_once_one_does(backing: object, place: str) -> None:
    stores = [backing.open() for _ in range(4)]  # type: ignore[attr-defined]
    found: list[str] = []
    threads = [threading.Thread(target=lambda s=s: found.append(Cluster(s, place).init())) for s in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


@pytest.mark.parametrize("data", [b"", b"\xff", b"a\nb", b"a" * 300])
def test_an_instance_id_that_is_none(cluster: Cluster, place: str, data: bytes) -> None:
    cluster.store.put(f"{place}/{cluster.keys.instance_id}", data)
    with pytest.raises(CorruptMetadataError):
        cluster.instance_id()
    with pytest.raises(CorruptMetadataError):
        cluster.init()


def test_where_there_is_no_cluster_nothing_is_listed(store: MetadataStore, place: str) -> None:
    keys = ClusterKeys.of(store)
    with pytest.raises(MissingError, match=f"no {keys.layout}"):
        _ = Cluster(store, place).ledgers
    with pytest.raises(MissingError):
        list(Ledgers(store, place, keys.managers[0]).ids())
    with pytest.raises(MissingError):
        Cluster(store, place).bookies.writable_bookies()


def test_a_layout_that_is_not_known_here_is_not_guessed_at(cluster: Cluster, place: str) -> None:
    cluster.store.put(f"{place}/{cluster.keys.layout}", b"2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1")
    with pytest.raises(UnsupportedMetadataError):
        _ = cluster.ledgers


def test_a_layout_of_another_kind_of_store_is_refused(cluster: Cluster, place: str) -> None:
    """Its keys are not there, so that every ledger would be taken for deleted."""
    for manager in set(LedgerManager) - set(cluster.keys.managers):
        cluster.store.put(f"{place}/{cluster.keys.layout}", Layout.of(manager).serialise())
        with pytest.raises(UnsupportedMetadataError):
            _ = Cluster(cluster.store, place).ledgers


def test_the_root_of_the_store_is_no_cluster(store: MetadataStore) -> None:
    with pytest.raises(InvalidKeyError):
        Cluster(store, "/")


# cookies


def test_a_cookie_is_written_once_read_changed_and_deleted(cluster: Cluster) -> None:
    cookies = cluster.cookies
    assert (cookies.bookie_ids(), cookies.get(COOKIE.bookie_id)) == ([], None)
    version = cookies.create(COOKIE)
    assert cookies.get(COOKIE.bookie_id) == Versioned(COOKIE, version)
    grown = replace(COOKIE, ledger_dirs=("/l", "/l2"))
    later = cookies.put(grown, version)
    assert cookies.get(COOKIE.bookie_id) == Versioned(grown, later)
    assert cookies.bookie_ids() == cluster.bookies.all_bookies() == [COOKIE.bookie_id]
    with pytest.raises(ConflictError):
        cookies.put(COOKIE, version)
    with pytest.raises(ConflictError):
        cookies.delete(COOKIE.bookie_id, version)
    cookies.delete(COOKIE.bookie_id, later)
    cookies.delete(COOKIE.bookie_id)
    assert cookies.bookie_ids() == []


def test_another_cookie_of_the_same_bookie_is_refused(cluster: Cluster) -> None:
    cluster.cookies.create(COOKIE)
    with pytest.raises(ExistsError):
        cluster.cookies.create(replace(COOKIE, journal_dirs=("/other",)))


def test_an_id_that_is_none_is_no_key(cluster: Cluster) -> None:
    with pytest.raises(InvalidBookieIdError):
        cluster.cookies.get("../available")


@pytest.mark.parametrize("faults", [["after"], ["never"], ["never", "after"], ["never"] * (TRIES_MAX - 1)])
def test_a_cookie_whose_writing_nobody_knew_of_is_there(cluster: Cluster, place: str, faults: list[str]) -> None:
    faulty = FaultyStore(cluster.store)
    cookies = Cluster(faulty, place).cookies
    faulty.script(faults)  # type: ignore[arg-type]
    version = cookies.create(COOKIE)
    assert cluster.cookies.get(COOKIE.bookie_id) == Versioned(COOKIE, version)
    grown = replace(COOKIE, ledger_dirs=("/l", "/l2"))
    faulty.script(faults)  # type: ignore[arg-type]
    version = cookies.put(grown, version)
    assert cluster.cookies.get(COOKIE.bookie_id) == Versioned(grown, version)
    faulty.script(faults)  # type: ignore[arg-type]
    cookies.delete(COOKIE.bookie_id)
    assert cluster.cookies.bookie_ids() == []


# settling


def test_cluster_rule_18_what_stays_unknown_is_said_to_be(cluster: Cluster, place: str) -> None:
    faulty = FaultyStore(cluster.store)
    faulty.script(["never"] * TRIES_MAX)
    with pytest.raises(UnknownOutcomeError):
        Cluster(faulty, place).cookies.create(COOKIE)


def test_unavailable_behind_unknown_is_unknown(cluster: Cluster, place: str) -> None:
    """UnavailableError says of a write that nothing was written; here that is not so."""
    faulty = FaultyStore(cluster.store)
    faulty.script(["after", *["before"] * TRIES_MAX])
    with pytest.raises(UnknownOutcomeError):
        Cluster(faulty, place).cookies.create(COOKIE)
    faulty = FaultyStore(cluster.store)
    faulty.script(["before"])
    with pytest.raises(UnavailableError):
        Cluster(faulty, place).cookies.delete("b:1")


def test_a_refusal_is_raised_where_nothing_is_found() -> None:
    def refused() -> int:
        raise ConflictError("no")

    with pytest.raises(ConflictError):
        settle(refused, lambda: None)
    assert settle(refused, lambda: 7) == 7
    with pytest.raises(ConflictError):
        settle_delete(refused)  # type: ignore[arg-type]


# ledgers


def test_a_ledger_is_created_read_written_and_deleted(cluster: Cluster) -> None:
    ledgers = cluster.ledgers
    ledger_id, version = ledgers.create(METADATA)
    found = ledgers.read(ledger_id, linearizable=True)
    assert found is not None
    assert (replace(found.value, ctoken=None), found.version) == (METADATA, version)
    assert found.value.ctoken is not None
    closed = closed_at(found.value, 9)
    later = ledgers.write(ledger_id, closed, version)
    assert ledgers.read(ledger_id) == Versioned(replace(closed, ctoken=None), later)
    with pytest.raises(ConflictError):
        ledgers.write(ledger_id, closed_at(METADATA, 3), version)
    assert ledgers.exists_linearizable(ledger_id)
    with pytest.raises(ConflictError):
        ledgers.delete(ledger_id, version)
    ledgers.delete(ledger_id, later)
    assert not ledgers.exists_linearizable(ledger_id)
    assert ledgers.read(ledger_id) is None
    ledgers.delete(ledger_id)
    with pytest.raises(MissingError):
        ledgers.write(ledger_id, closed, later)


def test_the_empty_keys_above_a_ledger_go_with_it(tree: Cluster, place: str) -> None:
    assert tree.ledgers.create(METADATA).ledger_id == 0
    assert "00" in tree.store.children(place)
    tree.ledgers.delete(0)
    assert "00" not in tree.store.children(place)


def test_a_chosen_id_that_is_taken_is_refused_and_a_given_one_is_passed_over(tree: Cluster) -> None:
    assert tree.ledgers.create(METADATA, 1).ledger_id == 1
    with pytest.raises(ExistsError):
        tree.ledgers.create(METADATA, 1)
    assert [tree.ledgers.create(METADATA).ledger_id for _ in range(3)] == [0, 2, 3]


def test_a_ledger_is_rewritten_in_the_version_that_it_has(cluster: Cluster, place: str) -> None:
    """BookKeeper's trap 21: an older client may be the next to read it."""
    cluster.store.create(key_of(cluster, 5), METADATA.serialise(2), parents=True)
    found = cluster.ledgers.read(5)
    assert found is not None
    cluster.ledgers.write(5, closed_at(found.value, 1), found.version)
    after = cluster.ledgers.read(5)
    assert after is not None
    assert (after.value.format_version, after.value.custom_metadata, after.value.ctime) == (2, {"k": b"v"}, 5)


def test_metadata_that_cannot_be_read_says_whose_it_is_and_the_ledger_exists(cluster: Cluster) -> None:
    cluster.store.create(key_of(cluster, 5), b"nonsense", parents=True)
    with pytest.raises(CorruptMetadataError, match=key_of(cluster, 5)):
        cluster.ledgers.read(5)
    assert cluster.ledgers.exists_linearizable(5)
    assert list(cluster.ledgers.ids()) == [5]


def test_parents_that_still_have_ledgers_stay(cluster: Cluster) -> None:
    for ledger_id in (7, 8, 10**4, 2**40):
        cluster.ledgers.create(METADATA, ledger_id)
    cluster.ledgers.delete(7)
    cluster.ledgers.delete(2**40)
    assert list(cluster.ledgers.ids()) == [8, 10**4]


@pytest.mark.parametrize("faults", [["after"], ["never"], ["never", "after"]])
def test_a_ledger_whose_writing_nobody_knew_of(cluster: Cluster, place: str, faults: list[str]) -> None:
    faulty = FaultyStore(cluster.store)
    ledgers = ledgers_through(faulty, cluster)
    faulty.script(faults)  # type: ignore[arg-type]
    ledger_id, version = ledgers.create(METADATA, 4)
    faulty.script(faults)  # type: ignore[arg-type]
    version = ledgers.write(ledger_id, closed_at(METADATA, 9), version)
    assert cluster.ledgers.read(4) == Versioned(closed_at(METADATA, 9), version)
    faulty.script(faults)  # type: ignore[arg-type]
    ledgers.delete(4, version if faults == ["never"] else None)
    assert list(cluster.ledgers.ids()) == []


def test_a_token_tells_a_creators_own_ledger_from_anothers(cluster: Cluster, place: str) -> None:
    """Nobody knows of the first try, and another creates the ledger with the same metadata meanwhile."""
    cluster.ledgers.create(METADATA, 4)
    faulty = FaultyStore(cluster.store)
    faulty.script(["never"])
    with pytest.raises(ExistsError):
        ledgers_through(faulty, cluster).create(METADATA, 4)


class _Meanwhile(FaultyStore):
    """The first put is done, nobody knows, and before anybody looks somebody else writes."""

    def __init__(self, store: MetadataStore, then: Callable[[], None]) -> None:
        super().__init__(store)
        self.then: Callable[[], None] | None = then

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        number = super().put(key, data, version)
        if self.then is not None:
            then, self.then = self.then, None
            then()
            raise UnknownOutcomeError("injected", key)
        return number


@pytest.mark.parametrize("predicate", [False, True])
def test_a_write_that_was_overwritten_is_settled_by_its_predicate(
    cluster: Cluster, place: str, predicate: bool
) -> None:
    """Closed at 9 by us, then a bookie replaced by another: the close was done, though the metadata is not ours."""
    _, version = cluster.ledgers.create(METADATA, 4)
    closed = closed_at(METADATA, 9)

    def replaced() -> None:
        found = cluster.ledgers.read(4, linearizable=True)
        assert found is not None
        cluster.ledgers.write(4, replace(closed, segments={0: ("a:1", "c:1")}), found.version)

    ledgers = ledgers_through(_Meanwhile(cluster.store, replaced), cluster)
    if predicate:
        done = ledgers.write(4, closed, version, lambda now: now.is_closed and now.last_entry_id == 9)
        found = cluster.ledgers.read(4)
        assert found is not None
        assert found.version == done
    else:
        with pytest.raises(ConflictError):
            ledgers.write(4, closed, version)


def test_no_write_is_made_twice_where_somebody_else_wrote_in_between(cluster: Cluster, place: str) -> None:
    _, version = cluster.ledgers.create(METADATA, 4)
    faulty = FaultyStore(cluster.store)
    faulty.script(["never"])
    later = cluster.ledgers.write(4, closed_at(METADATA, 3), version)
    with pytest.raises(ConflictError):
        ledgers_through(faulty, cluster).write(4, closed_at(METADATA, 9), version)
    assert cluster.ledgers.read(4) == Versioned(closed_at(METADATA, 3), later)


def test_whatever_fails_what_is_said_is_so(cluster: Cluster) -> None:
    check_what_is_said(cluster, 0)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_fails_what_is_said_is_so_from_a_seed(seed: int) -> None:
    cluster = Cluster(MemoryStore())
    cluster.init()
    check_what_is_said(cluster, seed)


def check_what_is_said(cluster: Cluster, seed: int) -> None:
    """A hundred calls, of which many fail: a ledger that was said to be there is, one that was deleted is not."""
    faulty = FaultyStore(cluster.store, seed, {"before": 0.1, "after": 0.15, "never": 0.15})
    ledgers = ledgers_through(faulty, cluster)
    there: dict[int, int] = {}
    perhaps: set[int] = set()
    for count in range(100):
        ledger_id = None
        try:
            if there and count % 3 == 0:
                ledger_id = min(there)
                there.pop(ledger_id)
                ledgers.delete(ledger_id)
            elif there and count % 3 == 1:
                ledger_id, version = there.popitem()
                there[ledger_id] = ledgers.write(ledger_id, closed_at(METADATA, count), version)
            else:
                ledger_id = 10**6 + count
                there[ledger_id] = ledgers.create(METADATA, ledger_id).version
        except (UnavailableError, UnknownOutcomeError):
            assert ledger_id is not None
            perhaps.add(ledger_id)
    found = set(cluster.ledgers.ids())
    assert there.keys() <= found <= there.keys() | perhaps
    for ledger_id, version in there.items():
        now = cluster.ledgers.read(ledger_id)
        assert now is not None
        assert now.version == version


# listing


@pytest.mark.parametrize("manager", ZOOKEEPER_KEYS.managers)
@pytest.mark.parametrize("page", [1, 2, 1000])
def test_ledgers_are_listed_in_rising_order(
    store: MetadataStore, place: str, manager: LedgerManager, page: int
) -> None:
    cluster = Cluster(store, place, ZOOKEEPER_KEYS)
    cluster.init(manager)
    cluster.cookies.create(COOKIE)
    store.create(f"{place}/underreplication/ledgers/0000/0000/0000/0001/urL0000000001", parents=True)
    ids = [5, 0, 3, 12345, 99999999, 2**31 - 2, 2**31 - 1, 2**31, 10**10, 2**40 + 7, 2**63 - 1]
    ids = [ledger_id for ledger_id in ids if ledger_id <= manager.id_max]
    for ledger_id in ids:
        cluster.ledgers.create(METADATA, ledger_id)
    cluster.ledgers.next_id()
    assert list(cluster.ledgers.ids(page=page)) == sorted(ids)


@pytest.mark.parametrize("manager", ZOOKEEPER_KEYS.managers)
def test_ledgers_under_the_keys_of_another_layout_are_listed_and_found(
    store: MetadataStore, place: str, manager: LedgerManager
) -> None:
    """Pulsar's client keeps its ledgers under the keys of `hierarchical`, whatever LAYOUT says."""
    cluster = Cluster(store, place, ZOOKEEPER_KEYS)
    cluster.init(manager)
    kept = dict(enumerate(ZOOKEEPER_KEYS.managers, 7))
    for ledger_id, one in kept.items():
        store.create(f"{place}/{one.path(ledger_id)}", METADATA.serialise(), parents=True)
    own = {ledger_id: one.path(ledger_id) == manager.path(ledger_id) for ledger_id, one in kept.items()}
    assert {listed.ledger_id: listed.own for listed in cluster.ledgers.listing()} == own
    assert list(cluster.ledgers.ids(page=1)) == sorted(kept)
    for ledger_id in kept:
        assert cluster.ledgers.exists_linearizable(ledger_id)
        assert cluster.ledgers.read_under_any_key(ledger_id) == METADATA
    assert not cluster.ledgers.exists_linearizable(1)
    assert cluster.ledgers.read_under_any_key(1) is None


def test_a_ledger_in_the_long_form_of_a_short_id_is_listed_once(tree: Cluster, place: str) -> None:
    tree.ledgers.create(METADATA, 1)
    for path in ("000/0000/0000/0000/L0001", "000/0000/0000/0000/L0000"):
        tree.store.create(f"{place}/{path}", METADATA.serialise(), parents=True)
    assert list(tree.ledgers.ids()) == [0, 1]


def test_what_looks_almost_like_a_ledger_is_passed_over(tree: Cluster, place: str) -> None:
    tree.ledgers.create(METADATA, 1)
    for path in ("00/0000/L00011", "00/00001/L0001", "0/0000/L0001", "00/0000/M0001", "999/9999/9999/9999/L9999"):
        tree.store.create(f"{place}/{path}", parents=True)
    assert list(tree.ledgers.ids()) == [1]


class _Vanishing(FaultyStore):
    """Before the names below `key` are given, all of them are deleted, and the key too."""

    def __init__(self, store: MetadataStore, vanish: Callable[[str], None]) -> None:
        super().__init__(store)
        self.vanish = vanish

    def scan(self, key: str, *, page: int = 1000):  # type: ignore[no-untyped-def]
        self.vanish(key)
        yield from super().scan(key, page=page)


def test_a_folder_that_is_deleted_while_it_is_listed_has_no_ledgers(tree: Cluster, place: str) -> None:
    for ledger_id in (1, 10**4, 2**40):
        tree.ledgers.create(METADATA, ledger_id)
    vanishing = _Vanishing(tree.store, lambda key: tree.ledgers.delete(10**4) if key == f"{place}/00/0001" else None)
    assert list(Ledgers(vanishing, place, LedgerManager.HIERARCHICAL).ids()) == [1, 2**40]


def test_a_listing_that_fails_does_not_end_as_if_it_were_whole(tree: Cluster, place: str) -> None:
    """Rule 1: a partial listing deletes nothing, so it must be told from a whole one."""
    for ledger_id in (1, 10**4, 2**40):
        tree.ledgers.create(METADATA, ledger_id)
    ended = 0
    for calls in range(40):
        faulty = FaultyStore(tree.store)
        faulty.script([*["none"] * calls, "before"])  # type: ignore[list-item]
        try:
            assert list(Ledgers(faulty, place, LedgerManager.HIERARCHICAL).ids()) == [1, 10**4, 2**40]
            ended += 1
            assert faulty.seen["before"] == 0
        except UnavailableError:
            assert faulty.seen["before"] == 1
    assert 0 < ended < 40


def test_a_root_that_is_deleted_is_an_error_and_not_a_cluster_without_ledgers(
    tree: Cluster, store: MetadataStore, place: str
) -> None:
    ledgers = tree.ledgers
    for key in ("available/readonly", "available", "INSTANCEID", "LAYOUT"):
        store.delete(f"{place}/{key}")
    store.delete(place)
    with pytest.raises(MissingError):
        list(ledgers.ids())
