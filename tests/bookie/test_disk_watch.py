"""The disk watch: when a bookie is read-only, when it is writable again, and what it takes meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from walkeeper_bookie._disk_watch import NEWS_S, DiskWatch, FreeSpaceNews, Space, Thresholds, look

GIB = 2**30
THRESHOLDS = Thresholds(
    read_only_free=5 * GIB, read_only_part=0.05, writable_free=6 * GIB, writable_part=0.06, recovery_free=GIB
)


def judged(watch: DiskWatch, free: float, total: float = 100, engine_full: bool = False, operator: bool = False) -> str:
    """ "writable", "recovery" (read-only, takes what has high priority), or "nothing"."""
    state = watch.judge(Space(int(total * GIB), int(free * GIB)), engine_full=engine_full, operator=operator)
    assert bool(state.reason) == state.read_only
    return "writable" if not state.read_only else "recovery" if state.high_priority else "nothing"


def test_between_the_thresholds_it_stays_what_it_was() -> None:
    watch = DiskWatch(THRESHOLDS)
    assert [judged(watch, free) for free in (50, 5.5, 4.9, 5.5, 6, 6.1, 5.5, 5, 4)] == [
        "writable", "writable", "recovery", "recovery", "recovery", "writable", "writable", "writable", "recovery",
    ]  # fmt: skip


def test_both_bytes_and_part_must_be_free() -> None:
    watch = DiskWatch(THRESHOLDS)
    assert judged(watch, free=40, total=1000) == "recovery"  # 4 %
    assert judged(watch, free=55, total=1000) == "recovery"  # 5.5 %
    assert judged(watch, free=61, total=1000) == "writable"
    assert judged(watch, free=4, total=10) == "recovery"  # 40 %, and too few bytes
    assert judged(watch, free=5.9, total=10) == "recovery"
    assert judged(watch, free=6.1, total=10) == "writable"


def test_cluster_rule_5_recovery_may_add_while_its_share_is_free() -> None:
    watch = DiskWatch(THRESHOLDS)
    assert [judged(watch, free) for free in (4, 1.1, 1, 0)] == ["recovery", "recovery", "nothing", "nothing"]


def test_the_engine_knows_that_the_disk_is_full_before_the_kernel_says_so() -> None:
    watch = DiskWatch(THRESHOLDS)
    assert judged(watch, 50, engine_full=True) == "recovery"
    assert judged(watch, 5.5) == "recovery"
    assert judged(watch, 50) == "writable"  # by itself


def test_an_operators_wish_is_no_matter_of_space() -> None:
    watch = DiskWatch(THRESHOLDS)
    assert judged(watch, 50, operator=True) == "recovery"
    assert judged(watch, 50) == "writable"
    assert judged(watch, 4, operator=True) == "recovery"
    assert judged(watch, 5.5) == "recovery"  # it was full meanwhile


def test_a_disk_that_does_not_answer_takes_nothing() -> None:
    watch = DiskWatch(THRESHOLDS)
    state = watch.judge(None, engine_full=False, operator=False)
    assert (state.read_only, state.high_priority) == (True, False)
    assert judged(watch, 5.5) == "recovery"


def test_of_two_disks_each_must_have_room() -> None:
    """The journal's own is watched as well as the other."""
    watch = DiskWatch(THRESHOLDS)

    def judged_both(data: float, journal: float) -> str:
        spaces = (Space(100 * GIB, int(free * GIB)) for free in (data, journal))
        state = watch.judge(*spaces, engine_full=False, operator=False)
        return "writable" if not state.read_only else "recovery" if state.high_priority else "nothing"

    assert judged_both(50, 50) == "writable"
    assert judged_both(50, 4) == "recovery"
    assert judged_both(50, 5.5) == "recovery"  # between the thresholds it stays what it was
    assert judged_both(5.5, 50) == "recovery"
    assert judged_both(50, 50) == "writable"
    assert judged_both(5.5, 5.5) == "writable"
    assert judged_both(4, 50) == "recovery"
    assert judged_both(50, 0.5) == "nothing"
    assert watch.judge(Space(GIB, GIB), None, engine_full=False, operator=False).reason == "the disk does not answer"
    state = watch.judge(Space(100 * GIB, 90 * GIB), Space(100 * GIB, 2 * GIB), engine_full=False, operator=False)
    assert str(2 * GIB) in state.reason


def test_a_file_system_without_a_size_is_full() -> None:
    assert judged(DiskWatch(THRESHOLDS), free=0, total=0) == "nothing"


def test_a_real_disk(tmp_path: Path) -> None:
    space = look(tmp_path)
    assert 0 < space.free <= space.total
    with pytest.raises(OSError, match="No such file"):
        look(tmp_path / "missing")


def test_free_space_is_news_once_a_minute_where_it_changed_by_a_tenth() -> None:
    news = FreeSpaceNews(published=1000, at=5.0)
    assert not news.due(0, 5.0 + NEWS_S - 0.1)
    for free, due in ((1000, False), (900, False), (1100, False), (899, True), (1101, True), (0, True)):
        assert news.due(free, 5.0 + NEWS_S) is due
    full = FreeSpaceNews(published=0, at=0.0)
    assert not full.due(0, NEWS_S)
    assert full.due(1, NEWS_S)
