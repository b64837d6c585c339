"""doctor: what runs in a directory and why, also where it cannot be written; and the pull-the-plug test."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import four_orders, json_lines, run

import walkeeper


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return four_orders(tmp_path / "wal")


def test_doctor_says_what_runs_here_and_why(tmp_path: Path) -> None:
    (found,) = json_lines(run("doctor", tmp_path, "--json"))
    assert found["backend"] in ("uring", "psync")
    assert found["sync_method"] in ("dsync", "write_then_sync")
    assert isinstance(found["dsync_ns"], int)
    assert found["dsync_ns"] > 0
    shown = run("doctor", tmp_path).stdout
    for name in ("backend", "durable write", "file system", "device", "free space", "RLIMIT_MEMLOCK"):
        assert name in shown
    assert list(tmp_path.iterdir()) == []
    assert found["chosen"] is None
    assert "this directory" not in shown


def test_doctor_shows_what_a_directory_runs_with_beside_what_it_measures(directory: Path) -> None:
    with walkeeper.open(directory, read_only=True) as namespace:
        stats = namespace.stats()
    (found,) = json_lines(run("doctor", directory, "--json"))
    assert found["chosen"] == {"sync_method": stats.sync_method, "blocks_in_flight": stats.blocks_in_flight}
    shown = " ".join(run("doctor", directory).stdout.split())
    assert f"{stats.blocks_in_flight} blocks in flight: chosen before" in shown


def test_the_plug_test_finds_all_that_was_acknowledged_and_misses_what_was_not(tmp_path: Path) -> None:
    written = run("doctor", tmp_path / "plug", "--plug-test", "write", "--seconds", "0.2")
    assert written.exit_code == 0, written.output
    numbers = [int(line) for line in written.stdout.splitlines()]
    assert numbers == list(range(len(numbers)))
    last = numbers[-1]
    found = run("doctor", tmp_path / "plug", "--plug-test", "check", "--acknowledged", last)
    assert found.exit_code == 0, found.output
    elsewhere = run("doctor", four_orders(tmp_path / "other"), "--plug-test", "check", "--acknowledged", last)
    assert elsewhere.exit_code == 1
    assert "has no log plug-test" in elsewhere.stdout
    lost = run("doctor", tmp_path / "plug", "--plug-test", "check", "--acknowledged", last + 1)
    assert lost.exit_code == 1
    assert f"record {last + 1} was acknowledged" in lost.stdout


@contextmanager
def read_only(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for one who may not write in it; root is nobody meanwhile. Relative: nobody may look above it."""
    monkeypatch.chdir(directory)
    directory.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield Path(".")
    finally:
        if root:
            os.seteuid(0)
        directory.chmod(0o755)


def test_doctor_of_a_directory_that_it_cannot_write_tells_the_rest_and_ends_with_2(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sound,) = json_lines(run("doctor", directory, "--json"))
    with read_only(directory, monkeypatch) as path:
        uid = os.geteuid()
        as_json, shown = run("doctor", path, "--json"), run("doctor", path)
    assert (as_json.exit_code, shown.exit_code) == (2, 2)
    found = json.loads(as_json.stdout)
    assert (sound["writable"], sound["write_error"]) == (True, 0)
    assert (found["writable"], found["write_error"]) == (False, errno.EACCES)
    for name in ("sync_method", "dsync_ns", "write_then_sync_ns", "grid_ns", "blocks_in_flight", "direct", "alignment"):
        assert sound[name] is not None
        assert found[name] is None
    for name in ("backend", "kernel", "file_system", "device", "memlock_soft", "total_bytes", "chosen", "others"):
        assert found[name] == sound[name]
    said = f". cannot be written by this user (uid {uid}): Permission denied"
    assert f"durable write   not tried: {said}" in shown.stdout
    for name in ("kernel", "backend", "file system", "device", "free space", "RLIMIT_MEMLOCK", "this directory"):
        assert name in shown.stdout
    assert shown.stderr.startswith(f"walkeeper: {said}; the durable write was not tried\n")
    assert as_json.stderr == shown.stderr


def test_doctor_says_so_where_it_may_not_look_for_strangers(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("doctor", directory)
    (directory / "journal").chmod(0)
    with read_only(directory, monkeypatch) as path:
        as_json, shown = run("doctor", path, "--json"), run("doctor", path)
    (directory / "journal").chmod(0o755)
    assert (as_json.exit_code, shown.exit_code) == (2, 2)
    assert json.loads(as_json.stdout)["others"] is None
    assert "cannot be told: this user may not read all of it" in shown.stdout
