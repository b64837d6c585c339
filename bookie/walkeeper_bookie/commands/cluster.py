"""`walkeeper cluster`: a local cluster for development and tests."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from walkeeper_bookie._printable import printable

if TYPE_CHECKING:
    from rich.table import Table

    from walkeeper_bookie.cluster import BookieProcess, LocalCluster

__all__ = ["cluster"]

REFRESH_S = 1.0
EXIT_DIED = 1
EXIT_CANNOT = 2


@click.group()
def cluster() -> None:
    """Start some bookies on this machine, for development and tests."""


@cluster.command()
@click.option("--bookies", type=click.IntRange(1, 64), default=3, show_default=True, help="How many.")
@click.option("--metadata", metavar="URI", help="The metadata store. [default: a sqlite file in DIR]")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where everything is kept: the directories of the bookies, their logs and ports. Made where it is missing.",
)
@click.option(
    "--journal",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the journals are kept, of each bookie in a directory of its own. [default: with the other data]",
)
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds until all must be ready.")
@click.pass_context
def up(
    ctx: click.Context, bookies: int, metadata: str | None, data: Path, journal: Path | None, timeout: float
) -> None:
    """Start a cluster, show it until Ctrl-C, and stop it.

    The same directories bring up the same bookies again, on the same ports. A bookie that dies is shown, not started
    again. SIGTERM and the end of the terminal are as good as Ctrl-C, and the bookies end with this process even where
    it is killed.

    Exit status: 0 all bookies were stopped, and ended well; 1 one of them died, or had to be killed; 2 the cluster did
    not come up.
    """
    from walkeeper_bookie.cluster import ClusterError, LocalCluster

    with told_to_stop() as stop:
        try:
            local = LocalCluster(data, bookies, metadata, journal, tied=True)
        except (ClusterError, OSError) as wrong:
            raise click.ClickException(str(wrong)) from None
        with local:
            local.launch()
            came_up = show(local, stop, timeout)
            well = local.stop()
            for bookie in local.bookies:
                click.echo(line_of(bookie))
    if not came_up:
        click.echo("walkeeper: the cluster did not come up", err=True)
        ctx.exit(EXIT_CANNOT)
    ctx.exit(0 if well else EXIT_DIED)


class Stop:
    """What a signal handler sets and the main thread waits for. A handler runs between two steps of the thread that
    waits, so it may take no lock that the thread takes, as threading.Event does."""

    def __init__(self) -> None:
        self._set = False
        self._woken, self._wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def set(self) -> None:
        if not self._set:
            self._set = True
            os.write(self._wakes, b"s")

    def is_set(self) -> bool:
        return self._set

    def wait(self, seconds: float) -> bool:
        """Whether it is set, at the latest after so many seconds."""
        select.select([self._woken], [], [], seconds)
        return self._set

    def close(self) -> None:
        os.close(self._woken)
        os.close(self._wakes)


@contextmanager
def told_to_stop() -> Iterator[Stop]:
    """Set by Ctrl-C, SIGTERM and the end of the terminal; the second time the process ends at once, and the bookies,
    which are tied to it, as soon as they can."""
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(EXIT_DIED)
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop.close()


def show(local: LocalCluster, stop: Stop, timeout: float) -> bool:
    """Shows the cluster until it is told to stop, or no bookie is left. Whether all had been ready, or it was stopped
    before."""
    if sys.stdout.isatty():
        return show_table(local, stop, timeout)
    return show_lines(local, stop, timeout)


def show_lines(local: LocalCluster, stop: Stop, timeout: float) -> bool:
    """A line whenever a bookie changes, and one when all are ready."""
    said: dict[str, str] = {}
    watch = Watch(local, timeout)
    while True:
        going = watch.look()
        for bookie in local.bookies:
            if said.get(bookie.bookie_id) != bookie.state:
                said[bookie.bookie_id] = bookie.state
                click.echo(line_of(bookie))
        if watch.just_ready:
            click.echo(f"cluster ready: {len(local.bookies)} bookies, metadata {local.metadata}")
        if not going or stop.wait(watch.pause):
            return watch.came_up or stop.is_set()


def show_table(local: LocalCluster, stop: Stop, timeout: float) -> bool:
    """A table that is kept up to date."""
    from rich.live import Live

    watch = Watch(local, timeout)
    with Live(table_of(local), auto_refresh=False, redirect_stderr=False) as live:
        while True:
            going = watch.look()
            live.update(table_of(local), refresh=True)
            if not going or stop.wait(watch.pause):
                return watch.came_up or stop.is_set()


class Watch:
    """Looks at a cluster again and again."""

    def __init__(self, local: LocalCluster, timeout: float) -> None:
        self._local, self._clock = local, time.monotonic
        self._until = self._clock() + timeout
        self.came_up = self.just_ready = False

    @property
    def pause(self) -> float:
        return REFRESH_S if self.came_up else 0.05

    def look(self) -> bool:
        """Whether there is something to wait for still."""
        bookies = self._local.bookies
        for bookie in bookies:
            bookie.look()
        self.just_ready = not self.came_up and all(bookie.ready for bookie in bookies)
        self.came_up |= self.just_ready
        if not self.came_up:
            return self._clock() < self._until and not any(bookie.died for bookie in bookies)
        return not all(bookie.died for bookie in bookies)


def table_of(local: LocalCluster) -> Table:
    from rich.table import Table

    table = Table(title=f"metadata {local.metadata}", title_justify="left", caption="Ctrl-C stops all")
    for name in ("bookie", "state", "process"):
        table.add_column(name)
    for name in ("ledgers", "entries/s", "disk"):
        table.add_column(name, justify="right")
    for bookie in local.bookies:
        table.add_row(*cells(bookie), style="red" if bookie.died else None)
    return table


def cells(bookie: BookieProcess) -> tuple[str, ...]:
    running = bookie.process is not None and bookie.exit_status is None
    process = str(bookie.process.pid) if running and bookie.process is not None else ""
    if not bookie.samples:
        return (bookie.bookie_id, bookie.state, process, "", "", "")
    sample = bookie.samples[-1]
    return (
        bookie.bookie_id,
        bookie.state,
        process,
        str(sample.ledgers),
        f"{bookie.entries_per_second:.0f}",
        f"{sample.disk_bytes / 2**20:.1f} MiB",
    )


def line_of(bookie: BookieProcess) -> str:
    if not bookie.died:
        return f"bookie {bookie.bookie_id}: {bookie.state}"
    words = f", and ends with: {printable(bookie.last_words)}" if bookie.last_words else ""
    return f"bookie {bookie.bookie_id}: {bookie.state}; its log is {bookie.log}{words}"
