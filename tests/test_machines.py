"""The C machines against their models, in orders that nobody would think of."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.journals import BLOCK_SIZE, recover, seal
from tests.models import block_window, journal_scan
from tests.models.journal_scan import Block
from walkeeper._native import ffi, lib

STATUSES = {
    lib.WK_OK: "WK_OK",
    lib.WK_FULL: "WK_FULL",
    lib.WK_END: "WK_END",
    lib.WK_INVALID: "WK_INVALID",
    lib.WK_FAILED: "WK_FAILED",
}

# block window

steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.booleans()),
        st.tuples(st.just("submit"), st.booleans()),  # twice: otherwise the window is mostly empty
        st.tuples(st.just("written"), st.integers(0, 9)),  # counted from the durable point
        st.tuples(st.just("written"), st.integers(0, 9)),
        st.tuples(st.just("sync_begin"), st.none()),
        st.tuples(st.just("sync_done"), st.none()),
        st.tuples(st.just("fail"), st.integers(0, 9)),  # fails on 0 only, so that some runs get far
    ),
    max_size=120,
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
