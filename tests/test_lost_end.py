"""The journal file with the last entry, or segment, of a log is lost, to which the log was truncated before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import walkeeper
from walkeeper.errors import DamagedError

SIZES = {"file_size_min": 1 << 16, "file_size_max": 1 << 16}


def lose_the_end(directory: Path, keep_last: bool) -> int:
    """A log of ten records, of which all are truncated, or all but the last. Returns its next sequence id."""
    with walkeeper.open(directory, **SIZES) as namespace:  # type: ignore[arg-type]
        log, other = namespace.log("log"), namespace.log("other")
        with log.writer() as writer, other.writer() as filler:
            filler.append(b"its segment begins in the first file")
            for number in range(10):
                last = writer.append(b"%d" % number * 15000)
                filler.append(b"x" * 15000)  # enough stays alive for files to stay
            for _ in range(10):  # the truncation comes in another file
                filler.append(b"x" * 15000)
            log.truncate(last if keep_last else log.info().next)
            filler.append(b"behind it")
    lost = next(file for file in (directory / "journal").glob("*.wkj") if b"9999999999999999" in file.read_bytes())
    lost.unlink()
    shutil.rmtree(directory / "index")
    return 10


@pytest.mark.parametrize("keep_last", [False, True])
@pytest.mark.parametrize("check_all", [False, True])
@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_what_is_appended_behind_a_lost_end_is_there(
    directory: Path, policy: walkeeper.OnDamage, check_all: bool, keep_last: bool
) -> None:
    expected = lose_the_end(directory, keep_last)
    with walkeeper.open(directory, on_damage=policy, check_all=check_all) as namespace:
        log = namespace.log("log")
        info = log.info()
        assert info.first.dlsn <= info.next.dlsn
        with log.writer() as writer:
            assert writer.next_sequence_id >= expected
            at = writer.append(b"new")
    with walkeeper.open(directory) as namespace:
        records = [
            record for record in namespace.log("log").reader(gaps="yield") if isinstance(record, walkeeper.Record)
        ]
        assert [(record.sequence_id, bytes(record.payload)) for record in records] == [(at.sequence_id, b"new")]


@pytest.mark.parametrize("at", ["record", "end"])
@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_a_log_truncated_in_a_last_segment_that_is_lost_goes_on_in_a_new_one(
    directory: Path, policy: walkeeper.OnDamage, at: str
) -> None:
    with walkeeper.open(directory, **SIZES) as namespace:  # type: ignore[arg-type]
        log, other = namespace.log("log", segment_bytes=20000), namespace.log("other")
        with log.writer() as writer, other.writer() as filler:
            filler.append(b"its segment begins in the first file")
            for number in range(10):  # a segment has two of them, and enough stays alive for files to stay
                last = writer.append(b"%d" % number * 15000)
                filler.append(b"x" * 15000)
            for _ in range(10):
                filler.append(b"x" * 15000)
            log.truncate(last if at == "record" else log.info().next)
            filler.append(b"behind it")
    for file in (directory / "journal").glob("*.wkj"):
        if b"8888888888888888" in file.read_bytes() or b"9999999999999999" in file.read_bytes():
            file.unlink()
    shutil.rmtree(directory / "index")
    with walkeeper.open(directory, on_damage=policy, check_all=True) as namespace:
        assert namespace.recovery().catalogue_lost > 0
    for number in range(2):  # what is not written down yet holds at the next open, too
        with walkeeper.open(directory) as namespace, namespace.log("log").writer() as writer:
            assert namespace.log("log").info().first.dlsn.segment > last.dlsn.segment
            assert writer.next_sequence_id > last.sequence_id
            if number:
                new = writer.append(b"new")
    with walkeeper.open(directory) as namespace:
        records = [
            record for record in namespace.log("log").reader(gaps="yield") if isinstance(record, walkeeper.Record)
        ]
        assert [(record.dlsn, bytes(record.payload)) for record in records] == [(new.dlsn, b"new")]


def test_a_segment_that_a_cursor_stands_in_keeps_its_number(directory: Path) -> None:
    with walkeeper.open(directory, **SIZES) as namespace:  # type: ignore[arg-type]
        log, other = namespace.log("log", segment_bytes=20000), namespace.log("other")
        with log.writer() as writer, other.writer() as filler:
            filler.append(b"its segment begins in the first file")
            for number in range(10):  # a segment has two of them
                last = writer.append(b"%d" % number * 15000)
                filler.append(b"x" * 15000)
            for _ in range(10):
                filler.append(b"x" * 15000)
            log.cursor("somebody").advance(last)
    for file in (directory / "journal").glob("*.wkj"):
        if b"8888888888888888" in file.read_bytes() or b"9999999999999999" in file.read_bytes():
            file.unlink()
    shutil.rmtree(directory / "index")
    with walkeeper.open(directory, on_damage="skip", check_all=True) as namespace:
        assert namespace.recovery().catalogue_lost > 0
    with walkeeper.open(directory) as namespace, namespace.log("log").writer() as writer:
        writer.append(b"y" * 20000)  # of the segment that is known
        new = writer.append(b"y" * 20000)
        assert new.dlsn.segment > last.dlsn.segment


@pytest.mark.parametrize("keep_last", [False, True])
def test_without_a_policy_the_lost_end_is_damage(directory: Path, keep_last: bool) -> None:
    lose_the_end(directory, keep_last)
    with walkeeper.open(directory) as namespace:
        with pytest.raises(DamagedError, match="a file is missing"):
            namespace.log("log").writer()
        with pytest.raises(DamagedError, match="a file is missing"):
            namespace.log("log").info()
