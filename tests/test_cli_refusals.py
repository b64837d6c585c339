"""What the command line refuses, and in which words: bad input, bad numbers, closed streams, odd names."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from command_line import COMMAND, payloads, run, run_process

import walkeeper
from walkeeper.cli import _inspection

RECORD_MAX = 1024 * 1024 - 8 * 1024 - 20


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with the log "orders" of four records, closed."""
    place = tmp_path / "wal"
    with walkeeper.open(place) as namespace, namespace.log("orders").writer() as writer:
        writer.append_many([b"0", b"1", b"2", b"3"])
    return place


# ---- truncate -------------------------------------------------------------------------------------------------------


def test_truncate_past_the_end_is_refused_and_end_is_a_word(directory: Path) -> None:
    result = run("truncate", directory, "orders", "--before", 999)
    assert result.exit_code == 2
    assert "its next one will be 4" in result.stderr
    assert "--before end" in result.stderr
    assert len(payloads(directory, "orders")) == 4
    assert run("truncate", directory, "orders", "--before", "end").stdout == "4 records let go, 0 kept\n"


def test_truncate_before_the_truncation_point_changes_nothing(directory: Path) -> None:
    assert run("truncate", directory, "orders", "--before", 3).stdout == "3 records let go, 1 kept\n"
    result = run("truncate", directory, "orders", "--before", 1)
    assert (result.exit_code, result.stdout) == (0, "0 records let go, 1 kept\n")
    assert run("truncate", directory, "orders", "--before", 4).stdout == "1 record let go, 0 kept\n"


# ---- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [str(2**63), "9" * 5000, "٣", "1_0", "+1", "-1", "1.0"], ids=lambda text: text[:8])
def test_a_number_that_no_log_can_hold_is_a_usage_error(directory: Path, number: str) -> None:
    for place in (number, f"txid:{number}", f"dlsn:1,{number},0"):
        result = run("cat", directory, "orders", f"--from={place}")
        assert result.exit_code == 2
        assert "is no place in a log" in result.stderr
    result = run("truncate", directory, "orders", f"--before={number}")
    assert result.exit_code == 2
    assert "is no place to truncate at" in result.stderr


def test_a_time_that_no_log_can_hold_is_refused(directory: Path) -> None:
    for moment in ("0001-01-01T00:00", "0001-01-01T00:00+14:00", "1969-01-01T00:00Z"):
        assert run("cat", directory, "orders", f"--from=time:{moment}").exit_code == 2


def test_cat_from_behind_the_end_says_so(directory: Path) -> None:
    for place in (99, "txid:9999999999999", "dlsn:9,0,0"):
        result = run("cat", directory, "orders", "--from", place)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "no record from there on; its next one will be 4" in result.stderr
    assert run("cat", directory, "orders", "--from", "end").stderr == ""


def test_the_lowest_rate_is_a_byte_a_second(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    verify = _inspection.verify_directory
    monkeypatch.setattr(
        "walkeeper.cli._files.verify_directory",
        lambda path, rate, advance, journal: (asked.append(rate), verify(path, 0, advance, journal))[1],
    )
    for rate in ("1e-9", "1", "inf"):
        assert run("verify", directory, "--rate", rate).exit_code == 0
    assert run("verify", directory).exit_code == 0
    assert asked == [1, 1_000_000, 2**63 - 1, 0]


@pytest.mark.parametrize(
    "words",
    [
        "verify --rate nan",
        "verify --rate -nan",
        "verify --rate 0",
        "bench --seconds nan",
        "bench --seconds inf",
        "doctor --plug-test write --seconds nan",
        "doctor --plug-test write --seconds inf",
    ],
)
def test_what_is_no_number_or_no_limit_is_a_usage_error(directory: Path, words: str) -> None:
    result = run(*words.split(), directory)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
    assert words.split()[-1] in result.stderr


def test_bench_refuses_a_batch_that_would_fill_the_memory(tmp_path: Path) -> None:
    result = run("bench", tmp_path, "--size", 999999, "--batch", 65536)
    assert result.exit_code == 2
    assert "--size times --batch" in result.stderr


# ---- options that would be ignored ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["cat", "--json", "--raw", "DIR", "orders"],
        ["tail", "--length-prefixed", "--raw", "DIR", "orders"],
        ["doctor", "--seconds", "1", "DIR"],
        ["doctor", "--acknowledged", "1", "DIR"],
        ["doctor", "--plug-test", "write", "--acknowledged", "1", "DIR"],
        ["doctor", "--plug-test", "check", "--acknowledged", "1", "--json", "DIR"],
        ["doctor", ""],
        ["append", "", "orders"],
        ["backup", "DIR", ""],
        ["recover", "DIR", ""],
    ],
    ids=" ".join,
)
def test_an_option_that_would_be_ignored_is_a_usage_error(directory: Path, arguments: list[str]) -> None:
    result = run(*(str(directory) if word == "DIR" else word for word in arguments))
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


# ---- append ---------------------------------------------------------------------------------------------------------


def test_a_line_that_is_too_long_is_refused_before_all_of_it_is_read(tmp_path: Path) -> None:
    command = [*COMMAND, "append", str(tmp_path / "wal"), "lines"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"first\n")
        try:
            for _ in range(64):  # as much as fills any pipe, and no end
                process.stdin.write(bytes(1 << 20))
        except BrokenPipeError:
            pass
        said = process.stderr.read().decode()
        assert process.wait(timeout=20) == 2
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
    assert "walkeeper: 1 record was appended before this" in said
    assert f"more than a record may have, which is {RECORD_MAX:,} bytes" in said
    assert payloads(tmp_path / "wal", "lines") == [b"first"]


def test_the_longest_line_is_appended_and_those_before_a_longer_one(tmp_path: Path) -> None:
    longest = b"x" * RECORD_MAX
    assert run("append", tmp_path / "wal", "lines", given=longest).exit_code == 0
    result = run("append", tmp_path / "wal", "lines", given=b"one\n" + longest + b"y\ntwo\n")
    assert result.exit_code == 2
    assert payloads(tmp_path / "wal", "lines") == [longest, b"one"]


def test_a_size_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    stream = struct.pack("<I", 3) + b"one" + struct.pack("<I", RECORD_MAX + 1)
    result = run("append", tmp_path / "wal", "blobs", "--length-prefixed", given=stream)
    assert result.exit_code == 2
    assert f"a record of {RECORD_MAX + 1:,} bytes" in result.stderr
    assert payloads(tmp_path / "wal", "blobs") == [b"one"]


def test_input_that_is_cut_is_a_refusal(tmp_path: Path) -> None:
    result = run("append", tmp_path / "wal", "blobs", "--length-prefixed", given=struct.pack("<I", 3) + b"tw")
    assert result.exit_code == 2
    assert "walkeeper: the input ends inside a record (6 bytes of it)" in result.stderr


# ---- streams and signals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["ls DIR >&-", "cat DIR orders --raw >&-", "append DIR orders <&-", "verify DIR 2>&-"]
)
def test_a_closed_stream_is_no_traceback(directory: Path, words: str) -> None:
    command = " ".join(COMMAND) + " " + words.replace("DIR", str(directory))
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60)
    assert done.returncode == (0 if "2>" in words else 2)
    assert b"Traceback" not in done.stderr
    assert "2>" in words or b"is closed" in done.stderr


def test_in_a_locale_without_letters_nothing_fails(tmp_path: Path) -> None:
    with walkeeper.open(tmp_path / "wal") as namespace:
        namespace.log("größe")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for command in ("ls", "doctor", "stat", "verify"):
        done = run_process(command, tmp_path / "wal", **ascii_only)
        assert done.returncode == 0, done.stderr
    done = run_process("backup", tmp_path / "wal", os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8", "cp1252"])
def test_json_is_json_in_every_locale(tmp_path: Path, encoding: str) -> None:
    directory, name, payload = tmp_path / "wal", "größe😀", "Maß 😀"
    with walkeeper.open(directory) as namespace, namespace.log(name).writer() as writer:
        writer.append(payload.encode())
        namespace.log(name).cursor(name)
    (journal,) = (file for file in (directory / "journal").glob("*.wkj") if payload.encode() in file.read_bytes())
    found: dict[str, str] = {}
    for command, *more in (
        ("ls", directory),
        ("cat", directory, name),
        ("tail", directory, name),
        ("cursor", "ls", directory),
        ("stat", directory),
        ("recover", directory, tmp_path / "saved"),
        ("inspect", journal, "--entries"),
        ("verify", directory),
        ("doctor", directory),
    ):
        done = run_process(command, *more, "--json", PYTHONIOENCODING=encoding)
        assert done.returncode == 0, done.stderr
        found[command] = " ".join(str(json.loads(line)) for line in done.stdout.splitlines())
        assert done.stdout.isascii()
    assert all(name in found[command] for command in ("ls", "cursor", "recover"))
    assert all(payload in found[command] for command in ("cat", "tail"))


def test_ctrl_c_on_the_way_into_a_callback_is_ctrl_c(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(_inspection._Callback, "call", interrupted)
    for command in (["verify", directory], ["inspect", directory / "superblock"]):
        result = run(*command)
        assert result.exit_code == 130
        assert "Traceback" not in result.stderr
        assert "KeyboardInterrupt" not in result.stderr


def test_ctrl_c_ends_verify_with_130(directory: Path) -> None:
    command = [*COMMAND, "verify", str(directory), "--rate", "0.000001"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        while "libwalkeeper" not in maps.read_text():  # an import that is interrupted may go on without a word
            time.sleep(0.05)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in said


# ---- what is shown --------------------------------------------------------------------------------------------------


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    names = [":smile:", "[red]x[/red]", "x" * 240]
    with walkeeper.open(tmp_path / "wal") as namespace:
        for name in names:
            namespace.log(name)
        namespace.log("a\u202eb")
    shown = run("ls", tmp_path / "wal").stdout
    lines = shown.splitlines()
    assert lines[0].startswith("log")
    assert all(line == line.rstrip() for line in lines)
    assert all(any(line.startswith(name + " ") for line in lines) for name in [*names, "a\\u202eb"])
    recovered = run("recover", tmp_path / "wal", tmp_path / "saved").stdout
    assert all(name in recovered for name in [*names, "a\\u202eb"])


def test_one_is_singular(tmp_path: Path) -> None:
    with walkeeper.open(tmp_path / "wal") as namespace, namespace.log("one").writer() as writer:
        writer.append(b"x")
    (tmp_path / "wal" / "note").write_bytes(b"x")
    assert "note (1 byte)" in run("verify", tmp_path / "wal").stdout


def test_a_probe_of_the_engine_is_unfinished_work(directory: Path) -> None:
    for name in ("probe-77.tmp", "journal/probe-77.tmp", "doctor-77.tmp"):
        (directory / name).write_bytes(b"x")
    (found,) = (json.loads(line) for line in run("verify", directory, "--json").stdout.splitlines())
    assert len(found["others"]) == 3
    assert all("unfinished" in other["what"] for other in found["others"])


# ---- words ----------------------------------------------------------------------------------------------------------


def test_hints_are_those_of_the_command_line(directory: Path, tmp_path: Path) -> None:
    with walkeeper.open(directory) as namespace:
        namespace.log("orders").cursor("billing")
    held = run("truncate", directory, "orders", "--before", 2)
    assert "--force" in held.stderr
    assert "walkeeper cursor set" in held.stderr
    assert "walkeeper cursor delete" in held.stderr
    assert "force=True" not in held.stderr
    assert run("truncate", directory, "orders", "--before", 2, "--force").exit_code == 0
    gone = run("cat", directory, "orders", "--from", 0)
    assert "--from start" in gone.stderr
    assert 'start="' not in gone.stderr
    missing = run("append", tmp_path / "nothing", "orders", "--no-create", given=b"x\n")
    assert missing.exit_code == 2
    assert "open it with create" not in missing.stderr


def test_a_path_that_cannot_be_looked_at_is_not_said_to_be_missing(tmp_path: Path) -> None:
    for command in ("inspect", "ls"):
        result = run(command, tmp_path / ("x" * 300))
        assert result.exit_code == 2
        assert "File name too long" in result.stderr
        assert "does not exist" not in result.stderr


def test_the_help_says_how_it_ends() -> None:
    said = " ".join(run("--help").stdout.split())
    assert "130 Ctrl-C" in said
    assert "141" in said
    backup = " ".join(run("backup", "--help").stdout.split())
    assert "Namespace.backup()" in backup


# ---- directories and clusters ---------------------------------------------------------------------------------------


def test_an_option_of_a_cluster_is_refused_with_a_directory(directory: Path) -> None:
    for command in (["ls", directory], ["append", directory, "orders"], ["cat", directory, "orders"]):
        result = run(*command, "--namespace", "default")
        assert result.exit_code == 2
        assert "--namespace is for a cluster" in result.stderr
    assert len(payloads(directory, "orders")) == 4


def test_an_option_of_a_directory_is_refused_with_a_cluster(tmp_path: Path) -> None:
    result = run("ls", f"sqlite:{tmp_path}/metadata.db", "--journal", tmp_path)
    assert result.exit_code == 2
    assert "--journal is for a directory" in result.stderr


@pytest.mark.parametrize("command", ["stat", "verify", "bench", "doctor"])
def test_a_command_for_directories_says_so_of_a_cluster(command: str, tmp_path: Path) -> None:
    result = run(command, f"sqlite:{tmp_path}/metadata.db")
    assert result.exit_code == 2
    assert "is the URI of a cluster; this command takes a path" in result.stderr


@pytest.mark.parametrize("command", [["ls"], ["append"]])
def test_a_scheme_that_does_not_exist_is_named(command: list[str]) -> None:
    result = run(*command, "mysql://host/db", *(["orders"] if command == ["append"] else []))
    assert result.exit_code == 2
    assert "is no URI of a cluster: those are sqlite:PATH" in result.stderr
