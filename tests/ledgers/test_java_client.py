"""Our client and Apache BookKeeper's Java client, each on the ledger that the other left open; on ZooKeeper."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import walkeeper
from walkeeper_bookie.cluster import LocalCluster

JAVA = Path(__file__).parents[2] / "examples" / "java"
MISSING = [f"{needed} (.ci/packages interop)" for needed in ("java", "javac", "mvn") if shutil.which(needed) is None]
if importlib.util.find_spec("kazoo") is None:
    MISSING.append("kazoo (the extra zookeeper)")
if MISSING:
    assert os.environ.get("CI") != "true", f"not installed: {', '.join(MISSING)}"
    pytest.skip(f"not installed: {', '.join(MISSING)}", allow_module_level=True)

sys.path.insert(0, str(JAVA))

from programs import Program, build  # noqa: E402

PASSWORD = b"orders"
THINGS = ("lamp", "chair", "kettle", "bicycle", "book", "piano")
MASK = 2**64 - 1

WRITER = """
import sys, walkeeper
from test_java_client import PASSWORD, order
client = walkeeper.LedgerClient(sys.argv[1])
writer = client.create(password=PASSWORD)
print("ledger", writer.ledger_id, flush=True)
for number in range(10 ** 9):
    writer.add(order(number))
    print(number, flush=True)
"""


def order(number: int) -> bytes:
    """As examples/java/Orders.java has it."""
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & MASK
    mixed = (mixed ^ mixed >> 31) * 0xBF58476D1CE4E5B9 & MASK
    low = mixed >> 32  # Java's cast to int comes behind the remainder of a positive long
    thing = THINGS[low % len(THINGS)]
    return f"order {number}: {1 + (mixed >> 60)} x {thing}, paid with card {mixed:x}\n".encode()


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of three bookies."""
    build()
    place = tmp_path_factory.mktemp("java")
    (place / "zookeeper").mkdir()
    with Program("MetadataServer", str(place / "zookeeper"), logs=place) as zookeeper:
        uri = f"zk+hierarchical://127.0.0.1:{zookeeper.expect('zookeeper').words[0]}/ledgers"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")]))
            with LocalCluster(place / "cluster", 3, uri) as cluster:
                cluster.start()
                yield uri


@pytest.mark.parametrize("protocol", ["v2", "v3"])
def test_we_recover_what_javas_client_writes(metadata: str, tmp_path: Path, protocol: str) -> None:
    with walkeeper.LedgerClient(metadata) as client, Program("Writer", metadata, protocol, logs=tmp_path) as writer:
        ledger_id = int(writer.expect("ledger").words[0])
        while int(writer.expect("acknowledged").words[0]) < 1000:
            pass
        with client.open(ledger_id, password=PASSWORD) as reader:
            entries = list(reader.read())
            assert reader.metadata.is_closed
        acknowledged = int(writer.expect("fenced").words[0])
    assert len(entries) >= acknowledged >= 1000
    assert [entry.payload for entry in entries] == [order(number) for number in range(len(entries))]


@pytest.mark.parametrize("protocol", ["v2", "v3"])
def test_javas_client_recovers_what_we_write(metadata: str, tmp_path: Path, protocol: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, metadata], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert writer.stdout is not None
    ledger_id = writer.stdout.readline().split()[1]
    acknowledged = [int(writer.stdout.readline()) for _ in range(300)][-1] + 1
    writer.kill()
    acknowledged = max([acknowledged, *(int(line) + 1 for line in writer.stdout)])
    writer.wait()
    writer.stdout.close()
    with Program("Reader", metadata, protocol, ledger_id, logs=tmp_path) as reader:
        recovered = int(reader.expect("recovered").words[0])
        told = reader.next()
        assert told.kind == "read", told  # "wrong" where an entry differs
    assert recovered in (acknowledged, acknowledged + 1)
    with walkeeper.LedgerClient(metadata) as client, client.open(int(ledger_id), password=PASSWORD) as ours:
        assert [entry.payload for entry in ours.read()] == [order(number) for number in range(recovered)]
