"""Apache BookKeeper's Java client on four walkeeper bookies, of which one is killed.

A Java program writes orders to a ledger: each goes to three bookies, and is acknowledged when two have it durable. In
the middle one of the three gets SIGKILL; the client puts the fourth in its place and goes on. Then a second client
opens the ledger, while its writer writes: the writer is fenced, the end recovered, and every order compared. Exit
status 1 if an acknowledged order is missing or anything is not as it was written.

usage: python examples/java/run.py [--orders N] [--protocol v2|v3]        (needs Java 17, Maven, and kazoo)
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.markup import escape

sys.path.insert(0, str(Path(__file__).parent))

from programs import Program, ProgramError, Told, build

from walkeeper_bookie.cluster import BookieProcess, ClusterError, LocalCluster

BOOKIES = 4


class Story:
    """Tells people what happens, and keeps what was wrong."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.findings: list[str] = []
        self.began = time.monotonic()

    def say(self, what: str, text: str, colour: str = "green") -> None:
        seconds = time.monotonic() - self.began
        self.console.print(f"[dim]{seconds:6.2f} s[/]  [bold {colour}]{what:<13}[/] {escape(text)}")

    def check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.findings.append(otherwise)


def ports(bookies: list[str]) -> str:
    """Of bookie ids; all of them are on this machine."""
    return ", ".join(":" + bookie.rpartition(":")[2] for bookie in bookies)


def rate(first: Told, last: Told) -> float:
    """Orders a second between two `acknowledged`."""
    orders = int(last.words[0]) - int(first.words[0])
    return orders / max(last.at - first.at, 1e-3)


def acknowledged(writer: Program, orders: int) -> Told:
    """The writer's word that so many are."""
    while int((told := writer.expect("acknowledged")).words[0]) < orders:
        pass
    return told


def write(
    story: Story, writer: Program, cluster: LocalCluster, orders: int, protocol: str
) -> tuple[str, BookieProcess]:
    """Until so many orders are acknowledged; a bookie is killed on the way. The ledger, and who was killed."""
    ledger, *ensemble = writer.expect("ledger").words
    story.say("ledger", f"{ledger} on {ports(ensemble)}; E = 3, Qw = 3, Qa = 2, protocol {protocol}")
    victim = next(bookie for bookie in cluster.bookies if bookie.bookie_id == ensemble[-1])
    start = acknowledged(writer, 1)
    half = acknowledged(writer, orders // 2)
    killed_at = time.monotonic()
    kill(victim)
    story.say("acknowledged", f"{int(half.words[0]):,} orders, {rate(start, half):,.0f}/s")
    story.say("SIGKILL", f"for bookie {ports([victim.bookie_id])}", "red")
    change = writer.expect("ensemble")
    first, *now = change.words
    milliseconds = (change.at - killed_at) * 1e3
    spare = ports([name for name in now if name not in ensemble])
    story.say("took over", f"{spare}, {milliseconds:.0f} ms later, from entry {int(first):,} on; no append failed")
    story.check(now[:2] == ensemble[:2] and victim.bookie_id not in now, f"the new ensemble is {ports(now)}")
    done = acknowledged(writer, orders)
    story.say("acknowledged", f"{int(done.words[0]):,} orders, {rate(half, done):,.0f}/s since the kill")
    return ledger, victim


def kill(bookie: BookieProcess) -> None:
    assert bookie.process is not None
    bookie.process.kill()


def recover(story: Story, writer: Program, reader: Program) -> None:
    """The second client takes the ledger from the first, and has to find everything that the first was promised."""
    orders, milliseconds = map(int, reader.expect("recovered").words)
    promised = int(writer.expect("fenced").words[0])
    story.say("fenced", f"the writer, which had gone on: {promised:,} orders were acknowledged", "yellow")
    story.say("recovered", f"the end of the ledger, in {milliseconds} ms: {orders:,} orders")
    while (told := reader.next()).kind == "wrong":
        story.findings.append(f"entry {told.words[0]} is not what was written")
    read, size, milliseconds = map(int, told.words)
    story.check(read == orders, f"{orders:,} orders were recovered, and {read:,} read")
    story.check(read >= promised, f"{promised - read:,} acknowledged orders are missing")
    if not story.findings:
        unheard = f", and {read - promised:,} that were under way" if read > promised else ""
        story.say(
            "read back", f"{size / 1e6:.1f} MB in {milliseconds} ms, byte for byte: all {promised:,} are there{unheard}"
        )


def run(story: Story, place: Path, orders: int, protocol: str) -> None:
    (place / "zookeeper").mkdir()
    with Program("MetadataServer", str(place / "zookeeper"), logs=place) as zookeeper:
        metadata = f"zk+hierarchical://127.0.0.1:{zookeeper.expect('zookeeper').words[0]}/ledgers"
        with LocalCluster(place / "cluster", BOOKIES, metadata) as cluster:
            cluster.start()
            started = ports([bookie.bookie_id for bookie in cluster.bookies])
            story.say("started", f"{BOOKIES} bookies {started}, metadata in ZooKeeper")
            with Program("Writer", metadata, protocol, logs=place) as writer:
                ledger, victim = write(story, writer, cluster, orders, protocol)
                story.say("second client", "opens the ledger, whose writer never closed it")
                with Program("Reader", metadata, protocol, ledger, logs=place) as reader:
                    recover(story, writer, reader)
            cluster.stop()
            for bookie in cluster.bookies:
                well = bookie is victim or bookie.exit_status == 0
                story.check(well, f"bookie {bookie.bookie_id} {bookie.state}")


def stop(number: int, frame: FrameType | None) -> None:
    """The first Ctrl-C, or SIGTERM, ends everything in order; a second one must not cut that short."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="A Java client on four bookies, of which one is killed.")
    parser.add_argument("--orders", type=int, default=50_000, help="how many at least")
    parser.add_argument("--protocol", choices=("v2", "v3"), default="v3")
    arguments = parser.parse_args()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    story = Story()
    try:
        build()
        story.say("built", "Writer, Reader: Apache BookKeeper's client 4.17.3, as it comes")
        with tempfile.TemporaryDirectory(prefix="walkeeper-java-") as place:
            run(story, Path(place), arguments.orders, arguments.protocol)
    except (ProgramError, ClusterError) as wrong:
        story.findings.append(str(wrong))
    except KeyboardInterrupt:
        return 130
    for finding in story.findings:
        story.say("WRONG", finding, "red")
    return 1 if story.findings else 0


if __name__ == "__main__":
    sys.exit(main())
