"""The verification: does the directory hold every record of the source, once, in order, byte for byte?"""

from __future__ import annotations

from collections.abc import Callable

from source import Source

import walkeeper


def check_log(namespace: walkeeper.Namespace, source: Source, advance: Callable[[int], None]) -> list[str]:
    """Replays one log against its source; the findings, in words. An empty list: all of it is there.

    Every record is compared: its place in the sequence, its bytes, and that its DLSN lies behind the one before it.
    """
    findings: list[str] = []
    previous: walkeeper.Record | None = None
    count = 0
    try:
        for record in namespace.log(source.log, create=False).reader():
            if record.sequence_id != count:
                findings.append(f"{source.log}: record {record.sequence_id} where {count} should stand")
                break
            if count >= len(source.records):
                findings.append(f"{source.log}: a record too many, {count}: {bytes(record.payload)!r}")
                break
            if record.payload != source.records[count]:
                findings.append(
                    f"{source.log}: record {count} is {bytes(record.payload)!r}, not {source.records[count]!r}"
                )
                break
            if previous is not None and not previous.dlsn < record.dlsn:
                findings.append(f"{source.log}: {record.dlsn} of record {count} does not lie behind {previous.dlsn}")
                break
            previous = record
            count += 1
            if count % 4096 == 0:
                advance(4096)
    except walkeeper.GapError as gap:
        findings.append(f"{source.log}: {gap}")
    advance(count % 4096)
    if not findings and count < len(source.records):
        findings.append(f"{source.log}: {len(source.records) - count} records are missing from {count} on")
    return findings


def check_acknowledged(namespace: walkeeper.Namespace, source: Source, acknowledged: int) -> list[str]:
    """After a kill: what was acknowledged is there, and the last of it has the bytes it should have."""
    if acknowledged == 0:
        return []
    log = namespace.log(source.log, create=False)
    if log.count() < acknowledged:
        return [f"{source.log}: {acknowledged} records were acknowledged, only {log.count()} are there"]
    record = next(iter(log.reader(sequence_id=acknowledged - 1)))
    if record.sequence_id != acknowledged - 1 or record.payload != source.records[acknowledged - 1]:
        return [f"{source.log}: record {acknowledged - 1}, acknowledged before the kill, is {bytes(record.payload)!r}"]
    return []
