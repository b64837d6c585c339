"""What every store promises of sessions, watches, threads and `close`."""

from __future__ import annotations

import contextlib
import threading

import pytest
from metadata.stores import WAIT_SECONDS, Backing, Calls, settle, until

from walkeeper.metadata import (
    ClosedError,
    MetadataError,
    MetadataStore,
    Operation,
    UnavailableError,
    UnknownOutcomeError,
)

# ---- ephemeral keys ----


def test_an_ephemeral_key_says_so_and_others_see_it(store: MetadataStore, other: MetadataStore, root: str) -> None:
    version = store.create(f"{root}/here", b"x", ephemeral=True)
    value = other.get(f"{root}/here")
    assert value is not None
    assert (value.data, value.version, value.ephemeral) == (b"x", version, True)
    assert other.children(root) == ["here"]


def test_ephemeral_keys_go_by_close(backing: Backing, other: MetadataStore, root: str) -> None:
    store = backing.open()
    store.create(f"{root}/stays")
    store.create(f"{root}/here", ephemeral=True)
    store.create_sequential(f"{root}/n-", ephemeral=True)
    store.transact([Operation("create", f"{root}/also", ephemeral=True)])
    other.create(f"{root}/theirs", ephemeral=True)
    assert len(other.children(root)) == 5
    store.close()
    until(lambda: other.children(root) == ["stays", "theirs"])


def test_an_ephemeral_key_has_no_children(store: MetadataStore, root: str) -> None:
    store.create(f"{root}/here", ephemeral=True)
    with pytest.raises(MetadataError):
        store.create(f"{root}/here/below")
    assert store.children(f"{root}/here") == []


def test_another_session_may_write_and_delete_an_ephemeral_key(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    """How a bookie that came back removes what its former self registered."""
    version = store.create(f"{root}/here", b"x", ephemeral=True)
    version = other.put(f"{root}/here", b"y", version)
    value = store.get(f"{root}/here")
    assert value is not None
    assert (value.data, value.ephemeral) == (b"y", True)
    other.delete(f"{root}/here", version)
    other.create(f"{root}/here", b"z", ephemeral=True)
    store.close()
    assert other.get(f"{root}/here") is not None


def test_a_lost_session_takes_its_ephemeral_keys_and_nothing_else(
    backing: Backing, store: MetadataStore, other: MetadataStore, root: str
) -> None:
    store.create(f"{root}/stays")
    store.create(f"{root}/here", ephemeral=True)
    other.create(f"{root}/theirs", ephemeral=True)
    events = Calls()
    store.on_session(events)
    session, theirs = store.session(), other.session()
    backing.expire(store)
    until(lambda: other.children(root) == ["stays", "theirs"])
    until(lambda: events.made[:2] == [("lost",), ("new",)], "lost, then new")
    assert store.session() != session
    assert other.session() == theirs
    store.create(f"{root}/here", b"again", ephemeral=True)
    value = other.get(f"{root}/here")
    assert value is not None
    assert value.data == b"again"


def test_a_session_lives_while_nothing_happens_to_it(store: MetadataStore, root: str) -> None:
    events = Calls()
    store.on_session(events)
    session = store.session()
    store.create(f"{root}/here", ephemeral=True)
    settle(store, root)
    assert store.session() == session
    assert events.made == []


def test_who_let_go_of_session_events_hears_of_none(backing: Backing, store: MetadataStore, root: str) -> None:
    store.create(f"{root}/here", ephemeral=True)
    silent, events = Calls(), Calls()
    store.on_session(silent).close()
    store.on_session(events)
    backing.expire(store)
    until(lambda: ("new",) in events.made)
    assert silent.made == []


# ---- watches ----


def test_each_kind_of_change_gives_a_hint(store: MetadataStore, other: MetadataStore, root: str) -> None:
    key = f"{root}/watched"
    changes = [
        lambda: other.create(key),
        lambda: other.put(key, b"x"),
        lambda: other.put(key, b"y"),
        lambda: other.create(f"{key}/child"),
        lambda: other.create_sequential(f"{key}/n-"),
        lambda: other.delete(f"{key}/child"),
        lambda: [other.delete(f"{key}/{name}") for name in other.children(key)],
        lambda: other.delete(key),
        lambda: other.create(key, ephemeral=True),
        other.close,
    ]
    hints = Calls()
    watch = store.watch(key, hints)
    for change in changes:
        settle(store, root)
        before = hints.count
        change()
        until(lambda before=before: hints.count > before)  # type: ignore[misc]
    watch.close()


def test_a_hint_comes_for_what_this_store_wrote_as_well(store: MetadataStore, root: str) -> None:
    hints = Calls()
    with contextlib.closing(store.watch(f"{root}/a", hints)):
        store.create(f"{root}/a")
        until(lambda: hints.count)


def test_what_is_read_after_the_hint_is_the_new_value(store: MetadataStore, other: MetadataStore, root: str) -> None:
    other.create(f"{root}/a", b"0")
    seen: list[bytes] = []

    def read() -> None:
        value = store.get(f"{root}/a")
        assert value is not None
        seen.append(value.data)

    with contextlib.closing(store.watch(f"{root}/a", read)):
        for number in range(20):
            other.put(f"{root}/a", b"%d" % number)
        until(lambda: seen and seen[-1] == b"19", "the last change had no hint after it")


def test_a_change_made_while_the_callback_runs_gives_another_hint(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    other.create(f"{root}/a")
    settle(store, root)
    began, go_on, hints = threading.Event(), threading.Event(), Calls()

    def callback() -> None:
        hints()
        began.set()
        assert go_on.wait(WAIT_SECONDS)

    with contextlib.closing(store.watch(f"{root}/a", callback)):
        other.put(f"{root}/a", b"1")
        assert began.wait(WAIT_SECONDS)
        before = hints.count
        other.put(f"{root}/a", b"2")
        go_on.set()
        until(lambda: hints.count > before)


def test_a_closed_watch_is_silent(store: MetadataStore, other: MetadataStore, root: str) -> None:
    other.create(f"{root}/a")
    settle(store, root)
    closed, heard = Calls(), Calls()
    watch = store.watch(f"{root}/a", closed)
    watch.close()
    watch.close()
    before = closed.count
    with contextlib.closing(store.watch(f"{root}/a", heard)):
        other.put(f"{root}/a", b"x")
        until(lambda: heard.count)
        settle(store, root)
    assert closed.count == before


def test_a_callback_may_close_its_own_watch_and_call_the_store(store: MetadataStore, root: str) -> None:
    store.create(f"{root}/a", b"x")
    settle(store, root)
    done = Calls()

    def callback() -> None:
        watch.close()
        store.create(f"{root}/made-by-callback")
        done(store.children(root), store.transact([Operation("put", f"{root}/a", b"z")]))

    watch = store.watch(f"{root}/a", callback)
    store.put(f"{root}/a", b"y")
    until(lambda: done.count)
    settle(store, root)
    assert done.count == 1
    assert "made-by-callback" in done.made[0][0]


def test_a_callback_that_raises_does_not_silence_others(store: MetadataStore, root: str) -> None:
    store.create(f"{root}/a")
    hints = Calls()

    def fail() -> None:
        raise RuntimeError("a callback failed, as the test wants")

    with contextlib.closing(store.watch(f"{root}/a", fail)), contextlib.closing(store.watch(f"{root}/a", hints)):
        for number in range(2):
            before = hints.count
            store.put(f"{root}/a", b"%d" % number)
            until(lambda before=before: hints.count > before)  # type: ignore[misc]


def test_many_watches_of_one_key_and_of_many_keys(store: MetadataStore, other: MetadataStore, root: str) -> None:
    calls = [Calls() for _ in range(30)]
    watches = [store.watch(f"{root}/{number // 3}", call) for number, call in enumerate(calls)]
    for number in range(10):
        other.create(f"{root}/{number}")
    until(lambda: all(call.count for call in calls))
    for watch in watches:
        watch.close()


def test_a_watch_outlives_a_lost_session(
    backing: Backing, store: MetadataStore, other: MetadataStore, root: str
) -> None:
    other.create(f"{root}/a")
    store.create(f"{root}/here", ephemeral=True)
    hints, events = Calls(), Calls()
    store.on_session(events)
    with contextlib.closing(store.watch(f"{root}/a", hints)):
        backing.expire(store)
        until(lambda: ("new",) in events.made)
        before = hints.count
        other.put(f"{root}/a", b"x")
        until(lambda: hints.count > before)


# ---- close ----


def test_a_closed_store_refuses_every_call(backing: Backing, root: str) -> None:
    store = backing.open()
    store.create(f"{root}/a")
    store.close()
    store.close()
    for call in (
        lambda: store.get(f"{root}/a"),
        lambda: store.create(f"{root}/b"),
        lambda: store.create_sequential(f"{root}/b"),
        lambda: store.put(f"{root}/a", b""),
        lambda: store.delete(f"{root}/a"),
        lambda: store.transact([Operation("check", f"{root}/a")]),
        lambda: store.children(root),
        lambda: list(store.scan(root)),
        lambda: store.watch(root, lambda: None),
        lambda: store.on_session(lambda event: None),
        store.session,
    ):
        with pytest.raises(ClosedError):
            call()


def test_a_closed_store_gives_no_hints(backing: Backing, other: MetadataStore, root: str) -> None:
    store = backing.open()
    closed, heard = Calls(), Calls()
    store.watch(f"{root}/a", closed)
    settle(store, root)
    store.close()
    with contextlib.closing(other.watch(f"{root}/a", heard)):
        other.create(f"{root}/a")
        until(lambda: heard.count)
    assert closed.count == 0


def test_a_callback_may_close_the_store(backing: Backing, other: MetadataStore, root: str) -> None:
    store = backing.open()
    closed = threading.Event()

    def callback() -> None:
        store.close()
        closed.set()

    store.watch(f"{root}/a", callback)
    other.create(f"{root}/a")
    assert closed.wait(WAIT_SECONDS)
    with pytest.raises(ClosedError):
        store.get(root)


def test_close_ends_the_calls_of_other_threads(backing: Backing, root: str) -> None:
    store = backing.open()
    store.create(f"{root}/a")
    ended = Calls()
    running = threading.Barrier(5)

    def work(number: int) -> None:
        running.wait(WAIT_SECONDS)
        try:
            while True:
                with contextlib.suppress(UnknownOutcomeError):  # the one that was on its way
                    store.put(f"{root}/a", b"%d" % number)
                store.children(root)
        except (ClosedError, UnavailableError) as error:
            ended(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    running.wait(WAIT_SECONDS)
    store.close()
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
    assert ended.count == 4


# ---- threads ----


def test_threads_may_do_everything_at_once(store: MetadataStore, other: MetadataStore, root: str) -> None:
    failed, hints, lasting = Calls(), Calls(), Calls()
    watch = store.watch(root, lasting)

    def work(through: MetadataStore, number: int) -> None:
        key = f"{root}/{number}"
        try:
            for turn in range(8):
                with contextlib.closing(through.watch(key, hints)):
                    version = through.create(key, b"%d" % turn, ephemeral=turn % 2 == 0)
                    through.put(key, b"x", version)
                    assert str(number) in through.children(root)
                    assert str(number) in list(through.scan(root, page=2))
                    through.transact([Operation("put", key, b"y"), Operation("create", f"{root}/t{number}")])
                    through.transact([Operation("delete", key), Operation("delete", f"{root}/t{number}")])
        except BaseException as error:
            failed(error)
            raise

    threads = [threading.Thread(target=work, args=((store, other)[n % 2], n)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT_SECONDS)
        assert not thread.is_alive()
    assert failed.made == []
    assert store.children(root) == []
    until(lambda: lasting.count)
    watch.close()


def test_who_wrote_is_seen_by_who_reads_afterwards(store: MetadataStore, other: MetadataStore, root: str) -> None:
    store.create(f"{root}/a", b"0")
    for number in range(30):
        writer, reader = (store, other) if number % 2 else (other, store)
        version = writer.put(f"{root}/a", b"%d" % number)
        value = reader.get(f"{root}/a", linearizable=True)
        assert value is not None
        assert (value.data, value.version) == (b"%d" % number, version)
