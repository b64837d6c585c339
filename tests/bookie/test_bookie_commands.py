"""`walkeeper bookie …`: what operators do, and what is refused."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, ClassVar

import pytest
from bookie_commands import make_logs, refused, run
from click.testing import CliRunner

from walkeeper._native import ffi, lib
from walkeeper.cli import _main as root
from walkeeper.errors import check, new_error
from walkeeper.metadata import MemoryStore
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._limbo import Limbo
from walkeeper_bookie._log import Log
from walkeeper_bookie._metadata import BookieMetadata
from walkeeper_bookie._state_files import LimboFile, LimboState, ReadOnlyFile
from walkeeper_bookie.commands import COMMANDS

pytest_plugins = ["bookie_commands"]


# ---- the group ----


def test_every_command_has_a_help_of_its_own() -> None:
    shown = run("--help")
    assert shown.exit_code == 0
    for name in COMMANDS:
        assert name in shown.output
        assert run(name, "--help").exit_code == 0
    assert run("no-such-command").exit_code == 2


def added(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    points = EntryPoints([EntryPoint("bookie", f"{module}:bookie", root.Commands.added_by)])
    monkeypatch.setattr(root, "entry_points", lambda **select: points.select(**select))


def test_walkeeper_shows_the_group_where_the_package_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, "walkeeper_bookie.commands")
    assert "bookie" in CliRunner().invoke(root.commands, ["--help"]).output
    result = CliRunner().invoke(root.commands, ["bookie", "limbo", "list", "/nowhere"])
    assert result.exit_code == 2
    assert CliRunner().invoke(root.commands, ["bookie", "--help"]).exit_code == 0


def test_walkeeper_does_not_show_it_where_the_package_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, "walkeeper_bookie_that_is_not_installed.commands")
    shown = CliRunner().invoke(root.commands, ["--help"])
    assert shown.exit_code == 0
    names = re.findall(r"^  (\S+) ", shown.output, re.MULTILINE)
    assert "ledgers" in names
    assert "bookie" not in names
    assert "No such command" in CliRunner().invoke(root.commands, ["bookie"]).output


def test_walkeeper_itself_loads_no_bookie() -> None:
    here = Path(__file__).resolve().parents[2]
    code = "import sys, walkeeper.cli\nassert not [m for m in sys.modules if m.startswith('walkeeper_bookie')]"
    path = os.pathsep.join([str(here / "bookie"), str(here)])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})


# ---- directories ----


def test_a_directory_that_is_no_bookies_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    """Who reads "read-only" relies on it."""
    (tmp_path / "x").mkdir()
    for words in (
        ["readonly", "on", "--data", tmp_path / "x"],
        ["readonly", "status", "--data", tmp_path / "x"],
        ["limbo", "add", tmp_path / "x", 7],
        ["limbo", "list", tmp_path / "x"],
        ["inspect", tmp_path / "x"],
    ):
        assert "no bookie's data directory" in refused(run(*words))
    assert list((tmp_path / "x").iterdir()) == []


def test_a_namespace_of_logs_is_no_bookies_ledgers(tmp_path: Path, uri: str, store: Any) -> None:
    make_logs(tmp_path / "data" / "ledgers")
    for words in (
        ["readonly", "on", "--data", tmp_path / "data"],
        ["limbo", "add", tmp_path / "data", 7],
        ["inspect", tmp_path / "data"],
        ["cookie", "create", tmp_path / "data", "--metadata", uri, "--bookie-id", "b1"],
    ):
        assert "is a namespace of logs" in refused(run(*words))
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["ledgers"]
    assert store.get("/ledgers/cookies/b1") is None


def test_of_a_store_under_repair_limbo_and_readonly_are_written_and_no_cookie(
    data: DataDirectory, uri: str, store: Any
) -> None:
    (data.store / "superblock").write_bytes(b"rubbish")
    said = refused(run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1"))
    assert "both slots of the superblock are damaged" in said
    assert store.get("/ledgers/cookies/b1") is None
    assert not data.cookie.exists()
    assert run("readonly", "on", "--data", data.path).exit_code == 0
    assert run("limbo", "add", data.path, "--all").exit_code == 0


def test_the_store_in_a_data_directory_is_not_taken_for_it(data: DataDirectory) -> None:
    before = sorted(data.store.iterdir())
    for words in (["readonly", "on", "--data", data.store], ["limbo", "add", data.store, 7]):
        assert f"give {data.path}" in refused(run(*words))
    assert sorted(data.store.iterdir()) == before


# ---- limbo ----


def test_ledgers_are_put_into_limbo_and_taken_out_again(data: DataDirectory) -> None:
    assert run("limbo", "add", data.path, 9, 5, 7).exit_code == 0
    assert run("limbo", "list", data.path).stdout == "5\n7\n9\n"
    assert run("limbo", "clear", data.path, 5).exit_code == 0
    assert LimboFile(data.limbo).load() == LimboState(ledger_ids=array("q", [7, 9]), unfenced=array("q", [5]))
    assert json.loads(run("limbo", "list", data.path, "--json").stdout) == {
        "everything": False,
        "ledgers": [7, 9],
        "cleared": [],
        "unfenced": [5],
    }
    assert run("limbo", "clear", data.path, "--all").exit_code == 0
    assert LimboFile(data.limbo).load() == LimboState(unfenced=array("q", [5, 7, 9]))
    assert run("limbo", "list", data.path).stderr == (
        "nothing is in limbo\n3 that were cleared are fenced when the bookie starts\n"
    )


def test_single_ledgers_are_cleared_where_every_one_is_in_limbo(data: DataDirectory) -> None:
    assert run("limbo", "add", data.path, "--all").exit_code == 0
    assert run("limbo", "clear", data.path, 5).exit_code == 0
    assert LimboFile(data.limbo).load() == LimboState(True, cleared=array("q", [5]), unfenced=array("q", [5]))
    assert run("limbo", "list", data.path).stdout == "every ledger is in limbo, but for 1 that were cleared\n"
    assert "not in limbo: 5" in refused(run("limbo", "clear", data.path, 5))
    assert run("limbo", "clear", data.path, "--all").exit_code == 0
    assert LimboFile(data.limbo).load() == LimboState(unfenced=array("q", [5]))


class Fences:
    """Stands for the ledger store: what was fenced."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def fence(self, ledger_ids: Iterable[int]) -> None:
        self.ids.extend(ledger_ids)


@pytest.mark.parametrize("cleared", [(7,), ("--all",)])
@pytest.mark.parametrize("between", [(), ("add", "--all"), ("add", 8)])
def test_who_is_cleared_before_a_start_is_fenced_by_it(
    data: DataDirectory, cleared: tuple[object, ...], between: tuple[object, ...]
) -> None:
    run("limbo", "add", data.path, 7)
    assert run("limbo", "clear", data.path, *cleared).exit_code == 0
    if between:
        assert run("limbo", between[0], data.path, *between[1:]).exit_code == 0
    fences, file = Fences(), LimboFile(data.limbo)
    limbo = Limbo(file, BookieMetadata(MemoryStore(), "/ledgers"), fences, "b", "i", Log(io.StringIO()))
    limbo.load()
    assert 7 in fences.ids
    assert len(limbo.state.unfenced) == len(file.load().unfenced) == 0
    assert data.limbo.exists() == bool(between)


def test_a_ledger_that_is_not_in_limbo_is_said_and_nothing_is_changed(data: DataDirectory) -> None:
    run("limbo", "add", data.path, 5)
    assert "not in limbo: 6" in refused(run("limbo", "clear", data.path, 5, 6))
    assert list(LimboFile(data.limbo).load().ledger_ids) == [5]


@pytest.mark.parametrize("arguments", [[], ["5", "--all"], ["-1"], ["x"], [str(2**63)]])
def test_ledgers_or_all_of_them_must_be_named(data: DataDirectory, arguments: list[str]) -> None:
    for command in ("add", "clear"):
        refused(run("limbo", command, data.path, *arguments))
    assert not data.limbo.exists()


@pytest.mark.usefixtures("serving")
def test_limbo_of_a_running_bookie_is_listed_and_not_changed(data: DataDirectory) -> None:
    LimboFile(data.limbo).save(LimboState(ledger_ids=array("q", [5])))
    assert run("limbo", "list", data.path).stdout == "5\n"
    assert "stop it; it reads this when it starts; or tell the bookie itself: --http" in refused(
        run("limbo", "clear", data.path, 5)
    )
    assert "stop it" in refused(run("limbo", "add", data.path, 6))
    assert list(LimboFile(data.limbo).load().ledger_ids) == [5]


def test_a_damaged_file_is_said_with_its_remedy_which_works(data: DataDirectory) -> None:
    data.limbo.write_bytes(b"rubbish\n")
    assert "remove the file, then walkeeper bookie limbo add --all" in refused(run("limbo", "list", data.path))
    data.limbo.unlink()
    assert run("limbo", "add", data.path, "--all").exit_code == 0
    assert LimboFile(data.limbo).load().everything


# ---- readonly ----


def test_the_wish_is_a_file_in_the_directory(data: DataDirectory) -> None:
    assert run("readonly", "status", "--data", data.path).stdout == "writable\n"
    assert run("readonly", "on", "--data", data.path, "--reason", "moving").stdout == "read-only\n"
    assert ReadOnlyFile(data.read_only).wished()
    shown = run("readonly", "status", "--data", data.path)
    assert shown.stdout == "read-only\n"
    assert "moving" in shown.stderr
    assert run("readonly", "off", "--data", data.path).stdout == "writable\n"


class Switch(BaseHTTPRequestHandler):
    """A running bookie's switch; a full disk holds it where `full`."""

    read_only: ClassVar[bool] = False
    full: ClassVar[bool] = False
    status: ClassVar[int] = 200

    def do_GET(self) -> None:
        body = json.dumps({"readOnly": Switch.read_only or Switch.full}).encode()
        self.send_response(Switch.status if self.path == "/api/v1/bookie/state/readonly" else 404)
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        Switch.read_only = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["readOnly"]
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr(Switch, "read_only", False)
    with HTTPServer(("127.0.0.1", 0), Switch) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_running_bookie_is_told_by_http_and_no_proxy_is_asked(http: str) -> None:
    assert run("readonly", "status", "--http", http).stdout == "writable\n"
    assert run("readonly", "on", "--http", http).stdout == "read-only\n"
    assert Switch.read_only
    assert run("readonly", "off", "--http", http).stdout == "writable\n"
    assert not Switch.read_only


def test_a_bookie_that_stays_read_only_is_said_to_have_another_reason(
    http: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Switch, "full", True)
    result = run("readonly", "off", "--http", http)
    assert result.stdout == "read-only\n"
    assert "full disk" in result.stderr


def test_what_the_bookie_refuses_is_told(http: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Switch, "status", 403)
    assert "answers 403" in refused(run("readonly", "on", "--http", http))


def test_where_nobody_listens_the_directory_is_named_as_the_other_way() -> None:
    assert "--data DIR" in refused(run("readonly", "on", "--http", "127.0.0.1:1"))
    assert "? DIR in its place" in refused(run("limbo", "list", "--http", "127.0.0.1:1"))
    assert "limbo clear DIR" in refused(run("limbo", "clear", "5", "--http", "127.0.0.1:1"))


def test_one_of_http_and_data_is_needed(data: DataDirectory) -> None:
    refused(run("readonly", "on"))
    refused(run("readonly", "on", "--http", "127.0.0.1:1", "--data", data.path))
    refused(run("readonly", "on", "--http", "nowhere"))


# ---- inspect ----


def test_ledgers_are_shown_with_entries_lac_and_fence(data: DataDirectory) -> None:
    shown = [json.loads(line) for line in run("inspect", data.path, "--entries", "--json").stdout.splitlines()]
    assert [(one["ledger"], one["entries"], one["last_entry"], one["lac"], one["fenced"]) for one in shown] == [
        (5, 2, 1, 0, True),
        (9, 2, 1, 0, False),
    ]
    assert all(one["ranges"] == [[0, 1]] for one in shown)
    assert shown[0]["key"] == (b"k" * 20).hex()
    table = run("inspect", data.path, 9, "--entries").stdout.splitlines()
    assert table[1].split() == ["9", "2", str(shown[1]["bytes"]), "1", "0", "no", "yes"]
    assert table[2].split() == ["0-1"]


def test_what_is_not_there_is_said(data: DataDirectory, tmp_path: Path) -> None:
    assert "no ledger 6" in refused(run("inspect", data.path, 6))
    (tmp_path / "empty").mkdir()
    assert "no bookie's data directory" in refused(run("inspect", tmp_path / "empty"))


def test_a_running_bookie_is_not_disturbed_by_inspect(data: DataDirectory) -> None:
    options, out, error = ffi.new("wk_open_options *"), ffi.new("wk_namespace **"), new_error()
    program = (
        "import fcntl, sys; f = open(sys.argv[1], 'rb+'); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    holder = [sys.executable, "-c", program, str(data.store / "lock")]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert "stop the bookie" in refused(run("inspect", data.path))
        process.communicate()
    lib.wk_open_options_init(options)
    options.kind = lib.WK_KIND_LEDGERS
    check(lib.wk_open(os.fsencode(data.store), options, out, error), error)
    check(lib.wk_close(out[0], 2**64 - 1, error), error)


# ---- migrate ----


def test_migrate_prints_toml_and_says_what_is_left_to_do(tmp_path: Path) -> None:
    file = tmp_path / "bk_server.conf"
    file.write_bytes(b"bookiePort=4181\n# caf\xe9\njournalSyncData=false\n")
    result = run("migrate", file)
    assert result.exit_code == 0
    assert 'listen = "0.0.0.0:4181"' in result.stdout
    assert "never acknowledged before it is durable" in result.stdout
    assert "write advertise" in result.stderr
