"""Which bookies a ledger gets: by chance, by free space, across racks."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_runs import contents, kill, payload

import walkeeper
from walkeeper.ledgers._bookie_choice import BookieChoice, racks_of
from walkeeper.ledgers.placement import (
    DEFAULT_RACK,
    Candidate,
    PlacementPolicy,
    RackAwarePolicy,
    RandomPolicy,
    WeightedPolicy,
    policy_of,
)
from walkeeper.ledgers.placement._racks import filled, levelled, missing_racks, spread
from walkeeper.ledgers.placement._weighted import capped_weights, rendezvous
from walkeeper.metadata import FREE_BYTES, Bookies, Cluster, LedgerManager, MemoryStore, MemoryTree, ServiceInfo
from walkeeper_bookie.cluster import LocalCluster

GIB = 2**30
SEEDS = st.integers(0, 2**32)


def policies(seed: int) -> list[PlacementPolicy]:
    return [
        RandomPolicy(random.Random(seed)),
        WeightedPolicy(chance=random.Random(seed)),
        RackAwarePolicy(chance=random.Random(seed)),
        RackAwarePolicy(weighted=True, min_racks=3, chance=random.Random(seed)),
    ]


def bookies(count: int, racks: int = 1, weight: int | None = None) -> list[Candidate]:
    return [Candidate(f"b{number}", f"/r{number % racks}", weight) for number in range(count)]


@st.composite
def clusters(draw: st.DrawFn, quarantined: bool = True) -> list[Candidate]:
    found = []
    for number in range(draw(st.integers(0, 10))):
        weight = draw(st.none() | st.integers(0, 100))
        failed = quarantined and draw(st.booleans())
        rack = f"/r{draw(st.integers(0, 3))}"
        found.append(Candidate(f"b{number}", rack, weight, draw(st.integers(0, 4)) > 0, failed))
    return found


# ---- of every policy ----


@given(clusters(), st.sets(st.integers(0, 9)), st.integers(1, 6), st.data(), SEEDS)
def test_an_ensemble_has_different_writable_bookies_and_none_that_is_excluded(
    there: list[Candidate], excluded: set[int], size: int, data: st.DataObject, seed: int
) -> None:
    exclude = {f"b{number}" for number in excluded}
    able = {bookie.bookie_id for bookie in there if bookie.writable} - exclude
    write_quorum = data.draw(st.integers(1, size))
    for policy in policies(seed):
        if len(able) < size:
            with pytest.raises(walkeeper.NotEnoughBookiesError) as caught:
                policy.new_ensemble(size, write_quorum, 1, there, exclude)
            assert caught.value.outcome == "not_written"
            continue
        chosen = policy.new_ensemble(size, write_quorum, 1, there, exclude)
        assert (len(chosen), len(set(chosen))) == (size, size)
        assert set(chosen) <= able


@given(clusters(), st.sets(st.integers(0, 9)), st.integers(1, 5), st.data(), SEEDS)
def test_as_many_failed_slots_are_replaced_as_there_are_bookies(
    there: list[Candidate], excluded: set[int], size: int, data: st.DataObject, seed: int
) -> None:
    """Some members of the ensemble are not in the list: they are down."""
    ensemble = tuple(data.draw(st.permutations([f"b{number}" for number in range(12)]))[:size])
    failed = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    exclude = {f"b{number}" for number in excluded}
    able = {bookie.bookie_id for bookie in there if bookie.writable} - exclude - set(ensemble)
    for policy in policies(seed):
        if not able:
            with pytest.raises(walkeeper.NotEnoughBookiesError):
                policy.replacements(ensemble, failed, size, there, exclude)
            continue
        found = policy.replacements(ensemble, failed, size, there, exclude)
        assert len(found) == len(set(found.values())) == min(len(failed), len(able))
        assert set(found) <= set(failed)
        assert set(found.values()) <= able


@given(clusters(), st.integers(1, 5), SEEDS)
def test_a_quarantined_bookie_is_chosen_where_no_other_can_be(there: list[Candidate], size: int, seed: int) -> None:
    able = {bookie.bookie_id: bookie.quarantined for bookie in there if bookie.writable}
    healthy = sum(not failed for failed in able.values())
    for policy in policies(seed):
        if len(able) >= size:
            chosen = policy.new_ensemble(size, size, 1, there, ())
            assert sum(able[bookie_id] for bookie_id in chosen) == max(0, size - healthy)


def test_the_same_random_source_chooses_the_same() -> None:
    there = bookies(20, racks=3, weight=5)
    for one, other in zip(policies(7), policies(7), strict=True):
        assert one.new_ensemble(5, 3, 2, there, ()) == other.new_ensemble(5, 3, 2, there, ())


# ---- by chance ----


def counts(policy: PlacementPolicy, there: Sequence[Candidate], size: int, rounds: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(rounds):
        found.update(policy.new_ensemble(size, min(size, 3), 1, there, ()))
    return found


def within(found: int, expected: float, rounds: int) -> bool:
    """Five standard deviations of a binomial count; the seeds are fixed."""
    share = expected / rounds
    return abs(found - expected) <= 5 * (rounds * share * (1 - share)) ** 0.5


def test_random_chooses_each_bookie_as_often() -> None:
    there, rounds = bookies(10), 4000
    found = counts(RandomPolicy(random.Random(1)), there, 3, rounds)
    assert all(within(found[bookie.bookie_id], rounds * 3 / 10, rounds) for bookie in there)


# ---- by free space ----


def test_the_first_bookie_of_a_key_is_chosen_by_its_share_of_the_space() -> None:
    there = [Candidate(f"b{number}", weight=(number % 3 + 1) * GIB) for number in range(12)]
    rounds = 6000
    found = counts(WeightedPolicy(chance=random.Random(2)), there, 1, rounds)
    for number, bookie in enumerate(there):
        assert within(found[bookie.bookie_id], rounds * (number % 3 + 1) / 24, rounds), bookie


def test_in_a_large_cluster_ensembles_follow_the_space() -> None:
    """Three of 60: what one has in its first slot it cannot have again, which costs the heavy ones little."""
    there = [Candidate(f"b{number}", weight=(1 + number % 2) * GIB) for number in range(60)]
    found = counts(WeightedPolicy(chance=random.Random(3)), there, 3, 6000)
    light, heavy = (sum(found[bookie.bookie_id] for bookie in there[start::2]) for start in (0, 1))
    assert heavy / light == pytest.approx(2, rel=0.06)


def test_a_bookie_with_an_empty_disk_counts_for_three_others_at_most() -> None:
    there = [*bookies(30, weight=GIB), Candidate("fresh", weight=1000 * GIB)]
    rounds = 6000
    found = counts(WeightedPolicy(chance=random.Random(4)), there, 1, rounds)
    assert within(found["fresh"], rounds * 3 / 33, rounds)


def test_weights_that_are_unknown_or_none_at_all() -> None:
    known = [Candidate("small", weight=1), Candidate("middle", weight=5), Candidate("large", weight=100)]
    assert capped_weights([*known, Candidate("unknown"), Candidate("full", weight=0)], 3) == {
        "small": 1,
        "middle": 5,
        "large": 15,
        "unknown": 5,
        "full": 0,
    }
    assert capped_weights(bookies(2), 3) == {"b0": 1, "b1": 1}
    assert capped_weights([Candidate("full", weight=0), Candidate("b")], 3) == {"full": 0, "b": 1}
    for seed in range(50):  # a full bookie is chosen where there is no other
        policy = WeightedPolicy(chance=random.Random(seed))
        assert policy.new_ensemble(2, 2, 1, [Candidate("full", weight=0), *bookies(2, weight=1)], ())[-1] != "full"
        assert "full" in policy.new_ensemble(3, 2, 1, [Candidate("full", weight=0), *bookies(2, weight=1)], ())


@given(
    st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 10), min_size=2), st.binary(min_size=1, max_size=8)
)
def test_a_bookie_that_joins_or_leaves_changes_the_order_of_no_others(weights: dict[str, int], key: bytes) -> None:
    order = rendezvous(key, weights)
    for bookie_id in weights:
        less = {name: weight for name, weight in weights.items() if name != bookie_id}
        assert rendezvous(key, less) == [name for name in order if name != bookie_id]


def test_a_bookie_that_joins_takes_its_share_and_no_other_bookie_gains() -> None:
    """The same seed gives each ensemble the same key before and after."""
    before, after, rounds, taken = bookies(20, weight=GIB), bookies(21, weight=GIB), 3000, 0
    old, new = WeightedPolicy(chance=random.Random(5)), WeightedPolicy(chance=random.Random(5))
    for _ in range(rounds):
        was, now = (policy.new_ensemble(3, 3, 2, there, ()) for policy, there in ((old, before), (new, after)))
        gained = set(now) - set(was)
        assert gained <= {"b20"}
        taken += len(gained)
    assert within(taken, rounds * 3 / 21, rounds)


@pytest.mark.parametrize("multiple", [0.5, -1, float("inf"), float("nan")])
def test_a_cap_that_cannot_be(multiple: float) -> None:
    with pytest.raises(walkeeper.InvalidError):
        WeightedPolicy(multiple)
    with pytest.raises(walkeeper.InvalidError):
        RackAwarePolicy(max_weight_multiple=multiple)


# ---- across racks ----

ROOMS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 5), min_size=1)


def arrangements(rooms: dict[str, int], size: int) -> Iterator[tuple[str, ...]]:
    """All of them."""
    for racks in itertools.product(rooms, repeat=size):
        if not Counter(racks) - Counter(rooms):
            yield racks


def racks_named(chosen: Sequence[str]) -> list[str]:
    """Bookies of these tests are called by their racks."""
    return [bookie_id[0] for bookie_id in chosen]


def of_rooms(rooms: dict[str, int]) -> list[Candidate]:
    return [Candidate(f"{rack}{number}", rack) for rack, room in rooms.items() for number in range(room)]


@settings(deadline=None)
@given(ROOMS, st.integers(1, 5), st.integers(1, 3), st.data(), SEEDS)
def test_the_write_sets_of_an_ensemble_span_racks_as_well_as_any_arrangement_does(
    rooms: dict[str, int], size: int, min_racks: int, data: st.DataObject, seed: int
) -> None:
    if sum(rooms.values()) < size:
        return
    write_quorum = data.draw(st.integers(1, size))
    wanted = min(min_racks, write_quorum, len(rooms))
    least = min(missing_racks(racks, write_quorum, wanted) for racks in arrangements(rooms, size))
    chosen = RackAwarePolicy(min_racks, chance=random.Random(seed)).new_ensemble(
        size, write_quorum, 1, of_rooms(rooms), ()
    )
    assert missing_racks(racks_named(chosen), write_quorum, wanted) == least


@settings(deadline=None)
@given(ROOMS, st.integers(1, 5), st.integers(1, 3), st.data(), SEEDS)
def test_what_is_enforced_is_kept_or_refused(
    rooms: dict[str, int], size: int, min_racks: int, data: st.DataObject, seed: int
) -> None:
    if sum(rooms.values()) < size:
        return
    write_quorum = data.draw(st.integers(1, size))
    wanted = min(min_racks, write_quorum)
    possible = any(missing_racks(racks, write_quorum, wanted) == 0 for racks in arrangements(rooms, size))
    policy = RackAwarePolicy(min_racks, enforce=True, chance=random.Random(seed))
    if possible:
        chosen = policy.new_ensemble(size, write_quorum, 1, of_rooms(rooms), ())
        assert missing_racks(racks_named(chosen), write_quorum, wanted) == 0
    else:
        with pytest.raises(walkeeper.NotEnoughBookiesError, match="racks"):
            policy.new_ensemble(size, write_quorum, 1, of_rooms(rooms), ())


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 10), min_size=2), st.data(), SEEDS)
def test_two_racks_in_each_write_set_of_a_wide_ensemble(rooms: dict[str, int], data: st.DataObject, seed: int) -> None:
    """More slots than a search could try: a rack with most slots is possible while its runs are shorter than Qw."""
    size = data.draw(st.integers(2, min(64, sum(rooms.values()))))
    write_quorum = data.draw(st.integers(2, size))
    most = max(levelled(rooms, size).values())
    possible = most <= size // 2 or -(-most // (size - most)) < write_quorum if most < size else False
    policy = RackAwarePolicy(enforce=True, chance=random.Random(seed))
    if possible or (write_quorum == size and most < size):
        chosen = policy.new_ensemble(size, write_quorum, 1, of_rooms(rooms), ())
        assert missing_racks(racks_named(chosen), write_quorum, 2) == 0
    else:
        with pytest.raises(walkeeper.NotEnoughBookiesError):
            policy.new_ensemble(size, write_quorum, 1, of_rooms(rooms), ())


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 12), min_size=1))
def test_neighbours_have_different_racks_where_no_rack_has_more_than_half(count: dict[str, int]) -> None:
    racks = spread(count)
    assert Counter(racks) == Counter(count)
    most, size = max(count.values()), len(racks)
    if most <= size // 2:
        assert all(racks[slot] != racks[slot - 1] for slot in range(size))
    elif most < size:
        pairs = sum(racks[slot] == racks[slot - 1] for slot in range(size))
        assert pairs == most - (size - most)  # as few as can be
        ring = "".join(racks) * 2
        first = max(count, key=lambda rack: count[rack])
        others = size - most
        assert max(map(len, re.findall(f"{first}+", ring))) == -(-most // others)  # its runs are equal


@settings(deadline=None)
@given(ROOMS, st.lists(st.sampled_from("abc"), min_size=2, max_size=5), st.integers(2, 3), st.data(), SEEDS)
def test_replacements_keep_the_write_sets_across_racks(
    rooms: dict[str, int], ensemble: list[str], min_racks: int, data: st.DataObject, seed: int
) -> None:
    """As well as any other choice of racks for the slots that failed does."""
    failed = sorted(data.draw(st.sets(st.integers(0, len(ensemble) - 1), min_size=1, max_size=3)))
    write_quorum = data.draw(st.integers(1, len(ensemble)))
    if sum(rooms.values()) < len(failed):
        return
    members = [Candidate(f"{rack}-old{slot}", rack, writable=False) for slot, rack in enumerate(ensemble)]
    names = [bookie.bookie_id for bookie in members]
    kept = {rack for slot, rack in enumerate(ensemble) if slot not in failed}
    wanted = min(min_racks, write_quorum, len(kept | set(rooms)))

    def missing(racks: Sequence[str]) -> int:
        given_to = dict(zip(failed, racks, strict=True))
        now = [given_to.get(slot, rack) for slot, rack in enumerate(ensemble)]
        return missing_racks(now, write_quorum, wanted, failed)

    least = min(missing(racks) for racks in arrangements(rooms, len(failed)))
    there = [*members, *of_rooms(rooms)]
    found = RackAwarePolicy(min_racks, chance=random.Random(seed)).replacements(names, failed, write_quorum, there, ())
    assert list(found) == failed
    assert missing([found[slot][0] for slot in failed]) == least


def test_an_enforced_replacement_is_refused_where_it_would_leave_one_rack() -> None:
    there = [Candidate("a0", "a"), Candidate("b0", "b"), Candidate("a1", "a")]
    strict, best_effort = RackAwarePolicy(enforce=True), RackAwarePolicy()
    with pytest.raises(walkeeper.NotEnoughBookiesError):
        strict.replacements(("a0", "b0"), [1], 2, there, ())
    assert best_effort.replacements(("a0", "b0"), [1], 2, there, ()) == {1: "a1"}
    assert strict.replacements(("a0", "b0"), [0], 2, there, ()) == {0: "a1"}


def test_of_two_failed_slots_the_one_that_can_be_is_replaced_where_racks_are_enforced() -> None:
    """Slots 0 and 2 stand in a; their write sets are {0, 1}, {1, 2}, {2, 3}, {3, 0}; of rack a there is one more."""
    there = [Candidate("a9", "a"), Candidate("b9", "b")]
    members = [Candidate(f"{rack}{slot}", rack, writable=False) for slot, rack in enumerate("abab")]
    found = RackAwarePolicy(enforce=True).replacements(("a0", "b1", "a2", "b3"), [0, 2], 2, [*members, *there], ())
    assert found in ({0: "a9"}, {2: "a9"})


def test_a_slot_that_stays_empty_stands_in_no_rack() -> None:
    """Two of three failed, and rack a alone has bookies: with one of them an entry would be in rack a only."""
    there = [Candidate("a0", "a"), Candidate("b1", "b", writable=False), Candidate("b2", "b", writable=False)]
    for spares in ([Candidate("a3", "a")], [Candidate("a3", "a"), Candidate("a4", "a")]):
        with pytest.raises(walkeeper.NotEnoughBookiesError):
            RackAwarePolicy(enforce=True).replacements(("a0", "b1", "b2"), [1, 2], 3, [*there, *spares], ())
        assert RackAwarePolicy().replacements(("a0", "b1", "b2"), [1, 2], 3, [*there, *spares], ())[1][0] == "a"


def test_a_quarantined_bookie_is_chosen_for_its_rack_only_where_that_is_enforced() -> None:
    there = [Candidate("a0", "a"), Candidate("a1", "a"), Candidate("b0", "b", quarantined=True)]
    assert set(RackAwarePolicy().new_ensemble(2, 2, 1, there, ())) == {"a0", "a1"}
    assert "b0" in RackAwarePolicy(enforce=True).new_ensemble(2, 2, 1, there, ())


def test_a_small_rack_gets_no_more_than_it_must() -> None:
    """Three racks, of which one has one bookie: ensembles of three in two racks need it seldom."""
    there = [*bookies(18, racks=2, weight=1), Candidate("lonely", "/r9")]
    found = counts(RackAwarePolicy(chance=random.Random(6)), there, 3, 3000)
    assert found["lonely"] < 3000 * 0.25  # its share is 3 / 19, and each ensemble would have it if racks were levelled


def test_a_search_that_would_take_for_ever_ends_with_what_it_has() -> None:
    racks, missing = filled([None] * 64, {"a": 30, "b": 30, "c": 4}, 6, 3)
    assert Counter(racks) <= Counter({"a": 30, "b": 30, "c": 4})
    assert missing == missing_racks(racks, 6, 3) > 0


# ---- by name ----


def test_policies_by_name() -> None:
    assert isinstance(policy_of("random"), RandomPolicy)
    assert isinstance(policy_of("weighted"), WeightedPolicy)
    assert isinstance(policy_of("rack_aware"), RackAwarePolicy)
    own = RackAwarePolicy(enforce=True)
    assert policy_of(own) is own
    with pytest.raises(walkeeper.InvalidError, match="rack_aware, random, weighted"):
        policy_of("fair")
    for wrong in (None, 3, object()):
        with pytest.raises(walkeeper.InvalidError):
            policy_of(wrong)  # type: ignore[arg-type]
    with pytest.raises(walkeeper.InvalidError):
        RackAwarePolicy(min_racks=0)


def test_a_policy_of_another_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "others_policy.py").write_text(
        "from walkeeper.ledgers.placement import RandomPolicy as Mine\nwrong = 3\n"
    )
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[walkeeper.placement]\nmine = others_policy:Mine\nmissing = others_policy:Gone\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(policy_of("mine"), RandomPolicy)
    with pytest.raises(walkeeper.InvalidError, match="Gone"):
        policy_of("missing")
    with pytest.raises(walkeeper.InvalidError, match="mine, missing, rack_aware"):
        policy_of("fair")


# ---- what the client knows of bookies ----


class CountingBookies(Bookies):
    """Counts what is asked of the store."""

    infos = 0

    def service_info(self, bookie_id: str) -> ServiceInfo | None:
        self.infos += 1
        return super().service_info(bookie_id)


@pytest.fixture
def registered() -> Iterator[CountingBookies]:
    """b0 publishes its free space, b1 something else, b2 none; nobody knows where b3 answers."""
    with MemoryStore(MemoryTree()) as store:
        cluster = Cluster(store, "/ledgers")
        cluster.init(LedgerManager.HIERARCHICAL)
        for number, free in enumerate((str(GIB), "many", None, None)):
            endpoints = ServiceInfo.of_bookie("127.0.0.1", 3181 + number).endpoints if number < 3 else ()
            info = ServiceInfo(endpoints, {} if free is None else {FREE_BYTES: free})
            store.create(f"/ledgers/available/b{number}", info.serialise())
        yield CountingBookies(store, "/ledgers")


class Recording(RandomPolicy):
    """Random, and keeps what it was given."""

    needs_weights = True
    given: Sequence[Candidate] = ()
    excluded: frozenset[str] = frozenset()

    def new_ensemble(
        self, size: int, write_quorum: int, ack_quorum: int, bookies: Sequence[Candidate], exclude: Any
    ) -> tuple[str, ...]:
        object.__setattr__(self, "given", bookies)
        object.__setattr__(self, "excluded", frozenset(exclude))
        return super().new_ensemble(size, write_quorum, ack_quorum, bookies, exclude)


def test_a_policy_is_given_racks_space_and_quarantine(registered: CountingBookies) -> None:
    policy = Recording()
    choice = BookieChoice(registered, policy, racks_of({"b0": "/r0", "b9": "/r9"}))
    choice.quarantine(["b1"])
    assert set(choice.new_ensemble(2, 2, 1)) == {"b0", "b2"}
    assert sorted(policy.given, key=lambda bookie: bookie.bookie_id) == [
        Candidate("b0", "/r0", GIB),
        Candidate("b1", DEFAULT_RACK, None, quarantined=True),
        Candidate("b2", DEFAULT_RACK, None),
        Candidate("b3", DEFAULT_RACK, None),
    ]


def test_a_bookie_of_which_nobody_knows_where_it_answers_is_not_chosen(registered: CountingBookies) -> None:
    for name in ("random", "weighted", "rack_aware"):
        choice = BookieChoice(registered, policy_of(name), racks_of(None))
        for _ in range(10):
            assert set(choice.new_ensemble(3, 3, 2)) == {"b0", "b1", "b2"}
            assert choice.replacements(("b0", "b1"), [0, 1], 2) == {0: "b2"}
        assert choice.replacements(("b0", "b1", "b2"), [0], 3) == {}
        with pytest.raises(walkeeper.NotEnoughBookiesError):
            choice.new_ensemble(4, 3, 2)


def test_weights_are_read_once_and_not_for_each_ledger(registered: CountingBookies) -> None:
    choice = BookieChoice(registered, Recording(), racks_of(None))
    choice.new_ensemble(1, 1, 1)
    registered.infos = 0
    for _ in range(20):
        before = registered.infos
        choice.new_ensemble(1, 1, 1)
        assert 1 <= registered.infos - before <= 2  # of the one that is chosen; twice where it is b3
    choice = BookieChoice(registered, RandomPolicy(), racks_of(None))
    registered.infos = 0
    choice.new_ensemble(1, 1, 1)
    assert registered.infos <= 2  # who does not ask for weights reads none


def test_a_bookie_that_comes_back_with_another_disk_is_read_again(registered: CountingBookies) -> None:
    policy = Recording()
    choice = BookieChoice(registered, policy, racks_of(None))
    store, key = registered._store, "/ledgers/available/b0"
    for weight in (GIB, 2 * GIB):
        info = ServiceInfo(ServiceInfo.of_bookie("127.0.0.1", 3181).endpoints, {FREE_BYTES: str(weight)})
        store.delete(key)
        choice.new_ensemble(1, 1, 1)
        store.create(key, info.serialise())
        choice.new_ensemble(1, 1, 1)
        assert [bookie.weight for bookie in policy.given if bookie.bookie_id == "b0"] == [weight]


def test_racks_are_a_mapping_or_a_callable(registered: CountingBookies) -> None:
    policy = Recording()
    BookieChoice(registered, policy, racks_of(lambda bookie_id: "/r1" if bookie_id == "b1" else None)).new_ensemble(
        1, 1, 1
    )
    racks = {bookie.bookie_id: bookie.rack for bookie in policy.given}
    assert (racks["b1"], racks["b2"]) == ("/r1", DEFAULT_RACK)
    with pytest.raises(walkeeper.InvalidError, match="racks=3"):
        racks_of(3)  # type: ignore[arg-type]
    with pytest.raises(walkeeper.InvalidError, match="the rack of b"):
        BookieChoice(registered, policy, racks_of(lambda _: 7)).new_ensemble(1, 1, 1)  # type: ignore[arg-type, return-value]


class Wrong(RandomPolicy):
    """Chooses what it is told."""

    def __init__(self, ensemble: tuple[str, ...], replaced: dict[int, str] | None = None) -> None:
        super().__init__()
        object.__setattr__(self, "chosen", (ensemble, replaced or {}))

    def new_ensemble(self, *_: Any) -> tuple[str, ...]:
        return self.__dict__["chosen"][0]  # type: ignore[no-any-return]

    def replacements(self, *_: Any) -> dict[int, str]:
        return self.__dict__["chosen"][1]  # type: ignore[no-any-return]


@pytest.mark.parametrize("ensemble", [("b0",), ("b0", "b0"), ("b0", "b7"), ("b0", "b3"), ("b0", "b1", "b2")])
def test_what_a_policy_may_not_choose_creates_no_ledger(registered: CountingBookies, ensemble: tuple[str, ...]) -> None:
    with pytest.raises(walkeeper.Error, match="the placement policy chose"):
        BookieChoice(registered, Wrong(ensemble), racks_of(None)).new_ensemble(2, 2, 1)


@pytest.mark.parametrize("replaced", [{0: "b1"}, {0: "b0"}, {1: "b2"}, {0: "b7"}])
def test_what_a_policy_may_not_replace(registered: CountingBookies, replaced: dict[int, str]) -> None:
    with pytest.raises(walkeeper.Error, match="the placement policy"):
        BookieChoice(registered, Wrong((), replaced), racks_of(None)).replacements(("b0", "b1"), [0], 2)


# ---- with bookies ----


@pytest.mark.usefixtures("_bookies_are_found")
def test_a_ledger_stays_on_two_racks_while_its_bookies_are_killed(tmp_path: Path) -> None:
    """Five bookies, of which three are in one rack and two in another. Each killed bookie is replaced by another one
    of its rack."""
    with LocalCluster(tmp_path / "cluster", 5) as cluster:
        cluster.start()
        by_id = {bookie.bookie_id: bookie for bookie in cluster.bookies}
        racks = {bookie_id: "/r0" if number < 3 else "/r1" for number, bookie_id in enumerate(by_id)}
        policy = RackAwarePolicy(enforce=True, chance=random.Random(8))
        with walkeeper.LedgerClient(cluster.metadata, placement=policy, racks=racks) as client:
            for _ in range(20):
                client.create(ensemble_size=2, write_quorum=2, ack_quorum=1).close()
            for ledger_id in client.list():
                (first,) = client.metadata(ledger_id).segments.values()
                assert {racks[bookie_id] for bookie_id in first} == {"/r0", "/r1"}
            with client.create(ensemble_size=2, write_quorum=2, ack_quorum=1) as writer:
                number = 0
                for _ in range(2):
                    (victim,) = (name for name in last_ensemble(writer) if racks[name] == "/r0")
                    kill(by_id[victim])
                    while victim in last_ensemble(writer):
                        writer.add(payload(number))
                        number += 1
                    assert {racks[bookie_id] for bookie_id in last_ensemble(writer)} == {"/r0", "/r1"}
            assert contents(client, writer.ledger_id) == [payload(one) for one in range(number)]


def last_ensemble(writer: walkeeper.LedgerWriter) -> tuple[str, ...]:
    return list(writer.metadata.segments.values())[-1]


def test_a_log_passes_its_placement_on(shared_cluster: LocalCluster) -> None:
    options: dict[str, Any] = {"ensemble_size": 3, "write_quorum": 3, "ack_quorum": 2}
    with pytest.raises(walkeeper.InvalidError, match="no such policy"):
        walkeeper.open(shared_cluster.metadata, placement="fair", **options)  # type: ignore[call-arg]
    strict = RackAwarePolicy(enforce=True)
    with (
        walkeeper.open(shared_cluster.metadata, namespace="one-rack", placement=strict, **options) as ns,  # type: ignore[call-arg]
        pytest.raises(walkeeper.NotEnoughBookiesError),
    ):
        ns.log("orders").writer()
    racks = {bookie.bookie_id: f"/r{number % 2}" for number, bookie in enumerate(shared_cluster.bookies)}
    with (
        walkeeper.open(  # type: ignore[call-arg]
            shared_cluster.metadata, namespace="two-racks", placement=strict, racks=racks, **options
        ) as ns,
        ns.log("orders").writer() as writer,
    ):
        writer.append(b"paid 42")
