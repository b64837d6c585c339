"""The C machines against their models, in orders that nobody would think of."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core_lib import ffi, lib
from tests.hosted import DIGESTS, Polls, Table
from tests.journals import BLOCK_SIZE, recover, seal
from tests.models import block_window, hosted_ledgers, journal_scan, ledger_quorum, long_polls
from tests.models.journal_scan import Block
from tests.models.ledger_quorum import Quorum

STATUSES = {
    lib.WK_OK: "WK_OK",
    lib.WK_FULL: "WK_FULL",
    lib.WK_END: "WK_END",
    lib.WK_INVALID: "WK_INVALID",
    lib.WK_FAILED: "WK_FAILED",
    lib.WK_NOT_FOUND: "WK_NOT_FOUND",
    lib.WK_UNAVAILABLE: "WK_UNAVAILABLE",
    lib.WK_FENCED: "WK_FENCED",
    lib.WK_CLOSED: "WK_CLOSED",
    lib.WK_DAMAGED: "WK_DAMAGED",
    lib.WK_WRONG_KEY: "WK_WRONG_KEY",
}


def runs_of(step: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[list[Any]]:
    """Lists of steps, half of them long: by itself Hypothesis makes lists of five, in which little can go wrong."""
    return st.lists(step, max_size=most) | st.lists(step, min_size=most // 4, max_size=most)


# block window

steps = runs_of(
    st.one_of(
        st.tuples(st.just("submit"), st.booleans()),
        st.tuples(st.just("submit"), st.booleans()),  # twice: otherwise the window is mostly empty
        st.tuples(st.just("written"), st.integers(0, 9)),  # counted from the durable point
        st.tuples(st.just("written"), st.integers(0, 9)),
        st.tuples(st.just("sync_begin"), st.none()),
        st.tuples(st.just("sync_done"), st.none()),
        st.tuples(st.just("fail"), st.integers(0, 9)),  # fails on 0 only, so that some runs get far
    ),
    most=120,
)


@settings(max_examples=300)
@given(st.integers(1, 2**40), st.integers(1, 8), steps)
def test_block_window_does_as_its_model(first: int, in_flight_max: int, todo: list[tuple[str, int | None]]) -> None:
    model = block_window.BlockWindow(first, in_flight_max)
    window, sequence = ffi.new("wk_block_window *"), ffi.new("uint64_t *")
    assert lib.wk_block_window_init(window, first, in_flight_max) == lib.WK_OK
    for verb, argument in todo:
        expected, found = "WK_OK", lib.WK_OK
        if verb == "submit":
            expected, found = model.submit(bool(argument)), lib.wk_block_window_submit(window, bool(argument), sequence)
            assert found != lib.WK_OK or sequence[0] == model.next - 1
        elif verb == "written":
            at = model.durable_through + (argument or 0)
            expected, found = model.write(at), lib.wk_block_window_written(window, at)
        elif verb == "sync_begin":
            expected, found = model.sync_begin(), lib.wk_block_window_sync_begin(window)
        elif verb == "sync_done":
            expected, found = model.sync_done(), lib.wk_block_window_sync_done(window)
        elif argument == 0:
            model.fail()
            lib.wk_block_window_fail(window)
        assert STATUSES[found] == expected
        assert (window.next, window.durable_through) == (model.next, model.durable_through)
        assert window.in_flight == model.in_flight
        assert bool(lib.wk_block_window_wants_sync(window)) == model.wants_sync()


# journal scan


@st.composite
def block_at(draw: st.DrawFn, sequence: int) -> Block | None:
    """Mostly the block that belongs there; now and then one that an earlier life left, or none."""
    if draw(st.integers(0, 9)) == 0:
        return None
    sequence = draw(st.sampled_from([sequence] * 12 + [max(1, sequence - 1), sequence + 1, sequence + 5]))
    return Block(
        sequence=sequence,
        incarnation=draw(st.sampled_from([4, 4, 4, 4, 3, 5])),
        durable_through=draw(st.integers(max(0, sequence - 4), sequence - 1)),
        in_flight_max=draw(st.integers(1, 8)),
        follows=draw(st.sampled_from([True] * 8 + [False])),
        whole=draw(st.sampled_from([True] * 6 + [False])),
    )


@st.composite
def journals(draw: st.DrawFn) -> list[Block | None]:
    return [draw(block_at(sequence)) for sequence in range(1, draw(st.integers(0, 9)) + 1)]


def bytes_of(places: list[Block | None]) -> bytes:
    """The file that these blocks make, one in each 4096 bytes."""
    data, crc = b"", 0
    for block in places:
        if block is None:
            data, crc = data + bytes(BLOCK_SIZE), 1
            continue
        written, crc = seal(
            block.sequence,
            offset=len(data),
            previous_crc=crc if block.follows else crc ^ 1,
            incarnation=block.incarnation,
            durable_through=block.durable_through,
            in_flight_max=block.in_flight_max,
        )
        data += written if block.whole else written[:2000] + b"?" + written[2001:]
    return data


@settings(max_examples=500)
@given(journals())
def test_journal_scan_does_as_its_model(places: list[Block | None]) -> None:
    end, verdict, damaged = journal_scan.recover(places)
    found = recover({1: bytes_of(places)})
    assert found.accepted == list(range(1, end + 1))
    assert (found.verdict, found.damaged) == (verdict, damaged)


# hosted ledgers

ids = st.one_of(st.integers(-2, 30), st.integers(0, 20).map(lambda n: n << 40), st.integers(-(2**63), 2**63 - 1))
hosted_steps = runs_of(
    st.one_of(
        st.tuples(st.just("put"), ids),
        st.tuples(st.just("put"), ids),  # twice: otherwise the table is mostly empty
        st.tuples(st.just("remove"), ids),
        st.tuples(st.just("grow"), st.sampled_from([8, 16, 24, 32, 64])),
        st.tuples(st.just("raise"), ids, st.integers(-2, 9)),
        st.tuples(st.just("verify"), ids, st.sampled_from(["CRC32C", "CRC32", "MAC", "none", "damaged", "short"])),
        st.tuples(st.just("wait"), ids),
    ),
    most=100,
)


@settings(max_examples=300)
@given(st.integers(0, 2**64 - 1), hosted_steps)
def test_hosted_ledgers_do_as_their_model(seed: int, todo: list[tuple[str, int] | tuple[str, int, int | str]]) -> None:
    model, table = hosted_ledgers.HostedLedgers(16), Table(16)
    assert table.seed(seed) == lib.WK_OK
    for now, (verb, number, *rest) in enumerate(todo):
        known = model.ledgers.get(number)
        if verb == "put":
            assert STATUSES[table.put(number)] == model.put(number)
        elif verb == "remove":
            assert STATUSES[table.remove(number)] == model.remove(number)
        elif verb == "grow":
            assert STATUSES[table.grow(number)] == model.grow(number)
        elif known is None:
            assert table.find(number) is None
        elif verb == "raise":
            lac = int(rest[0])
            assert table.rise(number, lac, now) == known.rise(lac, now)
        elif verb == "verify":
            digest = str(rest[0])
            assert table.accepts(number, digest) == known.accepts(digest)
        else:
            table.find(number).first_poll = 3 if known.waiting == 0 else lib.WK_NO_POLL
            known.waiting ^= 1
        assert (table.table.capacity, table.ids()) == (model.capacity, sorted(model.ledgers))
        for ledger_id, ledger in model.ledgers.items():
            found = table.find(ledger_id)
            assert (found.ledger_id, found.lac, found.lac_ms) == (ledger_id, ledger.lac, ledger.lac_ms)
            assert DIGESTS[found.digest] == ledger.digest


# long polls

ledgers, owners = st.integers(1, 3), st.integers(1, 3)
poll_steps = runs_of(
    st.one_of(
        st.tuples(st.just("add"), ledgers, st.integers(-1, 4), st.integers(0, 40), owners),
        st.tuples(st.just("add"), ledgers, st.integers(-1, 4), st.integers(0, 40), owners),
        st.tuples(st.just("add"), ledgers, st.integers(-1, 4), st.integers(0, 40), owners),
        st.tuples(st.just("raise"), ledgers, st.integers(0, 2)),  # both counted from where the ledger's LAC is
        st.tuples(st.just("fence"), ledgers),
        st.tuples(st.just("clock"), st.integers(0, 9)),
        st.tuples(st.just("drop"), owners),
    ),
    most=100,
)


@settings(max_examples=300)
@given(st.integers(0, 20), poll_steps)
def test_long_polls_do_as_their_model(capacity: int, todo: list[tuple[str, int] | tuple[str, int, int]]) -> None:
    model, polls, now = long_polls.LongPolls(capacity), Polls(capacity), 0
    assert polls.status == lib.WK_OK
    for tag, (verb, number, *rest) in enumerate(todo):
        if verb == "add":
            previous_lac, wait, owner = rest
            poll = long_polls.Poll(tag, number, model.lac(number) + previous_lac, now + wait, owner)
            added = polls.add(poll.tag, poll.ledger, poll.previous_lac, poll.deadline, poll.owner)
            assert STATUSES[added] == model.add(poll)
        elif verb == "raise":
            lac = model.lac(number) + rest[0]
            polls.rise(number, lac)
            model.rise(number, lac)
            assert polls.wake(number) == [poll.tag for poll in model.wake(number)]
        elif verb == "fence":
            assert polls.wake(number, everyone=True) == [poll.tag for poll in model.wake(number, everyone=True)]
        elif verb == "clock":
            now += number
            deadlines = {poll.tag: poll.deadline for poll in model.waiting}
            expired, expected = polls.expire(now), model.expire(now)
            assert sorted(expired) == sorted(poll.tag for poll in expected)
            assert [deadlines[one] for one in expired] == [poll.deadline for poll in expected]  # of equals, any
        else:
            assert sorted(polls.drop(number)) == [poll.tag for poll in model.drop(number)]
        assert polls.polls.count == len(model.waiting)
        assert polls.deadline() == model.deadline()


# quorums


@st.composite
def quorums(draw: st.DrawFn, most: int = 6) -> Quorum:
    ensemble = draw(st.integers(1, most))
    write = draw(st.integers(1, ensemble))
    return Quorum(ensemble, write, draw(st.integers(1, write)))


def as_c(quorum: Quorum) -> object:
    return ffi.new("wk_quorum *", (quorum.ensemble, quorum.write, quorum.ack))


def bits(numbers: set[int]) -> int:
    return sum(1 << number for number in numbers)


@given(st.integers(0, 66), st.integers(0, 66), st.integers(0, 66))
def test_a_quorum_is_valid_as_in_its_model(ensemble: int, write: int, ack: int) -> None:
    quorum = Quorum(ensemble, write, ack)
    assert bool(lib.wk_quorum_is_valid(as_c(quorum))) == quorum.is_valid


@settings(max_examples=300)
@given(quorums(most=64), st.one_of(st.integers(0, 200), st.integers(0, 2**63 - 1)), st.sets(st.integers(0, 63)))
def test_write_sets_are_those_of_their_model(quorum: Quorum, entry: int, slots: set[int]) -> None:
    write_set = quorum.write_set(entry)
    assert [lib.wk_quorum_slot(as_c(quorum), entry, index) for index in range(quorum.write)] == write_set
    for slot in range(quorum.ensemble):
        index = write_set.index(slot) if slot in write_set else lib.WK_NO_INDEX
        assert lib.wk_quorum_index(as_c(quorum), entry, slot) == index
    indexes = {index for index, slot in enumerate(write_set) if slot in slots}
    assert lib.wk_quorum_indexes(as_c(quorum), entry, bits(slots)) == bits(indexes)


@settings(max_examples=500)
@given(quorums(), st.sets(st.integers(0, 5)))
def test_an_ensemble_is_covered_as_in_its_model(quorum: Quorum, known: set[int]) -> None:
    assert bool(lib.wk_quorum_is_covered(as_c(quorum), bits(known))) == quorum.is_covered(known)


# ledger writer

writer_steps = runs_of(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 9), st.none()),
        st.tuples(st.just("ack"), st.integers(-1, 5), st.integers(0, 5)),  # the entry is counted from the LAC
        st.tuples(st.just("ack"), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.just("ack"), st.integers(0, 1), st.integers(0, 5)),
        st.tuples(st.just("ack"), st.integers(0, 1), st.integers(0, 5)),
        st.tuples(st.just("slot"), st.integers(0, 19), st.none()),  # fails below 6 only, so that some runs get far
        st.tuples(st.just("fail"), st.integers(0, 39), st.none()),  # the same
        st.tuples(st.just("freeze"), st.none(), st.none()),
        st.tuples(st.just("replace"), st.integers(0, 63), st.none()),  # a set of slots, then a thaw
        st.tuples(st.just("thaw"), st.none(), st.none()),
    ),
    most=120,
)


@settings(max_examples=500)
@given(quorums(), st.sampled_from([1, 2, 4, 8]), st.integers(-1, 2**62), st.booleans(), writer_steps)
def test_ledger_writer_does_as_its_model(
    quorum: Quorum, capacity: int, lac: int, patient: bool, todo: list[tuple[str, int, int | None]]
) -> None:
    length = 0 if lac < 0 else 1000
    pending, writer = ffi.new("wk_pending_add[]", capacity), ffi.new("wk_ledger_writer *")
    lib.wk_ledger_writer_init(writer, as_c(quorum), lac, length, pending, capacity)
    writer.patient = patient
    model = ledger_quorum.Writer(quorum, capacity, lac, lengths={lac: length}, patient=patient)
    for verb, number, slot in todo:
        if verb == "push":
            assert bool(lib.wk_ledger_writer_has_room(writer)) == model.has_room
            if model.has_room:
                length += number
                model.push(length)
                assert lib.wk_ledger_writer_push(writer, length) == model.last
        elif verb == "ack":
            slot = (slot or 0) % quorum.ensemble
            entry = model.lac + number + 1
            assert bool(lib.wk_ledger_writer_ack(writer, entry, slot)) == model.ack(entry, slot)
        elif verb == "slot" and number < quorum.ensemble:
            model.slot_failed(number)
            lib.wk_ledger_writer_slot_failed(writer, number)
        elif verb == "fail" and number < 2:
            status = (lib.WK_FENCED, lib.WK_CLOSED)[number]
            model.fail(STATUSES[status])
            lib.wk_ledger_writer_fail(writer, status)
        elif verb == "freeze":
            model.freeze()
            lib.wk_ledger_writer_freeze(writer)
        elif verb == "replace" and model.frozen:
            slots = {one for one in range(quorum.ensemble) if number >> one & 1}
            model.replace(slots)
            lib.wk_ledger_writer_replace(writer, bits(slots))
            assert bool(lib.wk_ledger_writer_thaw(writer)) == model.thaw()
        elif verb == "thaw":
            assert bool(lib.wk_ledger_writer_thaw(writer)) == model.thaw()
        assert (bool(writer.stuck), bool(writer.frozen)) == (model.stuck, model.frozen)
        assert (writer.lac, writer.last_add_pushed) == (model.lac, model.last)
        assert (writer.lac_length, writer.length) == (model.lengths[model.lac], length)
        assert STATUSES[writer.status] == model.status
        for one in range(quorum.ensemble):
            assert bool(lib.wk_ledger_writer_uses(writer, one)) == (one not in model.failed)


# ledger recovery

ANSWERS = {
    "entry": lib.WK_ANSWER_ENTRY,
    "absent": lib.WK_ANSWER_ABSENT,
    "none": lib.WK_ANSWER_NONE,
    "damaged": lib.WK_ANSWER_DAMAGED,
    "unauthorized": lib.WK_ANSWER_UNAUTHORIZED,
}
PHASES = {
    lib.WK_RECOVERY_FENCE: "FENCE",
    lib.WK_RECOVERY_LENGTH: "LENGTH",
    lib.WK_RECOVERY_READ: "READ",
    lib.WK_RECOVERY_END: "END",
    lib.WK_RECOVERY_FAILED: "FAILED",
}
recovery_steps = runs_of(
    st.tuples(
        st.sampled_from(["entry", "absent", "absent", "none", "damaged"] * 4 + ["unauthorized"]),
        st.integers(0, 5),  # who answers: a slot, or an index
        st.sampled_from([0, 0, 0, 0, 0, 0, 0, 0, -1, 1]),  # to which question, counted from the one that is asked
        st.integers(-1, 9),  # the LAC of its entry
    ),
    most=60,
)


@settings(max_examples=1000)
@given(quorums(), st.sampled_from([0, 0, 0, 3, 2**40]), recovery_steps)
def test_ledger_recovery_does_as_its_model(quorum: Quorum, first: int, todo: list[tuple[str, int, int, int]]) -> None:
    recovery = ffi.new("wk_ledger_recovery *")
    lib.wk_ledger_recovery_init(recovery, as_c(quorum), first)
    model = ledger_quorum.Recovery(quorum, first - 1)
    for answer, who, question, lac in todo:
        if model.phase == "FENCE":
            slot = who % quorum.ensemble
            expected = model.fenced(slot, answer, lac)
            assert bool(lib.wk_ledger_recovery_fenced(recovery, slot, ANSWERS[answer], lac)) == expected
        else:
            index, entry = who % quorum.write, model.next + question
            assert not lib.wk_ledger_recovery_fenced(recovery, index, ANSWERS[answer], lac)  # late
            expected = model.read(entry, index, answer)
            assert bool(lib.wk_ledger_recovery_read(recovery, entry, index, ANSWERS[answer])) == expected
        assert (PHASES[recovery.phase], STATUSES[recovery.status]) == (model.phase, model.status)
        if model.phase in ("LENGTH", "READ", "END"):
            assert recovery.next == model.next


# id sets


@settings(max_examples=300)
@given(st.lists(st.one_of(st.integers(0, 20), st.integers(-(2**63), 2**63 - 1)), max_size=60))
def test_an_id_set_is_a_set(given_ids: list[int]) -> None:
    held, expected = ffi.new("wk_id_set *"), set(given_ids)
    room = ffi.new("int64_t[]", given_ids)
    lib.wk_id_set_init(held, room, len(given_ids))
    assert [held.ids[at] for at in range(held.count)] == sorted(expected)
    for one in {*given_ids, *range(-1, 22), -(2**63), 2**63 - 1}:
        assert lib.wk_id_set_has(held, one) == (one in expected)
