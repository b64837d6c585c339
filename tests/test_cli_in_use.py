"""Commands that read, where logs come, go and are truncated while they look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import json_lines, run

import walkeeper
from walkeeper import Namespace, Reader
from walkeeper.directory._log import DirectoryLog
from walkeeper.directory._namespace import DirectoryNamespace


@pytest.fixture
def ns(tmp_path: Path) -> Any:
    """The logs gone, orders and staying, open for writing; the last one pins the oldest file."""
    with walkeeper.open(tmp_path / "wal", file_size_min=65536, file_size_max=65536) as namespace:
        with namespace.log("staying").writer() as writer:
            for _ in range(10):
                writer.append(b"x" * 30_000)
        for name in ("gone", "orders"):
            with namespace.log(name).writer() as writer:
                writer.append_many([b"%d" % number for number in range(20)])
        yield namespace


def once(act: Callable[[], object]) -> Callable[[], None]:
    done = False

    def first() -> None:
        nonlocal done
        if not done:
            done = True
            act()

    return first


@pytest.mark.parametrize("when", ["opened", "asked"])
def test_ls_and_stat_leave_out_a_log_that_is_deleted_meanwhile(
    ns: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    open_log, segments = DirectoryNamespace.log, DirectoryLog.segments

    def opened(self: DirectoryNamespace, name: str, **options: Any) -> DirectoryLog:
        if name == "gone":
            delete()
        return open_log(self, name, **options)

    def asked(self: DirectoryLog) -> Any:
        if self.name == "gone":
            delete()
        return segments(self)

    for command in ("ls", "stat"):
        open_log(ns, "gone")
        delete = once(lambda: ns.delete_log("gone"))
        with monkeypatch.context() as patched:
            if when == "opened":
                patched.setattr(DirectoryNamespace, "log", opened)
            else:
                patched.setattr(DirectoryLog, "segments", asked)
            lines = json_lines(run(command, tmp_path / "wal", "--json"))
        assert "gone" not in ns.logs()
        if command == "ls":
            assert [line["log"] for line in lines] == ["orders", "staying"]
        else:
            assert [line["oldest_log"] for line in lines] == ["staying"]


@pytest.mark.parametrize("when", ["begun", "read"])
@pytest.mark.parametrize("arguments", [["tail", "-n", "15"], ["cat"]], ids=" ".join)
def test_where_the_start_is_truncated_meanwhile_it_is_looked_for_again(
    ns: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], when: str
) -> None:
    orders = ns.log("orders")
    truncate = once(lambda: orders.truncate(orders.find(sequence_id=12)))
    begin, read = DirectoryLog.reader, Reader.read

    def begun(self: DirectoryLog, *given: Any, **options: Any) -> Reader:
        truncate()
        return begin(self, *given, **options)

    def late(self: Reader, *given: Any, **options: Any) -> Any:
        truncate()
        return read(self, *given, **options)

    if when == "begun":
        monkeypatch.setattr(DirectoryLog, "reader", begun)
    else:
        monkeypatch.setattr(Reader, "read", late)
    result = run(arguments[0], tmp_path / "wal", "orders", "--raw", *arguments[1:])
    assert (result.exit_code, result.stdout.split()) == (0, [str(number) for number in range(12, 20)])


def test_a_place_that_was_named_is_not_replaced(ns: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = ns.log("orders")
    truncate = once(lambda: orders.truncate(orders.find(sequence_id=12)))
    read = Reader.read

    def late(self: Reader, *given: Any, **options: Any) -> Any:
        truncate()
        return read(self, *given, **options)

    monkeypatch.setattr(Reader, "read", late)
    result = run("cat", tmp_path / "wal", "orders", "--from", 5)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "it was truncated" in result.stderr


@pytest.mark.parametrize("arguments", [["tail", "-n", "15"], ["cat"], ["cat", "--from", "5"]], ids=" ".join)
def test_what_is_appended_and_truncated_behind_the_last_record_is_not_missed(
    ns: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    orders, read = ns.log("orders"), Reader.read

    def append_and_truncate() -> None:
        with orders.writer() as writer:
            writer.append(b"later")
        orders.truncate(orders.info().next)

    append = once(append_and_truncate)

    def late(self: Reader, *given: Any, **options: Any) -> Any:
        batch = read(self, *given, **options)
        append()
        return batch

    monkeypatch.setattr(Reader, "read", late)
    result = run(arguments[0], tmp_path / "wal", "orders", "--raw", *arguments[1:])
    assert result.exit_code == 0, result.output
    assert result.stdout.split()[-15:] == [str(number) for number in range(5, 20)]
