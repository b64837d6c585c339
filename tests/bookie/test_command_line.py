"""`walkeeper-bookie`: its options are the schema's, they beat the file, its exit statuses are documented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from walkeeper_bookie import _main
from walkeeper_bookie._exit_status import MEANINGS, ExitStatus
from walkeeper_bookie._settings import KEYS, Settings, SettingsError, read_settings

ROOT = Path(__file__).resolve().parents[2]
GIVEN = ["--metadata", "memory:", "--listen", "127.0.0.1:0", "--data", "/d"]


class Process:
    """Stands for the running process: keeps what it was started with, ends with a status."""

    def __init__(self) -> None:
        self.started: list[tuple[Settings, bool]] = []
        self.ends: int | Exception = 0

    def run(self, settings: Settings, *, init: bool) -> int:
        self.started.append((settings, init))
        if isinstance(self.ends, Exception):
            raise self.ends
        return self.ends


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    process = Process()
    module: Any = types.ModuleType("walkeeper_bookie._process")
    module.run = process.run
    monkeypatch.setitem(sys.modules, "walkeeper_bookie._process", module)
    return process


def status_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        _main.main(list(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_it_runs_the_process_with_the_settings_and_ends_with_its_status(process: Process) -> None:
    process.ends = ExitStatus.ADDRESS_IN_USE
    assert status_of(*GIVEN, "--memtable", "8MiB", "--init") == 7
    [(settings, init)] = process.started
    assert init
    assert settings.memtable == 8 * 2**20
    assert settings.data == "/d"


def test_a_drained_bookie_ends_with_0(process: Process) -> None:
    assert status_of(*GIVEN) == 0
    assert process.started[0][1] is False


def test_the_command_line_beats_the_file_and_the_file_the_default(process: Process, tmp_path: Path) -> None:
    file = tmp_path / "bookie.toml"
    file.write_text('gc_interval = "5min"\nreader_threads = 3\ndata = "/from-the-file"\n')
    assert status_of("--config", str(file), *GIVEN, "--gc-interval", "7s") == 0
    [(settings, _)] = process.started
    assert (settings.gc_interval, settings.reader_threads, settings.lock_timeout) == (7.0, 3, 10.0)
    assert settings.data == "/d"
    assert settings.origin.file == file


def test_what_the_file_has_need_not_be_on_the_command_line(process: Process, tmp_path: Path) -> None:
    file = tmp_path / "bookie.toml"
    file.write_text('metadata = "memory:"\nlisten = "127.0.0.1:0"\ndata = "/d"\n')
    assert status_of("--config", str(file)) == 0
    assert len(process.started) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "127.0.0.1:1", "--data", "/d"], "--metadata (URI) must be given"),
        ([*GIVEN, "--memtable", "64M"], "--memtable '64M': write a size"),
        ([*GIVEN, "--compact-rate", "64MiB"], "a rate ends with /s"),
        ([*GIVEN, "--gc-interval", "10"], "--gc-interval '10': write a time"),
        ([*GIVEN, "--config", "/nowhere/bookie.toml"], "/nowhere/bookie.toml: No such file"),
        ([*GIVEN, "--memtabel", "64MiB"], "--memtable"),
        ([*GIVEN, "stray"], "stray"),
        ([*GIVEN, "--gc-alarm-percent", "10"], "--gc-alarm-percent: there is no such option any more. Garbage"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_is_wrong(
    process: Process, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert status_of(*arguments) == ExitStatus.WRONG_USE
    assert said in capsys.readouterr().err
    assert process.started == []


def test_settings_that_the_process_finds_wrong_are_told_as_those_here(
    process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    process.ends = SettingsError("metadata: there is no store for this scheme")
    assert status_of(*GIVEN) == ExitStatus.WRONG_USE
    assert capsys.readouterr().err == "walkeeper-bookie: metadata: there is no store for this scheme\n"


def test_a_defect_ends_with_1_and_a_traceback(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    process.ends = ZeroDivisionError("a defect")
    assert status_of(*GIVEN) == ExitStatus.UNEXPECTED
    assert "ZeroDivisionError: a defect" in capsys.readouterr().err


def test_the_help_has_every_setting_with_its_default_and_every_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("--help") == 0
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    for one in KEYS:
        assert re.search(rf"(?<![\w-]){re.escape(one.option)} ", shown), one.name
        if one.default is not None:
            assert f"[default {one.default}" in shown, one.name
    for status, (happened, _) in MEANINGS.items():
        assert f"{int(status)} {happened.replace('`', '')}" in shown


def test_every_exit_status_has_a_meaning_and_none_is_pythons_or_the_shells() -> None:
    assert set(MEANINGS) == set(ExitStatus)
    assert max(ExitStatus) < 64


def test_the_printed_configuration_is_a_file_that_says_the_same(
    process: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = '/d "quoted" \\ and\ttab'
    assert (
        status_of(*GIVEN, "--data", odd, "--bookie-id", "b1", "--print-config", "--disk-read-only-percent", "2.5") == 0
    )
    assert process.started == []
    file = tmp_path / "bookie.toml"
    file.write_text(capsys.readouterr().out)
    settings = read_settings({}, file)
    assert (settings.data, settings.bookie_id, settings.disk_read_only_percent) == (odd, "b1", 2.5)
    assert settings.advertise is None


def test_the_printed_configuration_is_utf_8_in_any_locale(process: Process, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "walkeeper_bookie", *GIVEN, "--data", "/d\u00e4", "--print-config"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "1"}
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    file = tmp_path / "bookie.toml"
    file.write_bytes(printed)
    assert read_settings({}, file).data == "/d\u00e4"


def test_a_configuration_that_cannot_be_printed_is_said(process: Process) -> None:
    command = [sys.executable, "-m", "walkeeper_bookie", *GIVEN, "--print-config"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == ExitStatus.WRONG_USE
    assert done.stderr == "walkeeper-bookie: standard output: No space left on device\n"


def test_nothing_of_the_file_reaches_the_terminal_as_it_is(
    process: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bookie.toml"
    file.write_text('"a\\nb\\u001b[31m" = 1\n')
    assert status_of(*GIVEN, "--config", str(file)) == ExitStatus.WRONG_USE
    assert "a\\nb\\x1b[31m" in capsys.readouterr().err


def test_who_contradicts_the_file_is_not_told_that_the_file_does(
    process: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bookie.toml"
    file.write_text("major_percent = 50\n")
    assert status_of(*GIVEN, "--config", str(file), "--minor-percent", "90") == ExitStatus.WRONG_USE
    assert f"{file} and the command line: minor_percent is 90" in capsys.readouterr().err


def test_the_help_comes_without_loading_the_engine() -> None:
    code = (
        "import sys\n"
        "from walkeeper_bookie import _main\n"
        "try: _main.main(['--help'])\n"
        "finally: assert 'walkeeper' not in sys.modules and 'asyncio' not in sys.modules, sorted(sys.modules)\n"
    )
    path = os.pathsep.join([str(ROOT / "bookie"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
