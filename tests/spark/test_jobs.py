"""Jobs of Spark: archives that are killed, restorations, audits of bookies whose copies are bad, compacted views."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession, functions
from spark_session import LIGHT
from wire_client import OK, WireClient, add_request, make_entry

import walkeeper
from walkeeper.errors import (
    CorruptError,
    DamagedError,
    InvalidError,
    NotFoundError,
    TruncatedError,
    UnsupportedError,
)
from walkeeper.metadata import Cluster, LedgerMetadata, LedgerState, open_store
from walkeeper_bookie.cluster import LocalCluster
from walkeeper_spark_checkpoint import commands
from walkeeper_spark_checkpoint.jobs import (
    _archive,
    _audit,
    _hadoop_files,
    archive,
    audit,
    compact_to,
    compact_view,
    read_archive,
    restore,
)
from walkeeper_spark_checkpoint.jobs._archive_store import ArchiveStore
from walkeeper_spark_checkpoint.jobs._bookie_copies import BadCopies, held_runs
from walkeeper_spark_checkpoint.jobs._hadoop_files import HadoopFiles

COMMAND = "import sys; from walkeeper_spark_checkpoint import commands; getattr(commands, sys.argv.pop(1))()"
PATIENCE_S = 180.0
PATHS = os.pathsep.join(str(Path(__file__).parents[2] / part) for part in ("adapters/spark_checkpoint", "bookie"))


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("bookies"), 3) as made:
        made.start()
        yield made


@pytest.fixture
def small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit for each log segment."""
    monkeypatch.setattr(_archive, "COMMIT_SEGMENTS", 1)


_names = (f"log-{number}" for number in range(1000))


@pytest.fixture
def log(spark: SparkSession, wal: Path) -> Iterator[walkeeper.Log]:
    """A log of the session's directory, with records in four closed segments, and in an open one."""
    with walkeeper.open(wal) as namespace:
        made = namespace.log(next(_names), segment_bytes=4096)
        fill(made, 5, 400)
        yield made


def fill(log: walkeeper.Log, segments: int, records: int, *, txids: bool = False) -> None:
    """Payloads of any bytes, some empty; each segment is closed but the last one."""
    rng = random.Random(len(log.name))
    before = log.info().next.sequence_id
    with log.writer() as writer:
        for segment in range(segments):
            payloads = [rng.randbytes(rng.choice((0, 1, 40))) for _ in range(records)]
            numbers = [1000 * (before + segment) + at for at in range(records)] if txids else None
            writer.append_many(payloads, txids=numbers)


def records_of(log: walkeeper.Log) -> list[tuple[int, int, bytes]]:
    return [(record.sequence_id, record.txid, bytes(record.payload)) for record in log.reader()]


def archived(spark: SparkSession, destination: Path | str) -> list[tuple[int, int, bytes]]:
    rows = read_archive(spark, str(destination)).orderBy("sequence_id").collect()
    return [(row.sequence_id, row.txid, bytes(row.payload)) for row in rows]


def folders(destination: Path) -> list[str]:
    return sorted(path.name for path in destination.glob("commit=*"))


# ---- archive ----


def test_an_archive_has_each_record_of_closed_segments_once(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path
) -> None:
    records, segments = records_of(log), log.segments()
    open_at = segments[-1].first_sequence_id
    assert [segment.completed for segment in segments] == [True] * 4 + [False]
    report = archive(spark, log.name, str(tmp_path / "out"))
    assert (report.records_count, report.end_sequence_id) == (open_at, open_at)
    assert archived(spark, tmp_path / "out") == records[:open_at]
    frame = read_archive(spark, str(tmp_path / "out"))
    counts = {row.segment: row["count"] for row in frame.groupBy("segment").count().collect()}
    assert counts == {segment.segment: segment.records_count for segment in segments[:-1]}
    utc = "date(to_utc_timestamp(timestamp, 'Asia/Tokyo'))"
    assert frame.where(f"timestamp <> timestamp_millis(txid) or date <> {utc}").count() == 0
    assert archive(spark, log.name, str(tmp_path / "out")).records_count == 0
    report = archive(spark, log.name, str(tmp_path / "out"), include_open=True)
    assert (report.records_count, report.end_sequence_id) == (len(records) - open_at, len(records))
    assert archived(spark, tmp_path / "out") == records


def test_an_archive_ends_before_the_time_that_is_asked_for(spark: SparkSession, wal: Path, tmp_path: Path) -> None:
    with walkeeper.open(wal) as namespace:
        log = namespace.log(next(_names))
        fill(log, 1, 10)
        time.sleep(0.02)
        moment = time.time()
        time.sleep(0.02)
        fill(log, 1, 5)
        archive(spark, log.name, str(tmp_path / "out"), until=moment, include_open=True, partition_by="hour")
        assert archived(spark, tmp_path / "out") == records_of(log)[:10]
        hours = read_archive(spark, str(tmp_path / "out")).select("date", "hour").distinct().collect()
        stamped = {time.strftime("%Y-%m-%d %H", time.gmtime(txid / 1000)) for _, txid, _ in records_of(log)[:10]}
        assert {f"{row.date} {row.hour:02}" for row in hours} == stamped


def test_records_that_the_application_numbers_lie_by_ranges_of_sequence_ids(
    spark: SparkSession, wal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_archive, "SEQUENCE_RANGE", 100)
    with walkeeper.open(wal) as namespace:
        log = namespace.log(next(_names))
        fill(log, 2, 125, txids=True)
        archive(spark, log.name, str(tmp_path / "out"), include_open=True)
        assert archived(spark, tmp_path / "out") == records_of(log)
    frame = read_archive(spark, str(tmp_path / "out"))
    ranges = {row.sequence_range: row["count"] for row in frame.groupBy("sequence_range").count().collect()}
    assert ranges == {f"{begin:019}": count for begin, count in ((0, 100), (100, 100), (200, 50))}
    assert frame.where("timestamp is not null").count() == 0


def kill_at(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next archive() dies there; what a killed process would not do any more is not done."""

    def killed(*_: object, **__: object) -> Any:
        raise Killed

    if step == "the files are written":
        monkeypatch.setattr(ArchiveStore, "written", killed)
    elif step == "the files are checked":
        monkeypatch.setattr(ArchiveStore, "add", killed)
    elif step == "the commit is written beside its name":
        monkeypatch.setattr(_hadoop_files.os, "link", killed)
        monkeypatch.setattr(_hadoop_files.os, "unlink", lambda _: None)
    elif step == "the second commit is to be written":
        add, done = ArchiveStore.add, []

        def second(self: ArchiveStore, commit: Any) -> bool:
            if done:
                raise Killed
            done.append(commit)
            return add(self, commit)

        monkeypatch.setattr(ArchiveStore, "add", second)
    else:
        monkeypatch.setattr(ArchiveStore, "remove_left_overs", killed)


@pytest.mark.parametrize(
    ("step", "commits"),
    [
        ("the files are written", 0),
        ("the files are checked", 0),
        ("the commit is written beside its name", 0),
        ("the second commit is to be written", 1),
        ("all commits are written", 4),
    ],
)
def test_an_archiver_that_is_killed_leaves_nothing_that_is_read_and_the_next_goes_on(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path, step: str, commits: int, small_commits: None
) -> None:
    destination, records = tmp_path / "out", records_of(log)
    ends = [segment.first_sequence_id for segment in log.segments()]
    with pytest.MonkeyPatch.context() as patch:
        kill_at(step, patch)
        with pytest.raises(Killed):
            archive(spark, log.name, str(destination))
    if commits:
        assert archived(spark, destination) == records[: ends[commits]]
    else:
        with pytest.raises(NotFoundError, match="there is no archive"):
            read_archive(spark, str(destination))
    report = archive(spark, log.name, str(destination))
    assert (report.commits_count, report.records_count) == (len(ends) - 1 - commits, ends[-1] - ends[commits])
    assert archived(spark, destination) == records[: ends[-1]]
    assert len(folders(destination)) == len(ends) - 1
    assert sorted(path.name for path in (destination / "_walkeeper").iterdir()) == [
        f"{number:020}.json" for number in range(len(ends) - 1)
    ]


def test_the_command_goes_on_behind_its_sigkill(spark: SparkSession, tmp_path: Path) -> None:
    """Segments are small and commits are not: the kill falls before, in or behind the one commit, by a seed."""
    seed = int(os.environ.get("WALKEEPER_TEST_SEED", random.randrange(1 << 32)))
    print(f"WALKEEPER_TEST_SEED={seed}")
    root, destination = tmp_path / "wal", tmp_path / "out"
    with walkeeper.open(root) as namespace:
        fill(namespace.log("orders", segment_bytes=4096), 150, 50)
        records = records_of(namespace.log("orders"))
        ends = namespace.log("orders").segments()[-1].first_sequence_id
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in LIGHT.items()))
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path)}
    words = [sys.executable, "-c", COMMAND, "archive", str(root), "orders", str(destination), "--master", "local[1]"]
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL, start_new_session=True) as first:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not folders(destination) and time.monotonic() < deadline:
                assert first.poll() is None
                time.sleep(0.005)
            time.sleep(random.Random(seed).uniform(0, 2))
        finally:
            os.killpg(first.pid, signal.SIGKILL)
    done = subprocess.run(
        [*words, "--truncate"], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"has all records before sequence id {ends:,}" in done.stdout
    assert f"the log begins at sequence id {ends:,} now" in done.stdout
    assert archived(spark, destination) == records[:ends]
    assert len(folders(destination)) == len(list((destination / "_walkeeper").iterdir()))


def test_of_two_archivers_at_once_each_commit_is_of_one(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_commits: None
) -> None:
    """The second one makes all commits while the first one is about to make its first, whose files it leaves alone."""
    destination, add, reports = tmp_path / "out", ArchiveStore.add, []

    def add_late(self: ArchiveStore, commit: Any) -> bool:
        monkeypatch.setattr(ArchiveStore, "add", add)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ArchiveStore, "remove_left_overs", lambda _: 0)
            reports.append(archive(spark, log.name, str(destination)))
        return add(self, commit)

    monkeypatch.setattr(ArchiveStore, "add", add_late)
    first = archive(spark, log.name, str(destination), include_open=True)
    assert reports[0].commits_count == 4
    assert first.commits_count == 1  # what was open
    assert archived(spark, destination) == records_of(log)
    assert len(folders(destination)) == 5


def test_an_archiver_whose_files_another_one_removed_goes_on(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were left over: the other one had made the commit that they were for."""
    written, destination = ArchiveStore.written, tmp_path / "out"

    def written_late(self: ArchiveStore, folder: str) -> Any:
        monkeypatch.setattr(ArchiveStore, "written", written)
        archive(spark, log.name, str(destination))
        return written(self, folder)

    monkeypatch.setattr(ArchiveStore, "written", written_late)
    assert archive(spark, log.name, str(destination)).commits_count == 0
    assert archived(spark, destination) == records_of(log)[: log.segments()[-1].first_sequence_id]


@pytest.mark.parametrize("scheme", ["file", "walkeeper"])
def test_of_many_who_put_a_file_one_is_told_that_it_did(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    files = HadoopFiles(spark, str(tmp_path) if scheme == "file" else "walkeeper:///archives/race")
    won: list[int] = []

    def put(number: int) -> None:
        if files.put_if_absent("_walkeeper/0.json", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert files.read("_walkeeper/0.json") == b"%d" % won[0]
    assert files.names("_walkeeper") == ["0.json"]


class ObjectStore:
    """A file system of Hadoop, as far as a conditional put needs it, in which another one comes first, or an answer is
    lost."""

    def __init__(self, *, there: bytes | None = None, loses_the_answer: bool = False) -> None:
        self.there, self._loses_the_answer = there, loses_the_answer
        self._conditions: dict[str, bool] = {}

    def hasPathCapability(self, path: str, name: str) -> bool:
        return name == _hadoop_files.CONDITIONAL

    def exists(self, path: str) -> bool:
        return self.there is not None

    def createFile(self, path: str) -> ObjectStore:
        return self

    def overwrite(self, allowed: bool) -> ObjectStore:
        return self

    def must(self, name: str, value: bool) -> ObjectStore:
        self._conditions[name] = value
        return self

    def build(self) -> ObjectStore:
        self._new = b""
        return self

    def open(self, path: str) -> ObjectStore:
        return self

    def write(self, data: bytearray) -> None:
        self._new += data

    def readAllBytes(self) -> bytes:
        assert self.there is not None
        return self.there

    def close(self) -> None:
        new, self._new = getattr(self, "_new", b""), b""
        if not new:
            return
        if self._conditions.get(_hadoop_files.CONDITIONAL) and self.there is not None:
            raise FileExistsError("412 Precondition Failed")
        self.there = new
        if self._loses_the_answer:
            raise OSError("connection reset")


@pytest.mark.parametrize(
    ("store", "won"),
    [
        (ObjectStore(), True),
        (ObjectStore(there=b"of another one"), False),
        (ObjectStore(loses_the_answer=True), True),
    ],
)
def test_a_conditional_put_is_won_by_the_first_also_where_its_answer_is_lost(
    tmp_path: Path, store: ObjectStore, won: bool
) -> None:
    files: Any = HadoopFiles.__new__(HadoopFiles)
    files._fs, files._scheme, files._path_class = store, "s3a", str
    files._folder = SimpleNamespace(toString=lambda: "s3a://bucket/orders")
    assert files.put_if_absent("_walkeeper/0.json", b"ours") is won
    assert store.there == (b"ours" if won else b"of another one")


def test_files_on_this_machine_are_synced_before_their_commit(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    sync, link = _hadoop_files._sync, os.link
    before: list[Path] = []

    def noted(path: str) -> None:
        synced.append(Path(path))
        sync(path)

    def linked(*names: str) -> None:
        before.extend(synced)
        link(*names)

    monkeypatch.setattr(_hadoop_files, "_sync", noted)
    monkeypatch.setattr(_hadoop_files.os, "link", linked)
    archive(spark, log.name, str(tmp_path / "out"))
    files = list((tmp_path / "out").rglob("*part-*"))
    assert {path.suffix for path in files} == {".parquet", ".crc"}
    parents = {folder for path in files for folder in path.parents if folder.is_relative_to(tmp_path)}
    assert {*files, *parents} <= set(before)
    assert tmp_path / "out/_walkeeper" in synced


def test_a_destination_may_be_a_file_system_of_walkeeper(spark: SparkSession, log: walkeeper.Log) -> None:
    destination = f"walkeeper:///archives/{log.name}"
    archive(spark, log.name, destination, include_open=True)
    assert archived(spark, destination) == records_of(log)


def test_a_file_system_without_one_step_for_a_commit_is_refused(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hadoop_files, "RENAMES_TO_NEW_NAMES", ())
    with pytest.raises(UnsupportedError, match="two archivers could both win"):
        archive(spark, log.name, f"walkeeper:///refused/{log.name}")
    assert HadoopFiles(spark, f"walkeeper:///refused/{log.name}").names() == []


# ---- truncation ----


def test_truncation_stops_at_a_cursor(spark: SparkSession, log: walkeeper.Log, tmp_path: Path) -> None:
    end, records = log.segments()[-1].first_sequence_id, records_of(log)
    log.cursor("reader").advance(log.find(sequence_id=300))
    report = archive(spark, log.name, str(tmp_path / "out"), truncate=True)
    assert (report.truncated_to, report.held_by) == (300, "reader")
    assert log.info().first.sequence_id == 300
    log.cursor("reader").delete()
    report = archive(spark, log.name, str(tmp_path / "out"), truncate=True)
    assert (report.truncated_to, report.held_by) == (end, None)
    assert log.info().first.sequence_id == end
    assert archived(spark, tmp_path / "out") == records[:end]


def test_nothing_is_truncated_where_files_of_the_archive_are_gone(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path
) -> None:
    archive(spark, log.name, str(tmp_path / "out"))
    next((tmp_path / "out").rglob("*.parquet")).unlink()
    with pytest.raises(DamagedError, match=r"\.parquet is gone"):
        archive(spark, log.name, str(tmp_path / "out"), truncate=True)
    assert log.info().first.sequence_id == 0


def test_records_that_were_truncated_before_they_were_archived_are_missed(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path
) -> None:
    archive(spark, log.name, str(tmp_path / "out"))
    end = log.segments()[-1].first_sequence_id
    fill(log, 2, 200)
    log.truncate(log.find(sequence_id=end + 10))
    with pytest.raises(TruncatedError, match=f"records {end} to {end + 9} .* before they were archived"):
        archive(spark, log.name, str(tmp_path / "out"))


def test_an_archive_of_another_log_or_with_other_folders_is_refused(
    spark: SparkSession, wal: Path, log: walkeeper.Log, tmp_path: Path
) -> None:
    archive(spark, log.name, str(tmp_path / "out"))
    with walkeeper.open(wal) as namespace:
        other = namespace.log(next(_names))
        fill(other, 1, 10)
    with pytest.raises(InvalidError, match="is the archive of the log"):
        archive(spark, other.name, str(tmp_path / "out"), include_open=True)
    with pytest.raises(InvalidError, match="partitioned by day, and not by hour"):
        archive(spark, log.name, str(tmp_path / "out"), include_open=True, partition_by="hour")


def test_a_commit_that_is_missing_or_no_commit_is_noticed(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path, small_commits: None
) -> None:
    archive(spark, log.name, str(tmp_path / "out"))
    commit = tmp_path / "out/_walkeeper" / f"{1:020}.json"
    whole = commit.read_bytes()
    commit.write_bytes(whole[:-20])
    with pytest.raises(CorruptError, match="is no commit of an archive"):
        read_archive(spark, str(tmp_path / "out"))
    commit.unlink()
    with pytest.raises(CorruptError, match="has no commit 1, and later ones"):
        read_archive(spark, str(tmp_path / "out"))


# ---- restore ----


def test_a_restored_log_is_equal_byte_for_byte(
    spark: SparkSession, log: walkeeper.Log, bookies: LocalCluster, tmp_path: Path, small_commits: None
) -> None:
    """Through the gateway of a directory, and to a cluster, in two calls each."""
    records = records_of(log)
    archive(spark, log.name, str(tmp_path / "out"), include_open=True)
    for root in (None, bookies.metadata):
        name = f"{log.name}-again"
        first = restore(spark, str(tmp_path / "out"), name, root=root, to_sequence_id=len(records) // 3)
        assert (first.records_count, first.found_count) == (len(records) // 3 + 1, 0)
        rest = restore(spark, str(tmp_path / "out"), name, root=root)
        assert (rest.records_count, rest.found_count) == (len(records) - first.records_count, first.records_count)
        assert restore(spark, str(tmp_path / "out"), name, root=root).records_count == 0
        with walkeeper.open(root or log.namespace.path, read_only=True) as namespace:
            assert records_of(namespace.log(name)) == records


def test_a_restoration_that_is_killed_goes_on(
    spark: SparkSession, log: walkeeper.Log, tmp_path: Path, small_commits: None
) -> None:
    records, name = records_of(log), f"{log.name}-again"
    archive(spark, log.name, str(tmp_path / "out"), include_open=True)
    with pytest.MonkeyPatch.context() as patch:
        frame, calls = ArchiveStore.frame, []

        def killed(self: ArchiveStore, *arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) == 3:
                raise Killed
            return frame(self, *arguments)

        patch.setattr(ArchiveStore, "frame", killed)
        with pytest.raises(Killed):
            restore(spark, str(tmp_path / "out"), name)
    assert 0 < restore(spark, str(tmp_path / "out"), name).found_count < len(records)
    assert records_of(log.namespace.log(name)) == records


def test_a_restoration_ends_at_a_time(spark: SparkSession, wal: Path, tmp_path: Path) -> None:
    with walkeeper.open(wal) as namespace:
        log = namespace.log(next(_names))
        fill(log, 1, 10)
        time.sleep(0.02)
        fill(log, 1, 5)
        records = records_of(log)
        archive(spark, log.name, str(tmp_path / "out"), include_open=True)
        restore(spark, str(tmp_path / "out"), f"{log.name}-then", to_time=records[9][1] / 1000)
        assert records_of(namespace.log(f"{log.name}-then")) == records[:10]
        with pytest.raises(InvalidError, match="younger than to_time"):
            restore(spark, str(tmp_path / "out"), f"{log.name}-never", to_time=1.0)


def test_nothing_is_restored_behind_other_records(spark: SparkSession, log: walkeeper.Log, tmp_path: Path) -> None:
    archive(spark, log.name, str(tmp_path / "out"))
    with log.namespace.log(f"{log.name}-other").writer() as writer:
        writer.append(b"another one", txid=1)
    with pytest.raises(InvalidError, match="is not record 0 of the archive"):
        restore(spark, str(tmp_path / "out"), f"{log.name}-other")
    with pytest.raises(NotFoundError, match="there is no archive"):
        restore(spark, str(tmp_path / "none"), f"{log.name}-none")
    with pytest.raises(InvalidError, match="and no 100000"):
        restore(spark, str(tmp_path / "out"), f"{log.name}-none", to_sequence_id=100_000)


# ---- audit ----


class Ledgers:
    """Closed ledgers whose copies are added to each bookie by hand."""

    def __init__(self, bookies: LocalCluster) -> None:
        opened = open_store(bookies.metadata)
        self._cluster = Cluster(opened.store, opened.root)
        self._ports = {bookie.bookie_id: bookie.port for bookie in bookies.bookies}
        self.bookies = [bookie.bookie_id for bookie in bookies.bookies]

    def add(
        self, ensemble: list[str], entries: int, *, missing: dict[str, set[int]], damaged: dict[str, set[int]]
    ) -> int:
        """Each entry goes to two bookies, or to three of three."""
        quorum = 2 if len(ensemble) == 2 else 3
        payloads = [b"entry %d" % number for number in range(entries)]
        metadata = LedgerMetadata(
            len(ensemble),
            quorum,
            2,
            segments={0: tuple(ensemble)},
            state=LedgerState.CLOSED,
            length=sum(map(len, payloads)),
            last_entry_id=entries - 1,
        )
        ledger_id = self._cluster.ledgers.create(metadata).ledger_id
        for bookie_id in ensemble:
            if bookie_id not in self._ports:
                continue
            with WireClient(self._ports[bookie_id]) as client:
                bad = damaged.get(bookie_id, set())
                for number in sorted(bad):  # before the bookie knows which digest the ledger has
                    entry = make_entry(ledger_id, number, payloads[number])
                    request = add_request(3, ledger_id, number, payloads[number])
                    client.send(request.replace(entry, entry[:-1] + bytes([entry[-1] ^ 1])))
                    assert client.receive().code == OK
                for number in {*range(entries)} - bad - missing.get(bookie_id, set()):
                    assert client.add(ledger_id, number, payloads[number]) == OK
        return ledger_id

    def close(self) -> None:
        self._cluster.store.close()


def test_an_audit_finds_each_copy_that_is_bad(spark: SparkSession, bookies: LocalCluster) -> None:
    ledgers = Ledgers(bookies)
    try:
        a, b, c = ledgers.bookies
        clean = audit(spark, bookies.metadata)
        assert clean.good
        assert clean.findings.count() == 0
        assert "every copy is there, and good" in str(clean)
        good = ledgers.add([a, b, c], 10, missing={}, damaged={})
        holes = ledgers.add([a, b, c], 10, missing={a: {0, 4, 5}, b: {5}}, damaged={c: {9}})
        empty = ledgers.add([a, b, c], 5, missing={b: set(range(5))}, damaged={})
        lost = ledgers.add([a, b, c], 3, missing={a: {1}, b: {1}}, damaged={c: {1}})
        down = ledgers.add([a, "127.0.0.1:1"], 4, missing={}, damaged={})
        report = audit(spark, bookies.metadata, copies=3, timeout=2.0)
    finally:
        ledgers.close()
    found = {
        (row.ledger_id, row.kind, row.bookie_id, row.first_entry_id, row.last_entry_id, row.copies_left)
        for row in report.findings.collect()
    }
    assert not [row for row in found if row[0] == good]
    assert found == {
        (holes, "missing", a, 0, 0, 2),
        (holes, "missing", a, 4, 5, 1),
        (holes, "missing", b, 5, 5, 1),
        (holes, "damaged", c, 9, 9, 2),
        (empty, "missing", b, 0, 4, 2),
        (lost, "missing", a, 1, 1, 0),
        (lost, "missing", b, 1, 1, 0),
        (lost, "damaged", c, 1, 1, 0),
        (down, "unreachable", "127.0.0.1:1", 0, 3, 1),
        (down, "few copies", None, None, None, None),
    }
    assert report.counts == {"few copies": 1, "damaged": 2, "missing": 11, "unreachable": 4}
    assert (report.under_replicated_count, report.lost_count) == (3, 1)
    assert report.closed_count == clean.closed_count + 5
    assert report.copies_count == clean.copies_count + 3 * 28 + 2 * 4
    assert "1 ledgers have entries without any good copy" in str(report)


def test_the_command_lists_what_an_audit_found(
    spark: SparkSession, bookies: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "local_spark", lambda *_: nullcontext(spark))
    ledgers = Ledgers(bookies)
    try:
        a, b, c = ledgers.bookies
        ledger_id = ledgers.add([a, b, c], 4, missing={b: {1, 2}}, damaged={})
    finally:
        ledgers.close()
    found = CliRunner().invoke(commands.audit, [bookies.metadata])
    assert found.exit_code == 1
    assert "ledgers are under-replicated" in found.output
    assert f"ledger {ledger_id}, 2 entries from 1 to 2 on {b}: missing, 2 good copies left" in found.output
    report = _audit.AuditReport(1, 1, 0, 1, 3, {}, 0, 0, spark.createDataFrame([], "ledger_id long, kind string"))
    monkeypatch.setattr("walkeeper_spark_checkpoint.jobs.audit", lambda *_, **__: report)
    found = CliRunner().invoke(commands.audit, [bookies.metadata])
    assert (found.exit_code, found.output.splitlines()[-1]) == (0, "every copy is there, and good")


def test_entries_that_a_bookie_holds_and_copies_that_are_left_are_as_a_model_says() -> None:
    rng = random.Random(7)
    for _ in range(2000):
        size = rng.randint(1, 6)
        quorum, first = rng.randint(1, size), rng.randint(0, 9)
        last = first + rng.randint(0, 12)
        bad: list[tuple[int, BadCopies]] = []
        lost: Counter[int] = Counter()
        for place in range(size):
            held = [entry for entry in range(first, last + 1) if (place - entry) % size < quorum]
            runs = held_runs(first, last, place, size, quorum)
            assert [entry for begin, end in runs for entry in range(begin, end + 1)] == held
            if held and rng.random() < 0.6:
                low, high = sorted(rng.choices(range(len(held)), k=2))
                gone = held[low : high + 1]
                bad.append((place, BadCopies("missing", gone[0], gone[-1], len(gone), "")))
                lost.update(gone)
        for place, copies in bad:
            of = range(copies.first_entry_id, copies.last_entry_id + 1)
            fewest = min(quorum - lost[entry] for entry in of)
            assert _audit._copies_left(copies, bad, size, quorum) == fewest, (place, size, quorum, bad)


# ---- compact view ----


def test_a_compact_view_has_the_latest_record_of_each_key(spark: SparkSession, bookies: LocalCluster) -> None:
    rng = random.Random(3)
    name, target, key = next(_names), next(_names), "split(cast(value as string), '=')[0]"
    with walkeeper.open(bookies.metadata) as namespace:
        model: dict[str, tuple[int, bytes]] = {}
        with namespace.log(name).writer() as writer:
            for number in range(500):
                of = f"k{rng.randrange(40)}"
                payload = f"{of}={number}".encode()
                model[of] = (writer.append(payload, durability="deferred").sequence_id, payload)
        rows = compact_view(spark, name, key, root=bookies.metadata).collect()
        assert {row.key: (row.offset, bytes(row.value)) for row in rows} == model
        column = functions.substring(functions.col("value").cast("string"), 1, 2)
        assert compact_view(spark, name, column, root=bookies.metadata).count() == len({of[:2] for of in model})
        latest = [payload for _, payload in sorted(model.values())]
        for _ in range(2):
            assert compact_to(spark, name, key, target, root=bookies.metadata, gateways=()) == 500
            with namespace.log(target).writer():
                pass  # Spark's writer is idle: so the end of what it wrote is known
            assert [payload for _, _, payload in records_of(namespace.log(target))] == latest
        with pytest.raises(InvalidError, match="name another log"):
            compact_to(spark, name, key, name, root=bookies.metadata)


# ---- commands ----


def test_a_command_without_spark_names_the_extra(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": PATHS}
    code = "import importlib.util as u; u.find_spec = lambda name: None; " + COMMAND
    for command in (["archive", str(tmp_path), "orders", str(tmp_path / "out")], ["audit", "sqlite:none.db"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *command],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr.strip() == (
            "walkeeper: this command wants Spark, which is not installed: pip install 'walkeeper[spark]'"
        )
