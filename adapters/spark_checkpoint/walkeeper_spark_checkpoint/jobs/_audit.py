"""audit: every copy of every entry of a cluster's closed ledgers, read and compared with the metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import pyarrow

from walkeeper import LedgerClient
from walkeeper.metadata import Cluster, LedgerMetadata, MetadataFormatError, OpenedStore, open_store
from walkeeper_spark_checkpoint.jobs._bookie_copies import BadCopies, BookieCopies, held_runs

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self

__all__ = ["AuditReport", "audit"]

LEDGERS_PER_TASK = 64
TASKS_PER_CORE = 4
"""Of fewer ledgers: ledgers differ in size."""
TIMEOUT = 5.0
"""Seconds until a bookie that does not answer counts as unreachable."""
TRIES = 3
"""Of a ledger whose metadata change while it is read."""
LOST, BAD = ("damaged", "missing", "refused", "unreachable"), ("few copies", "unreadable metadata")

FINDINGS = {
    "ledger_id": pyarrow.int64(),
    "kind": pyarrow.string(),
    "bookie_id": pyarrow.string(),
    "first_entry_id": pyarrow.int64(),
    "last_entry_id": pyarrow.int64(),
    "entries_count": pyarrow.int64(),
    "copies_left": pyarrow.int64(),
    "detail": pyarrow.string(),
}
_RESULTS = pyarrow.schema(FINDINGS)
_RESULTS_OF_SPARK = (
    "ledger_id long, kind string, bookie_id string, first_entry_id long, last_entry_id long, entries_count long, "
    "copies_left long, detail string"
)


@dataclass(frozen=True)
class Result:
    """A row of the job: a finding, or what was done for a ledger (kind "closed", "open" or "gone")."""

    ledger_id: int
    kind: str
    bookie_id: str | None = None
    first_entry_id: int | None = None
    last_entry_id: int | None = None
    entries_count: int = 0
    copies_left: int | None = None
    """Of a finding: good copies of the entry that has the fewest. Of a closed ledger: copies that were read."""
    detail: str | None = None


@dataclass(frozen=True)
class AuditReport:
    """What one audit found."""

    ledgers_count: int
    closed_count: int
    """These were read."""
    open_count: int
    """Open, or in recovery: their end is not known, so that nothing of them was read."""
    entries_count: int
    copies_count: int
    """Of these entries, that the metadata name."""
    counts: dict[str, int]
    """Bad copies of each kind; ledgers with few copies, and with metadata that cannot be read."""
    under_replicated_count: int
    """Ledgers with an entry that has fewer good copies than the metadata say, and at least one."""
    lost_count: int
    """Ledgers with an entry that has no good copy."""
    findings: DataFrame = field(repr=False)
    """ledger_id, kind, bookie_id, first_entry_id, last_entry_id, entries_count, copies_left, detail."""

    @property
    def good(self) -> bool:
        """Whether nothing was found."""
        return not self.counts

    def __str__(self) -> str:
        lines = [
            f"{self.ledgers_count:,} ledgers: {self.closed_count:,} closed, {self.open_count:,} open and not read",
            f"{self.entries_count:,} entries, {self.copies_count:,} copies of them",
        ]
        names = {"few copies": "ledgers with few copies", "unreadable metadata": "ledgers with unreadable metadata"}
        lines += [f"{count:,} {names.get(kind, f'copies {kind}')}" for kind, count in self.counts.items()]
        if self.under_replicated_count:
            lines.append(f"{self.under_replicated_count:,} ledgers are under-replicated")
        if self.lost_count:
            lines.append(f"{self.lost_count:,} ledgers have entries without any good copy")
        if self.good:
            lines.append("every copy is there, and good")
        return "\n".join(lines)


def audit(spark: SparkSession, root: str, *, copies: int = 1, timeout: float = TIMEOUT) -> AuditReport:
    """Reads each entry of each closed ledger from each bookie that should have it, and checks its digest.

    `root` is the URI of the cluster's metadata store. Ledgers are spread over tasks, which ask the bookies themselves.
    `copies`: a ledger whose entries go to fewer bookies than that is a finding, too. `timeout`: seconds until a bookie
    that does not answer counts as unreachable, with all that it holds.

    Kinds of findings: missing (the bookie has no such entry), damaged (its digest is another), unreachable, refused
    (the bookie knows another password), few copies, unreadable metadata. A ledger that is deleted meanwhile has none.

    It changes nothing. Raises what walkeeper.LedgerClient raises where the metadata store does not answer.
    """
    with LedgerClient(root) as client:
        ledgers = pyarrow.table({"ledger_id": pyarrow.array(client.list(), pyarrow.int64())})
    results = _results(spark, root, ledgers, copies, timeout)
    kinds = Counter(result.kind for result in results)
    closed = [result for result in results if result.kind == "closed"]
    findings = [result for result in results if result.kind in (*LOST, *BAD)]
    left: dict[int, int] = {}
    for finding in findings:
        if finding.copies_left is not None:
            left[finding.ledger_id] = min(finding.copies_left, left.get(finding.ledger_id, finding.copies_left))
    counts = {kind: kinds[kind] for kind in BAD if kinds[kind]}
    for kind in LOST:
        count = sum(finding.entries_count for finding in findings if finding.kind == kind)
        if count:
            counts[kind] = count
    return AuditReport(
        ledgers_count=len(ledgers) - kinds["gone"],
        closed_count=len(closed),
        open_count=kinds["open"],
        entries_count=sum(result.entries_count for result in closed),
        copies_count=sum(result.copies_left or 0 for result in closed),
        counts=counts,
        under_replicated_count=sum(count > 0 for count in left.values()),
        lost_count=sum(count == 0 for count in left.values()),
        findings=spark.createDataFrame(pyarrow.Table.from_batches([_batch(findings)])),
    )


def _results(spark: SparkSession, root: str, ledgers: pyarrow.Table, copies: int, timeout: float) -> list[Result]:
    if not len(ledgers):
        return []
    cores = spark.sparkContext.defaultParallelism
    tasks = max(min(len(ledgers), cores * TASKS_PER_CORE), -(-len(ledgers) // LEDGERS_PER_TASK))
    spread = spark.createDataFrame(ledgers).repartition(tasks)
    found = spread.mapInArrow(partial(_audit_some, root, copies, timeout), _RESULTS_OF_SPARK)
    return sorted((Result(**row) for row in found.toArrow().to_pylist()), key=lambda result: result.ledger_id)


def _batch(results: Sequence[Result]) -> pyarrow.RecordBatch:
    rows = [{name: getattr(result, name) for name in FINDINGS} for result in results]
    return pyarrow.RecordBatch.from_pylist(rows, schema=_RESULTS)


# ---- in a task ----


def _audit_some(
    root: str, copies: int, timeout: float, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    with _Auditor(open_store(root, create=False), copies, timeout) as auditor:
        for batch in batches:
            yield _batch(list(chain.from_iterable(map(auditor.audit, batch["ledger_id"].to_pylist()))))


class _Auditor:
    """Audits ledgers, one after the other. A context manager."""

    def __init__(self, opened: OpenedStore, copies: int, timeout: float) -> None:
        self._cluster = Cluster(opened.store, opened.root)
        self._least_copies, self._timeout = copies, timeout
        self._stack = ExitStack()
        self._stack.callback(opened.store.close)
        self._bookies: dict[str, BookieCopies] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def audit(self, ledger_id: int) -> list[Result]:
        """What is told of a ledger."""
        results: list[Result] = []
        try:
            found = self._cluster.ledgers.read(ledger_id)
            for _ in range(TRIES):
                if found is None:
                    return [Result(ledger_id, "gone")]
                results = self._of(ledger_id, found.value)
                if len(results) == 1:  # nothing was found
                    return results
                again = self._cluster.ledgers.read(ledger_id, linearizable=True)
                if again is not None and again.version == found.version:
                    return results
                found = again  # its bookies changed, or it was deleted, while it was read
            return results
        except MetadataFormatError as error:
            return [Result(ledger_id, "unreadable metadata", detail=str(error))]

    def _of(self, ledger_id: int, metadata: LedgerMetadata) -> list[Result]:
        few: list[Result] = []
        if metadata.write_quorum < self._least_copies:
            detail = f"each entry goes to {metadata.write_quorum} bookies, not to {self._least_copies}"
            few.append(Result(ledger_id, "few copies", detail=detail))
        if not metadata.is_closed:
            return [Result(ledger_id, "open"), *few]
        entries = metadata.last_entry_id + 1
        summary = Result(ledger_id, "closed", entries_count=entries, copies_left=entries * metadata.write_quorum)
        begins = [begin for begin in metadata.segments if begin < entries]
        found: list[Result] = []
        for begin, behind in pairwise([*begins, entries]):
            found += self._of_segment(ledger_id, metadata, begin, behind - 1)
        return [summary, *few, *found]

    def _of_segment(self, ledger_id: int, metadata: LedgerMetadata, first: int, last: int) -> Iterator[Result]:
        """The findings about the entries that have one ensemble."""
        sizes = metadata.ensemble_size, metadata.write_quorum
        bad: list[tuple[int, str, BadCopies]] = []
        for place, bookie_id in enumerate(metadata.segments[first]):
            runs = held_runs(first, last, place, *sizes)
            bad += [(place, bookie_id, copies) for copies in self._bookie(bookie_id).check(ledger_id, metadata, runs)]
        for _, bookie_id, copies in bad:
            yield Result(
                ledger_id,
                copies.kind,
                bookie_id,
                copies.first_entry_id,
                copies.last_entry_id,
                copies.entries_count,
                _copies_left(copies, [(place, other) for place, _, other in bad], *sizes),
                copies.detail,
            )

    def _bookie(self, bookie_id: str) -> BookieCopies:
        found = self._bookies.get(bookie_id)
        if found is None:
            info = self._cluster.bookies.service_info(bookie_id)
            found = self._stack.enter_context(BookieCopies(bookie_id, info, self._timeout))
            self._bookies[bookie_id] = found
        return found


def _copies_left(copies: BadCopies, bad: Iterable[tuple[int, BadCopies]], ensemble_size: int, write_quorum: int) -> int:
    """Of the entries in `copies`, that which has the fewest good ones: how many these are.

    The count changes only where bad copies begin or end, and from there on it is periodic, as striping is.
    """
    bad = list(bad)
    ends = {copies.first_entry_id, copies.last_entry_id + 1}
    for _, other in bad:
        ends |= {other.first_entry_id, other.last_entry_id + 1}
    inside = sorted(end for end in ends if copies.first_entry_id <= end <= copies.last_entry_id + 1)
    fewest = write_quorum
    for begin, behind in pairwise(inside):
        for entry_id in range(begin, min(behind, begin + ensemble_size)):
            lost = sum(
                other.first_entry_id <= entry_id <= other.last_entry_id
                and (place - entry_id) % ensemble_size < write_quorum
                for place, other in bad
            )
            fewest = min(fewest, write_quorum - lost)
    return fewest
