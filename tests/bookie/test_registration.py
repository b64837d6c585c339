"""Rule 7: the registration outlives sessions, is taken over after a kill, and follows read-only."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator

import pytest
from bookie_runs import until

from walkeeper.metadata import (
    Cluster,
    Cookie,
    MemoryStore,
    MemoryTree,
    MetadataError,
    ServiceInfo,
    UnavailableError,
)
from walkeeper_bookie import _registration
from walkeeper_bookie._collector import WrongClusterError
from walkeeper_bookie._disk_watch import NEWS_S
from walkeeper_bookie._kinds import Address
from walkeeper_bookie._log import Log
from walkeeper_bookie._metadata import BookieMetadata
from walkeeper_bookie._readiness import Check, Outcome
from walkeeper_bookie._registration import Registrar

ID = "127.0.0.1:3181"
SESSION_S = 10.0


class World:
    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.looker = MemoryStore(self.tree)
        self.instance_id = BookieMetadata(self.looker, "/ledgers").initialize()
        self.cookie = Cookie(ID, ("/d",), ("/d",), instance_id=self.instance_id)
        BookieMetadata(self.looker, "/ledgers").create_cookie(self.cookie)
        self.lines = io.StringIO()
        self.registrars: list[Registrar] = []
        self.failed: list[tuple[str, BaseException]] = []
        self.clock = 0.0

    def bookie(self) -> tuple[MemoryStore, BookieMetadata, Registrar]:
        store = MemoryStore(self.tree)
        metadata = BookieMetadata(store, "/ledgers")
        metadata.publish(self.cookie, Address("127.0.0.1", 3181), None)
        registrar = Registrar(
            metadata,
            self.instance_id,
            Log(self.lines),
            SESSION_S,
            lambda name, error: self.failed.append((name, error)),
            monotonic=lambda: self.clock,
        )
        self.registrars.append(registrar)
        return store, metadata, registrar

    def free(self) -> int | None:
        """What clients learn of its disk."""
        info = Cluster(self.looker, "/ledgers").bookies.service_info(ID)
        return None if info is None else info.free_bytes

    def found(self) -> list[str]:
        """Where clients find it."""
        writable = [f"writable {name}" for name in self.looker.children("/ledgers/available") if name != "readonly"]
        return writable + [f"read-only {name}" for name in self.looker.children("/ledgers/available/readonly")]


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registration, "LOOK_S", 0.02)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    for registrar in world.registrars:
        registrar.close()


@pytest.mark.parametrize(("read_only", "found"), [(False, f"writable {ID}"), (True, f"read-only {ID}")])
def test_registered_when_start_returns_and_not_after_close(world: World, read_only: bool, found: str) -> None:
    _, _, registrar = world.bookie()
    registrar.start(read_only)
    assert world.found() == [found]
    assert registrar.registered
    registrar.close()
    assert world.found() == []
    assert not registrar.registered


@pytest.mark.parametrize(("listens", "published"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "b1.example.org")])
def test_http_is_published_where_it_listens(world: World, listens: str, published: str) -> None:
    """Where that is every address, the bookie's is one of them."""
    _, metadata, registrar = world.bookie()
    metadata.publish(world.cookie, Address("b1.example.org", 3181), Address(listens, 8000))
    registrar.start(False)
    value = world.looker.get(f"/ledgers/available/{ID}")
    assert value is not None
    found = {each.id: (each.host, each.port) for each in ServiceInfo.parse(value.data).endpoints}
    assert found == {"bookie": ("b1.example.org", 3181), "httpserver": (published, 8000)}


def test_it_follows_what_is_wanted(world: World) -> None:
    _, _, registrar = world.bookie()
    registrar.start(False)
    registrar.want(True)
    until(lambda: world.found() == [f"read-only {ID}"], "read-only")
    registrar.want(False)
    until(lambda: world.found() == [f"writable {ID}"], "writable")


def test_what_a_killed_process_left_is_taken_over(world: World) -> None:
    first, _, registrar = world.bookie()
    registrar.start(False)
    before = world.looker.get(f"/ledgers/available/{ID}")
    _, _, second = world.bookie()
    second.start(True)  # the first one's session goes on
    assert world.found() == [f"read-only {ID}"]
    second.want(False)
    until(lambda: world.found() == [f"writable {ID}"], "writable")
    after = world.looker.get(f"/ledgers/available/{ID}")
    assert before is not None
    assert after is not None
    assert before.version != after.version
    first.expire_session()
    assert world.looker.get(f"/ledgers/available/{ID}") == after  # the old session's end takes nothing with it


def test_a_lost_session_is_followed_by_another_registration(world: World) -> None:
    store, _, registrar = world.bookie()
    registrar.start(False)
    for number in range(2, 5):
        store.expire_session()
        until(lambda: registrar.registered and world.found() == [f"writable {ID}"], "registered again")
        assert registrar.registrations == number


@pytest.mark.usefixtures("looks_often")
def test_a_registration_that_somebody_removed_is_made_again(world: World) -> None:
    _, _, registrar = world.bookie()
    registrar.start(False)
    world.looker.delete(f"/ledgers/available/{ID}")
    until(lambda: world.found() == [f"writable {ID}"], "registered again")


@pytest.mark.usefixtures("looks_often")
def test_a_registration_that_is_gone_and_cannot_be_made_again_is_missed_at_once(world: World) -> None:
    """The session goes on, which alone says nothing."""
    _, _, registrar = world.bookie()
    registrar.start(False)
    world.looker.delete(f"/ledgers/cookies/{ID}")
    world.looker.delete(f"/ledgers/available/{ID}")
    until(lambda: "no cookie" in registrar.problem, "it says why")
    assert registrar.problem.startswith("not registered for 0 s: ")
    world.clock += 12
    assert registrar.problem.startswith("not registered for 12 s: ")
    assert not registrar.registered
    BookieMetadata(world.looker, "/ledgers").create_cookie(world.cookie)
    until(lambda: registrar.registered, "registered again")
    assert world.found() == [f"writable {ID}"]


@pytest.mark.usefixtures("looks_often")
def test_a_store_that_does_not_answer_takes_no_registration_away_before_the_session_could_end(world: World) -> None:
    store, _, registrar = world.bookie()
    registrar.start(False)
    store.disconnect()
    until(lambda: "cannot be told" in world.lines.getvalue(), "it cannot look")
    world.clock += SESSION_S
    assert registrar.registered
    world.clock += 1
    silent = "whether the bookie is registered is not known: the metadata store has not answered for 11 s"
    assert registrar.problem.startswith(f"{silent}: ")
    assert registrar.check().outcome is Outcome.UNKNOWN
    assert not registrar.registered
    store.reconnect()
    until(lambda: registrar.registered, "it looks")
    assert world.found() == [f"writable {ID}"]
    assert registrar.registrations == 1, "the one that stands is not made again"
    assert "answers again" in world.lines.getvalue()
    assert "not registered" not in world.lines.getvalue()


@pytest.mark.usefixtures("looks_often")
def test_a_look_that_never_ends_is_no_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _, metadata, registrar = world.bookie()
    registrar.start(False)
    looking, answers = threading.Event(), threading.Event()

    def silent() -> bool:
        looking.set()
        return answers.wait(60)

    monkeypatch.setattr(metadata, "registered", silent)
    assert looking.wait(60)
    assert registrar.registered
    world.clock += SESSION_S + 1
    silent = "whether the bookie is registered is not known: the metadata store has not answered for 11 s"
    assert registrar.problem == silent
    answers.set()
    until(lambda: registrar.registered, "it was answered")


def test_a_store_that_answered_is_not_blamed_for_what_the_registrar_waits_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held up behind the answer, as a log that waits for its reader would do it."""
    _, _, registrar = world.bookie()
    registrar.start(False)
    held, goes_on = threading.Event(), threading.Event()

    def wait(*_: object, **__: object) -> None:
        held.set()
        goes_on.wait(60)

    with monkeypatch.context() as patch:
        patch.setattr(registrar._log, "info", wait)
        registrar.want(True)
        assert held.wait(60)
        world.clock += SESSION_S + 1
        assert registrar.registered
        world.clock += 30
        assert registrar.check() == Check(
            Outcome.UNKNOWN, "whether the bookie is registered is not known: the metadata store was not asked for 41 s"
        )
        goes_on.set()
        registrar.want(False)
        until(lambda: registrar.registered, "it asks again")


@pytest.mark.usefixtures("looks_often")
@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), KeyError("a defect")])
def test_what_its_thread_ends_by_is_told_and_nobody_is_sent_there_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    _, metadata, registrar = world.bookie()
    registrar.start(False)

    def broken() -> bool:
        raise error

    monkeypatch.setattr(metadata, "registered", broken)
    until(lambda: world.failed, "it is told")
    assert world.failed == [("registrar", error)]
    assert not registrar.registered
    assert "a defect" in registrar.problem


def test_a_store_that_is_away_for_a_while_is_waited_for(world: World) -> None:
    store, _, registrar = world.bookie()
    registrar.start(False)
    store.disconnect()
    store.expire_session()
    registrar.want(True)
    until(lambda: registrar.problem, "it fails")
    store.reconnect()
    until(lambda: world.found() == [f"read-only {ID}"], "registered again")
    assert not registrar.problem


def test_another_cluster_is_not_registered_in(world: World) -> None:
    store, _, registrar = world.bookie()
    registrar.start(False)
    world.looker.put("/ledgers/INSTANCEID", b"another")
    store.expire_session()
    until(lambda: "INSTANCEID" in registrar.problem, "it sees that")
    assert world.found() == []
    world.looker.put("/ledgers/INSTANCEID", world.instance_id.encode())
    until(lambda: world.found() == [f"writable {ID}"], "registered again")


def test_a_start_that_fails_leaves_nothing_behind(world: World) -> None:
    store, _, registrar = world.bookie()
    store.disconnect()
    with pytest.raises(UnavailableError):
        registrar.start(False)
    store.reconnect()
    world.looker.put("/ledgers/INSTANCEID", b"another")
    with pytest.raises(WrongClusterError):
        registrar.start(False)
    assert world.found() == []


def test_without_its_cookie_it_takes_nothing_over(world: World) -> None:
    _, _, registrar = world.bookie()
    world.looker.delete(f"/ledgers/cookies/{ID}")
    with pytest.raises(MetadataError):
        registrar.start(False)
    assert world.found() == []


def test_close_goes_through_where_the_store_does_not_answer(world: World) -> None:
    store, _, registrar = world.bookie()
    registrar.start(False)
    store.disconnect()
    registrar.close()
    assert "the session's end will do it" in world.lines.getvalue()


def test_close_does_not_wait_for_a_store_that_is_silent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registration, "CLOSE_S", 0.05)
    _, metadata, registrar = world.bookie()
    registrar.start(False)
    answers, gave_up = threading.Event(), threading.Event()
    unregister = metadata.unregister

    def silent() -> None:
        if not answers.wait(20):
            gave_up.set()
        unregister()

    monkeypatch.setattr(metadata, "unregister", silent)
    registrar.close()
    assert not gave_up.is_set()
    assert "the store does not answer" in world.lines.getvalue()
    answers.set()
    until(lambda: world.found() == [], "it is unregistered after all")


@pytest.mark.usefixtures("looks_often")
def test_what_was_refused_is_no_registration(world: World) -> None:
    """The node of the earlier state may stand: the cluster does not know the bookie any more."""
    _, _, registrar = world.bookie()
    registrar.start(False)
    world.looker.delete(f"/ledgers/cookies/{ID}")
    registrar.want(True)
    until(lambda: "no cookie" in registrar.problem, "it says so")
    assert not registrar.registered


# ---- free space ----


@pytest.mark.usefixtures("looks_often")
def test_free_space_is_published_as_it_changes_and_once_a_minute_at_most(world: World) -> None:
    _, metadata, registrar = world.bookie()
    metadata.publish(world.cookie, Address("127.0.0.1", 3181), None, 1000)
    registrar.start(False, 1000)
    assert world.free() == 1000
    registrar.tell_free_bytes(500)
    time.sleep(0.2)
    assert world.free() == 1000
    world.clock += NEWS_S
    until(lambda: world.free() == 500, "it is published")
    registrar.tell_free_bytes(490)
    world.clock += NEWS_S
    time.sleep(0.2)
    assert world.free() == 500, "a small change is no news"
    assert registrar.registrations == 1
    registrar.want(True)
    until(lambda: world.found() == [f"read-only {ID}"], "read-only")
    assert world.free() == 500


@pytest.mark.usefixtures("looks_often")
def test_news_that_could_not_be_told_are_told_when_the_store_answers(world: World) -> None:
    store, metadata, registrar = world.bookie()
    metadata.publish(world.cookie, Address("127.0.0.1", 3181), None, 1000)
    registrar.start(False, 1000)
    store.disconnect()
    world.clock += NEWS_S
    registrar.tell_free_bytes(10)
    until(lambda: "cannot be told" in world.lines.getvalue(), "the store does not answer")
    store.reconnect()
    until(lambda: world.free() == 10, "it is published")
    assert registrar.registrations == 1


@pytest.mark.usefixtures("looks_often")
def test_a_disk_that_did_not_answer_at_the_start_is_published_when_it_does(world: World) -> None:
    _, _, registrar = world.bookie()
    registrar.start(False)
    assert world.free() is None
    registrar.tell_free_bytes(10)
    until(lambda: world.free() == 10, "it is published")
