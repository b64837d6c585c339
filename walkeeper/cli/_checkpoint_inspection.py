"""What `walkeeper checkpoint inspect` tells of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from walkeeper.cli._checkpoint_copy import CutSource, batches_to_go_back_to, spans
from walkeeper.cli._checkpoint_layout import (
    CHANGES,
    SNAPSHOTS,
    CheckpointError,
    Layout,
    lines_of,
    object_of,
    of_file,
    query_id_of,
)
from walkeeper.cli._ledgers import moment
from walkeeper.cli._show import counted, facts, printable, size, table
from walkeeper.gateway._cut import Cut
from walkeeper.gateway._path import Path, log_of, shown

__all__ = ["inspected", "inspection_tables"]


def inspected(cut: Cut, path: Path) -> dict[str, Any]:
    """What is told, as JSON has it."""
    source = CutSource(cut, path, None)
    layout = source.layout
    owned = cut.tree.owner_of(path)
    return {
        "path": shown(path),
        "log": log_of(cut.root),
        "sequence_id": cut.sequence_id,
        "query_id": _query_id(cut, path, layout),
        **_batches(cut, path, layout),
        "state": list(_stores(cut, path, layout)),
        "owner": None
        if owned is None
        else {
            "path": shown(owned[0]),
            "text": owned[1].text,
            "epoch": owned[1].epoch,
            "since_ms": owned[1].since_ms,
        },
        "files": len(layout.sizes),
        "bytes": source.size,
        "log_records": cut.records_count,
        "log_bytes": cut.bytes,
        "log_live_bytes": cut.live_bytes,
        "large_bytes": sum(file.size for _, file in cut.tree.files() if file.log),
    }


def _query_id(cut: Cut, path: Path, layout: Layout) -> str | None:
    if ("metadata",) not in layout.sizes:
        return None
    place = (*path, "metadata")
    with of_file(place):
        return query_id_of(cut.content(place))


def _batches(cut: Cut, path: Path, layout: Layout) -> dict[str, Any]:
    planned: dict[str, Any] = {}
    if layout.offsets:
        version, head, sources = _of_batch(cut, (*path, "offsets", str(layout.offsets[-1])))
        planned = {
            "format": version,
            "watermark_ms": head.get("batchWatermarkMs"),
            "planned_ms": head.get("batchTimestampMs"),
            "conf": head.get("conf") or {},
            "sources": sources,
        }
    done: dict[str, Any] = {}
    if layout.commits:
        version, head, _ = _of_batch(cut, (*path, "commits", str(layout.commits[-1])))
        done = {"format": version, "next_watermark_ms": head.get("nextBatchWatermarkMs")}
    return {
        "batches": {
            "offsets": [*layout.offsets[:1], *layout.offsets[-1:]],
            "offsets_kept": len(layout.offsets),
            "commits": [*layout.commits[:1], *layout.commits[-1:]],
            "commits_kept": len(layout.commits),
            "in_flight": layout.in_flight,
            "go_back_to": batches_to_go_back_to(cut, path, layout),
        },
        "last_offsets": planned,
        "last_commit": done,
    }


def _of_batch(cut: Cut, place: Path) -> tuple[str, dict[str, Any], list[str]]:
    """A file of offsets or commits: its version, its JSON object, and the lines behind that."""
    with of_file(place):
        version, lines = lines_of(cut.content(place))
        return version, object_of(lines[0] if lines else "{}"), lines[1:]


def _stores(cut: Cut, path: Path, layout: Layout) -> Iterator[dict[str, Any]]:
    names = {operator: _operator_name(cut, path, layout, operator) for operator in {s.operator for s in layout.stores}}
    for store in layout.stores:
        snapshots, changes = store.of(SNAPSHOTS), store.of(CHANGES)
        yield {
            "operator": store.operator,
            "operator_name": names[store.operator],
            "partition": store.partition,
            "store": store.name,
            "provider": store.provider,
            "last_version": store.last_version,
            "snapshots": len(snapshots),
            "snapshot_bytes": sum(file.size for file in snapshots) + sum(store.shared.values()),
            "changes": len(changes),
            "change_bytes": sum(file.size for file in changes),
        }


def _operator_name(cut: Cut, path: Path, layout: Layout, operator: int) -> str | None:
    place = layout.metadata_of(operator)
    if place is None:
        return None
    try:
        _, lines = lines_of(cut.content((*path, *place)))
        name = object_of("".join(lines)).get("operatorInfo", {}).get("operatorName")
    except (CheckpointError, AttributeError):
        return None  # verify tells of it
    return name if isinstance(name, str) else None


# ---- for people ----


def inspection_tables(told: dict[str, Any]) -> Iterator[Any]:
    """The same: facts, then the state stores, then the settings that the query keeps."""
    yield facts([(name, printable(value)) for name, value in _facts(told)])
    if told["state"]:
        shown_rows = table(
            "operator", ">partition", "store", "provider", ">version", ">snapshots", ">bytes", ">changes", ">bytes"
        )
        for row in told["state"]:
            operator = f"{row['operator']} {row['operator_name'] or ''}".rstrip()
            shown_rows.add_row(
                printable(operator),
                str(row["partition"]),
                printable(row["store"]),
                row["provider"],
                f"{row['last_version']:,}",
                f"{row['snapshots']:,}",
                size(row["snapshot_bytes"]),
                f"{row['changes']:,}",
                size(row["change_bytes"]),
            )
        yield shown_rows
    if conf := told["last_offsets"].get("conf"):
        shown_rows = table("setting", "value")
        for name in sorted(conf):
            shown_rows.add_row(printable(name), printable(str(conf[name])))
        yield shown_rows


def _facts(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    batches, offsets, owner = told["batches"], told["last_offsets"], told["owner"]
    yield "checkpoint", f"{told['path']}, as of record {told['sequence_id']} of log {told['log']}"
    yield "query", told["query_id"] or "its id is lost: there is no file `metadata`"
    yield "planned", _kept("offsets", batches["offsets"], batches["offsets_kept"])
    yield "committed", _kept("commits", batches["commits"], batches["commits_kept"])
    yield "in flight", "none" if batches["in_flight"] is None else f"batch {batches['in_flight']}"
    yield "--batch", spans(batches["go_back_to"]) or "none"
    if offsets:
        yield "planned at", _moment(offsets["planned_ms"])
        yield "watermark", _moment(offsets["watermark_ms"]) if offsets["watermark_ms"] else "none"
        for number, source in enumerate(offsets["sources"]):
            yield f"source {number}", source
    if owner is None:
        yield "owner", "none"
    else:
        yield "owner", f"{owner['text']}, since {_moment(owner['since_ms'])} (epoch {owner['epoch']})"
    yield "files", f"{counted(told['files'], 'file')}, {size(told['bytes'])}"
    dead = 1 - told["log_live_bytes"] / told["log_bytes"] if told["log_bytes"] else 0.0
    yield "log", f"{counted(told['log_records'], 'record')}, {size(told['log_bytes'])}, of them dead {dead:.0%}"
    if told["large_bytes"]:
        yield "large files", f"{size(told['large_bytes'])} in logs of their own"


def _kept(name: str, ends: list[int], count: int) -> str:
    if not ends:
        return "no batch"
    return f"batch {ends[-1]}; {name}/{ends[0]} to {name}/{ends[-1]} are kept ({count:,})"


def _moment(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else moment(milliseconds)
