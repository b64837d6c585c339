"""read_bytes: records that are kept count, and at the limit reading says so instead of waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

import walkeeper

LIMIT = 4 * 1024 * 1024
COUNT = 16000


@pytest.fixture
def filled(directory: Path) -> Path:
    """A directory with 16 MB of records in one log."""
    with walkeeper.open(directory) as ns, ns.log("orders").writer() as writer:
        writer.append_many([b"%d" % i + bytes(1000) for i in range(COUNT)])
    return directory


@pytest.mark.parametrize("backend", ["auto", "psync"])
def test_a_loop_that_keeps_nothing_reads_any_log(filled: Path, backend: walkeeper.Backend) -> None:
    with walkeeper.open(filled, read_bytes=LIMIT, backend=backend) as ns:
        total = 0
        for record in ns.log("orders").reader():
            assert record.sequence_id == total
            total += 1
            assert total % 500 or ns.stats().memory_readers <= 2 * LIMIT
        assert total == COUNT
        reader = ns.log("orders").reader()
        assert sum(len(batch) for batch in iter(reader.read, [])) == COUNT


@pytest.mark.parametrize("loops", [2, 4])
def test_several_loops_that_keep_nothing_read_any_log_with_ten_mebibytes_each(filled: Path, loops: int) -> None:
    """The Reader says so. Each is at another batch, and holds it while it reads the next."""
    with walkeeper.open(filled, read_bytes=loops * 10 * 1024 * 1024) as ns:
        readers = [iter(ns.log("orders").reader()) for _ in range(loops)]
        for number, reader in enumerate(readers):
            for _ in range(number * COUNT // loops):
                next(reader)
        for _ in range(COUNT // loops):
            kept = [next(reader) for reader in readers]
        assert kept[-1].sequence_id == COUNT - 1


def test_records_that_are_kept_reach_the_limit_and_reading_goes_on_when_some_are_let_go(filled: Path) -> None:
    with walkeeper.open(filled, read_bytes=LIMIT) as ns:
        reader = ns.log("orders").reader()
        kept: list[list[walkeeper.Record]] = []
        with pytest.raises(walkeeper.LimitError, match="read_bytes is 4194304"):
            kept.extend(iter(reader.read, []))
        assert kept
        assert LIMIT // 2 < ns.stats().memory_readers <= 2 * LIMIT
        next_id = kept[-1][-1].sequence_id + 1
        del kept
        assert reader.read()[0].sequence_id == next_id


def test_an_iterator_that_met_the_limit_goes_on_when_some_are_let_go(filled: Path) -> None:
    with walkeeper.open(filled, read_bytes=LIMIT) as ns:
        records = iter(ns.log("orders").reader())
        kept: list[walkeeper.Record] = []
        with pytest.raises(walkeeper.LimitError):
            kept.extend(records)
        for _ in range(2):  # it is no other time than the first
            with pytest.raises(walkeeper.LimitError):
                next(records)
        seen = kept[-1].sequence_id + 1
        assert 0 < seen < COUNT
        kept.clear()
        assert [record.sequence_id for record in records] == list(range(seen, COUNT))
        assert list(records) == []


def test_copies_are_the_callers_and_do_not_count(filled: Path) -> None:
    with walkeeper.open(filled, read_bytes=LIMIT) as ns:
        reader = ns.log("orders").reader()
        payloads = [bytes(record.payload) for record in reader]
        assert len(payloads) == COUNT
        reader.close()
        assert ns.stats().memory_readers <= LIMIT


def test_arrow_batches_are_copies_and_do_not_count(filled: Path) -> None:
    pytest.importorskip("pyarrow")
    with walkeeper.open(filled, read_bytes=LIMIT) as ns:
        reader = ns.log("orders").reader()
        batches = list(iter(reader.read_arrow, None))
        assert sum(batch.num_rows for batch in batches) == COUNT


def test_a_limit_too_small_for_two_batches_is_refused(directory: Path) -> None:
    with pytest.raises(walkeeper.InvalidError, match="read_bytes is 1000"):
        walkeeper.open(directory, read_bytes=1000)
