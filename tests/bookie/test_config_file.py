"""The configuration file: what it may say, and what is said of everything else."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from walkeeper_bookie import _config_file
from walkeeper_bookie._config_file import read_file
from walkeeper_bookie._kinds import Address
from walkeeper_bookie._settings import SettingsError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bookie.toml"


def read(file: Path, text: str) -> dict[str, Any]:
    file.write_text(text)
    return read_file(file)


def refusal(file: Path, text: str) -> str:
    with pytest.raises(SettingsError) as refused:
        read(file, text)
    return str(refused.value)


def test_values_of_all_kinds(file: Path) -> None:
    assert read(
        file,
        """
        # a comment
        metadata = "zk+hierarchical://a:2181,b:2181/ledgers"
        listen = "0.0.0.0:3181"
        advertise = "b1.example.org:3181"
        http = "off"
        memtable = "128MiB"
        cache = 33554432
        gc_interval = "15min"
        disk_read_only_percent = 4.5
        minor_percent = "30%"
        reader_threads = 4
        compact_rate = "10MiB/s"
        verify_digest = "off"
        """,
    ) == {
        "metadata": "zk+hierarchical://a:2181,b:2181/ledgers",
        "listen": Address("0.0.0.0", 3181),
        "advertise": Address("b1.example.org", 3181),
        "http": None,
        "memtable": 128 * 2**20,
        "cache": 32 * 2**20,
        "gc_interval": 900.0,
        "disk_read_only_percent": 4.5,
        "minor_percent": 30,
        "reader_threads": 4,
        "compact_rate": 10 * 2**20,
        "verify_digest": "off",
    }


def test_an_unknown_key_is_refused_with_the_nearest_one(file: Path) -> None:
    assert refusal(file, 'gc_intervall = "5min"') == (
        f"{file}: gc_intervall: there is no such setting. Did you mean gc_interval?"
    )
    assert "Did you mean bookie_id?" in refusal(file, 'bookie-id = "b"')
    assert "--help" in refusal(file, "xyzzy = 1")


def test_a_setting_of_an_older_version_is_refused_with_what_to_do(file: Path) -> None:
    said = refusal(file, "gc_alarm_percent = 10")
    assert said.startswith(f"{file}: gc_alarm_percent: there is no such setting any more. ")
    assert "Remove the setting; gc_hold_time says" in said


def test_a_key_of_java_is_refused_with_its_name_here(file: Path) -> None:
    said = refusal(file, "gcWaitTime = 600000")
    assert "here it is gc_interval" in said
    assert "migrate" in said


def test_a_table_is_refused_and_said_to_be_one(file: Path) -> None:
    assert "no tables" in refusal(file, "[xyzzy]\na = 1")
    assert "a table" in refusal(file, "[listen]\nport = 3181")


@pytest.mark.parametrize(
    ("line", "found", "write"),
    [
        ("gc_interval = 600", "a number, 600", "such as 10s"),
        ('gc_interval = "600"', "a string, '600'", "such as 10s"),
        ("gc_interval = true", "true", "such as 10s"),
        ("listen = 3181", "a number, 3181", "such as 127.0.0.1:3181"),
        ('memtable = "64M"', "a string, '64M'", "such as 64MiB"),
        ("memtable = 1.5", "a number, 1.5", "such as 64MiB"),
        ('memtable = "1KiB"', "a string, '1KiB'", "at least 1MiB"),
        ("verify_digest = false", "false", "one of learned, off"),
        ('backend = "uring"', "a string, 'uring'", "auto, io_uring, psync"),
        ("data = []", "a list", "the path of a directory"),
        ("data = 2024-05-01", "a date or a time", "the path of a directory"),
        ('data = ""', "a string, ''", "the path of a directory"),
        (f"disk_read_only_percent = {'9' * 400}", "a number", "such as 5"),
        (f"disk_read_only_percent = 0x{'f' * 5000}", "a number", "such as 5"),
        (f"reads_max = 0x{'f' * 5000}", "a number", "a whole number"),
    ],
)
def test_a_wrong_value_is_refused_with_file_key_what_was_found_and_what_to_write(
    file: Path, line: str, found: str, write: str
) -> None:
    said = refusal(file, line)
    assert said.startswith(f"{file}: {line.split()[0]} is {found}: write ")
    assert write in said


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 5000, "a = 0x" + "f" * 5000])
def test_what_the_parser_gives_up_on_is_refused(file: Path, text: str) -> None:
    assert refusal(file, text).startswith(f"{file}: ")


def test_what_is_no_toml_is_said_with_the_line(file: Path) -> None:
    said = refusal(file, "data = '/d'\nlisten 127.0.0.1:3181\n")
    assert said.startswith(f"{file}: this is no TOML: ")
    assert "line 2" in said


def test_a_key_that_stands_there_twice_is_refused(file: Path) -> None:
    assert "no TOML" in refusal(file, 'data = "/a"\ndata = "/b"\n')


def test_a_file_that_is_not_there_or_is_not_text_is_said(file: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_file(file)
    file.write_bytes(b'data = "/\xff"')
    with pytest.raises(SettingsError, match="UTF-8"):
        read_file(file)


def test_what_editors_of_windows_put_first_is_no_damage(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfreads_max = 7\r\n")
    assert read_file(file) == {"reads_max": 7}


def test_an_empty_file_says_nothing(file: Path) -> None:
    assert read(file, "") == {}


def without_parser(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    importing = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name in names:
            raise ImportError(name)
        return importing(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setattr(sys, "version_info", (3, 10, 0, "final", 0))


def test_python_3_10_reads_it_by_tomli(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tomli", reason="tomli is not installed")
    without_parser(monkeypatch, "tomllib")
    assert read(file, "reader_threads = 3") == {"reader_threads": 3}


def test_python_3_10_without_tomli_says_what_to_install(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_parser(monkeypatch, "tomllib", "tomli")
    with pytest.raises(SettingsError, match="install tomli"):
        _config_file.toml_module()


@pytest.mark.parametrize("name", ["bookie", "bookie_ids", "metadatas"])
def test_of_a_table_it_is_said_that_the_file_has_none(file: Path, name: str) -> None:
    said = refusal(file, f'[{name}]\ndata = "/d"\n')
    assert "no tables" in said
    assert "Did you mean" not in said
