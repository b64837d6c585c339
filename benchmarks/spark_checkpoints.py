"""
What a checkpoint in walkeeper costs a query of Spark, beside one on a local disk.

    make bench-spark                          # all questions; writes spark.md beside this file, and its figures
    python benchmarks/spark_checkpoints.py [--only NAME[,NAME…]] [--quick] [--page FILE] [--render] [--dir SCRATCH]

One Spark session, local[2]. The queries of a question take turns, A B C C B A, each a few batches long, so that what
else the machine does falls on all. A figure is a ratio of medians of one round, and the answer is the median of the
rounds. Gateways are processes of their own: one over a directory, one over three bookies of this machine. `file://` is
Spark's default manager on the same disk. It syncs nothing; every change in walkeeper is durable.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bookie"), str(ROOT / "adapters/spark_checkpoint")]

from harness.machine import Watch, describe  # noqa: E402
from harness.ratio import Goal, bootstrap  # noqa: E402
from harness.report import number  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql.streaming.query import StreamingQuery  # noqa: E402

import walkeeper  # noqa: E402
import walkeeper_spark_checkpoint as wks  # noqa: E402
from walkeeper_bookie.cluster import LocalCluster  # noqa: E402

HERE = Path(__file__).resolve().parent
PAGE = HERE / "spark.md"
TOKEN = "benchmark"
ROWS = 1000
"""Of a batch."""
WARM = 3
"""Batches behind a start that do not count."""
STATE_STORE = "spark.sql.streaming.stateStore"
ROCKSDB = {
    f"{STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{STATE_STORE}.checkpointFormatVersion": "2",
}
RETAINED = 100
"""Batches whose log files Spark keeps; behind them it deletes two in each batch."""
HISTORY = 10_000
FRAME_HEAD = struct.Struct(">IIB")
REQUESTS = {1: "hello", 2: "acquire", 3: "put", 4: "get", 5: "stat", 6: "list", 7: "mkdir", 8: "delete", 9: "rename"}

DIRECTORY, BOOKIES, FILE = "a directory", "three bookies", "file://"
PLACES = (DIRECTORY, BOOKIES)

Ratios = dict[str, list[float]]


# ---- what is measured ----


@dataclass
class Row:
    """A line of the table. `values`: the figure of each round."""

    name: str
    unit: str
    ours: float
    reference: float | None
    values: list[float]
    must: float | None = None
    aim: float | None = None
    floor: str = ""
    details: dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.must is None or self.aim is None:
            return "-"
        return Goal(self.must, self.aim, lower=True).verdict(bootstrap(self.values))

    def cells(self) -> str:
        figure = statistics.median(self.values)
        spread = f"{number(min(self.values))} - {number(max(self.values))}"
        bounds = ["" if bound is None else f"<= {bound:g}" for bound in (self.must, self.aim)]
        reference = "" if self.reference is None else f"{number(self.reference)} {self.unit}"
        ours = f"{number(self.ours)} {self.unit}".rstrip()
        shown = [self.name, ours, reference, number(figure), spread, *bounds, self.floor]
        return f"| {' | '.join([*shown, self.verdict])} |"


@dataclass
class Batches:
    """Of one turn of a query: milliseconds of each batch, by Spark's own count."""

    trigger: list[float] = field(default_factory=list)
    log_writes: list[float] = field(default_factory=list)
    """Of offsets/N and commits/N together."""
    work: list[float] = field(default_factory=list)

    def add(self, other: Batches) -> None:
        self.trigger += other.trigger
        self.log_writes += other.log_writes
        self.work += other.work


class Query:
    """A query that is started for each turn, and goes on where it was."""

    def __init__(self, spark: SparkSession, location: str, partitions: int) -> None:
        """No partitions: stateless."""
        self._spark, self.location, self._partitions = spark, location, partitions
        self.all = Batches()

    def start(self) -> StreamingQuery:
        settings = {"spark.sql.shuffle.partitions": str(self._partitions or 2)} | ROCKSDB
        for name, value in settings.items():
            self._spark.conf.set(name, value)
        rows = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
        if self._partitions:
            rows = rows.groupBy((rows.value % 500).alias("key")).count()
        mode = "update" if self._partitions else "append"
        writer = rows.writeStream.format("noop").outputMode(mode).option("checkpointLocation", self.location)
        return writer.trigger(processingTime="0 seconds").start()

    def turn(self, batches: int, warm: int = WARM) -> Batches:
        """So many, behind some that warm it up."""
        query = self.start()
        try:
            progress = finished(query, warm + batches)[warm:]
        finally:
            query.stop()
        found = Batches()
        for one in progress[:batches]:
            took = one["durationMs"]
            found.trigger.append(took["triggerExecution"])
            found.log_writes.append(took["walCommit"] + took["commitOffsets"])
            found.work.append(took["addBatch"])
        self.all.add(found)
        return found


def finished(query: StreamingQuery, batches: int) -> Sequence[Mapping[str, Any]]:
    """The progress of so many batches with rows."""
    while True:
        found = [one for one in query.recentProgress if one["numInputRows"]]
        if len(found) >= batches:
            return found
        if query.exception() is not None or not query.isActive:
            raise RuntimeError(f"a query ended: {query.exception()}")
        time.sleep(0.2)


def compared(ours: Mapping[str, Query], reference: Query, rounds: int, batches: int, warm: int = WARM) -> Ratios:
    """Of the trigger times of each round, by where the checkpoint is. All are compared with the same reference."""
    found: Ratios = {where: [] for where in ours}
    queries = [*ours.values(), reference]
    for number_of_round in range(rounds):
        order = queries if number_of_round % 2 == 0 else queries[::-1]
        took = {query: statistics.median(query.turn(batches, warm).trigger) for query in order}
        for where, query in ours.items():
            found[where].append(took[query] / took[reference])
    return found


# ---- the ground ----


@dataclass
class Floor:
    """Milliseconds, medians: what one durable put cannot be below."""

    round_trip: float
    appends: dict[str, float]

    def of_logs(self, where: str) -> float:
        """Two looks and two puts, one after the other: what the log files of a batch take."""
        return 4 * self.round_trip + 2 * self.appends[where]


class Ground:
    """The session, the gateways, and where things are kept."""

    def __init__(self, spark: SparkSession, place: Path, addresses: dict[str, str], floor: Floor, quick: bool) -> None:
        self.spark, self.place, self.addresses, self.floor, self.quick = spark, place, addresses, floor, quick
        self._made = 0

    def query(self, where: str, partitions: int = 0) -> Query:
        return Query(self.spark, self.location(where), partitions)

    def location(self, where: str) -> str:
        """A new one."""
        self._made += 1
        if where == FILE:
            return (self.place / f"checkpoint{self._made}").as_uri()
        return f"walkeeper://{self.addresses[where]}/app{self._made}/query"


@contextlib.contextmanager
def ground(place: Path, quick: bool) -> Iterator[Ground]:
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(place / "bookies", 3))
        cluster.start()
        roots = {DIRECTORY: str(place / "wal"), BOOKIES: cluster.metadata}
        floor = Floor(round_trip(), {where: append(root) for where, root in roots.items()})
        print(f"bare round trip {floor.round_trip:.3f} ms, appends {floor.appends}", flush=True)
        addresses = {where: stack.enter_context(gateway(root, place)) for where, root in roots.items()}
        builder = SparkSession.builder.master("local[2]").appName("benchmark").config("spark.ui.enabled", "false")
        for name, value in wks.settings(list(addresses.values()), TOKEN).items():
            builder.config(name, value)
        builder.config("spark.jars", wks.jar()).config("spark.driver.host", "127.0.0.1")
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("OFF")  # it tells of batches that are cut short by each stop
        yield Ground(spark, place, addresses, floor, quick)


@contextlib.contextmanager
def gateway(root: str, place: Path) -> Iterator[str]:
    """A process; its address."""
    token = place / "token"
    token.write_text(TOKEN + "\n")
    options = ["--root", root, "--listen", "127.0.0.1:0", "--token-file", str(token)]
    process = subprocess.Popen(
        [sys.executable, "-m", "walkeeper", "gateway", *options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()


def round_trip() -> float:
    """128 bytes to another thread by loopback, and back."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        while data := connection.recv(4096):
            connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    with server, socket.create_connection(server.getsockname()) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def go_and_come() -> None:
            client.sendall(bytes(128))
            client.recv(4096)

        return timed(go_and_come, 2000)


def append(root: str) -> float:
    """1 KiB, durable, one at a time, in this process."""
    with walkeeper.open(root) as namespace, namespace.log("bare").writer() as writer:
        return timed(lambda: writer.append(bytes(1024)), 300)


def timed(act: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        act()
        found.append(1000 * (time.perf_counter() - begun))
    return statistics.median(found)


# ---- questions ----


def stateless(ground: Ground) -> list[Row]:
    """Two log files a batch, and nothing else."""
    return triggers(ground, "stateless", 0, (0.7, 0.5), rounds=6, batches=8)


def partitions_20(ground: Ground) -> list[Row]:
    """RocksDB with changelogs, format version 2: two log files, and for each partition a changelog and its checksum."""
    return triggers(ground, "aggregation, RocksDB, 20 partitions", 20, (0.6, 0.5), rounds=4, batches=6)


def partitions_200(ground: Ground) -> list[Row]:
    """As many as Spark has by default. A batch takes seconds: the session is warm behind one."""
    return triggers(ground, "aggregation, RocksDB, 200 partitions", 200, (0.5, 0.4), rounds=2, batches=10, warm=1)


def triggers(
    ground: Ground, name: str, partitions: int, goal: tuple[float, float], rounds: int, batches: int, warm: int = WARM
) -> list[Row]:
    ours, reference = {where: ground.query(where, partitions) for where in PLACES}, ground.query(FILE, partitions)
    ratios = compared(ours, reference, 1 if ground.quick else rounds, batches, warm)
    return [
        row(f"{name}, checkpoint on {where}", where, ours[where], reference, ratios[where], goal, ground.floor)
        for where in PLACES
    ]


def row(
    name: str, where: str, ours: Query, reference: Query, values: list[float], goal: tuple[float, float], floor: Floor
) -> Row:
    mine, other = statistics.median(ours.all.trigger), statistics.median(reference.all.trigger)
    bare = mine - statistics.median(ours.all.log_writes) + floor.of_logs(where)
    details = {
        "batches": len(ours.all.trigger),
        "log files, ms": statistics.median(ours.all.log_writes),
        "log files on file://, ms": statistics.median(reference.all.log_writes),
        "addBatch, ms": statistics.median(ours.all.work),
        "addBatch on file://, ms": statistics.median(reference.all.work),
    }
    return Row(f"trigger, {name}", "ms", mine, other, values, *goal, f"{number(bare)} ms", details)


def calls(ground: Ground) -> list[Row]:
    """Requests of a stateless query, counted on their way to the gateway."""
    batches = 20 if ground.quick else 100
    with Counted(ground.addresses[DIRECTORY]) as counted:
        query = Query(ground.spark, f"walkeeper://{counted.address}/counted/query", 0).start()
        try:
            first = reached(query, RETAINED + 10)
            before = dict(counted.requests)
            last = reached(query, first + batches)
            after = dict(counted.requests)
        finally:
            query.stop()
    more = {code: after[code] - before.get(code, 0) for code in sorted(after)}
    by_kind = {REQUESTS.get(code, str(code)): count / (last - first) for code, count in more.items() if count}
    total = sum(by_kind.values())
    return [Row("requests a batch, stateless", "", total, None, [total], 8, 6, "2 puts", by_kind)]


def reached(query: StreamingQuery, batch: int) -> int:
    """The batch that it is at, once that is `batch` or a later one."""
    while (at := int(finished(query, 1)[-1]["batchId"])) < batch:
        time.sleep(0.2)
    return at


class Counted:
    """Passes bytes on to a gateway, and counts requests by their code."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._target = host, int(port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.requests: dict[int, int] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            for source, sink, counts in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass_on, args=(source, sink, counts), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        seen = bytearray()
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if counts:
                    seen += data
                    self._count(seen)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _count(self, seen: bytearray) -> None:
        """Whole frames are taken from the front."""
        while len(seen) >= FRAME_HEAD.size:
            length, _, code = FRAME_HEAD.unpack_from(seen)
            if len(seen) < 4 + length:
                return
            self.requests[code] = self.requests.get(code, 0) + 1
            del seen[: 4 + length]


def restart(ground: Ground) -> list[Row]:
    """From start() to the end of the first batch, where the checkpoint has all of its batches."""
    ground.spark.conf.set("spark.sql.streaming.minBatchesToRetain", str(2 * HISTORY))
    try:
        history = 200 if ground.quick else HISTORY
        reference = ground.query(FILE)
        reference.turn(2)
        add_history(Path(reference.location.removeprefix("file://")), history)
        found = []
        for where in PLACES:
            ours = ground.query(where)
            copy(ground.spark, reference.location, ours.location)
            for query in (ours, reference):
                first_batch(query)
            pairs = []
            for turn in range(2 if ground.quick else 10):
                order = (ours, reference) if turn % 2 == 0 else (reference, ours)
                took = {query: first_batch(query) for query in order}
                pairs.append((took[ours], took[reference]))
            mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
            name = f"restart with {history:,} batches, checkpoint on {where}"
            floor = f"{number(ground.floor.of_logs(where))} ms"
            found.append(Row(name, "ms", mine, other, [one / two for one, two in pairs], 1.0, 0.8, floor))
        return found
    finally:
        ground.spark.conf.unset("spark.sql.streaming.minBatchesToRetain")


def first_batch(query: Query) -> float:
    """Milliseconds."""
    begun = time.perf_counter()
    running = query.start()
    try:
        while running.lastProgress is None:
            time.sleep(0.002)
        return 1000 * (time.perf_counter() - begun)
    finally:
        running.stop()


def add_history(checkpoint: Path, batches: int) -> None:
    """The log files of so many batches, each with the checksum file that Spark's local file system makes."""
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    offsets = (checkpoint / "offsets" / str(last)).read_text()
    commit = (checkpoint / "commits" / str(last)).read_text()
    offset = int(re.findall(r'"offset":(\d+)', offsets)[-1])
    for number_of_batch in range(last + 1, batches):
        rows = offset + (number_of_batch - last) * ROWS
        text = re.sub(r'"offset":\d+', f'"offset":{rows}', offsets)
        for directory, content in (("offsets", text), ("commits", commit)):
            write_with_checksum(checkpoint / directory / str(number_of_batch), content.encode())


def write_with_checksum(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    sums = (struct.pack(">I", zlib.crc32(content[at : at + 512])) for at in range(0, len(content), 512))
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + struct.pack(">I", 512) + b"".join(sums))


def copy(spark: SparkSession, source: str, target: str) -> None:
    jvm: Any = spark._jvm
    conf = spark._jsc.hadoopConfiguration()
    paths = [jvm.org.apache.hadoop.fs.Path(text) for text in (source, target)]
    systems = [path.getFileSystem(conf) for path in paths]
    if not jvm.org.apache.hadoop.fs.FileUtil.copy(systems[0], paths[0], systems[1], paths[1], False, conf):
        raise RuntimeError(f"{source} could not be copied")


QUESTIONS: dict[str, Callable[[Ground], list[Row]]] = {
    "stateless": stateless,
    "partitions_20": partitions_20,
    "partitions_200": partitions_200,
    "calls": calls,
    "restart": restart,
}


# ---- the page ----


@dataclass
class Run:
    dates: dict[str, str]
    """When each question was asked."""
    quick: bool
    machine: dict[str, str]
    others_cpu: dict[str, float]
    """Of each question: how many processors other processes took."""
    rows: dict[str, list[Row]]
    round_trip: float
    appends: dict[str, float]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def run_of(text: str) -> Run:
    found = json.loads(text)
    rows = {name: [Row(**row) for row in rows] for name, rows in found["rows"].items()}
    return Run(**(found | {"rows": rows}))


def page(run: Run) -> str:
    head = ["what", "walkeeper", "file://", "ratio", "min - max", "must", "aim", "floor", "verdict"]
    rows = [row for rows in run.rows.values() for row in rows]
    machine = "\n".join(f"| {name} | {value} |" for name, value in run.machine.items())
    others = ", ".join(f"{name} {value:.2f}" for name, value in run.others_cpu.items())
    details = "\n".join(
        f"| {row.name} | {', '.join(f'{name} {plain(value)}' for name, value in row.details.items())} |"
        for row in rows
        if row.details
    )
    appends = ", ".join(f"{number(value)} ms on {where}" for where, value in run.appends.items())
    quick = "QUICK RUN: few rounds; not to be quoted.\n\n" if run.quick else ""
    return TEXT.format(
        quick=quick,
        date=" and ".join(sorted(set(run.dates.values()))),
        others=others,
        round_trip=number(run.round_trip),
        appends=appends,
        head=f"| {' | '.join(head)} |\n{'|---' * len(head)}|",
        rows="\n".join(row.cells() for row in rows),
        details=details,
        machine=machine,
    )


def plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else number(value)


TEXT = """# Checkpoints of Spark in walkeeper, measured

<!-- Made by `make bench-spark` from benchmarks/results/spark.json. Do not edit: run it again. -->

{quick}Measured {date}. Other processes took so many of the processors meanwhile: {others}. They fall on all
sides: the queries of a row take turns in one session, A B C C B A, a few batches each. A figure is the median of the
rounds' ratios.

* `file://` is Spark's default manager on the same disk, as pip installs Spark: without Hadoop's native library, so that
  it starts processes to set permissions. It syncs nothing: after a power cut its last files may be empty. What is in
  walkeeper is durable, *on a directory* on this disk, *on three bookies* on two of them at least.
* The source is `rate-micro-batch` with 1,000 rows a batch, the sink `noop`: a batch is Spark's own work, and its
  checkpoint.
* The floor of a trigger is the rest of the batch, and for its two log files what they cannot do without: two looks and
  two puts, each a bare round trip of loopback ({round_trip} ms here), and two bare appends of 1 KiB ({appends}).
  The state files of a batch are written while it runs, and stand in its rest. The floor of a restart is the same two
  log files: what Spark reads and does before them has none.
* Requests are counted behind batch 110, where Spark deletes the log files of an old batch in each new one.
* The aims of 0.4 for 200 partitions and of 0.8 for a restart are this table's own.

{head}
{rows}

## What is behind it

Medians. *Log files*: `walCommit` and `commitOffsets` of Spark's progress together. *addBatch* has the state files.

| row | |
|---|---|
{details}

## The machine

| | |
|---|---|
{machine}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"some of {', '.join(QUESTIONS)}; the others keep their last answers")
    parser.add_argument("--quick", action="store_true", help="to see that it works; nothing to quote")
    parser.add_argument("--page", type=Path, help="the file that the results are written to; figures beside it")
    parser.add_argument("--render", action="store_true", help="measure nothing: make the page from its figures")
    parser.add_argument("--dir", help="where checkpoints and bookies are kept")
    given = parser.parse_args()
    figures = HERE / "results" / "spark.json"
    if given.render:
        (given.page or PAGE).write_text(page(run_of(figures.read_text())))
        return
    names = given.only.split(",") if given.only else list(QUESTIONS)
    if unknown := [name for name in names if name not in QUESTIONS]:
        parser.error(f"no question is called {', '.join(unknown)}: {', '.join(QUESTIONS)}")
    run = measured(names, given.quick, given.dir)
    if given.page:
        if figures.exists():
            last = run_of(figures.read_text())
            run.rows, run.dates = last.rows | run.rows, last.dates | run.dates
            run.others_cpu = last.others_cpu | run.others_cpu
        figures.write_text(run.as_json())
        given.page.write_text(page(run))


def measured(names: Sequence[str], quick: bool, scratch: str | None) -> Run:
    place = Path(tempfile.mkdtemp(dir=scratch))
    try:
        with ground(place, quick) as made:
            compared({DIRECTORY: made.query(DIRECTORY)}, made.query(FILE), 1, 10)  # the session is warm behind them
            answers, others = {}, {}
            for name in names:
                answers[name], others[name] = ask(made, name, QUESTIONS[name])
        floor = made.floor
        dates = dict.fromkeys(names, time.strftime("%Y-%m-%d"))
        return Run(dates, quick, describe(place), others, answers, floor.round_trip, floor.appends)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def ask(made: Ground, name: str, question: Callable[[Ground], list[Row]]) -> tuple[list[Row], float]:
    """The answers, and how many processors others took."""
    watch, begun = Watch(made.place), time.monotonic()
    rows = question(made)
    seconds = time.monotonic() - begun
    others = watch.stop().others_cpu_seconds / seconds
    print(f"{name}: {seconds:.0f} s, others took {others:.2f} processors", flush=True)
    for row in rows:
        print(row.cells(), row.details, flush=True)
    return rows, others


if __name__ == "__main__":
    main()
