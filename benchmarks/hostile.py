"""
What paying clients notice of an attack, and what memory it takes.

    make bench-hostile              # all attacks, some minutes; writes hostile.md beside this file, and its figures
    python benchmarks/hostile.py [--seconds S] [--only ATTACK[,ATTACK…]] [--dir SCRATCH] [--page FILE] [--render]

Starts a bookie with its default limits of memory and 1,000 connections. A good client adds and reads entries of 1 KiB,
one in flight, in a process of its own; its percentiles are taken alone and during each attack. Attackers are processes
too, so part of what is seen is the machine's and not the bookie's. Two columns tell how much: `spared` is what another
bookie's client notices, of a bookie that nobody attacks, on the same machine at the same time; `clear` is the attacked
bookie's without the requests that were under way while the host had taken a processor away (`harness/stalls.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import itertools
import json
import math
import multiprocessing
import os
import random
import resource
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bookie")]

from bookie_process import resident_bytes, resident_bytes_peak  # noqa: E402
from bookie_runs import Running, bookies_in  # noqa: E402
from harness.stalls import Span, p99, watched  # noqa: E402
from hostile_bytes import LENGTHS, PROTOBUF  # noqa: E402
from wire_client import OK, WireClient, frame, read_request  # noqa: E402

MIB = 1024 * 1024
LARGE = 5 * MIB - 1024
CONNECTIONS_MAX = 1000
LARGE_LEDGER = 5
MUST, NEAR = 2.0, 0.05
"""A p99 under an attack is below so many times the one without; what is nearer to that than this part is explained."""
TURN = 1.0
"""Seconds: the attacked bookie and the spared one are asked in turn."""

Port = int


# ---- attacks: each goes on until its process is ended ----


def connect(port: Port, receive_buffer: int = 0) -> socket.socket:
    made = socket.socket()
    if receive_buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.connect(("127.0.0.1", port))
    return made


def never_reads(port: Port, connections: int) -> None:
    """A million reads of 5 MiB, on so many connections, and nothing is taken."""
    asked = b"".join(read_request(2, LARGE_LEDGER, number % 8) for number in range(1000))
    left = {connect(port, 4096): 10**6 // connections * len(asked) // 1000 for _ in range(connections)}
    for one in left:
        one.setblocking(False)
    while True:
        for one in list(left):
            with contextlib.suppress(OSError):  # nothing more is taken from us
                left[one] -= one.send(asked[: left[one]]) if left[one] > 0 else 0
        time.sleep(0.01)


def reads_all(port: Port) -> None:
    """The same reads, sixteen in flight, and all is taken as fast as it comes."""
    one = connect(port)
    asked = read_request(2, LARGE_LEDGER, 0)
    one.sendall(asked * 16)
    buffer, taken = bytearray(MIB), 0
    while True:
        taken += one.recv_into(buffer)
        while taken >= LARGE:
            taken -= LARGE
            one.sendall(asked)


def crowds(port: Port, connections: int) -> None:
    """So many connections at once, again and again; nobody waits until one is made."""
    while True:
        held = [socket.socket() for _ in range(connections)]
        for one in held:
            one.setblocking(False)
            assert one.connect_ex(("127.0.0.1", port)) in (0, errno.EINPROGRESS)
        time.sleep(0.5)
        for one in held:
            one.close()


def drips(port: Port) -> None:
    """500 connections, each with a byte a second of a frame of 5 MiB."""
    held = [connect(port) for _ in range(500)]
    for one in held:
        one.sendall(struct.pack(">I", LARGE))
    while True:
        for number, one in enumerate(held):
            if not drip(one):
                held[number] = connect(port)
                held[number].sendall(struct.pack(">I", LARGE))
        time.sleep(1)


def drip(one: socket.socket) -> bool:
    try:
        return one.send(b"x") == 1
    except OSError:
        return False


def begins(port: Port) -> None:
    """Beginnings of large frames, 400 KB each, on 900 connections."""
    held: list[socket.socket] = []
    while True:
        held.append(connect(port))
        held[-1].setblocking(False)
        try:
            held[-1].send(struct.pack(">I", LARGE) + bytes(400_000))
        except OSError:
            pass
        if len(held) >= 900:
            held.pop(0).close()
            time.sleep(0.001)


def garbage(port: Port) -> None:
    """A connection with noise behind a request, and the next one."""
    source = random.Random(1)
    while True:
        with connect(port) as one:
            try:
                one.sendall(read_request(3, 1, 1) + source.randbytes(5000))
                while one.recv(65536):
                    pass
            except OSError:
                pass


def lengths(port: Port) -> None:
    """A connection with a frame of a length around some limit, noise behind it, and the next one."""
    source = random.Random(2)
    while True:
        length = source.choice(LENGTHS)
        with connect(port) as one, contextlib.suppress(OSError):
            one.sendall(struct.pack(">I", length) + source.randbytes(min(length, 70_000)))


def protobuf(port: Port) -> None:
    """Megabytes of protobuf that was made to be slow to read, one frame after the other, on four connections."""
    frames = [frame(hurtful) for hurtful in PROTOBUF.values()]
    held = [connect(port) for _ in range(4)]
    for number in itertools.count():
        at = number % len(held)
        try:
            held[at].sendall(frames[number % len(frames)])
            held[at].recv(65536)
        except OSError:
            held[at].close()
            held[at] = connect(port)


NO_DESCRIPTORS = "no descriptors left"
"""Of a bookie that may have 150 files in all."""
ATTACKS: dict[str, Callable[[Port], None]] = {
    "never reads, 1 connection": lambda port: never_reads(port, 1),
    "never reads, 200 connections": lambda port: never_reads(port, 200),
    "reads 5 MiB entries": reads_all,
    "10 x connections": lambda port: crowds(port, 10 * CONNECTIONS_MAX),
    "drips": drips,
    "beginnings of frames": begins,
    "garbage": garbage,
    "every length": lengths,
    "protobuf made to hurt": protobuf,
    NO_DESCRIPTORS: lambda port: crowds(port, 500),
}


# ---- the good client ----


Latencies = tuple[list[Span], list[Span]]


class GoodClient:
    """A process with one connection, made before any attack; `measure` sends it to work for a while."""

    def __init__(self, port: Port, ledger_id: int) -> None:
        self._mine, its = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_work, args=(port, ledger_id, its), daemon=True)
        self._process.start()

    def measure(self, seconds: float) -> Latencies:
        """Of adds and of reads: when each began and ended, ns of the monotonic clock."""
        self._mine.send(seconds)
        if not self._mine.poll(seconds + 120):
            raise TimeoutError("the good client is not answered")
        found: Latencies = self._mine.recv()
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def _work(port: Port, ledger_id: int, orders: Any) -> None:
    with WireClient(port) as client:
        entry_id = 0
        while True:
            adds: list[Span] = []
            reads: list[Span] = []
            until = orders.recv() + time.monotonic()
            while time.monotonic() < until:
                began = time.monotonic_ns()
                assert client.add(ledger_id, entry_id, b"x" * 1024) == OK
                added = time.monotonic_ns()
                assert client.read(ledger_id, entry_id).code == OK
                adds.append((began, added))
                reads.append((added, time.monotonic_ns()))
                entry_id += 1
            orders.send((adds, reads))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def attack(bookie: Running, other: Running, name: str, seconds: float) -> Row:
    good, beside = GoodClient(bookie.port, 100), GoodClient(other.port, 100)
    with watched() as stalls_alone:
        alone = good.measure(seconds)
    before = resident_bytes(bookie)
    attacker = multiprocessing.Process(target=ATTACKS[name], args=(bookie.port,), daemon=True)
    attacker.start()
    assert attacker.pid is not None
    time.sleep(1)
    cpu, began = cpu_seconds(attacker.pid), time.monotonic_ns()
    under: Latencies = ([], [])
    spared: Latencies = ([], [])
    with watched() as stalls:
        for _ in range(math.ceil(seconds / TURN)):
            for client, spans in ((good, under), (beside, spared)):
                for all_of_them, these in zip(spans, client.measure(TURN), strict=True):
                    all_of_them += these
    elapsed = time.monotonic_ns() - began
    cpu = (cpu_seconds(attacker.pid) - cpu) / elapsed * 1e9
    good.close()
    beside.close()
    attacker.kill()
    attacker.join()
    known = stalls.known and stalls_alone.known
    operations = []
    for quiet, busy, other_busy in zip(alone, under, spared, strict=True):
        clear = p99(stalls.clear(busy)) / p99(stalls_alone.clear(quiet)) if known else math.nan
        operations.append(Noticed(p99(quiet), p99(busy), p99(other_busy), clear))
    return Row(
        name,
        *operations,
        stalled=stalls.share(began, began + elapsed) if stalls.known else math.nan,
        grown=(resident_bytes_peak(bookie) - before) / MIB,
        cpu=cpu,
        lines=len(bookie.said().splitlines()),
    )


@dataclass(frozen=True)
class Noticed:
    """What the good client noticed: p99, ns."""

    alone: float
    attacked: float
    other: float
    clear: float
    """attacked / alone, without the requests of stalls."""

    @property
    def times(self) -> float:
        return self.attacked / self.alone

    @property
    def spared(self) -> float:
        return self.other / self.alone


@dataclass(frozen=True)
class Row:
    """An attack, and what came of it."""

    name: str
    adds: Noticed
    reads: Noticed
    stalled: float
    grown: float
    """MiB that the bookie's memory grew by at most."""
    cpu: float
    """Processors that the attacker took."""
    lines: int
    """That the bookie said, from its start on."""

    def text(self) -> str:
        row = [f"{self.name:30}"]
        for one in (self.adds, self.reads):
            row.append(f"{one.alone / 1e3:8.0f} {one.attacked / 1e3:8.0f} {one.times:6.2f}")
            row.append(f"{one.spared:6.2f} {one.clear:6.2f}")
        row.append(f"{100 * self.stalled:7.0f} {self.grown:7.0f} {self.cpu:5.2f} {self.lines:6}")
        return " ".join(row)

    def cells(self) -> str:
        cells = [self.name]
        for one in (self.adds, self.reads):
            cells += [f"{one.alone / 1e3:.0f}", f"{one.attacked / 1e3:.0f}", f"{one.times:.2f}"]
            cells += [f"{one.spared:.2f}", f"{one.clear:.2f}"]
        cells += [f"{100 * self.stalled:.0f}", f"{self.grown:.0f}", f"{self.cpu:.2f}", str(self.lines)]
        return "| " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class Run:
    """What the page is made from."""

    date: str
    seconds: float
    """Of each measurement."""
    cpus: int | None
    rows: list[Row]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def run_of(text: str) -> Run:
    """The run that `as_json` wrote."""
    found = json.loads(text)
    rows = [
        Row(**{**row, "adds": Noticed(**row["adds"]), "reads": Noticed(**row["reads"])}) for row in found.pop("rows")
    ]
    return Run(**found, rows=rows)


PAGE = """\
# What paying clients notice of an attack

<!-- Made by benchmarks/hostile.py (make bench-hostile) from results/hostile.json. Do not edit: run it again. -->

The must: p99 under an attack is less than twice what it is without. Where the machine itself is what is short, the
columns *spared* (another bookie on the same machine, which nobody attacks) and *clear* (without the requests that were
under way while the host had taken a processor away) tell its share. Latencies are in us, the others ratios of `alone`;
*grown* is what the bookie's memory grew by at most, in MiB, *CPU* what the attacker took, *log* how many lines the
bookie wrote in all.

Measured {date}, {seconds:.0f} s an attack, {cpus} processors.

{head}
{rows}

## What is not below twice, or near it, and whose it is

The clients of both bookies ask in turn, a second each, on the same processors and the same disk. What the other
bookie's client notices is what the attack takes from everybody on the machine, the work included that it makes for the
attacked bookie. What the attacked bookie's client notices beyond that is the attacked bookie's own.

{explained}
"""


def whose(what: str, noticed: Noticed) -> str:
    """Whether what the attack added to a p99 is the machine's or the bookie's, by the other bookie's client."""
    said = f"{what} {noticed.times:.2f} x, {noticed.spared:.2f} x at the bookie that nobody attacks"
    if noticed.attacked <= noticed.other:
        said += ": nothing is left that would be the attacked bookie's"
    else:
        added = noticed.attacked - noticed.alone
        machine = max(0.0, noticed.other - noticed.alone) / added
        own = noticed.attacked / max(noticed.other, noticed.alone)
        kept = "within the must" if own < MUST else "not within the must either"
        said += (
            f": {100 * machine:.0f} % of what was added is the machine's, and {(1 - machine) * added / 1e3:.0f} us are "
            f"the attacked bookie's; by itself that is {own:.2f} x, {kept}"
        )
    if noticed.clear < noticed.times * (1 - NEAR):
        said += f"; {noticed.clear:.2f} x without the requests during which the host had taken a processor away"
    return said


def explained(rows: list[Row]) -> str:
    lines = [
        f"* **{row.name}**: {whose(what, noticed)}."
        for row in rows
        for what, noticed in (("adds", row.adds), ("reads", row.reads))
        if noticed.times >= MUST * (1 - NEAR)
    ]
    return "\n".join(lines) or "* none in this run"


def page(run: Run) -> str:
    """What benchmarks/hostile.md says."""
    times = ["attacked", "x", "spared", "clear"]
    columns = ["attack", "add p99 alone", *times, "read p99 alone", *times, "stalled, %", "grown", "CPU", "log"]
    return PAGE.format(
        date=run.date,
        seconds=run.seconds,
        cpus=run.cpus,
        head=f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|",
        rows="\n".join(row.cells() for row in run.rows),
        explained=explained(run.rows),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--only", help="attacks whose names begin so, with commas between")
    parser.add_argument("--dir", help="where the bookies keep their data")
    parser.add_argument(
        "--page", type=Path, help="the file that the results are written to, as a page; figures beside it"
    )
    parser.add_argument("--render", action="store_true", help="measure nothing: make the page again from its figures")
    given = parser.parse_args()
    figures = given.page.parent / "results" / "hostile.json" if given.page else None
    if given.render:
        if figures is None:
            parser.error("--render makes a --page")
        given.page.write_text(page(run_of(figures.read_text())))
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 20_000)), hard))
    names = [name for name in ATTACKS if not given.only or name.startswith(tuple(given.only.split(",")))]
    print(f"{'':30} {'add p99, us':>38} {'read p99, us':>38} {'stalled':>7} {'peak':>7} {'its':>5} {'log':>6}")
    columns = f"{'alone':>8} {'attacked':>8} {'x':>6} {'spared':>6} {'clear':>6}"
    print(f"{'attack':30} {columns} {columns} {'%':>7} {'+ MiB':>7} {'CPU':>5} {'lines':>6}")
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory(dir=given.dir) as place, bookies_in(Path(place)) as bookies:
            few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150))"
            bookie, other = (
                bookies.start(
                    *("--init", "--connections-max", str(CONNECTIONS_MAX)),
                    data=Path(place) / role,
                    before=few if (name, role) == (NO_DESCRIPTORS, "attacked") else "",
                )
                for role in ("attacked", "spared")
            )
            bookie.ready()
            other.ready()
            with WireClient(bookie.port) as client:
                for entry_id in range(8):
                    assert client.add(LARGE_LEDGER, entry_id, bytes(LARGE - 200)) == OK
            rows.append(attack(bookie, other, name, given.seconds))
        print(rows[-1].text(), flush=True)
    if figures:
        run = Run(time.strftime("%Y-%m-%d"), given.seconds, os.cpu_count(), rows)
        figures.parent.mkdir(exist_ok=True)
        figures.write_text(run.as_json())
        given.page.write_text(page(run))


if __name__ == "__main__":
    main()
