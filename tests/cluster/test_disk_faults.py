"""One of four bookies has a disk that is full, that is slow, or that does not answer for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cluster.history import History, ready, rounds
from small_file_system import SmallFileSystem, mounted

from walkeeper_bookie.cluster import BookieProcess, LocalCluster

FAULTS = 3
MIB = 2**20
OPTIONS = (
    *("--disk-check-interval", "50ms", "--disk-read-only-free", "0B", "--disk-read-only-percent", "0"),
    *("--disk-writable-free", "1MiB", "--disk-writable-percent", "0", "--disk-recovery-free", "0B"),
    *("--file-size-min", "256KiB", "--file-size-max", "1MiB"),
)
"""It is read-only where there is no room for another file."""


class DiskCluster(LocalCluster):
    """Bookies of which the first is on a small disk."""

    def __init__(self, directory: Path, bookies: int, disk: SmallFileSystem) -> None:
        super().__init__(directory, bookies)
        self.disk = disk
        self.bookies[0].data = disk.path / "data"

    def launch_one(self, bookie: BookieProcess, options: tuple[str, ...] = ()) -> None:  # type: ignore[override]
        super().launch_one(bookie, (*(OPTIONS if bookie is self.bookies[0] else ()), *options))


class DiskHistory(History):
    cluster: DiskCluster

    def fill_the_disk(self) -> None:
        disk = self.cluster.disk
        disk.fill(leave=self.source.choice((0, 100_000, 4 * MIB)))
        try:
            self.pause(0.2, 4)
            disk.fill()  # what the bookie let go of meanwhile
            self.pause(0.2, 1)
        finally:
            disk.make_room()

    def stall_the_disk(self) -> None:
        """It answers nobody, for longer than a client waits, or not."""
        with self.cluster.disk.standing_still():
            self.pause(0.2, 7)

    def slow_the_disk_down(self) -> None:
        """Writes wait a tenth of a second or so, most of the time."""
        for _ in range(self.source.randint(10, 50)):
            with self.cluster.disk.standing_still():
                self.pause(0.02, 0.2)
            self.pause(0.001, 0.01)

    def kill_the_bookie_of_a_disk_that_stalls(self) -> None:
        bookie = self.cluster.bookies[0]
        assert bookie.process is not None
        with self.cluster.disk.standing_still():
            self.pause(0.1, 1)
            bookie.process.kill()
            self.pause(0.1, 1)
        bookie.process.wait()
        self.cluster.launch_one(bookie)
        ready(bookie)

    def kill_the_bookie_of_a_full_disk(self) -> None:
        bookie = self.cluster.bookies[0]
        assert bookie.process is not None
        self.cluster.disk.fill()
        try:
            self.pause(0.1, 1)
            bookie.process.kill()
            bookie.process.wait()
            self.cluster.launch_one(bookie)
            ready(bookie)
        finally:
            self.cluster.disk.make_room()

    def all_faults(self) -> tuple[Callable[[], None], ...]:
        return (
            *(self.fill_the_disk, self.stall_the_disk, self.slow_the_disk_down),
            *(self.kill_the_bookie_of_a_disk_that_stalls, self.kill_the_bookie_of_a_full_disk),
            *(self.kill_writer, self.take_over, self.lose_a_bookie_and_the_writer),
        )


@pytest.fixture
def four_bookies(tmp_path: Path) -> Iterator[DiskCluster]:
    """Of each round's own: its disk is small, and nothing is deleted."""
    with ExitStack() as stack:
        disk = stack.enter_context(mounted(tmp_path, 256 * MIB))
        made = stack.enter_context(DiskCluster(tmp_path / "cluster", 4, disk))
        made.start()
        yield made


@pytest.mark.parametrize("number", rounds(1))
def test_every_acknowledged_append_is_there_once_whatever_becomes_of_a_disk(
    four_bookies: DiskCluster, tmp_path: Path, number: int
) -> None:
    DiskHistory(four_bookies, tmp_path, number).run(FAULTS)
