"""Names, documents and cursors in a store whose answers get lost: what was done is done once, and known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import walkeeper
from walkeeper import LogOptions, Position
from walkeeper.cluster._document import LogDocument
from walkeeper.cluster._log_store import LogStore
from walkeeper.metadata import FaultyStore, MemoryStore, MemoryTree
from walkeeper.metadata._faults import Fault

OPTIONS = LogOptions(2**28, 7200, 0, "none")
FIRST, LATER = Position((1, 0, 0, 0, 7)), Position((1, 5, 0, 5, 9))


@pytest.fixture
def tree() -> MemoryTree:
    return MemoryTree()


@pytest.fixture
def plain(tree: MemoryTree) -> LogStore:
    """The namespace as it is, without faults."""
    store = LogStore(MemoryStore(tree), "default", instance_id="one")
    assert store.prepare(True)
    return store


@pytest.fixture
def faulty(tree: MemoryTree, plain: LogStore) -> FaultyStore:
    return FaultyStore(MemoryStore(tree))


@pytest.fixture
def logs(faulty: FaultyStore) -> LogStore:
    return LogStore(faulty, "default", instance_id="one")


def at_each_call(faulty: FaultyStore, fault: Fault, act: Callable[[int], None]) -> int:
    """Acts again and again, with one fault at the first call of the store, then at the second, and so on, until the
    action ends before the fault: how many calls it makes."""
    for calls in range(200):
        seen = faulty.seen[fault]
        faulty.script(["none"] * calls + [fault])
        act(calls)
        faulty._script.clear()
        if faulty.seen[fault] == seen:
            return calls
    raise AssertionError("the action never ends")


def tried(call: Callable[[], Any]) -> Any:
    """Once more where a read failed, and nothing was done."""
    with contextlib.suppress(walkeeper.UnavailableError):
        return call()
    return call()


@pytest.mark.parametrize("fault", ["after", "never"])
def test_a_log_is_made_renamed_and_deleted_once(
    plain: LogStore, logs: LogStore, faulty: FaultyStore, fault: Fault
) -> None:
    def make(number: int) -> None:
        log_id = tried(lambda: logs.create(LogDocument(f"log-{number}", OPTIONS)))
        assert plain.find(f"log-{number}") == log_id
        assert plain.read(log_id)[0].name == f"log-{number}"

    def rename(number: int) -> None:
        log_id = plain.create(LogDocument("old", OPTIONS))
        tried(lambda: logs.rename("old", f"new-{number}"))
        assert (plain.find("old"), plain.find(f"new-{number}")) == (None, log_id)
        assert plain.read(log_id)[0].name == f"new-{number}"

    def forget(number: int) -> None:
        log_id = plain.create(LogDocument("gone", OPTIONS))
        plain.set_cursor(log_id, "billing", FIRST, lambda document: None)
        plain.change(log_id, lambda now: replace(now, deleted=True))
        tried(lambda: logs.forget("gone", log_id, 7))
        assert plain.find("gone") is None
        assert plain.look(log_id) is None

    assert at_each_call(faulty, fault, make) >= 2
    assert at_each_call(faulty, fault, rename) >= 4
    assert at_each_call(faulty, fault, forget) >= 4


@pytest.mark.parametrize("fault", ["after", "never"])
def test_a_change_whose_answer_is_lost_is_made_once(
    plain: LogStore, logs: LogStore, faulty: FaultyStore, fault: Fault
) -> None:
    log_id = plain.create(LogDocument("orders", OPTIONS))

    def count(number: int) -> None:
        before = plain.read(log_id)[0].writer
        tried(lambda: logs.change(log_id, lambda now: replace(now, writer=now.writer + 1)))
        assert plain.read(log_id)[0].writer == before + 1

    assert at_each_call(faulty, fault, count) == 2


@pytest.mark.parametrize("fault", ["after", "never"])
def test_a_cursor_is_made_moved_and_deleted_once(
    plain: LogStore, logs: LogStore, faulty: FaultyStore, fault: Fault
) -> None:
    log_id = plain.create(LogDocument("orders", OPTIONS))

    def act(number: int) -> None:
        for at in (FIRST, LATER):
            tried(lambda at=at: logs.set_cursor(log_id, "ä", at, lambda document: None))  # type: ignore[misc]
        assert plain.cursors(log_id) == {"ä": LATER}
        tried(lambda: logs.delete_cursor(log_id, "ä"))
        assert plain.cursors(log_id) == {}

    assert at_each_call(faulty, fault, act) >= 6


def test_a_cursor_that_a_truncation_did_not_see_stops_it(plain: LogStore) -> None:
    log_id = plain.create(LogDocument("orders", OPTIONS))
    looks = []

    def truncate(now: LogDocument) -> LogDocument:
        looks.append(plain.cursors(log_id))
        if len(looks) == 1:  # behind the look at the cursors, and before the write
            plain.set_cursor(log_id, "billing", FIRST, lambda document: None)
        return replace(now, first=LATER)

    plain.change(log_id, truncate)
    assert [list(look) for look in looks] == [[], ["billing"]]


# Whose ledgers they are


def test_a_namespace_of_another_cluster_is_refused(tree: MemoryTree, plain: LogStore) -> None:
    """Its documents name ledgers by numbers, which mean others here: a truncation would delete them."""
    for create in (True, False):
        with pytest.raises(walkeeper.UnsupportedError, match="belongs to another cluster"):
            LogStore(MemoryStore(tree), "default", instance_id="two").prepare(create)
    assert plain.prepare(False)


def test_clusters_at_two_places_of_a_store_have_namespaces_of_their_own(tree: MemoryTree, plain: LogStore) -> None:
    plain.create(LogDocument("orders", OPTIONS))
    elsewhere = LogStore(MemoryStore(tree), "default", root="/b/ledgers", instance_id="two")
    assert not elsewhere.prepare(False)
    assert elsewhere.prepare(True)
    assert elsewhere.names("") == []
    assert MemoryStore(tree).children("/b") == ["walkeeper"]


def test_a_namespace_of_a_newer_format_is_refused(tree: MemoryTree, plain: LogStore) -> None:
    MemoryStore(tree).put("/walkeeper/default", b"walkeeper 2\nwhatever\n")
    with pytest.raises(walkeeper.UnsupportedError, match="walkeeper 2"):
        plain.prepare(True)


def test_a_namespace_that_was_made_before_instance_ids_were_written_gets_one(tree: MemoryTree) -> None:
    store = MemoryStore(tree)
    for key in ("names", "logs", "freed"):
        store.create(f"/walkeeper/default/{key}", parents=True)
    assert LogStore(store, "default", instance_id="one").prepare(True)
    found = store.get("/walkeeper/default")
    assert found is not None
    assert found.data == b"walkeeper 1\none\n"


@pytest.mark.parametrize("fault", ["after", "never"])
def test_a_namespace_is_made_whatever_answer_is_lost(fault: Fault) -> None:
    for calls in range(12):
        faulty = FaultyStore(MemoryStore(MemoryTree()))
        store = LogStore(faulty, "default", instance_id="one")
        faulty.script(["none"] * calls + [fault])
        assert tried(lambda store=store: store.prepare(True))  # type: ignore[misc]
        faulty._script.clear()
        assert store.prepare(False)
        store.create(LogDocument("orders", OPTIONS))
