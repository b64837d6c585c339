"""State files: what was saved is read again, damage is never taken for nothing, clocks bring nobody back to life."""

from __future__ import annotations

import errno
import os
import random
import time
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from full_disk import FullDisk

from walkeeper_bookie import _checked_lines
from walkeeper_bookie._checked_lines import StateFileError, read_lines, write_lines
from walkeeper_bookie._emergency_space import EmergencySpace
from walkeeper_bookie._gc_hold import GcState, Hold
from walkeeper_bookie._gc_state_file import GcStateFile
from walkeeper_bookie._state_files import LimboFile, LimboState, ReadOnlyFile, StartsFile, TombstoneFile

DAY = 86400.0
GC_HEAD = {"listed": 1, "peak": 1, "peak_left_ms": 0, "here": 1, "met": True}
GC_HOLD = {"hold": "collapsed", "listed": 1, "before": 400, "bytes": 5, "left_ms": 5}
SEED = int(os.environ.get("WALKEEPER_TEST_SEED", time.time_ns() % 10**9))


class Clock:
    """A clock that tests move."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def ids(*numbers: int) -> array[int]:
    return array("q", numbers)


# ---- lines ----


def test_the_bytes_are_those_of_the_document(tmp_path: Path) -> None:
    LimboFile(tmp_path / "limbo").save(LimboState(ledger_ids=ids(3, 7)))
    page = Path(__file__).resolve().parents[2] / "docs/formats/bookie_state.md"
    assert (tmp_path / "limbo").read_text() in page.read_text()


def test_one_turned_bit_anywhere_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "limbo"
    LimboFile(path).save(LimboState(ledger_ids=ids(3, 7, 2**63 - 1)))
    good = path.read_bytes()
    for at in range(len(good) * 8):
        bad = bytearray(good)
        bad[at // 8] ^= 1 << at % 8
        path.write_bytes(bad)
        with pytest.raises(StateFileError, match="limbo add --all"):
            LimboFile(path).load()


def test_a_file_that_is_cut_off_anywhere_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "limbo"
    LimboFile(path).save(LimboState(everything=True, ledger_ids=ids(*range(2500))))
    good = path.read_bytes()
    boundaries = [at + 1 for at, byte in enumerate(good) if byte == ord("\n")]
    for size in {0, 1, 9, *boundaries[:-1], *(at - 1 for at in boundaries)}:
        path.write_bytes(good[:size])
        with pytest.raises(StateFileError, match="damaged at line"):
            LimboFile(path).load()


def test_random_bytes_are_never_taken_for_a_file(tmp_path: Path) -> None:
    print(f"WALKEEPER_TEST_SEED={SEED}")
    rng = random.Random(SEED)
    path = tmp_path / "tombstones"
    for _ in range(300):
        path.write_bytes(rng.randbytes(rng.randrange(200)))
        with pytest.raises(StateFileError):
            TombstoneFile(path, 1.0)


def test_lines_that_are_left_out_or_change_places_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_lines(path, "file", [{"a": 1}, {"a": 2}])
    head, one, two, end = path.read_bytes().splitlines(keepends=True)
    for lines in ([head, two, end], [head, one, end], [head, two, one, end], [head, one, two, end, end]):
        path.write_bytes(b"".join(lines))
        with pytest.raises(StateFileError):
            read_lines(path, "file", "")


def test_another_files_lines_and_a_newer_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "limbo"
    write_lines(path, "tombstones", [])
    with pytest.raises(StateFileError, match="`limbo` was expected"):
        LimboFile(path).load()


def test_a_newer_version_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "limbo"
    monkeypatch.setattr(_checked_lines, "VERSION", 2)
    write_lines(path, "limbo", [])
    monkeypatch.undo()
    with pytest.raises(StateFileError, match="written by a newer one"):
        LimboFile(path).load()


@pytest.mark.parametrize(
    "line",
    [
        {"ledgers": [True]},
        {"ledgers": [-1]},
        {"ledgers": "1"},
        {"everything": 0},
        {"unfenced": [0.5]},
        {"ledgers": [1], "cleared": [2]},
        {},
    ],
)
def test_a_sound_line_that_means_nothing_is_refused(tmp_path: Path, line: dict[str, object]) -> None:
    write_lines(tmp_path / "limbo", "limbo", [line])
    with pytest.raises(StateFileError, match="line 2"):
        LimboFile(tmp_path / "limbo").load()


def test_a_crash_before_the_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LimboFile(tmp_path / "limbo")
    file.save(LimboState(ledger_ids=ids(1)))

    def crash(*_: object) -> None:
        raise OSError("the machine went away")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(OSError, match="went away"):
        file.save(LimboState(ledger_ids=ids(2)))
    monkeypatch.undo()
    assert file.load().ledger_ids == ids(1)
    file.save(LimboState(ledger_ids=ids(3)))
    assert os.listdir(tmp_path) == ["limbo"]


def test_file_and_directory_are_synced_in_this_order_around_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    sync, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        did.append("sync directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "sync file")
        sync(descriptor)

    def renamed(old: Path, new: Path) -> None:
        did.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", renamed)
    write_lines(tmp_path / "file", "file", [])
    assert did == ["sync file", "rename", "sync directory"]
    ReadOnlyFile(tmp_path / "file").set(False)
    assert did[3:] == ["sync directory"]


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "limbo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        LimboFile(tmp_path / "limbo").load()


# ---- limbo ----


def test_no_file_is_nothing_in_limbo_and_nothing_in_limbo_is_no_file(tmp_path: Path) -> None:
    file = LimboFile(tmp_path / "limbo")
    assert not file.load()
    file.save(LimboState(ledger_ids=ids(5)))
    assert file.load()
    file.save(LimboState())
    assert not file.path.exists()
    file.save(LimboState())


def test_ledgers_in_limbo_are_read_again_rising_and_once(tmp_path: Path) -> None:
    file = LimboFile(tmp_path / "limbo")
    many = ids(*range(0, 10_000, 3), 2**63 - 1)
    file.save(LimboState(ledger_ids=many + ids(0, 3)))
    assert file.load() == LimboState(ledger_ids=many)
    file.save(LimboState(everything=True, ledger_ids=ids(1)))
    assert file.load() == LimboState(everything=True, ledger_ids=ids(1))
    file.save(LimboState(unfenced=ids(7)))
    assert not file.load()
    assert file.load() == LimboState(unfenced=ids(7))


# ---- tombstones ----


def test_an_id_is_refused_for_its_time_and_then_forgotten(tmp_path: Path) -> None:
    boot = Clock(100.0)
    stones = TombstoneFile(tmp_path / "tombstones", 7 * DAY, boot)
    stones.add([9, 4])
    boot.now += 7 * DAY - 1
    assert stones.expire() is False
    assert stones.ids() == [4, 9]
    boot.now += 1
    assert stones.expire() is True
    assert stones.ids() == []
    assert not stones.path.exists()


def test_cluster_rule_1_a_clock_set_forward_makes_nobody_forget(tmp_path: Path) -> None:
    boot, wall = Clock(100.0), Clock(1e9)
    TombstoneFile(tmp_path / "tombstones", 7 * DAY, boot, wall).add([4])
    wall.now += 365 * DAY
    boot.now = 3.0  # the machine was started anew
    again = TombstoneFile(tmp_path / "tombstones", 7 * DAY, boot, wall)
    assert again.expire() is False
    assert again.ids() == [4]
    boot.now += 7 * DAY
    assert again.expire() is True


def test_a_clock_set_back_keeps_nobody_for_ever(tmp_path: Path) -> None:
    boot, wall = Clock(100.0), Clock(1e9)
    stones = TombstoneFile(tmp_path / "tombstones", 7 * DAY, boot, wall)
    stones.add([4])
    wall.now = 0.0
    boot.now += 7 * DAY
    assert stones.expire() is True


def test_the_time_that_ran_counts_across_restarts(tmp_path: Path) -> None:
    boot = Clock(100.0)
    stones = TombstoneFile(tmp_path / "tombstones", 7 * DAY, boot)
    stones.add([4])
    for day in range(7):
        assert stones.ids() == [4], day
        boot.now += DAY
        stones.expire()  # saves what is left; then the process is killed
        stones = TombstoneFile(tmp_path / "tombstones", 7 * DAY, boot)
    assert stones.ids() == []


def test_a_process_that_ends_saves_what_is_left(tmp_path: Path) -> None:
    boot = Clock(0.0)
    stones = TombstoneFile(tmp_path / "tombstones", 1000.0, boot)
    stones.add([4])
    boot.now = 600.0
    stones.save()
    boot.now = 0.0
    again = TombstoneFile(tmp_path / "tombstones", 1000.0, boot)
    boot.now = 399.0
    assert again.expire() is False
    boot.now = 400.0
    assert again.expire() is True


def test_ids_of_different_passes_have_times_of_their_own(tmp_path: Path) -> None:
    boot, wall = Clock(0.0), Clock(1000.0)
    stones = TombstoneFile(tmp_path / "tombstones", 100.0, boot, wall)
    stones.add(range(1500))
    boot.now, wall.now = 50.0, 1050.0
    stones.keep = 500.0
    stones.add([2**63 - 1])
    again = TombstoneFile(tmp_path / "tombstones", 100.0, boot, wall)
    assert again.ids() == [*range(1500), 2**63 - 1]
    assert again.tombstones()[0].deleted_ms == 1_000_000
    assert again.tombstones()[2**63 - 1].deleted_ms == 1_050_000
    boot.now = 100.0
    assert again.expire() is True
    assert again.ids() == [2**63 - 1]


def test_an_id_that_is_deleted_again_is_refused_anew(tmp_path: Path) -> None:
    boot = Clock(0.0)
    stones = TombstoneFile(tmp_path / "tombstones", 100.0, boot)
    stones.add([4])
    boot.now = 99.0
    stones.add([4])
    boot.now = 150.0
    assert stones.expire() is False


def test_nothing_is_written_where_nothing_is_buried(tmp_path: Path) -> None:
    stones = TombstoneFile(tmp_path / "tombstones", 100.0)
    stones.save()
    assert stones.expire() is False
    assert os.listdir(tmp_path) == []


# ---- what garbage collection holds back ----


def gc_state(until: float | None) -> GcState:
    return GcState(
        listed=20,
        peak=400,
        peak_until=130.0,
        here=7,
        met=True,
        holds=(
            Hold("collapsed", 20, 400, until, 5000, frozenset(range(1500)) | {2**63 - 1}),
            Hold("acknowledged", 0, 7, 90.0, 30, frozenset({1501})),
        ),
    )


@pytest.mark.parametrize("until", [None, 200.0])
def test_what_is_held_is_read_again_with_the_time_that_is_left(tmp_path: Path, until: float | None) -> None:
    clock = Clock(100.0)
    file = GcStateFile(tmp_path / "gc-state", clock=clock)
    assert file.load() == GcState()
    file.save(gc_state(until))
    again = GcStateFile(tmp_path / "gc-state", clock=Clock(1_000_000.0)).load()
    moved = 1_000_000.0 - 100.0
    first, second = gc_state(until).holds
    assert again == replace(
        gc_state(until),
        peak_until=130.0 + moved,
        holds=(
            replace(first, until=None if until is None else until + moved),
            replace(second, until=1_000_000.0),  # what is over stays so
        ),
    )
    assert again.held(1_000_000.0) == first.ledger_ids


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [{"listed": 1}],
        [{"listed": -1, "peak": 1, "peak_left_ms": 0, "here": 1, "met": True}],
        [{"listed": 1, "peak": 1, "peak_left_ms": 0, "here": 1, "met": 1}],
        [GC_HEAD, GC_HEAD],
        [GC_HEAD, {"ledgers": [1]}],
        [GC_HEAD, GC_HOLD, {"ledgers": [-1]}],
        [GC_HEAD, {**GC_HOLD, "hold": "forgotten"}],
        [GC_HEAD, {**GC_HOLD, "hold": ["collapsed"]}],
        [GC_HEAD, {**GC_HOLD, "left_ms": -1}],
        [GC_HEAD, {**GC_HOLD, "left_ms": 1.5}],
        [GC_HEAD, {**GC_HOLD, "bytes": None}],
    ],
)
def test_a_state_of_garbage_collection_that_means_nothing_is_refused(
    tmp_path: Path, lines: list[dict[str, object]]
) -> None:
    write_lines(tmp_path / "gc-state", "gc-state", lines)
    with pytest.raises(StateFileError, match="remove the file"):
        GcStateFile(tmp_path / "gc-state").load()


# ---- the spare ----


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_on_a_full_disk_tombstones_take_the_space_of_the_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "tombstones"
    spare = EmergencySpace(tmp_path / "spare", path)
    assert spare.keep()
    assert spare.path.stat().st_blocks * 512 >= 65536
    stones = TombstoneFile(path, 100.0, spare=spare)
    disk = FullDisk(monkeypatch, number)
    stones.add([4])
    assert TombstoneFile(path, 100.0).ids() == [4]
    assert sorted(os.listdir(tmp_path)) == ["spare", "tombstones"]  # begun, and as yet without a byte
    with pytest.raises(OSError, match="no space"):
        stones.add([5])
    disk.full = False
    stones.expire()
    assert spare.path.stat().st_blocks * 512 >= 65536
    disk.full = True
    stones.add([6])
    assert TombstoneFile(path, 100.0).ids() == [4, 5, 6]


def test_another_failure_takes_no_spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LimboFile(tmp_path / "limbo", EmergencySpace(tmp_path / "spare", tmp_path / "limbo"))
    file.save(LimboState(ledger_ids=ids(1)))
    assert (tmp_path / "spare").stat().st_size == 65536
    FullDisk(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="no space"):
        file.save(LimboState(ledger_ids=ids(2)))
    assert file.load().ledger_ids == ids(1)
    assert (tmp_path / "spare").stat().st_size == 65536


def test_the_spare_grows_with_the_files(tmp_path: Path) -> None:
    path = tmp_path / "tombstones"
    stones = TombstoneFile(path, 100.0, spare=EmergencySpace(tmp_path / "spare", tmp_path / "limbo", path))
    stones.add(range(10**9, 10**9 + 20_000))
    assert (tmp_path / "spare").stat().st_size >= 2 * path.stat().st_size > 2 * 65536


def test_a_write_that_fails_leaves_no_file_that_holds_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="no space"):
        write_lines(tmp_path / "file", "file", [])
    assert os.listdir(tmp_path) == []


# ---- read-only ----


def test_the_wish_survives_and_says_why(tmp_path: Path) -> None:
    file = ReadOnlyFile(tmp_path / "read-only")
    assert not file.wished()
    file.set(True, "moving the disks")
    assert ReadOnlyFile(file.path).wished()
    assert file.reason() == "moving the disks"
    file.set(True)
    assert file.wished()
    file.set(False)
    file.set(False)
    assert not file.wished()
    assert file.reason() == ""


def test_an_empty_file_made_by_hand_is_a_wish(tmp_path: Path) -> None:
    (tmp_path / "read-only").touch()
    assert ReadOnlyFile(tmp_path / "read-only").wished()


def test_where_it_cannot_be_told_the_bookie_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert ReadOnlyFile(tmp_path / "file" / "read-only").wished()


# ---- starts ----


@pytest.mark.parametrize("lines", [[], [{"number": -1}], [{"number": True}], [{"starts": 1}], [{"number": 1}] * 2])
def test_a_number_of_starts_is_one_number(tmp_path: Path, lines: list[dict[str, object]]) -> None:
    file = StartsFile(tmp_path / "starts")
    assert file.load() == 0
    file.save(7)
    assert file.load() == 7
    write_lines(file.path, "starts", lines)
    with pytest.raises(StateFileError, match="remove the file: every ledger is in limbo"):
        file.load()
