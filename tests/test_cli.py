"""The command line: what it prints, what it refuses, and its exit statuses."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import (
    COMMAND,
    ORDERS,
    damage,
    flip,
    four_orders,
    journal_with,
    json_lines,
    payloads,
    run,
    run_process,
    small_files,
    twenty_orders,
)

import walkeeper


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return four_orders(tmp_path / "wal")


@pytest.fixture
def holder(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the directory open for writing."""
    program = (
        f"import walkeeper, sys; n = walkeeper.open({str(directory)!r}); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield process
        process.communicate()


def test_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"walkeeper, version {walkeeper.__version__}\n"


# ---- append ---------------------------------------------------------------------------------------------------------


def test_append_makes_a_record_of_each_line_and_prints_the_last_position(tmp_path: Path) -> None:
    result = run("append", tmp_path / "new", "lines", given=b"one\n\nthree")
    assert result.exit_code == 0
    assert result.stdout.startswith("3 appended; the last is 2 at 1,")
    assert payloads(tmp_path / "new", "lines") == [b"one", b"", b"three"]


def test_append_takes_any_bytes_length_prefixed_and_cat_gives_them_back(tmp_path: Path) -> None:
    stream = b"".join(struct.pack("<I", len(order)) + order for order in [*ORDERS, b"two\nlines", b""])
    assert run("append", tmp_path / "new", "blobs", "--length-prefixed", given=stream).exit_code == 0
    assert run("cat", tmp_path / "new", "blobs", "--length-prefixed").stdout_bytes == stream


def test_append_refuses_input_that_ends_inside_a_record_and_says_what_is_appended(tmp_path: Path) -> None:
    stream = struct.pack("<I", 3) + b"one" + struct.pack("<I", 3) + b"tw"
    result = run("append", tmp_path / "new", "blobs", "--length-prefixed", given=stream)
    assert result.exit_code != 0
    assert "the input ends inside a record" in result.stderr
    assert "1 record was appended before this" in result.stderr
    assert payloads(tmp_path / "new", "blobs") == [b"one"]


def test_append_of_nothing_appends_nothing(directory: Path) -> None:
    result = run("append", directory, "orders")
    assert result.exit_code == 0
    assert "nothing was appended" in result.stderr
    assert payloads(directory, "orders") == ORDERS


def test_append_answers_in_json(directory: Path) -> None:
    (answer,) = json_lines(run("append", directory, "orders", "--json", given=b"more\n"))
    assert (answer["count"], answer["sequence_id"]) == (1, len(ORDERS))


def test_append_without_create_makes_nothing(tmp_path: Path, directory: Path) -> None:
    assert run("append", tmp_path / "typo", "orders", "--no-create", given=b"one\n").exit_code == 2
    assert not (tmp_path / "typo").exists()
    assert run("append", directory, "order", "--no-create", given=b"one\n").exit_code == 2
    assert [row["log"] for row in json_lines(run("ls", directory, "--json"))] == ["orders"]


# ---- cat, tail, ls, stat --------------------------------------------------------------------------------------------


def test_cat_shows_sequence_ids_and_escapes_what_is_not_text(directory: Path) -> None:
    lines = run("cat", directory, "orders").stdout.splitlines()
    assert [line.split(maxsplit=2)[0] for line in lines] == ["0", "1", "2", "3"]
    assert lines[1].endswith("  paid 42")
    assert lines[2].endswith("  \\x00\\xff")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from", "1", "--max", "2"], ORDERS[1:3]),
        (["--from", "end"], []),
        (["--from", "txid:0"], ORDERS),
        (["--from", "time:2000-01-01T00:00Z"], ORDERS),
        (["--from", "dlsn:1,0,3"], ORDERS[3:]),
        (["--max", "0"], []),
    ],
    ids=str,
)
def test_cat_starts_where_it_is_told(directory: Path, options: list[str], expected: list[bytes]) -> None:
    result = run("cat", directory, "orders", "--raw", *options)
    assert result.exit_code == 0, result.output
    assert result.stdout_bytes == b"".join(payload + b"\n" for payload in expected)


@pytest.mark.parametrize("place", ["middle", "-1", "txid:x", "dlsn:1,2", "time:noon", "seq:", "other:1"])
def test_cat_refuses_a_place_that_is_none(directory: Path, place: str) -> None:
    result = run("cat", directory, "orders", "--from", place)
    assert result.exit_code == 2
    assert "is no place in a log" in result.stderr


def test_cat_as_json_gives_text_as_text_and_bytes_as_base64(directory: Path) -> None:
    records = json_lines(run("cat", directory, "orders", "--json"))
    assert records[1]["payload"] == "paid 42"
    assert records[2]["payload_base64"] == "AP8="
    assert records[3]["dlsn"] == [1, 0, 3]


def test_tail_begins_so_many_records_before_the_end(directory: Path) -> None:
    assert run("tail", directory, "orders", "-n", "2", "--raw").stdout_bytes == b"\x00\xff\nsent 7\n"
    assert run("tail", directory, "orders", "-n", "0").stdout == ""
    assert len(run("tail", directory, "orders", "-n", "99").stdout.splitlines()) == len(ORDERS)
    assert run("tail", directory, "orders", "--lines", "1", "--raw").stdout_bytes == b"sent 7\n"
    assert run("tail", directory, "orders", "--lines=1", "--raw").stdout_bytes == b"sent 7\n"


@pytest.mark.parametrize("count", ["+2", "-1", "x", "", "1.5", str(2**63)])
def test_tail_refuses_what_is_no_count(directory: Path, count: str) -> None:
    """tail(1) begins with the line that +N names: to read the last N instead would be another answer."""
    result = run("tail", directory, "orders", "--lines", count)
    assert result.exit_code == 2
    assert "is no count" in result.stderr
    assert ("walkeeper cat --from" in result.stderr) is (count == "+2")


def test_tail_of_a_truncated_log_begins_at_what_is_left(directory: Path) -> None:
    assert run("truncate", directory, "orders", "--before", 3).exit_code == 0
    assert run("tail", directory, "orders", "--raw").stdout_bytes == b"sent 7\n"


def test_ls_counts_records_and_bytes(directory: Path) -> None:
    (row,) = json_lines(run("ls", directory, "--json"))
    assert (row["log"], row["records"], row["first_sequence_id"], row["next_sequence_id"]) == ("orders", 4, 0, 4)
    shown = run("ls", directory).stdout
    assert "orders" in shown
    assert "4" in shown


def test_stat_names_what_pins_space(tmp_path: Path) -> None:
    small = {"file_size_min": 65536, "file_size_max": 65536}
    with walkeeper.open(tmp_path / "wal", **small) as namespace, namespace.log("slow").writer() as writer:
        for _ in range(10):
            writer.append(b"x" * 30_000)
    (stats,) = json_lines(run("stat", tmp_path / "wal", "--json"))
    assert stats["logs_count"] == 1
    assert isinstance(stats["oldest_file"], int)
    assert stats["oldest_file"] > 0
    assert isinstance(stats["disk_bytes"], int)
    assert stats["disk_bytes"] > 10 * 30_000
    name = f"journal/{stats['oldest_file']:016x}.wkj"
    assert (tmp_path / "wal" / name).exists()
    shown = " ".join(run("stat", tmp_path / "wal").stdout.split())
    assert f"pinned longest {name}, by the log slow" in shown


def test_stat_names_the_cursor_that_keeps_truncation_from_freeing_anything(tmp_path: Path) -> None:
    small = {"file_size_min": 65536, "file_size_max": 65536}
    with walkeeper.open(tmp_path / "wal", **small) as namespace:
        log = namespace.log("slow")
        with log.writer() as writer:
            places = [writer.append(b"x" * 30_000) for _ in range(10)]
        for name in ("audit", "billing"):
            log.cursor(name)
    for name, held in (("audit", {"name": "billing", "sequence_id": 0}), ("billing", None)):
        with walkeeper.open(tmp_path / "wal", **small) as namespace:
            namespace.log("slow").cursor(name).advance(places[4])
        (stats,) = json_lines(run("stat", tmp_path / "wal", "--json"))
        assert (stats["oldest_log"], stats["oldest_cursor"]) == ("slow", held)
        shown = " ".join(run("stat", tmp_path / "wal").stdout.split())
        assert ("by the log slow: its cursor billing still needs record 0; moving that" in shown) is (held is not None)
        assert ("by the log slow: truncating it, or compaction, frees it" in shown) is (held is None)


# ---- truncate, backup -----------------------------------------------------------------------------------------------


def test_truncate_lets_go_of_what_lies_before(directory: Path) -> None:
    assert run("truncate", directory, "orders", "--before", 2).stdout == "2 records let go, 2 kept\n"
    assert payloads(directory, "orders") == ORDERS[2:]


def test_truncate_stops_at_a_cursor_unless_forced(directory: Path) -> None:
    with walkeeper.open(directory) as namespace:
        namespace.log("orders").cursor("billing")
    refused = run("truncate", directory, "orders", "--before", 2)
    assert refused.exit_code == 2
    assert "billing" in refused.stderr
    assert payloads(directory, "orders") == ORDERS
    assert run("truncate", directory, "orders", "--before", 2, "--force").exit_code == 0
    assert payloads(directory, "orders") == ORDERS[2:]


def test_a_backup_holds_what_the_directory_held(directory: Path, tmp_path: Path) -> None:
    assert run("backup", directory, tmp_path / "copy").exit_code == 0
    assert run("append", directory, "orders", given=b"later\n").exit_code == 0
    assert payloads(tmp_path / "copy", "orders") == ORDERS
    assert run("backup", directory, tmp_path / "copy").exit_code == 2


@pytest.mark.parametrize("below", [".", "copy", "journal/copy"])
def test_a_backup_into_the_directory_itself_is_refused_before_anything_is_made(directory: Path, below: str) -> None:
    with walkeeper.open(directory) as namespace:
        with pytest.raises(walkeeper.InvalidError, match="name a path outside"):
            namespace.backup(directory / below)
        folders = {folder.relative_to(directory).as_posix() for folder in directory.rglob("*") if folder.is_dir()}
        assert folders == {"journal", "entries", "index"}
    assert payloads(directory, "orders") == ORDERS


# ---- a directory in use ---------------------------------------------------------------------------------------------


def test_a_backup_that_fails_leaves_nothing_and_may_be_tried_again(tmp_path: Path) -> None:
    with walkeeper.open(tmp_path / "wal", file_size_min=65536, file_size_max=65536) as namespace:
        with namespace.log("orders").writer() as writer:
            for _ in range(100):
                writer.append(b"x" * 4000)
        sealed = sorted((tmp_path / "wal" / "journal").glob("*.wkj"))[1]
        aside = sealed.rename(tmp_path / "aside")
        with pytest.raises(walkeeper.Error, match=sealed.name):
            namespace.backup(tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
        aside.rename(sealed)
        namespace.backup(tmp_path / "copy")
    assert run("verify", tmp_path / "copy").exit_code == 0


@pytest.mark.parametrize("command", ["append", "truncate", "backup", "recover"])
def test_a_writing_command_refuses_a_directory_in_use_and_names_the_holder(
    directory: Path, tmp_path: Path, holder: subprocess.Popen[bytes], command: str
) -> None:
    more = {
        "append": ["orders"],
        "truncate": ["orders", "--before", 1],
        "backup": [tmp_path / "copy"],
        "recover": [tmp_path / "copy"],
    }[command]
    result = run(command, directory, *more, given=b"one\n")
    assert result.exit_code == 2
    assert str(holder.pid) in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "copy").exists()


def test_reading_commands_work_on_a_directory_in_use(directory: Path, holder: subprocess.Popen[bytes]) -> None:
    """Storage rule 27."""
    assert run("cat", directory, "orders", "--raw").stdout_bytes == b"".join(order + b"\n" for order in ORDERS)
    assert json_lines(run("ls", directory, "--json"))[0]["records"] == len(ORDERS)
    assert run("stat", directory).exit_code == 0
    assert run("verify", directory).exit_code == 0


@pytest.mark.parametrize("options", [["-n", "1", "-f"], ["-fn1"], ["--lines", "1", "--follow"]], ids=" ".join)
def test_tail_follows_a_writer_in_another_process(directory: Path, options: list[str]) -> None:
    with walkeeper.open(directory) as namespace, namespace.log("orders").writer() as writer:
        command = [*COMMAND, "tail", str(directory), "orders", *options, "--raw"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            patience = threading.Timer(20, process.kill)  # readline() has no time-out of its own
            patience.start()
            assert process.stdout.readline() == b"sent 7\n"
            writer.append(b"sent 8")
            assert process.stdout.readline() == b"sent 8\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
            patience.cancel()
    assert process.returncode == 130
    assert b"Traceback" not in said


# ---- how it ends ----------------------------------------------------------------------------------------------------


def test_a_broken_pipe_ends_quietly(tmp_path: Path) -> None:
    with walkeeper.open(tmp_path / "wal") as namespace, namespace.log("long").writer() as writer:
        writer.append_many([b"x" * 1000] * 5000)
    with subprocess.Popen(
        [*COMMAND, "cat", str(tmp_path / "wal"), "long"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"xxx" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=20) == 141


def test_ctrl_c_ends_with_130_and_keeps_what_was_appended(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "append", str(tmp_path / "wal"), "lines"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while b"one" not in run_process("cat", tmp_path / "wal", "lines").stdout:
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"1 record was appended before this" in said
    assert b"Traceback" not in said
    assert payloads(tmp_path / "wal", "lines") == [b"one"]


def test_an_error_is_a_sentence_and_a_traceback_on_demand(directory: Path) -> None:
    short = run_process("cat", directory, "no-such-log")
    assert short.returncode == 2
    assert b"no-such-log" in short.stderr
    assert b"Traceback" not in short.stderr
    long = run_process("cat", directory, "no-such-log", WALKEEPER_DEBUG="1")
    assert b"LogNotFoundError" in long.stderr
    assert b"Traceback" in long.stderr


def test_a_directory_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    for command in ("ls", "stat", "verify"):
        result = run(command, tmp_path / "nothing")
        assert result.exit_code == 2
        assert "does not exist" in result.stderr


def test_reading_commands_work_on_a_damaged_directory_and_leave_it_alone(tmp_path: Path) -> None:
    directory = tmp_path / "wal"
    file = twenty_orders(directory)  # the tenth is damaged
    before = file.read_bytes()
    for command, shown in (
        (("ls", directory), "orders"),
        (("stat", directory), "1 block cannot be read"),
        (("cat", directory, "orders"), "order number 19"),
        (("tail", directory, "orders"), "order number 18"),
    ):
        result = run(*command)
        assert result.exit_code == 1, result.output
        assert shown in result.stdout
        assert "damaged, what can be read is shown" in result.stderr
    lines = run("cat", directory, "orders", "--raw").stdout.splitlines()
    assert lines == [f"order number {number}" for number in range(20) if number != 9]
    assert file.read_bytes() == before


def test_cat_goes_on_behind_damage_that_only_reads_meet(tmp_path: Path) -> None:
    small_files(tmp_path / "wal")
    damage(tmp_path / "wal", b"order number 03")  # in a sealed file
    result = run("cat", tmp_path / "wal", "orders")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert len(lines) == 60
    assert "1 record is lost here" in lines[3]
    assert lines[59].endswith("order number 59")


# ---- verify, inspect ------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, Path]:
    """A directory with a bit turned in the tenth of twenty records; the file."""
    return tmp_path / "wal", twenty_orders(tmp_path / "wal")


def test_verify_of_a_clean_directory_is_0(directory: Path) -> None:
    (found,) = json_lines(run("verify", directory, "--json"))
    assert found["damaged"] == 0
    assert isinstance(found["entries"], int)
    assert found["entries"] > 0


def test_verify_of_a_damaged_directory_is_1_and_says_where(damaged: tuple[Path, Path]) -> None:
    directory, file = damaged
    result = run("verify", directory)
    assert result.exit_code == 1
    assert file.name in result.stdout


def test_verify_names_each_damaged_file_with_its_first_damage(tmp_path: Path) -> None:
    directory = small_files(tmp_path / "wal")
    first, second, *_ = sorted((directory / "journal").glob("*.wkj"))
    for file, at in ((first, 4096), (first, 3 * 4096), (first, 5 * 4096), (second, 2 * 4096)):
        flip(file, at + 9)
    result = run("verify", directory, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [(one["name"], one["damaged"]) for one in found["findings"]] == [
        (f"journal/{first.name}", 3),
        (f"journal/{second.name}", 1),
    ]
    assert "offset 4096" in found["findings"][0]["first"]
    assert found["first_damage"] == f"journal/{first.name}: {found['findings'][0]['first']}"
    shown = run("verify", directory).stdout
    assert f"where      journal/{first.name}: 3 damaged, the first: block " in shown
    assert f"           journal/{second.name}: block " in shown
    assert "more" not in shown


def test_verify_names_16_damaged_files_and_counts_the_rest(tmp_path: Path) -> None:
    directory = small_files(tmp_path / "wal", 150, 8000)
    files = [file for file in sorted((directory / "journal").glob("*.wkj")) if any(file.read_bytes()[8192:12288])]
    assert len(files) > 18
    for file in files[:18]:
        flip(file, 4096 + 9)
    found = json.loads(run("verify", directory, "--json").stdout)
    assert found["damaged"] == 18
    assert [one["name"] for one in found["findings"]] == [f"journal/{file.name}" for file in files[:16]]
    shown = run("verify", directory).stdout
    assert files[15].name in shown
    assert files[16].name not in shown
    assert "           and 2 more, in other files" in shown


def index_of(directory: Path) -> Path:
    (file,) = (directory / "index").glob("*.wki")
    return file


def test_verify_warns_of_a_damaged_index_and_that_is_no_damage(tmp_path: Path) -> None:
    directory = small_files(tmp_path / "wal")
    flip(index_of(directory), 5000)
    (found,) = json_lines(run("verify", directory, "--json"))
    assert (found["damaged"], found["warnings"]) == (0, 1)
    assert index_of(directory).name in str(found["first_warning"])
    shown = run("verify", directory)
    assert shown.exit_code == 0
    assert "Nothing is lost" in " ".join(shown.stdout.split())


def test_inspect_shows_an_index_to_people_and_programs(tmp_path: Path) -> None:
    file = index_of(small_files(tmp_path / "wal"))
    lines = json_lines(run("inspect", file, "--json"))
    files = [line for line in lines[1:] if "file" in line and "id" in line]
    assert (lines[0]["kind"], lines[0]["files"]) == ("index", len(files))
    for each in files:
        assert (file.parent.parent / str(each["name"])).exists()
    shown = run("inspect", file).stdout
    for word in ("generation", "replay epoch", "first entry", "entry log" if "entry log" in shown else "journal"):
        assert word in shown
    flip(file, 5000)
    assert run("inspect", file).exit_code == 1


def test_disk_bytes_are_those_of_all_files(tmp_path: Path) -> None:
    directory = small_files(tmp_path / "wal")
    (directory / "entries" / "00000000000000aa.damaged").write_bytes(b"x" * 12345)

    def all_files() -> int:
        return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())

    (stats,) = json_lines(run("stat", directory, "--json"))
    assert stats["disk_bytes"] == all_files()
    with walkeeper.open(directory, file_size_min=65536, file_size_max=65536) as namespace:
        until = time.monotonic() + 20
        while namespace.stats().disk_bytes != all_files() and time.monotonic() < until:
            time.sleep(0.05)  # a file is prepared
        assert namespace.stats().disk_bytes == all_files()


def test_verify_and_doctor_name_files_that_are_no_part_of_the_directory(directory: Path) -> None:
    strangers = {
        "entries/00000000000000aa.damaged": "set aside",
        "entries/00000000000000bb.tmp": "unfinished",
        "index/00000000000000ff.wki": "does not count",
        "journal/letter": "not walkeeper's",
        "notes.txt": "not walkeeper's",
    }
    for name in strangers:
        (directory / name).write_bytes(b"x" * 10)
    for command in ("verify", "doctor"):
        (found,) = json_lines(run(command, directory, "--json"))
        others = found["others"]
        assert isinstance(others, list)
        assert [(one["name"], one["size"]) for one in others] == [(name, 10) for name in strangers]
        assert all(meaning in one["what"] for meaning, one in zip(strangers.values(), others, strict=True))
        shown = run(command, directory)
        assert shown.exit_code == 0
        assert all(name in shown.stdout for name in strangers)


def test_inspect_describes_every_file_of_a_directory(directory: Path) -> None:
    for file in sorted(directory.rglob("*")):
        if file.is_file() and file.stat().st_size and file.name != "lock":
            for line in run("inspect", file, "--json", "--entries").stdout.splitlines():
                assert isinstance(json.loads(line), dict)
    file, _ = journal_with(directory, b"paid 42")
    shown = run("inspect", file, "--entries")
    assert shown.exit_code == 0
    assert "epoch" in shown.stdout


def test_inspect_of_a_damaged_file_is_1_and_shows_what_it_can(damaged: tuple[Path, Path]) -> None:
    _, file = damaged
    result = run("inspect", file)
    assert result.exit_code == 1
    assert result.stdout


def test_inspect_of_something_else_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear reader,\n" * 1000)
    result = run("inspect", tmp_path / "letter")
    assert result.exit_code != 0
    assert "Traceback" not in result.output
