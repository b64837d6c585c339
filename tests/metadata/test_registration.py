"""Registering: rule 7 (a stale registration is taken over at once, a lost session survived), and calls that fail."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from metadata.stores import Backing, Calls, until

from walkeeper.metadata import (
    Cluster,
    Cookie,
    CookieMismatchError,
    CorruptMetadataError,
    ExistsError,
    FaultyStore,
    InvalidBookieIdError,
    MetadataStore,
    MissingError,
    Registration,
    ServiceInfo,
    UnavailableError,
    UnknownOutcomeError,
)

BOOKIE = "127.0.0.1:3181"
INFO = ServiceInfo.of_bookie("127.0.0.1", 3181)
COOKIE = Cookie(BOOKIE, ("/j",), ("/l",), "an-instance")


@pytest.fixture
def cluster(store: MetadataStore, root: str) -> Cluster:
    made = Cluster(store, f"{root}/cluster")
    made.init()
    made.cookies.create(COOKIE)
    return made


@pytest.fixture
def beside(cluster: Cluster, other: MetadataStore) -> Cluster:
    """The same cluster, seen by another process."""
    return Cluster(other, cluster.root)


def listed(cluster: Cluster) -> tuple[list[str], list[str]]:
    return cluster.bookies.writable_bookies(), cluster.bookies.read_only_bookies()


def address(cluster: Cluster) -> tuple[str, int]:
    """Where the bookie answers, as others learn."""
    info = cluster.bookies.service_info(BOOKIE)
    assert info is not None
    assert info.bookie is not None
    return info.bookie.host, info.bookie.port


def test_a_bookie_is_up_until_it_unregisters(cluster: Cluster, beside: Cluster) -> None:
    registration = cluster.registration()
    assert not registration.registered
    registration.register(BOOKIE, INFO)
    assert registration.registered
    assert registration.check()
    assert listed(beside) == ([BOOKIE], [])
    assert address(beside) == ("127.0.0.1", 3181)
    registration.unregister()
    assert not registration.registered
    assert listed(beside) == ([], [])
    assert beside.bookies.service_info(BOOKIE) is None
    assert beside.bookies.all_bookies() == [BOOKIE], "it has a cookie still"
    registration.unregister()


def test_a_bookie_goes_with_its_session(backing: Backing, cluster: Cluster) -> None:
    store = backing.open()
    Cluster(store, cluster.root).registration().register(BOOKIE, INFO, read_only=True)
    assert listed(cluster) == ([], [BOOKIE])
    store.close()
    until(lambda: listed(cluster) == ([], []))


def test_a_registration_tells_of_the_others_too(cluster: Cluster, beside: Cluster) -> None:
    cluster.registration().register(BOOKIE, INFO)
    beside.registration().register("b:2", ServiceInfo.of_bookie("b", 2), read_only=True)
    registration = cluster.registration()
    assert registration.writable_bookies() == [BOOKIE]
    assert registration.read_only_bookies() == ["b:2"]
    assert registration.all_bookies() == [BOOKIE]


def test_between_writable_and_read_only_a_bookie_is_always_to_be_found(cluster: Cluster, beside: Cluster) -> None:
    """BookKeeper's order: the new node first, then away with the other."""
    seen: list[tuple[list[str], list[str]]] = []

    class Watched(FaultyStore):
        def create(self, key: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False) -> int:
            number = super().create(key, data, ephemeral=ephemeral, parents=parents)
            seen.append(listed(beside))
            return number

        def delete(self, key: str, version: int | None = None) -> None:
            seen.append(listed(beside))
            super().delete(key, version)

    registration = Registration(Watched(cluster.store), cluster.root)
    registration.register(BOOKIE, INFO)
    seen.clear()
    registration.set_read_only(True)
    assert listed(beside) == ([], [BOOKIE])
    registration.set_read_only(False)
    assert listed(beside) == ([BOOKIE], [])
    assert seen == [([BOOKIE], [BOOKIE])] * 4
    assert registration.check()


def test_what_it_says_of_itself_can_change(cluster: Cluster, beside: Cluster) -> None:
    registration = cluster.registration()
    registration.register(BOOKIE, INFO)
    later = ServiceInfo.of_bookie("10.0.0.1", 3181)
    if not cluster.keys.service_info:
        with pytest.raises(InvalidBookieIdError, match="must be its address"):
            registration.register(BOOKIE, later)
        assert registration.check()
        return
    registration.register(BOOKIE, later)
    assert beside.bookies.service_info(BOOKIE) == later
    registration.register(BOOKIE, later)
    assert registration.check()


def test_free_space_is_published_in_place(
    cluster: Cluster, beside: Cluster, backing: Backing, store: MetadataStore
) -> None:
    """The same node and session: nobody misses the bookie for a moment, and the node still goes with its process."""
    made: list[str] = []

    class Watched(FaultyStore):
        def create(self, key: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False) -> int:
            made.append(key)
            return super().create(key, data, ephemeral=ephemeral, parents=parents)

        def delete(self, key: str, version: int | None = None) -> None:
            made.append(key)
            super().delete(key, version)

    registration = Registration(Watched(store), cluster.root)
    registration.register(BOOKIE, INFO.with_free_bytes(7000))
    session = store.session()
    made.clear()
    for free in (6000, 6000, 0):
        registration.update(INFO.with_free_bytes(free))
        info = beside.bookies.service_info(BOOKIE)
        assert info == INFO.with_free_bytes(free)
        assert (info.free_bytes, address(beside)) == (free, ("127.0.0.1", 3181))
        assert registration.check()
    assert (made, store.session(), registration.registrations) == ([], session, 1)
    registration.set_read_only(True)
    info = beside.bookies.service_info(BOOKIE)
    assert info is not None
    assert info.free_bytes == 0, "the other state says so, too"
    registration.update(INFO.with_free_bytes(5))
    backing.expire(store)
    until(lambda: registration.registrations >= 3 and registration.registered)
    assert beside.bookies.service_info(BOOKIE) == INFO.with_free_bytes(5)


def test_what_was_updated_goes_with_its_session(backing: Backing, cluster: Cluster) -> None:
    store = backing.open()
    registration = Cluster(store, cluster.root).registration()
    registration.register(BOOKIE, INFO)
    registration.update(INFO.with_free_bytes(5))
    store.close()
    until(lambda: listed(cluster) == ([], []))


def test_an_update_leaves_alone_what_is_not_its_own(cluster: Cluster, beside: Cluster) -> None:
    registration = cluster.registration(keep=False)
    with pytest.raises(ValueError, match="no bookie"):
        registration.update(INFO)
    registration.register(BOOKIE, INFO)
    key = f"{cluster.root}/{cluster.keys.writable}/{BOOKIE}"
    beside.store.delete(key)
    registration.update(INFO.with_free_bytes(5))
    assert listed(beside) == ([], []), "an update registers nothing"
    assert not registration.check()
    theirs = ServiceInfo.of_bookie("127.0.0.1", 3181).with_free_bytes(77)
    beside.registration(keep=False).register(BOOKIE, theirs)
    registration.update(INFO.with_free_bytes(6))
    assert beside.bookies.service_info(BOOKIE) == theirs
    assert not registration.check()


@pytest.mark.parametrize("fault", ["before", "after", "never"])
@pytest.mark.parametrize("calls", range(2))
def test_an_update_that_failed_leaves_the_registration_as_good_as_it_was(
    cluster: Cluster, beside: Cluster, fault: str, calls: int
) -> None:
    """Whichever of the two values the node has: it is not made anew, for which it would have to go first."""
    faulty = FaultyStore(cluster.store)
    registration = Registration(faulty, cluster.root)
    registration.register(BOOKIE, INFO)
    faulty.script([*["none"] * calls, fault])  # type: ignore[list-item]
    with pytest.raises((UnavailableError, UnknownOutcomeError)):
        registration.update(INFO.with_free_bytes(5))
    assert registration.registered
    assert registration.check()
    registration.update(INFO.with_free_bytes(6))
    assert registration.check()
    assert beside.bookies.service_info(BOOKIE) == INFO.with_free_bytes(6)
    assert registration.registrations == 1


def test_one_registration_is_of_one_bookie(cluster: Cluster) -> None:
    registration = cluster.registration()
    with pytest.raises(ValueError, match="no bookie"):
        registration.set_read_only(True)
    registration.register(BOOKIE, INFO)
    with pytest.raises(ValueError, match="not b:2"):
        registration.register("b:2", ServiceInfo.of_bookie("b", 2))
    with pytest.raises(InvalidBookieIdError):
        cluster.registration().register("readonly", INFO)


# Rule 7.


@pytest.mark.parametrize("stale_read_only", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_rule_7_a_stale_registration_is_taken_over_at_once(
    cluster: Cluster, beside: Cluster, backing: Backing, other: MetadataStore, stale_read_only: bool, read_only: bool
) -> None:
    """The process was killed: its session lives on for seconds, in which the new process does not wait."""
    beside.registration(keep=False).register(BOOKIE, INFO, stale_read_only)
    registration = cluster.registration()
    registration.register(BOOKIE, INFO, read_only, cookie=COOKIE)
    expected = ([], [BOOKIE]) if read_only else ([BOOKIE], [])
    assert listed(cluster) == expected
    other.close()
    assert listed(cluster) == expected, "it is not the old session's node any more"
    assert registration.check()


def test_rule_7_a_stale_registration_delays_by_a_few_calls_and_no_wait(
    cluster: Cluster, beside: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside.registration(keep=False).register(BOOKIE, INFO)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it slept"))
    counting = FaultyStore(cluster.store)
    Registration(counting, cluster.root).register(BOOKIE, INFO, cookie=COOKIE)
    assert sum(counting.seen.values()) <= 6


def test_rule_7_without_a_cookie_nobody_is_removed(cluster: Cluster, beside: Cluster) -> None:
    theirs = beside.registration()
    theirs.register(BOOKIE, INFO)
    with pytest.raises(ExistsError):
        cluster.registration().register(BOOKIE, INFO)
    assert theirs.check()


def test_rule_7_with_another_cookie_nobody_is_removed(cluster: Cluster, beside: Cluster) -> None:
    theirs = beside.registration()
    theirs.register(BOOKIE, INFO)
    with pytest.raises(CookieMismatchError, match="journal_dirs"):
        cluster.registration().register(BOOKIE, INFO, cookie=replace(COOKIE, journal_dirs=("/other",)))
    cluster.cookies.delete(BOOKIE)
    with pytest.raises(MissingError, match="no cookie"):
        cluster.registration().register(BOOKIE, INFO, cookie=COOKIE)
    assert theirs.check()


def test_rule_7_a_lost_session_is_survived(
    cluster: Cluster, beside: Cluster, backing: Backing, store: MetadataStore
) -> None:
    registration = cluster.registration()
    registration.register(BOOKIE, INFO, read_only=True, cookie=COOKIE)
    for times in (2, 3):
        backing.expire(store)
        until(lambda times=times: registration.registrations == times and registration.registered)
        assert listed(beside) == ([], [BOOKIE])
        assert registration.check()


def test_who_keeps_it_himself_is_left_alone(
    cluster: Cluster, beside: Cluster, backing: Backing, store: MetadataStore
) -> None:
    registration = cluster.registration(keep=False)
    registration.register(BOOKIE, INFO)
    backing.expire(store)
    until(lambda: listed(beside) == ([], []))
    assert not registration.registered
    assert not registration.check()
    registration.register(BOOKIE, INFO)
    assert registration.check()


def test_after_a_lost_session_it_is_tried_until_it_succeeds(
    cluster: Cluster, beside: Cluster, backing: Backing, store: MetadataStore
) -> None:
    faulty = FaultyStore(store)
    registration = Registration(faulty, cluster.root)
    registration.register(BOOKIE, INFO)
    faulty.script(["before"])
    backing.expire(store)
    until(lambda: registration.registered)
    assert faulty.seen["before"] == 1
    assert registration.problem is None
    assert listed(beside) == ([BOOKIE], [])


def test_who_unregistered_stays_so_after_a_lost_session(
    cluster: Cluster, beside: Cluster, backing: Backing, store: MetadataStore
) -> None:
    registration = cluster.registration()
    registration.register(BOOKIE, INFO)
    registration.unregister()
    told = Calls()
    watch = store.on_session(told)
    backing.expire(store)
    until(lambda: ("new",) in told.made)
    watch.close()
    assert registration.registrations == 1
    assert listed(beside) == ([], [])


def test_a_session_that_is_lost_while_it_registers_is_noticed(
    cluster: Cluster, beside: Cluster, backing: Backing, store: MetadataStore
) -> None:
    class Losing(FaultyStore):
        times = 3

        def delete(self, key: str, version: int | None = None) -> None:
            if self.times:
                self.times -= 1
                backing.expire(store)
            super().delete(key, version)

    registration = Registration(Losing(store), cluster.root, keep=False)
    registration.register(BOOKIE, INFO, cookie=COOKIE)
    assert registration.check()
    assert listed(beside) == ([BOOKIE], [])


def test_what_another_session_made_is_not_unregistered(
    cluster: Cluster, beside: Cluster, backing: Backing, store: MetadataStore
) -> None:
    registration = cluster.registration(keep=False)
    registration.register(BOOKIE, INFO)
    backing.expire(store)
    theirs = beside.registration()
    until(lambda: listed(beside) == ([], []))
    theirs.register(BOOKIE, INFO)
    registration.unregister()
    assert theirs.check()


# Calls that fail.


@pytest.mark.parametrize("fault", ["before", "after", "never"])
@pytest.mark.parametrize("calls", range(7))
@pytest.mark.parametrize("stale", [False, True])
def test_whatever_call_fails_it_is_registered_or_says_that_it_may_not_be(
    cluster: Cluster, beside: Cluster, other: MetadataStore, fault: str, calls: int, stale: bool
) -> None:
    if stale:
        beside.registration(keep=False).register(BOOKIE, INFO, read_only=calls % 2 == 0)
    faulty = FaultyStore(cluster.store)
    faulty.script([*["none"] * calls, fault])  # type: ignore[list-item]
    registration = Registration(faulty, cluster.root)
    try:
        registration.register(BOOKIE, INFO, cookie=COOKIE)
    except (UnavailableError, UnknownOutcomeError):
        assert not registration.registered
        registration.register(BOOKIE, INFO, cookie=COOKIE)
    assert registration.registered
    other.close()
    assert listed(cluster) == ([BOOKIE], []), "and by this session"


@pytest.mark.parametrize("fault", ["before", "after", "never"])
@pytest.mark.parametrize("calls", range(5))
def test_whatever_call_fails_a_change_can_be_made_again(
    cluster: Cluster, beside: Cluster, fault: str, calls: int
) -> None:
    faulty = FaultyStore(cluster.store)
    registration = Registration(faulty, cluster.root)
    registration.register(BOOKIE, INFO)
    faulty.script([*["none"] * calls, fault])  # type: ignore[list-item]
    try:
        registration.set_read_only(True)
    except (UnavailableError, UnknownOutcomeError):
        writable, read_only = listed(beside)
        assert writable or read_only
        registration.set_read_only(True)
    assert listed(beside) == ([], [BOOKIE])


@pytest.mark.parametrize("fault", ["after", "never"])
def test_without_a_cookie_a_bookie_knows_its_own_node_again(cluster: Cluster, beside: Cluster, fault: str) -> None:
    faulty = FaultyStore(cluster.store)
    faulty.script([fault])  # type: ignore[list-item]
    registration = Registration(faulty, cluster.root)
    registration.register(BOOKIE, INFO)
    assert listed(beside) == ([BOOKIE], [])


def test_after_a_change_that_failed_half_way_nothing_is_left_behind(cluster: Cluster, beside: Cluster) -> None:
    faulty = FaultyStore(cluster.store)
    registration = Registration(faulty, cluster.root)
    registration.register(BOOKIE, INFO)
    faulty.script(["none", "before"])
    with pytest.raises(UnavailableError):
        registration.set_read_only(True)
    assert listed(beside) == ([BOOKIE], [BOOKIE])
    registration.unregister()
    assert listed(beside) == ([], [])


def test_a_node_that_may_have_been_made_is_removed(cluster: Cluster, beside: Cluster) -> None:
    faulty = FaultyStore(cluster.store)
    registration = Registration(faulty, cluster.root)
    faulty.script(["after", "before"])
    with pytest.raises(UnavailableError):
        registration.register(BOOKIE, INFO)
    assert listed(beside) == ([BOOKIE], [])
    registration.unregister()
    assert listed(beside) == ([], [])


# Where something is missing, and watches.


def test_a_cluster_without_a_folder_for_read_only_bookies_gets_one(cluster: Cluster) -> None:
    cluster.store.delete(f"{cluster.root}/{cluster.keys.read_only}")
    assert cluster.bookies.read_only_bookies() == []
    cluster.registration().register(BOOKIE, INFO, read_only=True)
    assert listed(cluster) == ([], [BOOKIE])


@pytest.mark.parametrize("read_only", [False, True])
def test_where_there_is_no_cluster_nobody_registers(store: MetadataStore, root: str, read_only: bool) -> None:
    with pytest.raises(MissingError):
        Cluster(store, f"{root}/none").registration().register(BOOKIE, INFO, read_only)
    assert store.children(root) == []


def test_a_bookie_that_published_nothing_is_where_its_id_says(cluster: Cluster) -> None:
    key = f"{cluster.root}/{cluster.keys.writable}/{BOOKIE}"
    cluster.store.create(key, ephemeral=True)
    assert cluster.bookies.service_info(BOOKIE) == ServiceInfo.of_bookie_id(BOOKIE)
    cluster.store.put(key, b"\xff")
    with pytest.raises(CorruptMetadataError, match=cluster.keys.writable):
        cluster.bookies.service_info(BOOKIE)


def test_a_watch_tells_of_bookies_that_come_and_go(cluster: Cluster, beside: Cluster) -> None:
    calls = Calls()
    watch = cluster.bookies.watch(calls)
    registration = beside.registration()
    steps = [
        lambda: registration.register(BOOKIE, INFO),
        lambda: registration.set_read_only(True),
        lambda: beside.cookies.create(Cookie("new:1", ("/j",), ("/l",))),
        registration.unregister,
    ]
    for step in steps:
        before = calls.count
        step()
        until(lambda before=before: calls.count > before)
    watch.close()
