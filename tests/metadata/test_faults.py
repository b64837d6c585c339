"""What callers do about faults, on every store: *unavailable* is tried again, *unknown* is settled by re-reading.

The loops here are the pattern for every user of a store. Each must end with exactly what was asked for, once.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid

import pytest
from metadata.stores import WAIT_SECONDS, Backing, Calls, until

from walkeeper.metadata import (
    ConflictError,
    ExistsError,
    Fault,
    FaultyStore,
    MemoryStore,
    MetadataStore,
    MissingError,
    Operation,
    UnavailableError,
    UnknownOutcomeError,
    Value,
)

SEED = int(os.environ.get("WALKEEPER_TEST_SEED", str(time.time_ns() % 2**32)))
RATES: dict[Fault, float] = {"before": 0.15, "after": 0.15, "never": 0.15, "slow": 0.02}


@pytest.fixture
def seed() -> int:
    print(f"WALKEEPER_TEST_SEED={SEED}")
    return SEED


def read(store: MetadataStore, key: str) -> Value | None:
    while True:
        with contextlib.suppress(UnavailableError):
            return store.get(key, linearizable=True)


def create(store: MetadataStore, key: str, token: bytes) -> bool:
    """Whether it was this call that made the key."""
    while True:
        try:
            store.create(key, token)
        except UnavailableError:
            continue
        except ExistsError:
            return False
        except UnknownOutcomeError:
            value = read(store, key)
            if value is None:
                continue  # it was not done; might it still be, the token would tell as well
            return value.data == token
        return True


def add_one(store: MetadataStore, key: str) -> None:
    """A counter, and the tokens of who wrote it. Each call counts once, whatever happens on the way."""
    token = uuid.uuid4().hex
    while True:
        value = read(store, key)
        assert value is not None
        count, _, seen = value.data.decode().partition(" ")
        if token in seen.split():
            return
        try:
            store.put(key, f"{int(count) + 1} {seen} {token}".encode(), value.version)
        except (UnavailableError, ConflictError, UnknownOutcomeError):
            continue
        return


def delete(store: MetadataStore, key: str) -> None:
    while True:
        try:
            store.delete(key)
        except (UnavailableError, UnknownOutcomeError):
            continue
        except MissingError:
            pass
        return


def test_each_fault_does_what_it_says(store: MetadataStore, root: str) -> None:
    faulty = FaultyStore(store)
    key = f"{root}/a"
    faulty.script(["before", "never", "after", "none", "before", "slow"])
    with pytest.raises(UnavailableError):
        faulty.create(key)
    assert store.get(key) is None
    with pytest.raises(UnknownOutcomeError):
        faulty.create(key)
    assert store.get(key) is None
    with pytest.raises(UnknownOutcomeError):
        faulty.create(key)
    assert store.get(key) is not None
    assert faulty.get(key) is not None
    with pytest.raises(UnavailableError):
        faulty.get(key)
    assert faulty.children(root) == ["a"]
    assert faulty.seen == {"before": 2, "never": 1, "after": 1, "none": 1, "slow": 1}


def test_a_lost_session_is_injected(backing: Backing, store: MetadataStore, other: MetadataStore, root: str) -> None:
    faulty = FaultyStore(store, lose_session=lambda: backing.expire(store))
    events = Calls()
    faulty.on_session(events)
    faulty.create(f"{root}/here", ephemeral=True)
    session = faulty.session()
    faulty.script(["lost"])
    faulty.children(root)
    until(lambda: other.get(f"{root}/here") is None)
    until(lambda: ("new",) in events.made)
    assert faulty.session() != session


def test_the_same_seed_gives_the_same_faults(seed: int) -> None:
    def drawn() -> list[str]:
        faulty = FaultyStore(MemoryStore(), seed, RATES)
        return [outcome(faulty, f"/{number}") for number in range(200)]

    def outcome(faulty: FaultyStore, key: str) -> str:
        try:
            faulty.create(key)
        except (UnavailableError, UnknownOutcomeError) as error:
            return type(error).__name__
        return "done"

    assert drawn() == drawn()
    assert len(set(drawn())) == 3


def test_a_create_is_done_by_exactly_one(store: MetadataStore, other: MetadataStore, root: str, seed: int) -> None:
    faulty = [FaultyStore(through, seed + n, RATES) for n, through in enumerate((store, other))]
    made: list[list[bool]] = [[], []]

    def work(number: int) -> None:
        for turn in range(20):
            made[number].append(create(faulty[number], f"{root}/{turn}", uuid.uuid4().bytes))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT_SECONDS)
        assert not thread.is_alive()
    assert all(first + second == 1 for first, second in zip(*made, strict=True))
    assert len(made[0]) == len(store.children(root)) == 20


def test_what_is_counted_is_counted_once(store: MetadataStore, other: MetadataStore, root: str, seed: int) -> None:
    key = f"{root}/counter"
    store.create(key, b"0 ")
    faulty = [FaultyStore(through, seed + n, RATES) for n, through in enumerate((store, other, store))]

    def work(through: FaultyStore) -> None:
        for _ in range(12):
            add_one(through, key)

    threads = [threading.Thread(target=work, args=(through,)) for through in faulty]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT_SECONDS)
        assert not thread.is_alive()
    value = store.get(key)
    assert value is not None
    assert value.data.split()[0] == b"36"


def test_a_transaction_of_unknown_outcome_is_done_or_not(store: MetadataStore, root: str, seed: int) -> None:
    faulty = FaultyStore(store, seed, RATES)
    outcomes: set[tuple[int, int]] = set()
    for turn in range(1000):
        if turn >= 40 and {(1, 0), (1, 3)} <= outcomes:
            break
        keys = [f"{root}/{turn}-{part}" for part in range(3)]
        try:
            faulty.transact([Operation("create", key) for key in keys])
            expected = {3}
        except UnavailableError:
            expected = {0}
        except UnknownOutcomeError:
            expected = {0, 3}
        there = len([key for key in keys if store.get(key) is not None])
        assert there in expected
        outcomes.add((len(expected), there))
        for key in keys:
            delete(faulty, key)
    assert store.children(root) == []
    assert {(1, 0), (1, 3)} <= outcomes


def test_a_listing_that_fails_raises(store: MetadataStore, root: str) -> None:
    for number in range(10):
        store.create(f"{root}/{number}")
    faulty = FaultyStore(store)
    faulty.script(["none", "none", "before"])
    names = faulty.scan(root, page=3)
    assert [next(names) for _ in range(6)] == ["0", "1", "2", "3", "4", "5"]
    with pytest.raises(UnavailableError):
        next(names)


def test_a_disconnected_memory_store_is_unavailable_and_keeps_its_session() -> None:
    store = MemoryStore()
    store.create("/here", ephemeral=True)
    store.disconnect()
    with pytest.raises(UnavailableError):
        store.get("/here")
    with pytest.raises(UnavailableError):
        store.create("/a")
    store.reconnect()
    assert store.children("/") == ["here"]
