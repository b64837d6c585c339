"""Rule 24: one client deals ensembles for all, each ledger claims one; where that fails, placement is weighted."""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from bookie_runs import until
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from ledger_runs import contents, payload

import walkeeper
from walkeeper.ledgers import _ensemble_pool
from walkeeper.ledgers._bookie_choice import BookieChoice, racks_of
from walkeeper.ledgers._ensemble_pool import (
    CLAIMS_MAX,
    POOL_ENSEMBLES,
    EnsemblePool,
    Lease,
    ensemble_value,
    parsed_ensemble,
    short,
    stale,
)
from walkeeper.ledgers.placement import (
    Candidate,
    CentralisedPolicy,
    DealingPolicy,
    FairDealer,
    RandomPolicy,
    WeightedPolicy,
    policy_of,
)
from walkeeper.ledgers.placement._centralised import fits
from walkeeper.metadata import (
    Bookies,
    Cluster,
    FaultyStore,
    LedgerManager,
    MemoryStore,
    MemoryTree,
    MetadataStore,
    ServiceInfo,
    SqliteStore,
    open_store,
)
from walkeeper_bookie.cluster import LocalCluster

GIB = 2**30
SHAPE = (3, 3, 2)


def bookies(weights: Sequence[int | None]) -> list[Candidate]:
    return [Candidate(f"b{number}", weight=weight) for number, weight in enumerate(weights)]


# ---- dealing: pure ----


@given(st.lists(st.none() | st.integers(0, 100), min_size=1, max_size=12), st.data(), st.integers(0, 2**32))
def test_what_is_dealt_is_different_writable_bookies(weights: list[int | None], data: st.DataObject, seed: int) -> None:
    there = [
        Candidate(f"b{number}", weight=weight, writable=data.draw(st.booleans()), quarantined=data.draw(st.booleans()))
        for number, weight in enumerate(weights)
    ]
    able = {one.bookie_id for one in there if one.writable and not one.quarantined}
    dealer = FairDealer(chance=random.Random(seed))
    for size in data.draw(st.lists(st.integers(1, 5), max_size=8)):
        if size > len(able):
            with pytest.raises(walkeeper.NotEnoughBookiesError):
                dealer.deal(size, size, 1, there)
            continue
        dealt = dealer.deal(size, size, 1, there)
        assert len(dealt) == len(set(dealt)) == size
        assert set(dealt) <= able


@given(st.integers(3, 40), st.integers(1, 3), st.integers(1, 60), st.integers(0, 2**32))
def test_equal_bookies_differ_by_one_slot_at_most(count: int, size: int, rounds: int, seed: int) -> None:
    dealer, there = FairDealer(chance=random.Random(seed)), bookies([GIB] * count)
    slots = Counter({one.bookie_id: 0 for one in there})
    for _ in range(rounds):
        slots.update(dealer.deal(size, size, 1, there))
        assert max(slots.values()) - min(slots.values()) <= 1


def test_slots_follow_the_space() -> None:
    dealer, there = FairDealer(chance=random.Random(1)), bookies([GIB, 2 * GIB, 3 * GIB] * 10)
    slots = Counter[str]()
    for _ in range(1000):
        slots.update(dealer.deal(3, 3, 2, there))
    by_byte = 3000 / sum(one.weight or 0 for one in there)
    for one in there:
        assert slots[one.bookie_id] == pytest.approx(by_byte * (one.weight or 0), abs=2.5)


def test_a_bookie_that_joins_takes_its_share_and_not_what_it_missed() -> None:
    dealer, there = FairDealer(chance=random.Random(2)), bookies([GIB] * 20)
    for _ in range(1000):
        dealer.deal(3, 3, 2, there)
    joined, slots = bookies([GIB] * 21), Counter[str]()
    for _ in range(140):
        slots.update(dealer.deal(3, 3, 2, joined))
    assert slots["b20"] == pytest.approx(20, abs=1.5)


def test_a_bookie_that_could_not_have_its_share_gets_no_more_than_a_few_slots_of_it_later() -> None:
    """Of three bookies one has nine tenths of the space: one slot of each ensemble of two is all that it can have."""
    dealer = FairDealer(chance=random.Random(3), max_weight_multiple=100)
    for _ in range(500):
        dealer.deal(2, 2, 1, bookies([18 * GIB, GIB, GIB]))
    slots = Counter[str]()
    for _ in range(60):
        slots.update(dealer.deal(1, 1, 1, bookies([GIB, GIB, GIB])))
    assert slots["b0"] <= 20 + 5


def test_a_full_bookie_is_dealt_where_there_are_too_few_others() -> None:
    dealer, there = FairDealer(chance=random.Random(4)), bookies([0, 5, 5])
    assert all("b0" not in dealer.deal(2, 2, 1, there) for _ in range(20))
    assert set(dealer.deal(3, 3, 2, there)) == {"b0", "b1", "b2"}


def test_what_fits_now() -> None:
    there = [Candidate("a"), Candidate("b"), Candidate("gone", writable=False), Candidate("failed", quarantined=True)]
    for ensemble, right in (
        (("a", "b"), True),
        (("a", "a"), False),
        (("a",), False),
        (("a", "b", "b"), False),
        (("a", "gone"), False),
        (("a", "failed"), False),
        (("a", "unknown"), False),
    ):
        assert fits(ensemble, 2, there) is right, ensemble


def test_the_policy_by_name() -> None:
    policy = policy_of("centralised")
    assert isinstance(policy, CentralisedPolicy)
    assert isinstance(policy, DealingPolicy)
    assert not isinstance(WeightedPolicy(), DealingPolicy)
    same = (
        made(chance=random.Random(5)).new_ensemble(3, 3, 2, bookies([1] * 9), ())
        for made in (CentralisedPolicy, WeightedPolicy)
    )
    assert next(same) == next(same), "where nothing is dealt it is weighted"


# ---- the lease, the pool, and their values: pure ----


def test_the_steps_of_a_lease() -> None:
    """The key's value, the session now, and what is done: before and behind taking it in session 7."""
    lease = Lease()
    assert lease.step(None, lambda: 7) == "take"
    assert lease.step(b"another's", lambda: pytest.fail("who waits needs no session")) == "wait"
    ours = lease.taking(7)
    for found, session, step in (
        (ours, 7, "deal"),
        (ours, 8, "drop"),
        (None, 7, "take"),
        (None, 8, "take"),
        (b"another's", 7, "wait"),
    ):
        assert lease.step(found, lambda session=session: session) == step, (found, session)  # type: ignore[misc]
    again = lease.taking(8)
    assert again != ours
    assert lease.step(ours, lambda: 8) == "wait", "what is left of an earlier one is not taken for this one"


def test_how_many_are_dealt() -> None:
    half = POOL_ENSEMBLES // 2
    wanted = [(0, POOL_ENSEMBLES), (half, half), (half + 1, 0), (POOL_ENSEMBLES, 0), (2 * POOL_ENSEMBLES, 0)]
    assert [(there, short(there)) for there, _ in wanted] == wanted


def test_which_ensembles_are_stale() -> None:
    dealt = {"1": ("a", "b"), "2": ("a", "gone"), "3": None, "4": ("b",)}
    assert stale(dealt, {"a", "b"}) == ["2", "3"]


@given(st.lists(st.text("ab:1.", min_size=1), min_size=1, max_size=4))
def test_an_ensemble_comes_back(ensemble: list[str]) -> None:
    assert parsed_ensemble(ensemble_value(ensemble)) == tuple(ensemble)


@given(st.binary() | st.sampled_from([b"", b"1\n", b"2\na\n", b"1\na", b"1\n\na\n", b"1\na\n\n", b"\xff"]))
def test_a_value_that_is_none_is_passed_over(data: bytes) -> None:
    found = parsed_ensemble(data)
    assert found is None or ensemble_value(found) == data


# ---- clients on one store ----


class World:
    """Clients of one cluster in memory. Each has a session, and no thread: the test takes their turns."""

    def __init__(self, count: int = 6) -> None:
        self.tree = MemoryTree()
        self.store = MemoryStore(self.tree)
        Cluster(self.store).init(LedgerManager.HIERARCHICAL)
        self.clients: list[Client] = []
        for number in range(count):
            self.come(number)

    def come(self, number: int, free: int = GIB) -> None:
        info = ServiceInfo.of_bookie("127.0.0.1", 3181 + number).with_free_bytes(free)
        self.store.create(f"/ledgers/available/127.0.0.1:{3181 + number}", info.serialise())

    def go(self, number: int) -> None:
        self.store.delete(f"/ledgers/available/127.0.0.1:{3181 + number}")

    def up(self) -> set[str]:
        return {name for name in self.store.children("/ledgers/available") if name != "readonly"}

    def client(self, seed: int = 0) -> Client:
        self.clients.append(Client(MemoryStore(self.tree), seed))
        return self.clients[-1]

    def dealt(self, shape: str = "3-3-2") -> dict[str, tuple[str, ...]]:
        folder = f"/ledgers-walkeeper/placement/pool/{shape}"
        found = {name: self.store.get(f"{folder}/{name}") for name in self.store.children(folder)}
        return {name: parsed_ensemble(value.data) or () for name, value in found.items() if value is not None}

    def lease(self) -> bytes | None:
        found = self.store.get("/ledgers-walkeeper/placement/lease")
        return None if found is None else found.data


class Client:
    def __init__(self, store: MemoryStore, seed: int = 0) -> None:
        self.memory = store
        self.store = FaultyStore(store)
        self.policy = CentralisedPolicy(chance=random.Random(seed))
        self.choice = BookieChoice(Bookies(self.store, "/ledgers"), self.policy, racks_of(None))
        self.pool = EnsemblePool(self.store, "/ledgers", self.policy.dealer, self.choice.candidates)
        self.pool._thread = threading.current_thread()  # it has one, so to say
        self.choice.claim_from(self.pool)

    def new_ensemble(self) -> tuple[str, ...]:
        return self.choice.new_ensemble(*SHAPE)


@pytest.fixture
def world() -> World:
    return World()


def test_who_comes_first_deals_and_each_ledger_claims_one(world: World) -> None:
    first, second = world.client(), world.client()
    first.new_ensemble()  # there is no pool, so it is weighted; and these quorums are wanted from now on
    assert world.dealt() == {}
    assert first.pool.turn()
    assert not second.pool.turn()
    before = world.dealt()
    assert len(before) == POOL_ENSEMBLES
    slots = Counter(name for ensemble in before.values() for name in ensemble)
    assert max(slots.values()) - min(slots.values()) <= 1
    claimed = Counter(client.new_ensemble() for client in (first, second) for _ in range(10))
    after = world.dealt()
    assert claimed == Counter(before.values()) - Counter(after.values())
    assert len(after) == POOL_ENSEMBLES - 20
    assert not first.pool.turn(), "half of them are there"
    for _ in range(12):
        second.new_ensemble()
    assert first.pool.turn()
    assert len(world.dealt()) == POOL_ENSEMBLES


def test_what_is_dealt_stands_beside_bookkeepers_tree(world: World) -> None:
    before = world.store.children("/ledgers")
    client = world.client()
    client.new_ensemble()
    client.pool.turn()
    assert world.store.children("/ledgers") == before
    assert world.store.children("/") == ["ledgers", "ledgers-walkeeper"]


def test_a_lease_that_is_lost_is_taken_by_another_and_until_then_the_pool_serves(world: World) -> None:
    first, second = world.client(), world.client()
    first.new_ensemble()
    first.pool.turn()
    taken = world.lease()
    assert not second.pool.turn()
    first.memory.close()
    assert world.lease() is None
    assert len(world.dealt()) == POOL_ENSEMBLES
    second.new_ensemble()
    assert len(world.dealt()) == POOL_ENSEMBLES - 1
    for _ in range(POOL_ENSEMBLES):
        second.new_ensemble()  # behind the last of them it is weighted
    assert world.dealt() == {}
    assert second.pool.turn()
    assert world.lease() not in (None, taken)
    assert len(world.dealt()) == POOL_ENSEMBLES


def test_a_client_whose_session_is_lost_deals_in_the_next_one(world: World) -> None:
    client = world.client()
    client.new_ensemble()
    client.pool.turn()
    taken = world.lease()
    client.memory.expire_session()
    assert world.lease() is None
    client.pool.turn()
    assert world.lease() not in (None, taken)


def test_a_lease_of_a_session_that_changed_while_it_was_taken_does_not_stay_for_ever(world: World) -> None:
    """It is ephemeral in the new session, which goes on: nobody else could take it, and the client would wait, too."""
    client = world.client()
    create = client.memory.create

    def then_lost(key: str, *arguments: Any, **named: Any) -> int:
        client.memory.create = create  # type: ignore[method-assign]
        client.memory.expire_session()
        return create(key, *arguments, **named)

    client.new_ensemble()
    client.memory.create = then_lost  # type: ignore[method-assign]
    client.pool.turn()
    assert world.lease() is not None
    client.pool.turn()
    for _ in range(POOL_ENSEMBLES):
        client.new_ensemble()
    assert client.pool.turn(), "it deals"


@pytest.mark.parametrize("fault", ["before", "after", "never"])
def test_whatever_becomes_of_taking_the_lease_somebody_deals_soon(world: World, fault: Any) -> None:
    first, second = world.client(), world.client()
    first.new_ensemble()
    first.store.script(["none", fault])
    try:
        first.pool.turn()
    except walkeeper.metadata.UnavailableError:
        assert fault == "before"
    first.pool.turn()
    second.pool.turn()
    assert len(world.dealt()) == POOL_ENSEMBLES


def test_two_who_deal_at_once_cost_balance_only(world: World) -> None:
    """The second one took the lease while the first one stood still, and neither knows."""
    first, second = world.client(1), world.client(2)
    first.new_ensemble()
    first.pool.turn()
    world.store.delete("/ledgers-walkeeper/placement/lease")
    second.pool.turn()
    for _ in range(POOL_ENSEMBLES):
        first.new_ensemble()
    dealers = (first.pool._dealer, second.pool._dealer)
    assert None not in dealers
    for client, dealer in zip((first, second), dealers, strict=True):
        client.pool._deal(dealer)  # type: ignore[arg-type]
    assert len(world.dealt()) == POOL_ENSEMBLES
    claimed = [client.new_ensemble() for client in (first, second) for _ in range(POOL_ENSEMBLES // 2)]
    assert all(set(ensemble) <= world.up() for ensemble in claimed)
    slots = Counter(name for ensemble in claimed for name in ensemble)
    assert max(slots.values()) - min(slots.values()) <= 2
    assert not first.pool.turn(), "it sees that the lease is another's, and deals no more"
    assert world.dealt() == {}


def test_an_ensemble_whose_bookie_left_is_not_chosen(world: World) -> None:
    client = world.client()
    client.new_ensemble()
    client.pool.turn()
    world.go(0)
    for _ in range(2 * POOL_ENSEMBLES // CLAIMS_MAX):
        assert set(client.new_ensemble()) <= world.up()


def test_who_deals_discards_what_a_bookie_left(world: World) -> None:
    client = world.client()
    client.new_ensemble()
    client.pool.turn()
    world.go(0)
    client.pool.turn()
    assert world.dealt()
    assert all(set(ensemble) <= world.up() for ensemble in world.dealt().values())


def test_a_bookie_that_failed_this_client_is_not_claimed(world: World) -> None:
    client = world.client()
    client.new_ensemble()
    client.pool.turn()
    client.choice.quarantine(["127.0.0.1:3181"])
    assert all("127.0.0.1:3181" not in client.new_ensemble() for _ in range(15))


def test_a_claim_that_another_was_quicker_with_takes_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = world.client(), world.client()
    first.new_ensemble()
    first.pool.turn()
    monkeypatch.setattr(_ensemble_pool.random, "shuffle", lambda names: names.sort())
    stolen = []
    delete = first.memory.delete

    def late(key: str, version: int | None = None) -> None:
        first.memory.delete = delete  # type: ignore[method-assign]
        stolen.append(second.new_ensemble())
        delete(key, version)

    before = world.dealt()
    first.memory.delete = late  # type: ignore[method-assign]
    ours = first.new_ensemble()
    order = [before[name] for name in sorted(before)]
    assert (stolen, ours) == ([order[0]], order[1])
    assert len(world.dealt()) == POOL_ENSEMBLES - 2


@pytest.mark.parametrize("fault", ["before", "after", "never"])
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_store_that_fails_a_claim_fails_no_ledger(world: World, fault: Any, calls: int) -> None:
    """The bookies are asked for first, then the pool's names, an ensemble, and for this to go."""
    client = world.client()
    client.new_ensemble()
    client.pool.turn()
    client.store.script([*["none"] * calls, fault])
    assert set(client.new_ensemble()) <= world.up()
    assert client.store.seen[fault] == 1


def test_an_empty_pool_is_weighted(world: World) -> None:
    for number in range(3):
        world.go(number)
        world.come(number, free=3 * GIB)
    client, slots = world.client(6), Counter[str]()
    for _ in range(600):
        slots.update(client.choice.new_ensemble(1, 1, 1))
    heavy = sum(slots[f"127.0.0.1:{3181 + number}"] for number in range(3))
    assert heavy == pytest.approx(600 * 9 / 12, abs=55)


def test_free_space_is_read_again_by_who_deals(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = world.client()
    client.new_ensemble()
    client.pool.turn()
    for number in range(6):
        info = ServiceInfo.of_bookie("127.0.0.1", 3181 + number).with_free_bytes(GIB if number else 3 * GIB)
        world.store.put(f"/ledgers/available/127.0.0.1:{3181 + number}", info.serialise())
    for _ in range(POOL_ENSEMBLES):
        client.new_ensemble()
    monkeypatch.setattr(_ensemble_pool, "WEIGHTS_S", 0.0)
    client.pool.turn()
    slots = Counter(name for ensemble in world.dealt().values() for name in ensemble)
    others = (3 * POOL_ENSEMBLES - slots["127.0.0.1:3181"]) / 5
    assert slots["127.0.0.1:3181"] >= 1.6 * others


def test_quorums_beyond_their_number_do_without(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ensemble_pool, "QUORUMS_MAX", 1)
    client = world.client()
    for size in (2, 3):
        client.choice.new_ensemble(size, size, 1)
    client.store.create("/ledgers-walkeeper/placement/pool/no quorums")
    client.pool.turn()
    assert len(world.dealt("2-2-1")) == POOL_ENSEMBLES
    assert world.dealt("3-3-1") == {}
    assert len(client.choice.new_ensemble(3, 3, 1)) == 3


class Model(RuleBasedStateMachine):
    """Three clients whose turns, claims and sessions come in any order, while bookies come and go and calls fail."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(5)
        self.up = set(range(5))
        self.trio = [self.world.client(seed) for seed in range(3)]
        self.trio[0].new_ensemble()

    @rule(which=st.integers(0, 2))
    def a_turn(self, which: int) -> None:
        self.trio[which].pool.turn()

    @rule(which=st.integers(0, 2), fault=st.sampled_from(["before", "after", "never"]), calls=st.integers(0, 6))
    def a_turn_in_which_a_call_fails(self, which: int, fault: Any, calls: int) -> None:
        client = self.trio[which]
        client.store.script([*["none"] * calls, fault])
        try:
            client.pool.turn()
        except walkeeper.metadata.MetadataError:
            pass
        client.store._script.clear()

    @rule(which=st.integers(0, 2), count=st.integers(1, 40))
    def claims(self, which: int, count: int) -> None:
        for _ in range(count):
            if len(self.up) < 3:
                with pytest.raises(walkeeper.NotEnoughBookiesError):
                    self.trio[which].new_ensemble()
                return
            chosen = self.trio[which].new_ensemble()
            assert len(set(chosen)) == 3
            assert set(chosen) <= self.world.up()

    @rule(which=st.integers(0, 2))
    def a_session_is_lost(self, which: int) -> None:
        self.trio[which].memory.expire_session()

    @rule(number=st.integers(0, 4))
    def a_bookie_comes_or_goes(self, number: int) -> None:
        if number in self.up:
            self.world.go(number)
        else:
            self.world.come(number)
        self.up ^= {number}

    @invariant()
    def the_pool_is_bounded(self) -> None:
        assert len(self.world.dealt()) <= 2 * POOL_ENSEMBLES

    def teardown(self) -> None:
        """Where all is well again, one deals within two turns of each."""
        for number in set(range(5)) - self.up:
            self.world.come(number)
        for _ in range(2):
            for client in self.trio:
                client.pool.turn()
        for _ in range(2 * POOL_ENSEMBLES):
            self.trio[0].new_ensemble()
        dealt = [client.pool.turn() for client in self.trio]
        assert any(dealt)
        assert sum(client.pool._dealer is not None for client in self.trio) == 1
        assert len(self.world.dealt()) == POOL_ENSEMBLES


def test_a_model_of_three_clients() -> None:
    run_state_machine_as_test(Model, settings=settings(max_examples=60, stateful_step_count=25, deadline=None))


# ---- the thread ----


@pytest.fixture
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ensemble_pool, "LOOK_S", (0.02, 0.05))


@pytest.fixture(params=["memory", "sqlite"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A cluster of six bookies that nobody asks."""
    made = f"memory:{uuid.uuid4().hex}" if request.param == "memory" else f"sqlite:{tmp_path / 'metadata.db'}"
    opened = open_store(made)
    Cluster(opened.store, opened.root).init(LedgerManager.HIERARCHICAL)
    for number in range(6):
        info = ServiceInfo.of_bookie("127.0.0.1", 3181 + number).with_free_bytes(GIB)
        opened.store.create(f"/ledgers/available/127.0.0.1:{3181 + number}", info.serialise())
    yield made
    opened.store.close()


def pool_of(store: MetadataStore) -> list[str]:
    try:
        return store.children("/ledgers-walkeeper/placement/pool/3-3-2")
    except walkeeper.metadata.MissingError:
        return []


@pytest.mark.usefixtures("_looks_often")
def test_clients_deal_by_themselves_and_hand_over_when_they_close(uri: str) -> None:
    store = open_store(uri).store
    with walkeeper.LedgerClient(uri, placement="centralised") as first:
        first.create()
        until(lambda: len(pool_of(store)) == POOL_ENSEMBLES, "it deals")
        lease = store.get("/ledgers-walkeeper/placement/lease")
        assert lease is not None
        assert lease.ephemeral
        with walkeeper.LedgerClient(uri, placement="centralised") as second:
            second.create()
            first.close()
            until(
                lambda: (
                    (found := store.get("/ledgers-walkeeper/placement/lease")) is not None and found.data != lease.data
                ),
                "the other one has the lease",
            )
            for _ in range(POOL_ENSEMBLES // 2):
                second.create()
            until(lambda: len(pool_of(store)) > POOL_ENSEMBLES // 2, "and deals")
    assert store.get("/ledgers-walkeeper/placement/lease") is None
    until(lambda: not [one for one in threading.enumerate() if one.name == "walkeeper-allocator"], "no thread is left")
    store.close()


def test_a_client_that_chose_another_policy_deals_nothing(uri: str) -> None:
    with walkeeper.LedgerClient(uri, placement="weighted") as client:
        client.create()
        assert client._pool is None
    store = open_store(uri).store
    assert store.get("/ledgers-walkeeper") is None
    store.close()


class Broken(RandomPolicy):
    def dealer(self) -> Any:
        raise ValueError("a defect of somebody's policy")


@pytest.mark.usefixtures("_looks_often")
def test_who_cannot_deal_gives_the_lease_away(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(uri).store
    with (
        walkeeper.LedgerClient(uri, placement=Broken()) as broken,
        walkeeper.LedgerClient(uri, placement="centralised") as client,
    ):
        broken.create()
        until(lambda: "deals no ensembles any more" in caplog.text, "it says so")
        client.create()
        until(lambda: len(pool_of(store)) > POOL_ENSEMBLES // 2, "the other one deals")
        broken.create()
    store.close()


# ---- with bookies ----


@pytest.mark.usefixtures("_bookies_are_found", "_looks_often")
def test_ledgers_on_bookies_are_spread_evenly_by_two_clients(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "cluster", 5) as cluster:
        cluster.start()
        slots = Counter[str]()
        with (
            SqliteStore(tmp_path / "cluster" / "metadata.db") as store,
            walkeeper.LedgerClient(cluster.metadata, placement="centralised") as one,
            walkeeper.LedgerClient(cluster.metadata, placement="centralised") as other,
        ):
            one.create().close()
            until(lambda: len(pool_of(store)) == POOL_ENSEMBLES, "one of them deals")
            for number in range(POOL_ENSEMBLES):
                with (one if number % 2 else other).create() as writer:
                    writer.add(payload(number))
                    slots.update(writer.metadata.segments[0])
            assert contents(one, writer.ledger_id) == [payload(POOL_ENSEMBLES - 1)]
            for key in pool_of(store):  # by chance some bookie is in more of those that were taken
                left = store.get(f"/ledgers-walkeeper/placement/pool/3-3-2/{key}")
                slots.update(left.data.decode().split("\n")[1:-1] if left is not None else [])
        assert max(slots.values()) - min(slots.values()) <= 6, "taken and left, they are dealt evenly"
