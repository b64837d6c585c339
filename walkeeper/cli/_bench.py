"""bench: how fast appends and reads are here, with the bare durable write and the bare read beside them."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click

import walkeeper
from walkeeper.cli._directory import json_flag, plain_directory
from walkeeper.cli._floor import READ_SIZE, bytes_read, durable_writes, sequential_reads
from walkeeper.cli._inspection import inspect_file
from walkeeper.cli._main import Refusal
from walkeeper.cli._number import Number
from walkeeper.cli._scratch import scratch
from walkeeper.cli._show import counted, duration, show, size, table

Row = dict[str, object]

BATCH_BYTES_MAX = 256 * 1024 * 1024
"""Of one append_many: it is held in memory, twice."""


def row(what: str, elapsed: list[int], records: int, payload_bytes: int, disk_bytes: int | None = None) -> Row:
    """What was measured, of calls that took `elapsed` nanoseconds each, and wrote or read so many records in all.

    `times_floor` is for the caller, who knows what the floor is: of an append the medians are compared, of reading
    everything the times.
    """
    seconds = sum(elapsed) / 1e9
    moved = payload_bytes or disk_bytes
    return {
        "what": what,
        "calls": len(elapsed),
        "p50_ns": round(statistics.median(elapsed)),
        "p99_ns": sorted(elapsed)[len(elapsed) * 99 // 100],
        "times_floor": 1.0,
        "records_per_second": round(records / seconds) if records else None,
        "bytes_per_second": round(moved / seconds) if moved else None,
        "disk_bytes": disk_bytes,
    }


def timed(call: Callable[[], object], seconds: float) -> list[int]:
    """Nanoseconds of each call, for about so many seconds, at least one."""
    elapsed: list[int] = []
    until = time.monotonic() + seconds
    while not elapsed or time.monotonic() < until:
        began = time.perf_counter_ns()
        call()
        elapsed.append(time.perf_counter_ns() - began)
    return elapsed


def measure(place: Path, payload_size: int, batch: int, seconds: float) -> list[Row]:
    """The floor, lone appends, batches; the floor of reads, and a replay of all that was appended."""
    appended, rows = appends(place, payload_size, batch, seconds)
    return rows + reads(place / "wal", appended, payload_size)


def appends(place: Path, payload_size: int, batch: int, seconds: float) -> tuple[int, list[Row]]:
    """How many records were appended, and how fast."""
    payload = bytes(range(256)) * (payload_size // 256 + 1)
    payload = payload[:payload_size]
    many = [payload] * batch
    rows = [row("bare pwritev2(RWF_DSYNC), 4 KiB", durable_writes(place, seconds), 0, 0)]
    with walkeeper.open(place / "wal") as namespace, namespace.log("bench").writer() as writer:
        lone = timed(lambda: writer.append(payload), seconds)
        rows.append(row("append, one at a time", lone, len(lone), len(lone) * payload_size))
        together = timed(lambda: writer.append_many(many), seconds)
        count = len(together) * batch
        rows.append(row(f"append_many of {batch}", together, count, count * payload_size))
    for measured in rows:
        measured["times_floor"] = times(measured["p50_ns"], rows[0]["p50_ns"])
    return len(lone) + count, rows


def reads(directory: Path, appended: int, payload_size: int) -> list[Row]:
    """A replay of the directory, and its floor: as many bytes of the same files, by bare reads of the engine's size.

    The directory is opened anew: nothing is in memory any more, and no writer makes readers take smaller bites.
    """
    elapsed: list[int] = []
    records = 0
    with walkeeper.open(directory, create=False, read_only=True) as namespace:
        reader = namespace.log("bench", create=False).reader()
        before = bytes_read()
        while True:
            began = time.perf_counter_ns()
            got = len(reader.read())
            elapsed.append(time.perf_counter_ns() - began)
            if not got:
                break
            records += got
        after = bytes_read()
    if records != appended:
        raise Refusal(f"{counted(appended, 'record')} appended, and {records:,} read")
    files = sorted([*directory.glob("journal/*.wkj"), *directory.glob("entries/*.wke")], key=lambda file: file.stem)
    # Not counted by the kernel, or not read from a disk (tmpfs): then it is all that was written there.
    ours = (after - before if before is not None and after is not None else 0) or sum(map(filled, files))
    bare = sequential_reads(files, ours)
    how = "O_DIRECT" if bare.direct else "buffered"
    return [
        row(f"bare preadv({how}), {size(READ_SIZE)}", bare.elapsed, 0, 0, bare.read_bytes),
        {
            **row("read, from the start", elapsed, records, records * payload_size, ours),
            "times_floor": times(sum(elapsed), sum(bare.elapsed)),
        },
    ]


def filled(file: Path) -> int:
    """Bytes of a journal file or an entry log, without the space that is left in it."""
    end = 0

    def take(line: str) -> bool:
        nonlocal end
        part = json.loads(line)
        if part.get("sealed") or part.get("kind") == "entry log":
            end = part["size"]
            return False
        if "block" in part:
            end = part["offset"] + part["size"]
        return True

    inspect_file(file, entries=False, take=take)
    return end


def times(ours: object, floor: object) -> float:
    assert isinstance(ours, int)
    assert isinstance(floor, int)
    return round(ours / floor, 3)


@click.command()
@plain_directory
@click.option("--seconds", type=Number(0.05, 600), default=2.0, show_default=True, help="For each measurement.")
@click.option(
    "--size", "payload_size", type=click.IntRange(1, 1_000_000), default=1024, show_default=True, help="Bytes a record."
)
@click.option("--batch", type=click.IntRange(2, 65536), default=64, show_default=True, help="Records an append_many.")
@json_flag
def bench(directory: Path, seconds: float, payload_size: int, batch: int, as_json: bool) -> None:
    """Append and read for a few seconds on the disk of DIR.

    In a directory of its own, which is removed again. Two lines are floors, what the disk takes without a log: one bare
    durable write, and bare reads. Appends are compared with the first by their medians. Reading all of it back is
    compared with the second by the time: direct reads of as many bytes, 1 MiB at a time, of the same files, past the
    page cache as ours are. Those bytes are headers and padding too, so that the MB/s of bare reads are more than ours,
    which are payload.
    """
    if payload_size * batch > BATCH_BYTES_MAX:
        raise click.UsageError(f"--size times --batch is more than {size(BATCH_BYTES_MAX)}")
    with scratch(directory, "walkeeper-bench-", "bench makes a directory of its own there") as place:
        rows = measure(place, payload_size, batch, seconds)
    if as_json:
        for measured in rows:
            click.echo(json.dumps(measured))
        return
    shown = table("", ">calls", ">median", ">99 %", ">x floor", ">records/s", ">MB/s")
    for measured in rows:
        shown.add_row(*cells(measured))
    show(f"records of {payload_size:,} bytes, in {directory}", shown)


def cells(measured: Row) -> list[str]:
    p50, p99 = measured["p50_ns"], measured["p99_ns"]
    assert isinstance(p50, int)
    assert isinstance(p99, int)
    records, byte_rate = measured["records_per_second"], measured["bytes_per_second"]
    return [
        str(measured["what"]),
        f"{measured['calls']:,}",
        duration(p50),
        duration(p99),
        f"{measured['times_floor']:.2f}",
        f"{records:,}" if isinstance(records, int) else "",
        f"{byte_rate / 1e6:,.1f}" if isinstance(byte_rate, int) else "",
    ]
