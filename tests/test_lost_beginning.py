"""The journal file that says in which segment a log was truncated is lost, and the one that says that it was is not."""

from __future__ import annotations

from pathlib import Path

import pytest

import walkeeper


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_a_log_truncated_in_a_lost_segment_begins_where_its_records_do(
    directory: Path, policy: walkeeper.OnDamage
) -> None:
    sizes = {"file_size_min": 1 << 16, "file_size_max": 1 << 16}
    with walkeeper.open(directory, **sizes) as namespace:  # type: ignore[arg-type]
        log = namespace.log("log", segment_bytes=1)
        with log.writer() as writer:  # each record is a segment of its own, and two or three are a file
            ats = [writer.append(b"%d" % number * 15000) for number in range(10)]
            files = sorted((directory / "journal").glob("*.wkj"))
            log.truncate(ats[4])
            writer.append(b"behind it")
    lost = next(file for file in files if b"4444444444444444" in file.read_bytes())
    lost.unlink()
    with walkeeper.open(directory, on_damage=policy, check_all=True) as namespace:
        log = namespace.log("log")
        first = log.first()
        assert first is not None
        following = first.sequence_id
        for record in log.reader(gaps="yield"):
            assert record.sequence_id == following
            following += record.count if isinstance(record, walkeeper.Gap) else 1
        assert following == 11
