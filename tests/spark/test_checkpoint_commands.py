"""walkeeper checkpoint, on checkpoints that Spark made: Spark goes on from what was exported, imported and forked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import json_lines, run
from spark_session import LIGHT

import walkeeper_spark_checkpoint as wks
from walkeeper.gateway import Gateway

DRIVER = Path(__file__).with_name("finite_driver.py")
ROWS = 20
"""Of a file."""
SESSION = LIGHT | {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
}
PROVIDERS = {
    "rocksdb": {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    },
    "hdfs": {},
}


class Session:
    """A driver process, and the files that its queries read."""

    def __init__(self, place: Path, gateway: Gateway) -> None:
        self.place = place
        self.expected: dict[str, int] = {}
        self._files = 0
        (place / "in").mkdir()
        settings = SESSION | {"spark.jars": wks.jar(), **wks.settings(gateway.addresses, gateway.token)}
        with (place / "driver.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER), json.dumps(settings), str(place / "in")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._line() == "started"

    def add_files(self, count: int) -> None:
        for _ in range(count):
            keys = [f"key{row % (self._files + 1)}" for row in range(ROWS)]
            rows = "".join(json.dumps({"key": key, "value": 1}) + "\n" for key in keys)
            (self.place / "in" / f"{self._files:04}.json").write_text(rows)
            for key in keys:
                self.expected[key] = self.expected.get(key, 0) + 1
            self._files += 1

    def counted(self, location: str, provider: str) -> dict[str, int] | None:
        """Runs a query to the end of the files."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([location, PROVIDERS[provider]]) + "\n")
        self.process.stdin.flush()
        found: dict[str, int] | None = json.loads(self._line())
        return found

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.place / "driver.log").read_text()
        return line.strip()

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(tmp_path / "wal", token="secret") as made:
        (tmp_path / "token").write_text("secret\n")
        yield made


@pytest.fixture
def session(tmp_path: Path, gateway: Gateway) -> Iterator[Session]:
    made = Session(tmp_path, gateway)
    try:
        yield made
    finally:
        made.close()


def batches(root: Path, path: str) -> Any:
    [told] = json_lines(run("checkpoint", "inspect", root, path, "--json"))
    return told["batches"]


def test_spark_goes_on_from_what_was_exported_imported_and_forked(
    tmp_path: Path, gateway: Gateway, session: Session
) -> None:
    """State in RocksDB, format 2, and in files. The gateway that Spark uses runs all the time."""
    root = tmp_path / "wal"
    through = ["--gateway", gateway.addresses[0], "--token-file", tmp_path / "token"]

    def done(*arguments: object) -> None:
        result = run("checkpoint", *arguments)
        assert result.exit_code == 0, result.output

    def goes_on(location: str, provider: str) -> None:
        assert session.counted(location, provider) == session.expected, location

    session.add_files(4)
    for provider in PROVIDERS:
        goes_on(f"walkeeper:///app/{provider}", provider)
    for provider in PROVIDERS:
        done("export", root, f"/app/{provider}", tmp_path / provider)
        done("export", root, f"/app/{provider}", tmp_path / f"{provider}-2", "--batch", 2)
    session.add_files(1)
    for provider in PROVIDERS:
        for location in (f"walkeeper:///app/{provider}", f"file://{tmp_path}/{provider}"):
            goes_on(location, provider)
            assert batches(root, f"/app/{provider}")["commits"] == [0, 4]
        goes_on(f"file://{tmp_path}/{provider}-2", provider)
    for provider in PROVIDERS:
        done("import", root, f"/app/{provider}-moved", tmp_path / provider, *through)
        done("fork", root, f"/app/{provider}", f"/copies/{provider}", *through)
        done("fork", root, f"/app/{provider}", f"/copies/{provider}-1", "--batch", 1, *through)
        assert batches(root, f"/copies/{provider}-1")["commits"] == [0, 1]
    done("verify", root)
    session.add_files(1)
    for provider in PROVIDERS:
        for path in (f"app/{provider}", f"app/{provider}-moved", f"copies/{provider}", f"copies/{provider}-1"):
            goes_on(f"walkeeper:///{path}", provider)
    done("verify", root)
