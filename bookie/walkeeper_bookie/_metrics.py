"""Metrics: what the bookie counts, as Prometheus' text.

Names that BookKeeper's dashboards and alerts use stand here where they can be filled truthfully, with BookKeeper's
units: its latencies are summaries in milliseconds, with quantiles of the last minute. Everything else is under
walkeeper_, in seconds and bytes, latencies as histograms. docs/operations/metrics.md explains each.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from walkeeper_bookie._collector import Held
from walkeeper_bookie._directory import DirectoryStats, JournalTimes, Recovery
from walkeeper_bookie._disk_watch import Space
from walkeeper_bookie._gc_hold import Reason
from walkeeper_bookie._histogram import Histogram
from walkeeper_bookie._server import ServerStats

__all__ = ["CONTENT_TYPE", "Counted", "Exposition", "Facts", "Recent", "counted", "quantile", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999)
WINDOW_S = 60.0
TIME_BUCKETS = (12, 36)
"""From 4 microseconds to 69 seconds."""
BATCH_BUCKETS = (1, 16)
BYTES_BUCKETS = (9, 26)
"""From 512 bytes to 64 MiB."""
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True)
class Facts:
    """What the process knows of itself when somebody asks; the rest comes from the native side."""

    version: str
    bookie_id: str
    read_only: bool
    registered: bool
    space: Space | None
    journal_space: Space | None
    """None: the journal has no directory of its own, or its disk does not answer."""
    ledgers: int
    limbo_all: bool
    limbo_ledgers: int
    tombstones: int
    gc_alarm: bool
    gc_wrong_cluster: bool
    gc_held: Mapping[Reason, Held]
    gc_listed: int
    gc_other_layout: int
    gc_passes: int
    gc_failures: int
    gc_deleted: int
    gc_last_success: float
    """Seconds since 1970; 0: none yet."""
    registrations: int
    start_seconds: float
    """From the start of the process to ready."""
    log_lines_dropped: int


@dataclass(frozen=True)
class Counted:
    """What BookKeeper's summaries are of: ever, or lately."""

    adds: Histogram
    reads: Histogram
    syncs: Histogram
    queue: Histogram
    batch_entries: Histogram
    batch_bytes: Histogram


def counted(server: ServerStats, journal: JournalTimes) -> Counted:
    """Since the start."""
    return Counted(
        adds=server.add_ns,
        reads=server.read_ns,
        syncs=journal.sync_ns,
        queue=journal.wait_ns,
        batch_entries=journal.block_records,
        batch_bytes=journal.block_bytes,
    )


class Exposition:
    """Collects families of metrics, each with its help and type once, and its samples together."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._names: set[str] = set()

    def gauge(self, name: str, help: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        self.family(name, "gauge", help, {_labels(labels): value})

    def counter(self, name: str, help: str, value: float) -> None:
        self.family(name, "counter", help, {"": value})

    def family(self, name: str, kind: str, help: str, samples: Mapping[str, float]) -> None:
        """`samples`: what stands behind the name (a suffix, labels in braces), and the value."""
        if not _NAME.fullmatch(name) or name in self._names:
            raise ValueError(f"{name!r} is no name of a metric, or was given twice")
        self._names.add(name)
        self._lines.append(f"# HELP {name} {help}")
        self._lines.append(f"# TYPE {name} {kind}")
        self._lines.extend(f"{name}{suffix} {_number(value)}" for suffix, value in samples.items())

    def histogram(self, name: str, help: str, of: Histogram, unit: float, first: int, last: int) -> None:
        """Values times `unit`, in the buckets `first` to `last` of those that are counted: always the same ones, or
        rates between two scrapes could not be compared."""
        samples: dict[str, float] = {}
        seen = 0
        for i, count in enumerate(of.buckets[: last + 1]):
            seen += count
            if i >= first:
                upto = 2**i - 1 if unit == 1 else 2**i * unit
                samples[f'_bucket{{le="{_number(upto)}"}}'] = seen
        # The counters are read while they rise: the whole is never less than its parts.
        samples['_bucket{le="+Inf"}'] = samples["_count"] = max(of.count, sum(of.buckets))
        samples["_sum"] = of.sum * unit
        self.family(name, "histogram", help, samples)

    def summary(self, name: str, help: str, recent: Histogram, ever: Histogram, failures: int, unit: float) -> None:
        """BookKeeper's: quantiles of what succeeded lately, and counts ever by success."""
        samples: dict[str, float] = {}
        for part in QUANTILES:
            value = quantile(recent, part)
            samples[f'{{success="true",quantile="{part}"}}'] = math.nan if value is None else value * unit
        samples['_count{success="true"}'] = max(0, ever.count - failures)
        samples['_sum{success="true"}'] = ever.sum * unit
        samples['_count{success="false"}'] = failures
        self.family(name, "summary", help, samples)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def quantile(of: Histogram, part: float) -> float | None:
    """The value that `part` of all are below, as the buckets tell it: within a factor of two. None: there are none."""
    total = sum(of.buckets)
    if total == 0:
        return None
    rank, seen = part * total, 0
    for i, count in enumerate(of.buckets):
        if count and seen + count >= rank:
            low, high = (0 if i == 0 else 2 ** (i - 1)), 2**i
            return float(low + (high - low) * (rank - seen) / count)
        seen += count
    return None


class Recent:
    """What was counted in the last WINDOW_S, from counts that only grow: `note` them now and then, and ask `since`."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._noted: deque[tuple[float, Counted]] = deque()

    def note(self, now_count: Counted) -> None:
        now = self._monotonic()
        with self._lock:
            self._noted.append((now, now_count))
            while len(self._noted) > 1 and self._noted[1][0] <= now - WINDOW_S:
                self._noted.popleft()

    def since(self, now_count: Counted) -> Counted:
        """What came since the oldest note that still counts; all of it where there is none."""
        limit = self._monotonic() - WINDOW_S
        with self._lock:
            noted = list(self._noted)
        base = noted[0][1] if noted else None
        for at, counts in noted:
            if at <= limit:
                base = counts
        if base is None:
            return now_count
        return Counted(
            **{name: _less(getattr(now_count, name), getattr(base, name)) for name in Counted.__dataclass_fields__}
        )


def _less(now: Histogram, base: Histogram) -> Histogram:
    buckets = tuple(max(0, n - o) for n, o in zip(now.buckets, base.buckets, strict=True))
    return Histogram(max(0, now.count - base.count), max(0, now.sum - base.sum), buckets)


def render(
    facts: Facts,
    server: ServerStats,
    directory: DirectoryStats,
    recovery: Recovery,
    journal: JournalTimes,
    recent: Counted,
) -> str:
    """All metrics, as the text that a scrape gets."""
    out = Exposition()
    _bookkeepers(out, facts, server, directory, recent)
    _of_the_journal(out, directory, journal, recent)
    _of_the_process(out, facts, recovery)
    _of_the_server(out, server)
    _of_the_engine(out, directory)
    return out.text()


def _bookkeepers(
    out: Exposition,
    facts: Facts,
    server: ServerStats,
    directory: DirectoryStats,
    recent: Counted,
) -> None:
    writable = not facts.read_only and facts.registered and not (server.failed or directory.failed)
    out.gauge("bookie_SERVER_STATUS", "1: writable; 0: read-only, or not registered.", int(writable))
    for name, operation in (
        ("ADD_ENTRY", "add"),
        ("READ_ENTRY", "read"),
        ("WRITE_LAC", "write_lac"),
        ("READ_LAC", "read_lac"),
        ("FORCE_LEDGER", "force"),
        ("GET_BOOKIE_INFO", "bookie_info"),
        ("GET_LIST_OF_ENTRIES_OF_LEDGER", "list_entries"),
    ):
        asked, failed = server.requests[operation], server.failures[operation]
        out.family(
            f"bookkeeper_server_{name}_count",
            "counter",
            f"Requests {name} that were answered or are being worked on, by success.",
            {'{success="true"}': max(0, asked - failed), '{success="false"}': failed},
        )
    out.summary(
        "bookkeeper_server_ADD_ENTRY_REQUEST",
        "Milliseconds from an add's frame to its reply; quantiles of the last minute.",
        recent.adds,
        server.add_ns,
        server.failures["add"],
        1e-6,
    )
    out.summary(
        "bookkeeper_server_READ_ENTRY_REQUEST",
        "Milliseconds from a read's frame to its reply; quantiles of the last minute.",
        recent.reads,
        server.read_ns,
        server.failures["read"],
        1e-6,
    )
    out.counter("bookie_WRITE_BYTES", "Bytes of entries that were added.", server.added_bytes)
    out.counter("bookie_READ_BYTES", "Bytes of entries that were read.", server.read_bytes)
    out.counter("bookkeeper_server_BOOKIE_RECOVERY_ADD_ENTRY_count", "Adds of recovery.", server.recovery_adds)
    out.counter("bookkeeper_server_READ_ENTRY_FENCE_REQUEST_count", "Reads that fenced a ledger.", server.fences)
    out.counter("bookkeeper_server_READ_ENTRY_LONG_POLL_REQUEST_count", "Long polls.", server.long_polls)
    out.counter("bookie_journal_JOURNAL_WRITE_BYTES", "Bytes written to the disk.", directory.written_bytes)
    out.gauge("bookie_journal_JOURNAL_MEMORY_USED", "Bytes accepted and not yet durable.", directory.memory_in_flight)
    out.gauge("bookie_ledgers_count", "Ledgers that are stored.", facts.ledgers)
    out.gauge("bookie_ledger_num_dirs", "Directories: one.", 1)
    out.gauge("bookie_ledger_writable_dirs", "Directories that are written: 1, or 0.", int(writable))
    if facts.space is not None:
        out.gauge(
            "bookie_ledger_dir_usage", "The part of the disk in use, in percent.", 100 * (1 - facts.space.free_part)
        )
    out.gauge("bookie_gc_ACTIVE_LEDGER_TOTAL", "Ledgers that are stored.", facts.ledgers)
    out.counter("bookie_gc_DELETED_LEDGER_TOTAL", "Ledgers let go of by garbage collection.", facts.gc_deleted)
    out.gauge("bookie_gc_ACTIVE_ENTRY_LOG_TOTAL", "Entry logs.", directory.entry_logs)
    out.gauge("bookie_gc_ACTIVE_ENTRY_LOG_SPACE_BYTES", "Bytes of all files of the directory.", directory.disk_bytes)


def _of_the_journal(out: Exposition, directory: DirectoryStats, journal: JournalTimes, recent: Counted) -> None:
    failures = int(directory.failed)
    for name, help, lately, ever, unit in (
        ("JOURNAL_SYNC", "Milliseconds of a durable write of the journal", recent.syncs, journal.sync_ns, 1e-6),
        (
            "JOURNAL_QUEUE_LATENCY",
            "Milliseconds that a batch's first entry waited for the write to begin",
            recent.queue,
            journal.wait_ns,
            1e-6,
        ),
        (
            "JOURNAL_FORCE_WRITE_BATCH_ENTRIES",
            "Entries of a batch, written together",
            recent.batch_entries,
            journal.block_records,
            1,
        ),
        (
            "JOURNAL_FORCE_WRITE_BATCH_BYTES",
            "Bytes of a batch's entries",
            recent.batch_bytes,
            journal.block_bytes,
            1,
        ),
    ):
        failed = failures if name == "JOURNAL_SYNC" else 0
        whole = Histogram(ever.count + failed, ever.sum, ever.buckets)
        out.summary(f"bookie_journal_{name}", f"{help}; quantiles of the last minute.", lately, whole, failed, unit)
    out.histogram(
        "walkeeper_journal_sync_seconds", "A durable write of the journal.", journal.sync_ns, 1e-9, *TIME_BUCKETS
    )
    out.histogram(
        "walkeeper_journal_queue_seconds",
        "From a batch's first entry until its write began.",
        journal.wait_ns,
        1e-9,
        *TIME_BUCKETS,
    )
    out.histogram(
        "walkeeper_journal_batch_entries", "Entries written together.", journal.block_records, 1, *BATCH_BUCKETS
    )
    out.histogram("walkeeper_journal_batch_bytes", "Their bytes.", journal.block_bytes, 1, *BYTES_BUCKETS)


def _of_the_process(out: Exposition, facts: Facts, recovery: Recovery) -> None:
    labels = {"version": facts.version, "bookie_id": facts.bookie_id}
    out.gauge("walkeeper_info", "1, with the version and the bookie's id.", 1, labels)
    out.gauge("walkeeper_read_only", "1: no adds but those of recovery.", int(facts.read_only))
    out.gauge("walkeeper_registered", "1: clients can find this bookie.", int(facts.registered))
    out.counter(
        "walkeeper_registrations_total",
        "Registrations made: one more after each lost session, each change to read-only or back, and each that was "
        "found gone.",
        facts.registrations,
    )
    out.gauge("walkeeper_limbo_all", "1: every ledger is in limbo.", int(facts.limbo_all))
    out.gauge("walkeeper_limbo_ledgers", "Ledgers in limbo, as far as they are noted.", facts.limbo_ledgers)
    out.gauge("walkeeper_tombstones", "Deleted ledgers whose ids are still refused.", facts.tombstones)
    _of_garbage_collection(out, facts)
    out.counter(
        "walkeeper_log_lines_dropped_total",
        "Lines of the log that nobody read in time, or that could not be written.",
        facts.log_lines_dropped,
    )
    out.gauge("walkeeper_start_seconds", "From the start of the process until it was ready.", facts.start_seconds)
    out.gauge("walkeeper_recovery_seconds", "Of that, opening the directory.", recovery.elapsed_ns / 1e9)
    out.gauge(
        "walkeeper_recovery_cut_bytes", "Of a torn tail, never acknowledged, at the last start.", recovery.cut_bytes
    )
    lost = recovery.damaged_blocks + recovery.unknown_blocks + recovery.lost_entries + recovery.lost_files
    out.gauge("walkeeper_recovery_lost", "Blocks, entries and files found lost at the last start.", lost)
    if facts.space is not None:
        out.gauge("walkeeper_disk_total_bytes", "Size of the disk.", facts.space.total)
        out.gauge("walkeeper_disk_free_bytes", "What this process may still use of the disk.", facts.space.free)
    if facts.journal_space is not None:
        total, free = facts.journal_space.total, facts.journal_space.free
        out.gauge("walkeeper_journal_disk_total_bytes", "Size of the disk of the journal directory.", total)
        out.gauge("walkeeper_journal_disk_free_bytes", "What this process may still use of it.", free)


def _of_garbage_collection(out: Exposition, facts: Facts) -> None:
    out.gauge("walkeeper_gc_alarm", "1: ledgers are held back, or the cluster is another one.", int(facts.gc_alarm))
    out.gauge(
        "walkeeper_gc_wrong_cluster",
        "1: the metadata have another INSTANCEID than the bookie's cookie; nothing is deleted.",
        int(facts.gc_wrong_cluster),
    )
    by_reason = {_labels({"reason": reason}): held for reason, held in facts.gc_held.items()}
    for name, help, samples in (
        ("ledgers", "Ledgers that are held back, by reason.", {of: held.ledgers for of, held in by_reason.items()}),
        ("bytes", "About how many bytes of entries they have.", {of: held.bytes for of, held in by_reason.items()}),
        (
            "until_seconds",
            "When the last of them goes, since 1970; 0: none is held; infinite: an operator must look.",
            {of: math.inf if held.until is None else held.until for of, held in by_reason.items()},
        ),
    ):
        out.family(f"walkeeper_gc_held_{name}", "gauge", help, samples)
    out.gauge("walkeeper_gc_listed_ledgers", "Ledgers of the whole cluster, at the last pass.", facts.gc_listed)
    out.gauge(
        "walkeeper_gc_other_layout_ledgers",
        "Those of them that a client keeps under keys of another layout than LAYOUT says.",
        facts.gc_other_layout,
    )
    out.counter("walkeeper_gc_passes_total", "Passes that compared all ledgers with the metadata.", facts.gc_passes)
    out.counter("walkeeper_gc_failures_total", "Passes that failed, and deleted nothing.", facts.gc_failures)
    out.gauge("walkeeper_gc_last_success_seconds", "When a pass last ended well, since 1970.", facts.gc_last_success)


def _of_the_server(out: Exposition, server: ServerStats) -> None:
    out.histogram("walkeeper_add_seconds", "From an add's frame to its reply.", server.add_ns, 1e-9, *TIME_BUCKETS)
    out.histogram("walkeeper_read_seconds", "From a read's frame to its reply.", server.read_ns, 1e-9, *TIME_BUCKETS)
    out.histogram("walkeeper_batch_adds", "Adds accepted in one turn of the loop.", server.batch, 1, *BATCH_BUCKETS)
    out.family(
        "walkeeper_requests_total",
        "counter",
        "Requests by operation.",
        {_labels({"operation": name}): count for name, count in server.requests.items()},
    )
    out.family(
        "walkeeper_request_failures_total",
        "counter",
        "Requests that were refused, by operation.",
        {_labels({"operation": name}): count for name, count in server.failures.items()},
    )
    out.gauge("walkeeper_connections", "Connections now.", server.connections)
    out.counter("walkeeper_connections_total", "Connections ever.", server.connections_total)
    out.counter("walkeeper_connections_refused_total", "Connections that were not let in.", server.connections_refused)
    out.counter("walkeeper_accept_shortages_total", "Seconds without descriptors for more.", server.accept_shortages)
    out.counter("walkeeper_received_bytes_total", "Bytes from sockets.", server.received_bytes)
    out.counter("walkeeper_sent_bytes_total", "Bytes to sockets.", server.sent_bytes)
    out.counter("walkeeper_digest_mismatches_total", "Adds whose digest was wrong.", server.digest_mismatches)
    out.counter("walkeeper_protocol_errors_total", "Connections closed for what they sent.", server.protocol_errors)
    out.counter(
        "walkeeper_frame_timeouts_total", "Connections closed for a frame never finished.", server.frame_timeouts
    )
    out.counter("walkeeper_too_many_requests_total", "Reads refused for want of room.", server.too_many_requests)
    out.family(
        "walkeeper_memory_bytes",
        "gauge",
        "Memory of the server, by use.",
        {
            '{use="receive"}': server.receive_memory,
            '{use="reply"}': server.reply_memory,
            '{use="ledgers"}': server.ledgers_memory,
        },
    )
    out.gauge("walkeeper_ledgers_in_memory", "Ledgers that the server keeps something of.", server.ledgers)


def _of_the_engine(out: Exposition, directory: DirectoryStats) -> None:
    out.gauge("walkeeper_journal_failed", "1: a write or sync failed; the bookie ends.", int(directory.failed))
    out.gauge("walkeeper_journal_full", "1: the journal was refused space.", int(directory.disk_full))
    out.gauge("walkeeper_journal_files", "Journal files, active and sealed.", directory.journal_files)
    out.counter("walkeeper_journal_blocks_total", "Blocks written.", directory.blocks_count)
    out.counter("walkeeper_journal_syncs_total", "Durable points.", directory.syncs_count)
    out.counter("walkeeper_journal_entries_total", "Entries accepted.", directory.appended_records)
    out.counter("walkeeper_written_bytes_total", "Bytes written to the disk, of all kinds.", directory.written_bytes)
    out.counter(
        "walkeeper_compacted_bytes_total", "Bytes that the mover copied to give space back.", directory.compacted_bytes
    )
    out.counter(
        "walkeeper_sorted_bytes_total",
        "Bytes that the mover copied to sort files of many ledgers.",
        directory.sorted_bytes,
    )
    out.counter("walkeeper_recycled_files_total", "Journal files used again.", directory.recycled_files)
    out.counter("walkeeper_scrubbed_bytes_total", "Bytes read again to find damage.", directory.scrubbed_bytes)
    out.counter("walkeeper_scrub_damaged_total", "Entries that the scrub found damaged.", directory.scrub_damaged)
    out.gauge("walkeeper_disk_used_bytes", "Bytes of all files of the directory.", directory.disk_bytes)
    out.gauge("walkeeper_live_bytes", "Bytes of entries that are not deleted.", directory.live_bytes)
    out.family(
        "walkeeper_engine_memory_bytes",
        "gauge",
        "Memory of the engine, by use.",
        {
            '{use="index"}': directory.memory_logs,
            '{use="memtable"}': directory.memory_memtable,
            '{use="cache"}': directory.memory_cache,
            '{use="in_flight"}': directory.memory_in_flight,
            '{use="sort"}': directory.memory_sort,
        },
    )


def _labels(labels: Mapping[str, str] | None) -> str:
    if not labels:
        return ""
    escaped = {
        name: text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for name, text in labels.items()
    }
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped.items()) + "}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
