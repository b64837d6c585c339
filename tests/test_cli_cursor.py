"""walkeeper cursor: list, set and delete the cursors of logs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import json_lines, payloads, run

import walkeeper
from walkeeper.directory._cursor import DirectoryCursor
from walkeeper.directory._log import DirectoryLog

RECORDS = 6


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The logs orders and sales of six records, with txids 0, 10, 20 ...; orders has the cursors billing and mail."""
    with walkeeper.open(tmp_path / "wal") as namespace:
        for name in ("orders", "sales"):
            with namespace.log(name).writer() as writer:
                for number in range(RECORDS):
                    writer.append(b"%d" % number, txid=10 * number)
        orders = namespace.log("orders")
        orders.cursor("mail")
        orders.cursor("billing").advance(orders.find(sequence_id=2))
    return tmp_path / "wal"


def cursors(directory: Path, log: str = "orders") -> dict[str, int]:
    with walkeeper.open(directory, read_only=True) as namespace:
        opened = namespace.log(log, create=False)
        return {name: opened.cursor(name, create=False).position.sequence_id for name in opened.cursors()}


def told(name: str, sequence_id: int, log: str = "orders") -> dict[str, Any]:
    """A cursor in JSON, but for the DLSN."""
    return {"log": log, "cursor": name, "sequence_id": sequence_id, "lag": RECORDS - sequence_id}


def without_dlsn(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for line in lines:
        assert len(line.pop("dlsn")) == 3
    return lines


# ---- ls -------------------------------------------------------------------------------------------------------------


def test_ls_tells_where_each_cursor_stands(directory: Path) -> None:
    with walkeeper.open(directory) as namespace:
        namespace.log("sales").cursor("audit")
    every = without_dlsn(json_lines(run("cursor", "ls", directory, "--json")))
    assert every == [told("billing", 2), told("mail", 0), told("audit", 0, "sales")]
    assert without_dlsn(json_lines(run("cursor", "ls", directory, "sales", "--json"))) == [told("audit", 0, "sales")]
    shown = run("cursor", "ls", directory, "orders").stdout.splitlines()
    assert shown[0].split() == ["log", "cursor", "record", "dlsn", "lag"]
    assert [line.split()[:3] for line in shown[2:]] == [["orders", "billing", "2"], ["orders", "mail", "0"]]
    assert [line.split()[-1] for line in shown[2:]] == ["4", "6"]


def test_ls_of_no_cursors_says_so_and_an_unknown_log_is_refused(directory: Path) -> None:
    none = run("cursor", "ls", directory, "sales")
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "no cursors\n")
    assert json_lines(run("cursor", "ls", directory, "sales", "--json")) == []
    missing = run("cursor", "ls", directory, "returns")
    assert missing.exit_code == 2
    assert "has no log returns" in missing.stderr


def test_ls_works_on_a_directory_in_use_and_leaves_out_what_is_deleted_meanwhile(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with walkeeper.open(directory) as namespace:
        orders = namespace.log("orders")
        names = DirectoryLog.cursors

        def late(self: DirectoryLog) -> list[str]:
            found = names(self)
            if "mail" in found:
                orders.cursor("mail").delete()
            return found

        monkeypatch.setattr(DirectoryLog, "cursors", late)
        assert [line["cursor"] for line in json_lines(run("cursor", "ls", directory, "--json"))] == ["billing"]


# ---- set ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "expected"), [("3", 3), ("end", 6), ("6", 6), ("txid:25", 3), ("txid:999", 6), ("dlsn:1,4,0", 4)]
)
def test_set_moves_a_cursor_forward(directory: Path, place: str, expected: int) -> None:
    done = run("cursor", "set", directory, "orders", "billing", "--to", place)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"billing is moved from record 2 to record {expected} (")
    assert cursors(directory) == {"billing": expected, "mail": 0}


def test_set_to_where_it_stands_changes_nothing(directory: Path) -> None:
    assert run("cursor", "set", directory, "orders", "billing", "--to", 2).stdout.startswith(
        "billing stands at record 2 ("
    )
    assert cursors(directory) == {"billing": 2, "mail": 0}


@pytest.mark.parametrize("place", ["1", "start", "txid:0", "dlsn:1,0,0"])
def test_set_does_not_move_a_cursor_back_and_says_what_does(directory: Path, place: str) -> None:
    refused = run("cursor", "set", directory, "orders", "billing", "--to", place, "--create")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "it only moves forward" in refused.stderr
    assert "walkeeper cursor delete" in refused.stderr
    assert cursors(directory) == {"billing": 2, "mail": 0}
    assert run("cursor", "delete", directory, "orders", "billing").exit_code == 0
    assert run("cursor", "set", directory, "orders", "billing", "--to", place, "--create").exit_code == 0
    assert cursors(directory)["billing"] < 2


@pytest.mark.parametrize("place", ["7", "dlsn:9,0,0"])
def test_set_past_the_end_is_refused(directory: Path, place: str) -> None:
    refused = run("cursor", "set", directory, "orders", "billing", "--to", place)
    assert refused.exit_code == 2
    assert "its next one will be 6" in refused.stderr or "the log ends at" in refused.stderr
    assert cursors(directory) == {"billing": 2, "mail": 0}


def test_set_makes_a_cursor_only_where_it_is_asked_to(directory: Path) -> None:
    refused = run("cursor", "set", directory, "orders", "biling", "--to", 3)
    assert refused.exit_code == 2
    assert "has no cursor 'biling'" in refused.stderr
    assert "--create" in refused.stderr
    assert set(cursors(directory)) == {"billing", "mail"}
    made = run("cursor", "set", directory, "orders", "audit", "--to", 3, "--create")
    assert made.stdout.startswith("audit is made, at record 3 (")
    assert cursors(directory) == {"audit": 3, "billing": 2, "mail": 0}
    again = run("cursor", "set", directory, "orders", "audit", "--to", 4, "--create", "--json")
    assert without_dlsn(json_lines(again)) == [told("audit", 4)]


def test_a_cursor_that_is_made_needs_no_more_than_was_asked_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At no moment does it stand at the first record: a crash would leave it there."""
    places: list[int] = []
    put = DirectoryCursor._set

    def noted(cursor: walkeeper.Cursor, position: walkeeper.Position) -> None:
        places.append(position.sequence_id)
        put(cursor, position)

    monkeypatch.setattr(DirectoryCursor, "_set", noted)
    assert run("cursor", "set", directory, "sales", "audit", "--to", "dlsn:1,4,0", "--create").exit_code == 0
    assert places == [4]


def test_set_to_what_was_truncated_is_refused(directory: Path) -> None:
    assert run("truncate", directory, "sales", "--before", 3).exit_code == 0
    for place in ("1", "dlsn:1,1,0"):
        refused = run("cursor", "set", directory, "sales", "audit", "--to", place, "--create")
        assert refused.exit_code == 2
        assert "truncated" in refused.stderr
        assert "--to start" in refused.stderr
        assert "--from" not in refused.stderr
    assert run("cursor", "set", directory, "sales", "audit", "--to", "start", "--create").exit_code == 0
    assert cursors(directory, "sales") == {"audit": 3}


@pytest.mark.parametrize("words", ["--to x", "", "--to 99999999999999999999", "--to dlsn:1"])
def test_a_place_that_is_none_is_a_usage_error(directory: Path, words: str) -> None:
    result = run("cursor", "set", directory, "orders", "billing", *words.split())
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
    assert cursors(directory) == {"billing": 2, "mail": 0}


# ---- delete ---------------------------------------------------------------------------------------------------------


def test_delete_forgets_a_cursor(directory: Path) -> None:
    done = run("cursor", "delete", directory, "orders", "billing")
    assert done.stdout == "billing is deleted; it stood at record 2, 4 records before the end\n"
    assert cursors(directory) == {"mail": 0}
    assert without_dlsn(json_lines(run("cursor", "delete", directory, "orders", "mail", "--json"))) == [told("mail", 0)]
    missing = run("cursor", "delete", directory, "orders", "mail")
    assert missing.exit_code == 2
    assert "has no cursor 'mail'" in missing.stderr
    assert "walkeeper cursor ls" in missing.stderr


# ---- with truncate, and a directory in use --------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["set", "delete"])
def test_what_truncate_advises_lets_it_truncate(directory: Path, way: str) -> None:
    for name in ("mail", "billing"):
        refused = run("truncate", directory, "orders", "--before", 4)
        assert refused.exit_code == 2
        assert f"the cursor '{name}' still needs records" in refused.stderr
        assert f"walkeeper cursor {way}" in refused.stderr
        more = ["--to", "4"] if way == "set" else []
        assert run("cursor", way, directory, "orders", name, *more).exit_code == 0
    assert run("truncate", directory, "orders", "--before", 4).exit_code == 0
    assert payloads(directory, "orders") == [b"4", b"5"]


@pytest.mark.parametrize("words", [["set", "--to", "3"], ["delete"]], ids=" ".join)
def test_a_directory_in_use_is_refused_and_its_holder_named(directory: Path, words: list[str]) -> None:
    program = (
        f"import walkeeper, sys; n = walkeeper.open({str(directory)!r}); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        result = run("cursor", words[0], directory, "orders", "billing", *words[1:])
        holder.communicate()
    assert result.exit_code == 2
    assert f"process {holder.pid}" in result.stderr
    assert cursors(directory) == {"billing": 2, "mail": 0}


def test_the_help_names_the_commands() -> None:
    assert "cursor" in run("--help").stdout
    said = run("cursor", "--help").stdout
    assert all(f"\n  {command} " in said for command in ("delete", "ls", "set"))
    assert "never moves back" in run("cursor", "set", "--help").stdout
