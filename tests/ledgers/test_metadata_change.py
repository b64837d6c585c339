"""Changes of a ledger's metadata: what is decided, who comes between, and outcomes that nobody knows. No bookies."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import walkeeper
from walkeeper.ledgers._metadata_change import End, change, closed_by_writer, read, recover
from walkeeper.metadata import (
    Cluster,
    FaultyStore,
    LedgerMetadata,
    Ledgers,
    LedgerState,
    MemoryStore,
    MemoryTree,
    UnavailableError,
    UnknownOutcomeError,
)

BOOKIES = ("a:1", "b:1", "c:1")
OTHERS = ("a:1", "b:1", "d:1")
NEW = LedgerMetadata(3, 3, 2, {0: BOOKIES}, password=b"secret", custom_metadata={"owner": b"tests"}, ctime=7)


class Between(MemoryStore):
    """A store that lets somebody else come between a read and the next put."""

    before_put: Callable[[], object] | None = None

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        if self.before_put is not None:
            act, self.before_put = self.before_put, None
            act()
        return super().put(key, data, version)


class Case:
    """One ledger, as two clients see it: `ours` through a store of our making, `theirs` through a plain one."""

    def __init__(self, tree: MemoryTree, store: Any, metadata: LedgerMetadata = NEW) -> None:
        theirs = Cluster(MemoryStore(tree))
        theirs.init()
        self.theirs: Ledgers = theirs.ledgers
        self.ours: Ledgers = Cluster(store).ledgers
        self.ledger_id = self.theirs.create(metadata).ledger_id

    def now(self) -> LedgerMetadata:
        return read(self.theirs, self.ledger_id).value

    def set(self, **fields: Any) -> None:
        """Somebody else writes."""
        change(self.theirs, self.ledger_id, lambda now: replace(now, **fields))

    def close(self, end: End, ledgers: Ledgers | None = None) -> LedgerMetadata:
        return change(ledgers or self.ours, self.ledger_id, closed_by_writer(self.ledger_id, end)).value

    def recover(self, end: End) -> LedgerMetadata:
        return recover(self.ours, self.ledger_id, lambda now: end).value


@pytest.fixture
def tree() -> MemoryTree:
    return MemoryTree()


@pytest.fixture
def store(tree: MemoryTree) -> Between:
    return Between(tree)


@pytest.fixture
def case(tree: MemoryTree, store: Between) -> Case:
    return Case(tree, store)


def test_a_writer_closes_its_ledger_and_leaves_the_rest_of_the_metadata(case: Case) -> None:
    closed = case.close((4, 50))
    assert closed == case.now() == replace(NEW, state=LedgerState.CLOSED, last_entry_id=4, length=50)


def test_an_empty_ledger_is_closed_without_an_entry(case: Case) -> None:
    assert (case.close((-1, 0)).last_entry_id, case.now().length) == (-1, 0)


def test_a_writer_that_is_being_recovered_may_close_first(case: Case) -> None:
    case.set(state=LedgerState.IN_RECOVERY)
    assert case.close((4, 50)).is_closed
    assert case.recover((5, 60)).last_entry_id == 4


def test_closing_with_the_same_end_again_is_done(case: Case) -> None:
    case.close((4, 50))
    version = read(case.theirs, case.ledger_id).version
    assert case.close((4, 50)).is_closed
    assert read(case.theirs, case.ledger_id).version == version


@pytest.mark.parametrize("end", [(5, 60), (4, 51), (-1, 0)])
def test_a_writer_whose_ledger_has_another_end_was_fenced(case: Case, end: End) -> None:
    case.recover(end)
    with pytest.raises(walkeeper.FencedError, match=f"closed by a recovery.*{end[1]} bytes") as caught:
        case.close((4, 50))
    assert caught.value.entry_id == (end[0] if end[0] >= 0 else None)
    assert (case.now().last_entry_id, case.now().length) == end


def test_a_ledger_that_was_deleted_is_not_found(case: Case) -> None:
    case.theirs.delete(case.ledger_id)
    for call in (lambda: case.close((4, 50)), lambda: case.recover((4, 50))):
        with pytest.raises(walkeeper.LedgerNotFoundError) as caught:
            call()
        assert caught.value.ledger_id == case.ledger_id


def test_one_that_is_deleted_between_the_read_and_the_write_is_not_found(store: Between, case: Case) -> None:
    store.before_put = lambda: case.theirs.delete(case.ledger_id)
    with pytest.raises(walkeeper.LedgerNotFoundError):
        case.close((4, 50))


def test_who_finds_the_metadata_changed_decides_again(store: Between, case: Case) -> None:
    store.before_put = lambda: case.set(segments={0: OTHERS})
    assert case.close((4, 50)).segments == {0: OTHERS}


def test_a_writer_that_is_overtaken_by_a_recovery_learns_of_it(store: Between, case: Case) -> None:
    store.before_put = lambda: recover(case.theirs, case.ledger_id, lambda now: (6, 70))
    with pytest.raises(walkeeper.FencedError):
        case.close((4, 50))
    assert case.now().last_entry_id == 6


def test_the_end_is_looked_for_in_a_ledger_that_is_in_recovery(case: Case) -> None:
    seen: list[LedgerMetadata] = []

    def find_end(now: LedgerMetadata) -> End:
        seen.append(now)
        assert case.now().state is LedgerState.IN_RECOVERY
        return 4, 50

    closed = recover(case.ours, case.ledger_id, find_end).value
    assert seen == [replace(NEW, state=LedgerState.IN_RECOVERY)]
    assert closed == case.now() == replace(NEW, state=LedgerState.CLOSED, last_entry_id=4, length=50)


def test_the_end_of_a_closed_ledger_is_not_looked_for(case: Case) -> None:
    case.close((4, 50))
    assert recover(case.ours, case.ledger_id, lambda now: pytest.fail("asked")).value.last_entry_id == 4


def test_who_recovers_adopts_the_end_of_who_was_first(case: Case) -> None:
    def find_end(now: LedgerMetadata) -> End:
        recover(case.theirs, case.ledger_id, lambda now: (4, 50))
        return 5, 60

    assert recover(case.ours, case.ledger_id, find_end).value.last_entry_id == 4
    assert case.now().last_entry_id == 4


def test_the_end_is_looked_for_again_where_the_segments_changed(case: Case) -> None:
    seen: list[tuple[str, ...]] = []

    def find_end(now: LedgerMetadata) -> End:
        seen.append(now.segments[0])
        if len(seen) == 1:
            case.set(segments={0: OTHERS})
        return len(seen), 50

    closed = recover(case.ours, case.ledger_id, find_end).value
    assert seen == [BOOKIES, OTHERS]
    assert (closed.last_entry_id, closed.segments) == (2, {0: OTHERS})


def test_a_format_stays_what_it_was(case: Case) -> None:
    found = read(case.theirs, case.ledger_id)
    old = LedgerMetadata(3, 3, 3, {0: BOOKIES}, digest_type=None, password=None, format_version=1)
    case.theirs.write(case.ledger_id, old, found.version)
    case.recover((4, 50))
    assert (case.now().format_version, case.now().password, case.now().last_entry_id) == (1, None, 4)


# ---- outcomes that nobody knows ----


def faulty_case(seed: int = 0, **rates: float) -> tuple[FaultyStore, Case]:
    tree = MemoryTree()
    made = Case(tree, MemoryStore(tree))
    store = FaultyStore(MemoryStore(tree), seed, rates)  # type: ignore[arg-type]
    store.script(["none"])  # LAYOUT
    made.ours = Cluster(store).ledgers
    return store, made


@pytest.mark.parametrize("fault", ["after", "never"])
def test_a_close_of_unknown_outcome_is_found_out(fault: Any) -> None:
    store, case = faulty_case()
    store.script(["none", fault])
    assert case.close((4, 50)).is_closed
    assert (store.seen[fault], case.now().last_entry_id) == (1, 4)


@pytest.mark.parametrize("fault", ["after", "never"])
@pytest.mark.parametrize("step", ["in recovery", "close"])
def test_a_recovery_of_unknown_outcome_is_found_out(step: str, fault: Any) -> None:
    store, case = faulty_case()
    store.script(["none", fault] if step == "in recovery" else ["none", "none", "none", fault])
    assert case.recover((4, 50)).is_closed
    assert (store.seen[fault], case.now().last_entry_id) == (1, 4)


def test_a_store_that_cannot_be_reached_wrote_nothing() -> None:
    store, case = faulty_case()
    store.script(["none", "before"])
    with pytest.raises(UnavailableError):
        case.close((4, 50))
    assert replace(case.now(), ctoken=None) == NEW


def test_behind_an_unknown_outcome_a_store_that_is_gone_leaves_it_unknown() -> None:
    store, case = faulty_case()
    store.script(["none", "after", *["before"] * 20])
    with pytest.raises(UnknownOutcomeError):
        case.close((4, 50))


def test_behind_a_conflict_a_store_that_is_gone_leaves_it_unknown(store: Between, case: Case) -> None:
    """The write that met the conflict may have been made before, and overwritten."""
    gone = FaultyStore(store)
    case.ours = Cluster(gone).ledgers
    gone.script(["none", "none", "none", "before"])

    def overwrite() -> None:
        case.set(custom_metadata={})

    store.before_put = overwrite
    with pytest.raises(UnknownOutcomeError):
        case.close((4, 50))


@pytest.mark.parametrize("seed", range(100))
def test_whatever_the_store_does_all_agree_on_one_end(seed: int) -> None:
    """A writer and two who recover take turns, each until it has an answer; every answer is that of the metadata."""
    chance = random.Random(seed)
    _, case = faulty_case(seed, before=0.1, after=0.2, never=0.2)
    ends: dict[str, End] = {"writer": (4, 50), "first": (4, 50), "second": (5, 60)}
    answers: list[End] = []
    left = list(ends)
    while left:
        who = chance.choice(left)
        try:
            found = case.close(ends[who]) if who == "writer" else case.recover(ends[who])
        except (UnavailableError, UnknownOutcomeError):
            continue
        except walkeeper.FencedError:
            assert case.now().last_entry_id == 5
        else:
            answers.append((found.last_entry_id, found.length))
        left.remove(who)
    assert set(answers) == {(case.now().last_entry_id, case.now().length)}
