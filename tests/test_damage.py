"""What becomes of acknowledged bytes that the disk damaged, by the policy of the open (storage rule 14)."""

from __future__ import annotations

import asyncio
import fcntl
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import walkeeper
from walkeeper import Gap, Record
from walkeeper.errors import DamagedError

SMALL = {"file_size_min": 65536, "file_size_max": 65536}


def payload(number: int) -> bytes:
    return b"record number %03d" % number


def turn_a_bit(directory: Path, needle: bytes) -> str:
    """Of the record with these bytes; the name of its file, below the directory."""
    for file in sorted(directory.rglob("*.wk?")):
        at = file.read_bytes().find(needle)
        if at >= 0:
            with file.open("r+b") as opened:
                opened.seek(at)
                byte = opened.read(1)
                opened.seek(at)
                opened.write(bytes([byte[0] ^ 4]))
            return str(file.relative_to(directory))
    raise AssertionError(f"no file holds {needle!r}")


def make(directory: Path, logs: int = 1, records: int = 10, **options: int) -> None:
    """So many logs, each record in a block of its own; "log 0" has the first, and so on in turn."""
    with walkeeper.open(directory, **options) as namespace:  # type: ignore[arg-type]
        writers = [namespace.log(f"log-{number}").writer() for number in range(logs)]
        for number in range(records):
            writers[number % logs].append(payload(number))
        for writer in writers:
            writer.close()


def content(namespace: walkeeper.Namespace, log: str) -> list[bytes | tuple[int, int]]:
    """The payloads of records; for a gap its first sequence id and how many are lost."""
    return [
        (item.sequence_id, item.count) if isinstance(item, Gap) else bytes(item.payload)
        for item in namespace.log(log, create=False).reader(gaps="yield")
    ]


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Two logs of five records, 0 2 4 6 8 and 1 3 5 7 9; record 4 is damaged in a file that is not sealed."""
    make(tmp_path / "wal", logs=2)
    turn_a_bit(tmp_path / "wal", payload(4))
    return tmp_path / "wal"


# ---- damage that opening meets


def test_opening_stops_at_damage_unless_told_otherwise(damaged: Path) -> None:
    with pytest.raises(DamagedError, match=r"journal/0{15}1\.wkj"):
        walkeeper.open(damaged)


def test_skip_leaves_a_gap_where_records_are_lost(damaged: Path) -> None:
    with walkeeper.open(damaged, on_damage="skip") as namespace:
        assert content(namespace, "log-0") == [payload(0), payload(2), (2, 1), payload(6), payload(8)]
        assert content(namespace, "log-1") == [payload(number) for number in (1, 3, 5, 7, 9)]
        report = namespace.recovery()
        assert (report.damaged_blocks, report.lost_entries, report.lost_records, report.unknown_blocks) == (1, 1, 1, 0)


def test_point_in_time_cuts_the_affected_log_and_no_other(damaged: Path) -> None:
    with walkeeper.open(damaged, on_damage="point_in_time") as namespace:
        assert content(namespace, "log-0") == [payload(0), payload(2), (2, 3)]
        assert content(namespace, "log-1") == [payload(number) for number in (1, 3, 5, 7, 9)]
        assert namespace.recovery().lost_records == 3


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_accepted_loss_stays_and_no_sequence_id_is_used_again(damaged: Path, policy: walkeeper.OnDamage) -> None:
    with walkeeper.open(damaged, on_damage=policy) as namespace:
        accepted = content(namespace, "log-0")
        with namespace.log("log-0").writer() as writer:
            assert writer.append(b"and on").sequence_id == 5
    for _ in range(2):
        with walkeeper.open(damaged) as namespace:
            assert content(namespace, "log-0") == [*accepted, b"and on"]
            assert namespace.recovery().damaged_blocks == 0


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_who_only_reads_is_shown_what_an_open_would_leave_and_writes_nothing(
    damaged: Path, policy: walkeeper.OnDamage
) -> None:
    before = files_of(damaged)
    with walkeeper.open(damaged, read_only=True, on_damage=policy) as namespace:
        shown = [content(namespace, name) for name in ("log-0", "log-1")]
        report = namespace.recovery()
        assert namespace.log("log-0").info().next.sequence_id == 5
        with pytest.raises(walkeeper.errors.ReadOnlyError):
            namespace.log("log-0").writer()
        with pytest.raises(walkeeper.errors.ReadOnlyError):
            namespace.log("log-0").truncate(namespace.log("log-0").info().next)
    assert files_of(damaged) == before
    with walkeeper.open(damaged, on_damage=policy) as namespace:
        assert [content(namespace, name) for name in ("log-0", "log-1")] == shown
        assert namespace.recovery().lost_records == report.lost_records > 0


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_who_only_reads_needs_no_folder_of_the_index(damaged: Path, policy: walkeeper.OnDamage) -> None:
    shutil.rmtree(damaged / "index")
    with walkeeper.open(damaged, read_only=True, on_damage=policy) as namespace:
        shown = [content(namespace, name) for name in ("log-0", "log-1")]
    assert not (damaged / "index").exists()
    with walkeeper.open(damaged, on_damage=policy) as namespace:
        assert [content(namespace, name) for name in ("log-0", "log-1")] == shown


def test_who_only_reads_is_given_gaps_for_what_only_reads_meet_too(tmp_path: Path) -> None:
    make(tmp_path / "wal", records=60, **SMALL)
    turn_a_bit(tmp_path / "wal", payload(3))  # in a sealed file
    turn_a_bit(tmp_path / "wal", payload(55))  # in one that an open reads
    with walkeeper.open(tmp_path / "wal", read_only=True, on_damage="skip") as namespace:
        shown = content(namespace, "log-0")
    assert [item for item in shown if isinstance(item, tuple)] == [(3, 1), (55, 1)]
    with walkeeper.open(tmp_path / "wal", on_damage="skip") as namespace:
        assert content(namespace, "log-0") == shown


def test_a_damaged_directory_in_use_is_refused_to_who_only_reads(damaged: Path) -> None:
    # flock knows descriptors, not processes: this one stands for a writer
    with (damaged / "lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DamagedError, match=r"journal/0{15}1\.wkj"):
            walkeeper.open(damaged, read_only=True, on_damage="skip")
    with walkeeper.open(damaged, read_only=True, on_damage="skip") as namespace:
        assert namespace.recovery().damaged_blocks == 1


def test_a_lost_end_is_a_gap_and_appends_go_on_behind_it(tmp_path: Path) -> None:
    make(tmp_path / "wal", logs=2)
    turn_a_bit(tmp_path / "wal", payload(8))
    with walkeeper.open(tmp_path / "wal", on_damage="skip") as namespace:
        log = namespace.log("log-0")
        assert content(namespace, "log-0") == [*(payload(number) for number in (0, 2, 4, 6)), (4, 1)]
        assert log.info().next.sequence_id == 5
        assert list(log.reader(start="end")) == []
        with log.writer() as writer:
            assert writer.append(b"and on").sequence_id == 5
        assert content(namespace, "log-0")[-2:] == [(4, 1), b"and on"]


def test_lost_records_are_not_counted_and_finding_one_finds_the_gap(damaged: Path) -> None:
    with walkeeper.open(damaged, on_damage="skip") as namespace:
        log = namespace.log("log-0")
        assert log.count() == 4
        at = log.find(sequence_id=2)
        assert at.sequence_id == 2
        first, second = list(log.reader(start=at, gaps="yield"))[:2]
        assert isinstance(first, Gap)
        assert (first.sequence_id, first.count, first.next.sequence_id) == (2, 1, 3)
        assert isinstance(second, Record)
        assert second.dlsn == first.next.dlsn
        assert log.find(sequence_id=3).sequence_id == 3


def test_a_gap_is_truncated_as_records_are(damaged: Path) -> None:
    with walkeeper.open(damaged, on_damage="skip") as namespace:
        log = namespace.log("log-0")
        log.truncate(log.find(sequence_id=2))
        assert content(namespace, "log-0") == [(2, 1), payload(6), payload(8)]
        log.truncate(log.find(sequence_id=3))
        assert content(namespace, "log-0") == [payload(6), payload(8)]
    with walkeeper.open(damaged) as namespace:
        assert content(namespace, "log-0") == [payload(6), payload(8)]


def told(gap: Gap) -> tuple[int, int, int]:
    """The first sequence id that is lost, how many are, and the one behind."""
    return gap.sequence_id, gap.count, gap.next.sequence_id


@pytest.fixture
def two_gaps(tmp_path: Path) -> Path:
    """A log of records 0 to 9, of which 3, 4 and 7 are lost and the loss was accepted."""
    make(tmp_path / "wal")
    for number in (3, 4, 7):
        turn_a_bit(tmp_path / "wal", payload(number))
    walkeeper.open(tmp_path / "wal", on_damage="skip").close()
    return tmp_path / "wal"


ALL = [0, 1, 2, (3, 2, 5), 5, 6, (7, 1, 8), 8, 9]

Told = list[int | tuple[int, int, int]]


def take(reader: walkeeper.Reader, records: Iterator[Record], way: str, found: Told) -> bool:
    """Appends the sequence ids that one call gives; False at the end."""
    if way == "for":
        for record in reader:
            found.append(record.sequence_id)
        return False
    if way == "iterator":
        found.extend(record.sequence_id for record in records)
        return False
    if way == "next":
        record = next(reader, None)
        found += [] if record is None else [record.sequence_id]
        return record is not None
    if way == "read":
        batch = reader.read()
        found += [record.sequence_id for record in batch]
        return bool(batch)
    arrow = reader.read_arrow()
    found += [] if arrow is None else arrow.column("sequence_id").to_pylist()
    return arrow is not None


def all_of(reader: walkeeper.Reader, way: str) -> Told:
    """What a loop gets that catches GapError and goes on: sequence ids, and gaps."""
    found: Told = []
    records = iter(reader)
    while True:
        try:
            if not take(reader, records, way, found):
                return found
        except walkeeper.GapError as error:  # noqa: PERF203 - a round is an error
            found.append(told(error.gap))


@pytest.mark.parametrize("way", ["for", "iterator", "next", "read", "read_arrow"])
def test_a_reader_raises_each_gap_once_and_goes_on(two_gaps: Path, way: str) -> None:
    if way == "read_arrow":
        pytest.importorskip("pyarrow")
    with walkeeper.open(two_gaps) as namespace:
        reader = namespace.log("log-0").reader()
        assert all_of(reader, way) == ALL
        assert reader.ended


def test_what_a_gap_error_says(two_gaps: Path) -> None:
    with walkeeper.open(two_gaps) as namespace:
        log = namespace.log("log-0")
        with pytest.raises(walkeeper.GapError) as caught:
            (reader := log.reader(sequence_id=3)).read()
        error = caught.value
        assert reader.position == error.gap.next.dlsn
        assert str(error) == ("reading log 'log-0': records 3 to 4 are lost; an open with on_damage= accepted the loss")
        assert (error.log, error.sequence_id, error.outcome) == ("log-0", 3, None)
        assert isinstance(error, DamagedError)
        assert error.hint is not None
        assert 'gaps="yield"' in error.hint
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), told(again.gap)) == (str(error), (3, 2, 5))
        with pytest.raises(walkeeper.GapError, match="record 7 is lost"):
            log.reader(sequence_id=7).read()
        with pytest.raises(walkeeper.InvalidError, match=r"^gaps='pass'"):
            log.reader(gaps="pass")  # type: ignore[call-overload]


def test_a_read_that_ends_before_a_gap_says_nothing_of_it(two_gaps: Path) -> None:
    with walkeeper.open(two_gaps) as namespace:
        log = namespace.log("log-0")
        reader = log.reader()
        assert [record.sequence_id for record in reader.read()] == [0, 1, 2]
        assert not reader.ended
        assert log.reader(start=reader.position, gaps="yield").read(1)[0].sequence_id == 3
        assert [record.sequence_id for record in log.reader(end=log.find(sequence_id=3)).read()] == [0, 1, 2]


def test_a_follower_raises_the_gap_too(two_gaps: Path) -> None:
    with walkeeper.open(two_gaps) as namespace, walkeeper.open(two_gaps, read_only=True) as other:
        for opened in (namespace, other):
            reader = opened.log("log-0", create=False).reader(follow=True, timeout=0)
            assert all_of(reader, "for") == ALL
            assert not reader.ended


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("way", ["for", "read", "read_arrow"])
def test_a_reader_of_asyncio_raises_each_gap_once_and_goes_on(two_gaps: Path, way: str, follow: bool) -> None:
    if way == "read_arrow":
        pytest.importorskip("pyarrow")

    async def take(reader: walkeeper.aio.Reader, found: Told) -> bool:
        if way == "for":
            async for record in reader:
                found.append(record.sequence_id)
            return False
        if way == "read":
            batch = await reader.read()
            found += [record.sequence_id for record in batch]
            return bool(batch)
        arrow = await reader.read_arrow()
        found += [] if arrow is None else arrow.column("sequence_id").to_pylist()
        return arrow is not None

    async def main() -> None:
        async with walkeeper.aio.open(two_gaps) as namespace:
            log = await namespace.log("log-0")
            found: Told = []
            places: list[tuple[walkeeper.DLSN, walkeeper.DLSN]] = []
            reader = log.reader(follow=follow, timeout=0)
            more = True
            while more:
                try:
                    more = await take(reader, found)
                except walkeeper.GapError as error:  # noqa: PERF203 - a round is an error
                    places.append((await reader.position(), error.gap.next.dlsn))
                    found.append(told(error.gap))
            assert found == ALL
            assert [stands for stands, _ in places] == [behind for _, behind in places]
            both = [
                told(item) if isinstance(item, Gap) else item.sequence_id async for item in log.reader(gaps="yield")
            ]
            assert both == ALL

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_reader_that_yields_gaps_raises_none_but_for_arrow(two_gaps: Path) -> None:
    pytest.importorskip("pyarrow")
    with walkeeper.open(two_gaps) as namespace:
        reader = namespace.log("log-0").reader(gaps="yield")
        assert [item.sequence_id for item in reader.read(max_records=4)] == [0, 1, 2, 3]
        assert all_of(reader, "read_arrow") == ALL[4:]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a destructor met a signal, too
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python runs handlers between a call and the assignment")
@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer that is at work holds its own lock for ever then")
@pytest.mark.parametrize("way", ["for", "iterator", "next", "read", "read_arrow"])
def test_a_handler_that_raises_at_any_moment_keeps_the_gap(two_gaps: Path, way: str) -> None:
    """A call tells of the gap, or is cut short, and then the next call tells of it."""
    if way == "read_arrow":
        pytest.importorskip("pyarrow")

    class Stop(BaseException):
        pass

    armed = [False]

    def stop(_signal: int, frame: FrameType | None) -> None:
        if armed[0] and frame is not None and frame.f_code.co_filename != __file__:
            raise Stop

    def call(reader: walkeeper.Reader, records: Iterator[Record]) -> object:
        if way == "for":
            return next(iter(reader))
        if way == "iterator":
            return next(records)
        return next(reader) if way == "next" else getattr(reader, way)()

    with walkeeper.open(two_gaps) as namespace:
        log = namespace.log("log-0")
        until = time.monotonic() + 60
        before = signal.signal(signal.SIGALRM, stop)
        stops = rounds = 0
        took = 1e-3
        try:
            while stops < 50 or rounds < 200:
                assert time.monotonic() < until, f"{stops} stops in {rounds} rounds"
                rounds += 1
                reader = log.reader(sequence_id=3)
                records = iter(reader)
                error: walkeeper.GapError | None = None
                started = time.monotonic()
                try:
                    armed[0] = True
                    signal.setitimer(signal.ITIMER_REAL, max(took * (rounds % 40) / 40, 1e-6))
                    call(reader, records)
                except walkeeper.GapError as gap:
                    armed[0] = False
                    error = gap
                    took = min(took, time.monotonic() - started)
                except Stop:
                    stops += 1
                armed[0] = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                if error is None:
                    with pytest.raises(walkeeper.GapError) as caught:
                        call(reader, records)
                    error = caught.value
                assert told(error.gap) == ALL[3]
                assert next(reader).sequence_id == 5
        finally:
            armed[0] = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_a_follower_yields_the_gap_too(damaged: Path) -> None:
    with walkeeper.open(damaged, on_damage="skip") as namespace:
        expected = content(namespace, "log-0")
        with walkeeper.open(damaged, read_only=True) as follower:
            assert content(follower, "log-0") == expected


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_damage_to_the_catalogue_leaves_every_record_in_some_log(tmp_path: Path, policy: walkeeper.OnDamage) -> None:
    make(tmp_path / "wal", logs=2)
    turn_a_bit(tmp_path / "wal", b"log-0")
    with pytest.raises(DamagedError, match=r"journal/0{15}1\.wkj"):
        walkeeper.open(tmp_path / "wal")
    for on_damage in (policy, "stop"):
        with walkeeper.open(tmp_path / "wal", on_damage=on_damage) as namespace:
            assert (namespace.recovery().catalogue_lost > 0) == (on_damage == policy)
            found = {name: content(namespace, name) for name in namespace.logs()}
            assert "log-1" in found
            assert [payload(number) for number in (1, 3, 5, 7, 9)] in found.values()
            assert [payload(number) for number in (0, 2, 4, 6, 8)] in found.values()


def test_under_stop_a_damaged_entry_of_the_catalogue_names_the_policies(tmp_path: Path) -> None:
    make(tmp_path / "wal", records=60, **SMALL)
    turn_a_bit(tmp_path / "wal", b"log-0")
    with pytest.raises(DamagedError, match=r"on_damage=skip .*walkeeper recover"):
        walkeeper.open(tmp_path / "wal")
    with walkeeper.open(tmp_path / "wal", read_only=True, on_damage="skip") as namespace:
        (name,) = namespace.logs()
        assert content(namespace, name) == [payload(number) for number in range(60)]


# ---- damage that reading meets


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """Sixty records in small files; record 3 is damaged in one that is sealed."""
    make(tmp_path / "wal", records=60, **SMALL)
    turn_a_bit(tmp_path / "wal", payload(3))
    return tmp_path / "wal"


def test_damage_in_a_sealed_file_is_met_when_it_is_read(sealed: Path) -> None:
    with walkeeper.open(sealed) as namespace:
        reader = namespace.log("log-0").reader()
        assert [item.sequence_id for item in reader.read(max_records=3)] == [0, 1, 2]
        with pytest.raises(DamagedError, match="entry 3"):
            reader.read()


def test_a_damaged_file_is_called_as_it_is_on_the_disk(tmp_path: Path) -> None:
    make(tmp_path / "wal", records=400, **SMALL)
    sealed = turn_a_bit(tmp_path / "wal", payload(300))
    assert not sealed[-20:-4].isdigit() or int(sealed[-20:-4]) != int(sealed[-20:-4], 16)
    with walkeeper.open(tmp_path / "wal") as namespace, pytest.raises(DamagedError, match=sealed):
        namespace.log("log-0").find(sequence_id=300)
    last = turn_a_bit(tmp_path / "wal", payload(398))
    with pytest.raises(DamagedError, match=last):
        walkeeper.open(tmp_path / "wal")


def test_a_consumer_can_step_over_one_damaged_record(sealed: Path) -> None:
    with walkeeper.open(sealed) as namespace:
        log = namespace.log("log-0")
        for number in (n for n in range(60) if n != 3):
            at = log.find(sequence_id=number)
            assert at.sequence_id == number
            assert log.find(dlsn=at.dlsn) == at
        assert [item.sequence_id for item in log.reader(sequence_id=4)] == list(range(4, 60))
        with pytest.raises(DamagedError, match="entry 3"):
            log.find(sequence_id=3)


def test_under_skip_it_is_a_gap(sealed: Path) -> None:
    with walkeeper.open(sealed, on_damage="skip") as namespace:
        expected: list[bytes | tuple[int, int]] = [payload(number) for number in range(60)]
        expected[3] = (3, 1)
        assert content(namespace, "log-0") == expected
        assert [item.sequence_id for item in namespace.log("log-0").reader(sequence_id=3, gaps="yield").read(2)] == [
            3,
            4,
        ]


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_with_check_all_nothing_surfaces_when_it_is_read(sealed: Path, policy: walkeeper.OnDamage) -> None:
    expected: list[bytes | tuple[int, int]] = [payload(number) for number in range(60)]
    expected[3:] = [(3, 1), *expected[4:]] if policy == "skip" else [(3, 57)]
    with walkeeper.open(sealed, on_damage=policy, check_all=True) as namespace:
        report = namespace.recovery()
        assert (report.lost_entries, report.lost_records) == (1, 1 if policy == "skip" else 57)
        assert content(namespace, "log-0") == expected
    with walkeeper.open(sealed) as namespace:
        assert content(namespace, "log-0") == expected


def test_entries_in_a_row_that_cannot_be_read_are_one_gap(sealed: Path) -> None:
    for number in (4, 5):
        turn_a_bit(sealed, payload(number))
    expected = [*map(payload, range(3)), (3, 3), *map(payload, range(6, 60))]
    with walkeeper.open(sealed, on_damage="skip", check_all=True) as namespace:
        assert content(namespace, "log-0") == expected
    with walkeeper.open(sealed) as namespace:
        assert content(namespace, "log-0") == expected


def test_a_reader_that_follows_read_only_may_skip_too(sealed: Path) -> None:
    with walkeeper.open(sealed, read_only=True, on_damage="skip") as namespace:
        assert content(namespace, "log-0")[3] == (3, 1)


def test_a_gap_does_not_go_back_behind_what_was_read(tmp_path: Path) -> None:
    """What a reader gave out before the disk lost it is not told of as lost."""
    with walkeeper.open(tmp_path / "wal") as namespace, namespace.log("log").writer() as writer:
        for number in range(20):
            writer.append(b"<%02d>" % number * 150_000)
    with walkeeper.open(tmp_path / "wal", read_only=True, on_damage="skip") as namespace:
        reader = namespace.log("log").reader(gaps="yield")
        assert [reader.read(1)[0].sequence_id for _ in range(5)] == [0, 1, 2, 3, 4]
        for number in range(3, 9):
            turn_a_bit(tmp_path / "wal", b"<%02d>" % number * 10)
        gap = reader.read(1)[0]
        assert isinstance(gap, Gap)
        assert (gap.sequence_id, gap.count) == (5, 4)
        assert [record.sequence_id for record in reader] == list(range(9, 20))


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    """A log whose last record, 2, is damaged in a sealed file; another log went on for long."""
    with walkeeper.open(tmp_path / "wal", **SMALL) as namespace:  # type: ignore[arg-type]
        with namespace.log("ended").writer() as writer:
            for number in range(3):
                writer.append(payload(number))
        with namespace.log("busy").writer() as writer:
            for _ in range(60):
                writer.append(b"x")
    turn_a_bit(tmp_path / "wal", payload(2))
    return tmp_path / "wal"


def test_a_log_whose_end_is_damaged_says_so(ended: Path) -> None:
    with walkeeper.open(ended) as namespace, pytest.raises(DamagedError, match="entry 2"):
        namespace.log("ended").info()


@pytest.mark.parametrize("first", ["reader", "info", "find"])
def test_who_only_reads_is_given_a_gap_for_a_damaged_end(ended: Path, first: str) -> None:
    """Whatever it asks first."""
    with walkeeper.open(ended, read_only=True, on_damage="skip") as namespace:
        log = namespace.log("ended")
        if first == "info":
            assert log.info().next.sequence_id == 3
        if first == "find":
            assert log.find(sequence_id=2).sequence_id == 2
        assert content(namespace, "ended") == [payload(0), payload(1), (2, 1)]
        assert log.info().next.sequence_id == 3


def test_under_skip_the_damaged_end_becomes_a_gap_for_ever(ended: Path) -> None:
    expected = [payload(0), payload(1), (2, 1), b"and on"]
    with walkeeper.open(ended, on_damage="skip") as namespace:
        with namespace.log("ended").writer() as writer:
            assert writer.append(b"and on").sequence_id == 3
        assert content(namespace, "ended") == expected
    with walkeeper.open(ended) as namespace:
        assert content(namespace, "ended") == expected
        assert namespace.log("ended").count() == 3


def kept_bytes(directory: Path, log: str, on_damage: walkeeper.OnDamage) -> int:
    with walkeeper.open(directory, on_damage=on_damage) as namespace:
        namespace.log(log).info()
        (segment,) = namespace.log(log).segments()
        assert segment.completed
        return segment.payload_bytes


def test_a_segment_whose_end_was_lost_says_how_much_is_left(ended: Path, tmp_path: Path) -> None:
    make(tmp_path / "open", logs=2)
    turn_a_bit(tmp_path / "open", payload(8))  # a last record too, but in a file that opening looks at
    for policy in ("skip", "stop"):
        assert kept_bytes(ended, "ended", policy) == 2 * len(payload(0))
        assert kept_bytes(tmp_path / "open", "log-0", policy) == 4 * len(payload(0))


# ---- what is only a cache


def test_an_index_folder_that_is_missing_is_made_again(tmp_path: Path) -> None:
    make(tmp_path / "wal", records=60, **SMALL)
    assert list((tmp_path / "wal" / "index").glob("*.wki"))
    shutil.rmtree(tmp_path / "wal" / "index")
    make(tmp_path / "wal", records=60, **SMALL)
    assert list((tmp_path / "wal" / "index").glob("*.wki"))
    with walkeeper.open(tmp_path / "wal") as namespace:
        assert content(namespace, "log-0") == 2 * [payload(number) for number in range(60)]


def test_copies_that_leave_out_empty_folders_open(tmp_path: Path) -> None:
    make(tmp_path / "wal")
    (tmp_path / "wal" / "entries").rmdir()
    for read_only, on_damage in ((True, "stop"), (True, "skip"), (False, "stop")):
        with walkeeper.open(tmp_path / "wal", read_only=read_only, on_damage=on_damage) as namespace:  # type: ignore[arg-type]
            assert content(namespace, "log-0") == [payload(number) for number in range(10)]
    assert (tmp_path / "wal" / "entries").is_dir()


# ---- loss that only a closer look finds, seen by who may not write


def shown(place: Path, policy: walkeeper.OnDamage, *, check_all: bool, read_only: bool) -> object:
    """What an open shows of log-0."""
    with walkeeper.open(place, on_damage=policy, check_all=check_all, read_only=read_only) as namespace:
        log = namespace.log("log-0")
        return content(namespace, "log-0"), log.count(), log.segments(), namespace.recovery().lost_records


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_who_only_reads_may_ask_for_every_entry_to_be_checked(tmp_path: Path, policy: walkeeper.OnDamage) -> None:
    make(tmp_path / "wal", records=60, **SMALL)
    turn_a_bit(tmp_path / "wal", payload(3))  # in a sealed file, which no open reads
    seen = shown(tmp_path / "wal", policy, check_all=True, read_only=True)
    assert seen == shown(tmp_path / "wal", policy, check_all=True, read_only=False)


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_who_only_reads_is_shown_what_a_missing_file_leaves(tmp_path: Path, policy: walkeeper.OnDamage) -> None:
    make(tmp_path / "wal", records=60, **SMALL)
    journal = (tmp_path / "wal" / "journal").glob("*.wkj")
    next(file for file in journal if payload(20) in file.read_bytes()).unlink()
    seen = shown(tmp_path / "wal", policy, check_all=False, read_only=True)
    assert seen == shown(tmp_path / "wal", policy, check_all=False, read_only=False)


def test_who_asks_for_all_entries_of_a_whole_directory_follows_it(tmp_path: Path) -> None:
    make(tmp_path / "wal")
    with walkeeper.open(tmp_path / "wal", read_only=True, on_damage="skip", check_all=True) as view:
        with walkeeper.open(tmp_path / "wal") as namespace, namespace.log("log-0").writer() as writer:
            writer.append(b"and on")
        assert content(view, "log-0") == [*(payload(number) for number in range(10)), b"and on"]


def test_with_a_writer_at_it_who_asks_for_all_entries_follows(tmp_path: Path) -> None:
    with walkeeper.open(tmp_path / "wal") as namespace, namespace.log("log-0").writer() as writer:
        writer.append(payload(0))
        code = (
            "import sys, walkeeper\n"
            "with walkeeper.open(sys.argv[1], read_only=True, on_damage='skip', check_all=True) as namespace:\n"
            "    print(namespace.log('log-0').count(), namespace.log('log-0').reader(follow=True).read()[0].payload)\n"
        )
        said = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "wal")], capture_output=True, text=True, timeout=60, check=True
        )
    assert said.stdout.startswith("1 ")


def test_segments_that_loss_takes_are_not_told_of_once_more(tmp_path: Path) -> None:
    namespace = walkeeper.open(tmp_path / "wal", **SMALL)  # type: ignore[arg-type]
    with namespace, namespace.log("log-0", segment_bytes=20000).writer() as writer:
        for number in range(16):
            writer.append(b"%d" % (number % 10) * 14000)
    for file in sorted((tmp_path / "wal" / "journal").glob("*.wkj")):
        shutil.rmtree(tmp_path / "broken", ignore_errors=True)
        shutil.copytree(tmp_path / "wal", tmp_path / "broken")
        (tmp_path / "broken" / "journal" / file.name).unlink()
        try:
            namespace = walkeeper.open(tmp_path / "broken", on_damage="point_in_time")
        except DamagedError:
            continue  # without its first file there is nothing
        with namespace:
            accepted = {name: namespace.log(name).segments() for name in namespace.logs()}
        with walkeeper.open(tmp_path / "broken") as namespace:
            assert {name: namespace.log(name).segments() for name in namespace.logs()} == accepted, file.name
