"""What recover and bench make for themselves is gone when they end: whatever ends them, and however often."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import ORDERS, four_orders, payloads, run

from walkeeper.cli._scratch import scratch


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return four_orders(tmp_path / "wal")


def with_ctrl_c(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with Ctrl-C before it begins and when it is done."""

    def interrupted(*given: Any, **options: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        result = function(*given, **options)
        signal.raise_signal(signal.SIGINT)
        return result

    return interrupted


@pytest.mark.parametrize("name", ["tempfile.mkdtemp", "shutil.rmtree", "Path.rename"])
@pytest.mark.parametrize("command", ["recover", "bench"])
def test_ctrl_c_at_any_moment_and_again_while_it_is_removed_leaves_nothing(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    where, _, function = name.partition(".")
    owner = {"tempfile": tempfile, "shutil": shutil, "Path": Path}[where]
    work = {"recover": "_salvage.salvaged", "bench": "_bench.measure"}[command]
    with monkeypatch.context() as patched:
        patched.setattr(f"walkeeper.cli.{work}", with_ctrl_c(lambda *_: None))
        patched.setattr(owner, function, with_ctrl_c(getattr(owner, function)))
        more = [tmp_path / "above" / "saved"] if command == "recover" else []
        result = run(command, directory, *more)
    assert result.exit_code == 130, result.output
    assert [file.name for file in tmp_path.iterdir()] == ["wal"]
    assert sorted(file.name for file in directory.iterdir() if file.is_dir()) == ["entries", "index", "journal"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_that_comes_while_it_is_removed_is_told_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "rmtree", with_ctrl_c(shutil.rmtree))
    with pytest.raises(KeyboardInterrupt), scratch(tmp_path, "a-", ""):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_told_and_not_ctrl_c_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "rmtree", with_ctrl_c(shutil.rmtree))
    with pytest.raises(ValueError, match="of the block"), scratch(tmp_path / "above" / "it", "a-", ""):
        raise ValueError("of the block")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_that_is_ignored_or_of_another_handler_stays_so(tmp_path: Path) -> None:
    seen: list[int] = []
    for handler in (signal.SIG_IGN, lambda number, _: seen.append(number)):
        before = signal.signal(signal.SIGINT, handler)
        try:
            with scratch(tmp_path, "a-", ""):
                signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is handler
        finally:
            signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


@pytest.mark.parametrize("size", [245, 255])
def test_recover_takes_a_name_of_any_length(directory: Path, tmp_path: Path, size: int) -> None:
    result = run("recover", directory, tmp_path / ("x" * size))
    assert result.exit_code == 0, result.output
    assert payloads(tmp_path / ("x" * size), "orders") == ORDERS
    assert sorted(len(file.name) for file in tmp_path.iterdir()) == [3, size]


@pytest.mark.parametrize("command", ["recover", "backup"])
def test_a_destination_that_ends_in_two_dots_is_refused_before_anything_is_made(
    directory: Path, tmp_path: Path, command: str
) -> None:
    result = run(command, directory, tmp_path / "nothing" / "..")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert "ends with the name of a directory" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["wal"]


def test_recover_makes_what_lies_above_and_removes_it_where_it_fails(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("walkeeper.cli._salvage.salvaged", failing)
        assert run("recover", directory, tmp_path / "a" / "b" / "saved").exit_code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["wal"]
    assert run("recover", directory, tmp_path / "a" / "b" / "saved").exit_code == 0
    assert payloads(tmp_path / "a" / "b" / "saved", "orders") == ORDERS
    assert [file.name for file in (tmp_path / "a" / "b").iterdir()] == ["saved"]


def test_recover_that_can_make_nothing_names_the_folder(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    result = run("recover", directory, tmp_path / "file" / "b" / "saved")
    assert result.exit_code == 2
    assert f"walkeeper: {tmp_path / 'file' / 'b'}: Not a directory" in result.stderr
