"""A ledger on three bookies, one of which is killed, and then its writer.

A writer process adds orders to a ledger. Each goes to three bookies, and is acknowledged when two have it durable. In
the middle one bookie gets SIGKILL: no add fails. Then the writer itself gets SIGKILL, while it adds. Another process
opens the ledger, which finds its end, and reads every order back. Exit status 1 if an acknowledged order is missing or
anything is not as it was written.

usage: python examples/ledger.py [--orders N]
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import NoReturn

import walkeeper
from walkeeper_bookie.cluster import BookieProcess, ClusterError, LocalCluster

BOOKIES = 3
IN_FLIGHT = 200
"""Orders that the writer submits before it waits for the first of them."""
PATIENCE_S = 120.0


def order(number: int) -> bytes:
    """What is written under this number; no two are of one content, and few neighbours of one length."""
    return f"order {number}: {number * 7919 % 1000} pieces of article {number * 104729 % 65536}".encode()


# ---- the writer: a process of its own, which is killed ----


def write(uri: str, acknowledged: Path) -> NoReturn:
    """Adds orders until it is killed. The file gets the ledger's id, then a line for each order that is confirmed."""
    with walkeeper.LedgerClient(uri) as client, open(acknowledged, "w", buffering=1) as lines:
        writer = client.create(ensemble_size=3, write_quorum=3, ack_quorum=2)
        print("ledger", writer.ledger_id, file=lines)
        futures: deque[Future[int]] = deque()
        number = 0
        while True:
            futures.append(writer.submit(order(number)))
            number += 1
            if len(futures) == IN_FLIGHT:
                print("acknowledged", futures.popleft().result(), file=lines)


# ---- the reader: another process, which comes when the writer is gone ----


def read(uri: str, ledger_id: int, acknowledged: int) -> int:
    """Recovers the ledger, compares every order, and says what it found; the exit status."""
    began = time.monotonic()
    with walkeeper.LedgerClient(uri) as client, client.open(ledger_id) as reader:
        milliseconds = (time.monotonic() - began) * 1e3
        print(f"recovered the ledger in {milliseconds:.0f} ms: it ends with entry {reader.lac:,}", flush=True)
        wrong = count = 0
        for number, entry in enumerate(reader.read()):
            wrong += entry.entry_id != number or entry.payload != order(number)
            count += 1
    unheard = f", and {count - acknowledged:,} that were under way" if count > acknowledged else ""
    print(f"read {count:,} orders back: {min(count, acknowledged):,} of {acknowledged:,} acknowledged ones{unheard}")
    if wrong:
        print(f"{wrong:,} orders are not as they were written")
    return 1 if wrong or count < acknowledged else 0


# ---- the story ----


def say(what: str, text: str) -> None:
    print(f"{what:<13} {text}", flush=True)


class Acknowledged:
    """What the writer wrote down, as it stands now."""

    def __init__(self, path: Path, writer: subprocess.Popen[bytes]) -> None:
        self.path, self.writer = path, writer

    def lines(self) -> list[str]:
        """Without the last one, where the writer was killed inside of it."""
        try:
            *whole, _ = self.path.read_text().split("\n")
        except FileNotFoundError:
            return []
        return whole

    @property
    def count(self) -> int:
        return max(0, len(self.lines()) - 1)

    def wait(self, count: int) -> None:
        """Until so many orders are acknowledged."""
        until = time.monotonic() + PATIENCE_S
        while self.count < count:
            if self.writer.poll() is not None:
                raise ClusterError(f"the writer ended, with status {self.writer.returncode}")
            if time.monotonic() > until:
                raise ClusterError(f"{count:,} orders are not acknowledged after {PATIENCE_S:.0f} s")
            time.sleep(0.02)

    def ledger_id(self) -> int:
        found = re.fullmatch(r"ledger (\d+)", self.lines()[0])
        assert found is not None
        return int(found[1])

    def in_order(self) -> bool:
        """Whether the ids that were acknowledged are all from 0 on, each once."""
        return self.lines()[1:] == [f"acknowledged {number}" for number in range(self.count)]


def child(*arguments: object) -> list[str]:
    return [sys.executable, __file__, *map(str, arguments)]


def kill(bookie: BookieProcess) -> None:
    assert bookie.process is not None
    bookie.process.kill()
    bookie.process.wait()


def run(place: Path, orders: int) -> int:
    with LocalCluster(place / "cluster", BOOKIES) as cluster:
        cluster.start()
        ports = ", ".join(f":{bookie.port}" for bookie in cluster.bookies)
        say("started", f"{BOOKIES} bookies, {ports}; their metadata are in a sqlite file")
        with subprocess.Popen(child("--write", cluster.metadata, place / "acknowledged")) as writer:
            try:
                done = tell(cluster, Acknowledged(place / "acknowledged", writer), orders)
            finally:
                writer.kill()
        say("SIGKILL", f"for the writer: {done.count:,} orders were acknowledged")
        if not done.in_order():
            say("WRONG", "the orders were not acknowledged in their order")
            return 1
        say("open", "by another process:")
        return subprocess.run(child("--read", cluster.metadata, done.ledger_id(), done.count), check=False).returncode


def tell(cluster: LocalCluster, done: Acknowledged, orders: int) -> Acknowledged:
    """Until so many orders are acknowledged; a bookie is killed on the way."""
    done.wait(1)
    say("ledger", f"{done.ledger_id()}; each order goes to 3 bookies, and 2 of them acknowledge it")
    done.wait(orders // 2)
    kill(cluster.bookies[1])
    say("SIGKILL", f"for bookie :{cluster.bookies[1].port}, at {done.count:,} orders")
    done.wait(max(orders, done.count + 1))
    say("acknowledged", f"{done.count:,} orders; no add has failed")
    return done


def stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="A ledger on three bookies, one of which is killed, and its writer.")
    parser.add_argument("--orders", type=int, default=20_000, help="how many at least")
    parser.add_argument("--write", nargs=2, metavar=("URI", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--read", nargs=3, metavar=("URI", "LEDGER", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        uri, acknowledged = arguments.write
        write(uri, Path(acknowledged))
    if arguments.read:
        uri, ledger_id, count = arguments.read
        return read(uri, int(ledger_id), int(count))
    signal.signal(signal.SIGTERM, stop)
    try:
        with tempfile.TemporaryDirectory(prefix="walkeeper-ledger-") as place:
            status = run(Path(place), arguments.orders)
    except ClusterError as wrong:
        say("WRONG", str(wrong))
        return 1
    except KeyboardInterrupt:
        return 130
    say("done", "every acknowledged order is there, in order" if status == 0 else "NOT as promised")
    return status


if __name__ == "__main__":
    sys.exit(main())
