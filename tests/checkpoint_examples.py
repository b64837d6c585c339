"""Checkpoints as Spark leaves them in a directory, made without Spark: for tests of `walkeeper checkpoint`."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

from walkeeper._native import lib

QUERY = "6b1c1f0e-6a0a-4a6e-9a1c-2f0f3f1f9d10"
PARTITIONS = 2
SNAPSHOTS = (3, 6)
"""Versions of the state that have a snapshot."""
CONF = {"spark.sql.shuffle.partitions": str(PARTITIONS)}
LARGE = 1_200_000
"""Bytes of an SST file: more than a record has."""


def unique_id(version: int, partition: int) -> str:
    return f"{version:08}-0000-4000-8000-{partition:012}"


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def with_checksum(path: Path, content: bytes) -> None:
    """A state file, and the file with its checksum; Java's numbers are signed."""
    write(path, content)
    value = int(lib.wk_crc32c(content, len(content)))
    told = {"algorithm": "CRC32C", "value": value - (1 << 32) if value >> 31 else value, "mainFileSize": len(content)}
    write(path.with_name(f"{path.name}.crc"), json.dumps(told).encode())


def snapshot(shared: dict[str, bytes]) -> bytes:
    """A zip of RocksDB that needs these SST files."""
    files = [
        {"localFileName": name[:10], "dfsSstFileName": name, "sizeBytes": len(content)}
        for name, content in shared.items()
    ]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo("CURRENT"), "MANIFEST-000005\n")
        archive.writestr(zipfile.ZipInfo("metadata"), f"v1\n{json.dumps({'sstFiles': files, 'numKeys': 2})}")
    return made.getvalue()


def offsets(batch: int) -> bytes:
    head = {"batchWatermarkMs": 0, "batchTimestampMs": 1_790_000_000_000 + batch, "conf": CONF}
    return f'v1\n{json.dumps(head)}\n{{"logOffset":{batch}}}'.encode()


def commits(batch: int, format_version: int) -> bytes:
    told: dict[str, object] = {"nextBatchWatermarkMs": 0}
    if format_version == 2:
        told["stateUniqueIds"] = {"0": [[unique_id(batch + 1, partition)] for partition in range(PARTITIONS)]}
    return f"v{format_version}\n{json.dumps(told)}".encode()


def spark_checkpoint(place: Path, provider: str, batches: int = 7, *, in_flight: bool = False) -> Path:
    """That of an aggregation with PARTITIONS partitions: "rocksdb" (format 1), "rocksdb2" (format 2) or "hdfs".

    All batches are committed; with `in_flight` one more is planned, and has written the state of one partition.
    """
    format_version = 2 if provider == "rocksdb2" else 1
    write(place / "metadata", json.dumps({"id": QUERY}, separators=(",", ":")).encode())
    for batch in range(batches + in_flight):
        write(place / "offsets" / str(batch), offsets(batch))
        write(place / "sources/0" / str(batch), b"v1\n{}")
    for batch in range(batches):
        write(place / "commits" / str(batch), commits(batch, format_version))
    operator = {"operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"}, "stateStoreInfo": []}
    write(place / "state/0/_metadata/metadata", f"v1\n{json.dumps(operator)}".encode())
    for partition in range(PARTITIONS):
        last = batches + (1 if in_flight and partition == 0 else 0)
        for version in range(1, last + 1):
            write_version(place / "state/0" / str(partition), provider, version, partition)
    return place


def write_version(store: Path, provider: str, version: int, partition: int) -> None:
    if provider == "hdfs":
        write(store / f"{version}.delta", b"delta of %d" % version)
        if version in SNAPSHOTS:
            write(store / f"{version}.snapshot", b"snapshot of %d" % version)
        return
    put = with_checksum if provider == "rocksdb2" else write
    name = f"{version}_{unique_id(version, partition)}" if provider == "rocksdb2" else str(version)
    put(store / f"{name}.changelog", b"changes of %d" % version)
    if version in SNAPSHOTS:
        shared = {f"{at:06}-{unique_id(at, partition)}.sst": b"s" * (LARGE + at) for at in SNAPSHOTS if at <= version}
        for sst, content in shared.items():
            write(store / "SSTs" / sst, content)
        put(store / f"{name}.zip", snapshot(shared))


def tree(place: Path) -> dict[str, bytes | None]:
    """The files of a directory and their contents; None for a directory."""
    found: dict[str, bytes | None] = {}
    for above, directories, files in os.walk(place):
        for name in directories:
            found[str((Path(above) / name).relative_to(place))] = None
        for name in files:
            path = Path(above) / name
            found[str(path.relative_to(place))] = path.read_bytes()
    return found
