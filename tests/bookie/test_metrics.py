"""Metrics: Prometheus can read them, BookKeeper's names mean what they say, the dashboard uses none but them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from walkeeper_bookie._collector import Held
from walkeeper_bookie._directory import DirectoryStats, JournalTimes, Recovery
from walkeeper_bookie._disk_watch import Space
from walkeeper_bookie._gc_hold import REASONS
from walkeeper_bookie._histogram import Histogram
from walkeeper_bookie._metrics import WINDOW_S, Counted, Exposition, Facts, Recent, counted, quantile, render
from walkeeper_bookie._server import OPERATIONS, ServerStats

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = re.compile(r'([a-zA-Z_]\w*)(\{(?:[a-z]\w*="(?:[^"\\\n]|\\.)*"(?:,|(?=\})))*\})? (NaN|[-+]Inf|[-+]?[0-9.e+-]+)')


def histogram(**counts: int) -> Histogram:
    """b10=3: three values in bucket 10, each 600."""
    buckets = [0] * 40
    for name, count in counts.items():
        buckets[int(name[1:])] = count
    return Histogram(sum(buckets), sum(buckets) * 600, tuple(buckets))


def server(**changes: Any) -> ServerStats:
    numbers = {
        name: 0 for name, field in ServerStats.__dataclass_fields__.items() if field.type == "int"
    }  # fmt: skip
    zeros = dict.fromkeys(OPERATIONS, 0)
    made: dict[str, Any] = {**numbers, "requests": zeros, "failures": zeros, "failed": False}
    made |= {name: histogram() for name in ("add_ns", "read_ns", "batch")}
    return ServerStats(**{**made, **changes})


def directory(**changes: Any) -> DirectoryStats:
    return DirectoryStats(**{**dict.fromkeys(DirectoryStats.__dataclass_fields__, 0), **changes})


def journal(**changes: Any) -> JournalTimes:
    return JournalTimes(**{**dict.fromkeys(JournalTimes.__dataclass_fields__, histogram()), **changes})


FACTS = Facts(
    version="1.2",
    bookie_id="127.0.0.1:3181",
    read_only=False,
    registered=True,
    space=Space(100, 25),
    journal_space=Space(50, 10),
    ledgers=3,
    limbo_all=False,
    limbo_ledgers=2,
    tombstones=4,
    gc_alarm=False,
    gc_wrong_cluster=False,
    gc_held={reason: Held() for reason in REASONS},
    gc_listed=400,
    gc_other_layout=3,
    gc_passes=5,
    gc_failures=1,
    gc_deleted=7,
    gc_last_success=1e9,
    registrations=2,
    start_seconds=0.25,
    log_lines_dropped=7,
)
CLEAN = Recovery(0, 0, 0, 0, 0, 0)


def text_of(
    facts: Facts = FACTS,
    stats: ServerStats | None = None,
    engine: DirectoryStats | None = None,
    recovery: Recovery = CLEAN,
    times: JournalTimes | None = None,
) -> str:
    stats, times = stats or server(), times or journal()
    return render(facts, stats, engine or directory(), recovery, times, counted(stats, times))


def values_of(text: str) -> dict[str, float]:
    """By name and labels. Every line must be one that Prometheus reads."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP \w+ [^\n]+|TYPE \w+ (counter|gauge|histogram|summary))", line), line
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert (match[1] + (match[2] or "")) not in found, line
        found[match[1] + (match[2] or "")] = float(match[3])
    return found


def families(text: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))


def test_every_family_has_its_help_and_type_and_its_samples_behind_them() -> None:
    text = text_of()
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
        assert line.startswith(("# HELP " + family, "# TYPE " + family, family)), line
    assert text.endswith("\n")
    assert len(families(text)) == text.count("# HELP ")


def test_bookkeepers_names_have_bookkeepers_meaning() -> None:
    stats = server(
        requests={**dict.fromkeys(OPERATIONS, 0), "add": 10, "read": 5},
        failures={**dict.fromkeys(OPERATIONS, 0), "add": 2, "read": 1},
        added_bytes=1000,
        read_bytes=500,
        add_ns=histogram(b20=8),
    )
    found = values_of(text_of(stats=stats, times=journal(sync_ns=histogram(b20=6))))
    assert found["bookie_SERVER_STATUS"] == 1
    assert found['bookkeeper_server_ADD_ENTRY_count{success="true"}'] == 8
    assert found['bookkeeper_server_ADD_ENTRY_count{success="false"}'] == 2
    assert found['bookkeeper_server_READ_ENTRY_count{success="true"}'] == 4
    assert found["bookie_WRITE_BYTES"] == 1000
    assert found["bookie_READ_BYTES"] == 500
    assert found['bookie_journal_JOURNAL_SYNC_count{success="true"}'] == 6
    assert found["bookie_ledgers_count"] == 3
    assert found["bookie_ledger_writable_dirs"] == 1
    assert found["bookie_ledger_dir_usage"] == 75
    # Milliseconds: 2**19 to 2**20 nanoseconds are half a millisecond to one.
    assert 0.5 <= found['bookkeeper_server_ADD_ENTRY_REQUEST{success="true",quantile="0.5"}'] <= 1.05
    assert math.isnan(found['bookkeeper_server_READ_ENTRY_REQUEST{success="true",quantile="0.99"}'])


def test_syncs_batches_and_waits_stand_under_bookkeepers_names() -> None:
    times = journal(
        sync_ns=histogram(b21=4),
        wait_ns=histogram(b17=3),
        block_records=histogram(b7=2),
        block_bytes=histogram(b20=1),
    )
    found = values_of(text_of(engine=directory(failed=True), times=times))
    assert found['bookie_journal_JOURNAL_SYNC_count{success="true"}'] == 4
    assert found['bookie_journal_JOURNAL_SYNC_count{success="false"}'] == 1
    assert 1.04 <= found['bookie_journal_JOURNAL_SYNC{success="true",quantile="0.99"}'] <= 2.1
    assert 0.065 <= found['bookie_journal_JOURNAL_QUEUE_LATENCY{success="true",quantile="0.5"}'] <= 0.132
    assert 64 <= found['bookie_journal_JOURNAL_FORCE_WRITE_BATCH_ENTRIES{success="true",quantile="0.5"}'] <= 128
    assert found['bookie_journal_JOURNAL_FORCE_WRITE_BATCH_BYTES_sum{success="true"}'] == 600
    assert found[f'walkeeper_journal_sync_seconds_bucket{{le="{2**20 * 1e-9!r}"}}'] == 0
    assert found[f'walkeeper_journal_sync_seconds_bucket{{le="{2**21 * 1e-9!r}"}}'] == 4
    assert found["walkeeper_journal_queue_seconds_count"] == 3
    assert found['walkeeper_journal_batch_entries_bucket{le="127"}'] == 2
    assert found['walkeeper_journal_batch_bytes_bucket{le="1048575"}'] == 1


@pytest.mark.parametrize(
    ("facts", "stats", "engine"),
    [
        (replace(FACTS, read_only=True), server(), directory()),
        (replace(FACTS, registered=False), server(), directory()),
        (FACTS, server(failed=True), directory()),
        (FACTS, server(), directory(failed=True)),
    ],
)
def test_the_status_is_writable_only_where_clients_can_write(
    facts: Facts, stats: ServerStats, engine: DirectoryStats
) -> None:
    assert values_of(text_of(facts, stats, engine))["bookie_SERVER_STATUS"] == 0


def test_what_operators_must_see() -> None:
    held = {**FACTS.gc_held, "emptied": Held(7, 7000, None, 0, 400), "collapsed": Held(5, 5000, 2e9, 20, 400)}
    facts = replace(FACTS, limbo_all=True, gc_alarm=True, gc_wrong_cluster=True, gc_held=held)
    found = values_of(text_of(facts, engine=directory(failed=True), recovery=Recovery(4096, 1, 0, 2, 0, 5)))
    assert found["walkeeper_journal_failed"] == 1
    assert found["walkeeper_limbo_all"] == 1
    assert found["walkeeper_limbo_ledgers"] == 2
    assert found["walkeeper_gc_alarm"] == 1
    assert found["walkeeper_gc_wrong_cluster"] == 1
    assert found['walkeeper_gc_held_ledgers{reason="emptied"}'] == 7
    assert found['walkeeper_gc_held_bytes{reason="collapsed"}'] == 5000
    assert found['walkeeper_gc_held_until_seconds{reason="emptied"}'] == math.inf
    assert found['walkeeper_gc_held_until_seconds{reason="collapsed"}'] == 2e9
    assert found['walkeeper_gc_held_until_seconds{reason="unlisted"}'] == 0
    assert found["walkeeper_gc_listed_ledgers"] == 400
    assert found["walkeeper_gc_other_layout_ledgers"] == 3
    assert found["walkeeper_tombstones"] == 4
    assert found["walkeeper_recovery_lost"] == 3
    assert found["walkeeper_recovery_cut_bytes"] == 4096


def test_a_histogram_is_cumulative_and_in_seconds() -> None:
    stats = server(add_ns=histogram(b5=1, b12=2, b20=3, b39=4))
    found = values_of(text_of(stats=stats))
    buckets = [(name, value) for name, value in found.items() if name.startswith("walkeeper_add_seconds_bucket")]
    assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    assert found[f'walkeeper_add_seconds_bucket{{le="{2**12 * 1e-9!r}"}}'] == 3
    assert found[f'walkeeper_add_seconds_bucket{{le="{2**19 * 1e-9!r}"}}'] == 3
    assert found[f'walkeeper_add_seconds_bucket{{le="{2**20 * 1e-9!r}"}}'] == 6
    assert found['walkeeper_add_seconds_bucket{le="+Inf"}'] == found["walkeeper_add_seconds_count"] == 10
    assert found["walkeeper_add_seconds_sum"] == pytest.approx(10 * 600e-9)


def test_the_buckets_are_always_the_same() -> None:
    names = [set(values_of(text_of(stats=server(batch=histogram(**{f"b{i}": 1}))))) for i in (0, 3, 39)]
    assert names[0] == names[1] == names[2]


def test_labels_are_escaped() -> None:
    found = text_of(replace(FACTS, bookie_id='a"b\\c\nd'))
    assert 'bookie_id="a\\"b\\\\c\\nd"' in found
    values_of(found)


def test_a_name_is_given_once() -> None:
    out = Exposition()
    out.gauge("walkeeper_x", "x", 1)
    with pytest.raises(ValueError, match="twice"):
        out.gauge("walkeeper_x", "x", 1)
    with pytest.raises(ValueError, match="no name"):
        out.gauge("walkeeper-x", "x", 1)


@pytest.mark.parametrize("part", [0.01, 0.5, 0.99, 1])
def test_a_quantile_lies_in_its_bucket(part: float) -> None:
    value = quantile(histogram(b11=10), part)
    assert value is not None
    assert 2**10 <= value <= 2**11
    assert quantile(histogram(), part) is None


def test_a_quantile_finds_the_bucket_of_its_rank() -> None:
    of = histogram(b10=90, b20=9, b30=1)
    for part, bucket in ((0.5, 10), (0.9, 10), (0.95, 20), (0.999, 30)):
        value = quantile(of, part)
        assert value is not None
        assert 2 ** (bucket - 1) <= value <= 2**bucket


def counts(**syncs: int) -> Counted:
    return counted(server(), journal(sync_ns=histogram(**syncs)))


def test_the_last_minute_forgets_what_is_older() -> None:
    now = [0.0]
    recent = Recent(lambda: now[0])
    recent.note(counts(b30=100))
    now[0] = WINDOW_S / 2
    recent.note(counts(b30=100, b10=5))
    now[0] = WINDOW_S + 1
    assert recent.since(counts(b30=100, b10=7)) == counts(b10=7)
    now[0] = 1.5 * WINDOW_S + 1
    assert recent.since(counts(b30=100, b10=7)) == counts(b10=2)


def test_the_dashboard_uses_metrics_that_there_are() -> None:
    text = text_of()
    known = families(text)
    exported = {name for name in known if known[name] in ("counter", "gauge")}
    for name, kind in known.items():
        if kind in ("histogram", "summary"):
            exported |= {f"{name}_count", f"{name}_sum"} | ({f"{name}_bucket"} if kind == "histogram" else {name})
    board = json.loads((ROOT / "docs/operations/grafana-bookie.json").read_text())
    used: set[str] = set()
    for panel in board["panels"]:
        assert panel["type"] == "row" or panel["targets"], panel["title"]
        for target in panel.get("targets", ()):
            names = set(re.findall(r"\b(?:bookie|bookkeeper|walkeeper)_\w+", target["expr"]))
            assert names, target
            used |= names
    assert used <= exported, used - exported
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_page_explains_every_metric() -> None:
    page = (ROOT / "docs/operations/metrics.md").read_text()
    explained = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    assert explained == set(families(text_of()))
