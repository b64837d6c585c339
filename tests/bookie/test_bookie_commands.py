"""`walkeeper bookie …`: what operators do, and what is refused."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import socketserver
import struct
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from walkeeper._native import ffi, lib
from walkeeper.cli import _main as root
from walkeeper.errors import check, new_error
from walkeeper.metadata import Cookie, MemoryStore, open_store
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._state_files import LimboFile, LimboState, ReadOnlyFile
from walkeeper_bookie.commands import COMMANDS, bookie
from walkeeper_bookie.commands._client import V2, V3, Connection, entry_bytes

INSTANCE = "0b7d7a36-24f0-4c5e-9f5c-2f1c7f2f9a11"
NAMES = itertools.count()


def run(*arguments: object, typed: str = "") -> Result:
    return CliRunner().invoke(bookie, [str(argument) for argument in arguments], input=typed)


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


@pytest.fixture
def uri() -> str:
    """A cluster in memory."""
    uri = f"memory:commands-{next(NAMES)}"
    store = open_store(uri).store
    store.create("/ledgers/INSTANCEID", INSTANCE.encode(), parents=True)
    store.create("/ledgers/cookies")
    store.close()
    return uri


@pytest.fixture
def store(uri: str) -> Iterator[MemoryStore]:
    opened = open_store(uri).store
    assert isinstance(opened, MemoryStore)
    yield opened
    opened.close()


def make_store(path: Path, *ledgers: int) -> None:
    """A ledger store with two entries in each of these ledgers; the first of them is fenced."""
    options, out, error = ffi.new("wk_open_options *"), ffi.new("wk_namespace **"), new_error()
    lib.wk_open_options_init(options)
    options.kind = lib.WK_KIND_LEDGERS
    check(lib.wk_open(os.fsencode(path), options, out, error), error)
    for ledger_id in ledgers:
        for entry_id in (0, 1):
            entry = entry_bytes(ledger_id, entry_id, b"payload")
            add = ffi.new("wk_add *")
            keep = (ffi.from_buffer(entry), ffi.new("char[]", b"k" * 20))
            add.bytes, add.size, add.key, add.key_size = keep[0], len(entry), keep[1], 20
            check(lib.wk_ledger_add(out[0], add, 1, 2**64 - 1, True, error), error)
    for ledger_id in ledgers[:1]:
        check(lib.wk_ledger_fence(out[0], ledger_id, b"k" * 20, 20, 2**64 - 1, ffi.NULL, error), error)
    check(lib.wk_close(out[0], 2**64 - 1, error), error)


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """A data directory with a store of two ledgers."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    make_store(path / "ledgers", 5, 9)
    return DataDirectory(path)


@pytest.fixture
def serving(data: DataDirectory) -> Iterator[None]:
    """A bookie has the directory."""
    with open(data.store / "lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
    assert "bookie" not in shown.output
    assert "No such command" in CliRunner().invoke(root.commands, ["bookie"]).output


def test_walkeeper_itself_loads_no_bookie() -> None:
    here = Path(__file__).resolve().parents[2]
    code = "import sys, walkeeper.cli\nassert not [m for m in sys.modules if m.startswith('walkeeper_bookie')]"
    path = os.pathsep.join([str(here / "bookie"), str(here)])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})


# ---- limbo ----


def test_ledgers_are_put_into_limbo_and_taken_out_again(data: DataDirectory) -> None:
    assert run("limbo", "add", data.path, 9, 5, 7).exit_code == 0
    assert run("limbo", "list", data.path).stdout == "5\n7\n9\n"
    assert run("limbo", "clear", data.path, 5).exit_code == 0
    assert LimboFile(data.limbo).load() == LimboState(ledger_ids=array("q", [7, 9]))
    assert json.loads(run("limbo", "list", data.path, "--json").stdout) == {
        "everything": False,
        "ledgers": [7, 9],
        "cleared": [],
    }
    assert run("limbo", "clear", data.path, "--all").exit_code == 0
    assert not data.limbo.exists()


def test_single_ledgers_are_cleared_where_every_one_is_in_limbo(data: DataDirectory) -> None:
    assert run("limbo", "add", data.path, "--all").exit_code == 0
    assert run("limbo", "clear", data.path, 5).exit_code == 0
    assert LimboFile(data.limbo).load() == LimboState(everything=True, cleared=array("q", [5]))
    assert run("limbo", "list", data.path).stdout == "every ledger is in limbo, but for 1 that were cleared\n"
    assert "not in limbo: 5" in refused(run("limbo", "clear", data.path, 5))
    assert run("limbo", "clear", data.path, "--all").exit_code == 0
    assert not data.limbo.exists()


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


# ---- cookies and format ----


def test_a_formatted_directory_has_its_cookies_and_everything_in_limbo(tmp_path: Path, uri: str, store: Any) -> None:
    data = DataDirectory(tmp_path / "new")
    assert run("format", data.path, "--metadata", uri, "--bookie-id", "b1").exit_code == 0
    expected = Cookie("b1", (str(data.path),), (str(data.path),), INSTANCE)
    assert data.cookie.read_bytes() == store.get("/ledgers/cookies/b1").data == expected.serialise()
    assert LimboFile(data.limbo).load().everything
    assert run("inspect", data.path).exit_code == 0
    assert data.path.stat().st_mode & 0o777 == 0o700


def test_format_refuses_what_is_there_already(data: DataDirectory, tmp_path: Path, uri: str, store: Any) -> None:
    before = sorted(path for path in data.path.rglob("*"))
    assert "is not empty" in refused(run("format", data.path, "--metadata", uri, "--bookie-id", "b1"))
    assert before == sorted(path for path in data.path.rglob("*"))
    assert store.get("/ledgers/cookies/b1") is None
    run("format", tmp_path / "one", "--metadata", uri, "--bookie-id", "b1")
    again = run("format", tmp_path / "two", "--metadata", uri, "--bookie-id", "b1")
    assert "has been in this cluster before" in refused(again)
    assert not (tmp_path / "two").exists()


def test_format_by_force_needs_the_id_typed(data: DataDirectory, uri: str, store: Any) -> None:
    run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1")
    ReadOnlyFile(data.read_only).set(True)
    forced = ("format", data.path, "--metadata", uri, "--bookie-id", "b1", "--force")
    assert "nothing was changed" in refused(run(*forced, typed="b2\n"))
    assert len(run("inspect", data.path, "--json").stdout.splitlines()) == 2
    assert run(*forced, typed="b1\n").exit_code == 0
    assert run("inspect", data.path, "--json").stdout == ""
    assert not data.read_only.exists()
    assert data.cookie.read_bytes() == store.get("/ledgers/cookies/b1").data


def test_format_by_force_takes_no_other_bookies_directory_and_no_running_ones(
    data: DataDirectory, tmp_path: Path, uri: str, store: Any
) -> None:
    run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1")
    other = run("format", data.path, "--metadata", uri, "--bookie-id", "b2", "--force", typed="b2\n")
    assert "directory of bookie b1" in refused(other)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("years of work")
    strange = run("format", tmp_path / "home", "--metadata", uri, "--bookie-id", "b2", "--force", typed="b2\n")
    assert "nothing in it is removed" in refused(strange)
    assert (tmp_path / "home" / "thesis").exists()
    store.create("/ledgers/available/b1", parents=True)
    running = run("format", data.path, "--metadata", uri, "--bookie-id", "b1", "--force", typed="b1\n")
    assert "it runs" in refused(running)


@pytest.mark.usefixtures("serving")
def test_format_takes_no_directory_that_a_process_has(data: DataDirectory, uri: str) -> None:
    result = run("format", data.path, "--metadata", uri, "--bookie-id", "b1", "--force", typed="b1\n")
    assert "a bookie serves" in refused(result)


def test_no_cluster_and_no_parent_are_said(tmp_path: Path, uri: str) -> None:
    result = run("format", tmp_path / "new", "--metadata", f"{uri}-empty", "--bookie-id", "b1")
    assert "no INSTANCEID" in refused(result)
    deep = run("format", tmp_path / "a" / "b", "--metadata", uri, "--bookie-id", "b1")
    assert "is the disk mounted" in refused(deep)
    assert "bookie-id" in refused(run("format", tmp_path / "new", "--metadata", uri, "--bookie-id", "readonly"))


def test_a_cookie_that_is_missing_in_the_metadata_is_written_from_the_directory(
    data: DataDirectory, uri: str, store: Any
) -> None:
    cookie = Cookie("b1", (str(data.path),), (str(data.path),), INSTANCE)
    data.cookie.write_bytes(cookie.serialise())
    assert run("cookie", "create", data.path, "--metadata", uri).exit_code == 0
    assert store.get("/ledgers/cookies/b1").data == cookie.serialise()
    assert not data.limbo.exists()


def test_a_cookie_that_is_missing_in_the_directory_puts_everything_into_limbo(
    data: DataDirectory, uri: str, store: Any
) -> None:
    cookie = Cookie("b1", (str(data.path),), (str(data.path),), INSTANCE)
    store.create("/ledgers/cookies/b1", cookie.serialise())
    assert "give --bookie-id" in refused(run("cookie", "create", data.path, "--metadata", uri))
    assert run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1").exit_code == 0
    assert data.cookie.read_bytes() == cookie.serialise()
    assert LimboFile(data.limbo).load().everything


def test_another_cookie_is_not_replaced(data: DataDirectory, uri: str, store: Any) -> None:
    data.cookie.write_bytes(Cookie("b1", ("/old",), ("/old",), INSTANCE).serialise())
    assert "journal_dirs" in refused(run("cookie", "create", data.path, "--metadata", uri))
    assert store.get("/ledgers/cookies/b1") is None


def test_a_directory_without_ledgers_gets_no_cookie(tmp_path: Path, uri: str) -> None:
    assert "has no ledgers" in refused(run("cookie", "create", tmp_path, "--metadata", uri, "--bookie-id", "b1"))


def test_cookies_are_shown(data: DataDirectory, uri: str) -> None:
    run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1")
    for arguments in ([], ["b1"], ["--data", data.path]):
        assert f"b1: ledgers {data.path}" in run("cookie", "show", "--metadata", uri, *arguments).stdout
    assert "no cookie of b2" in run("cookie", "show", "--metadata", uri, "b2").stderr


def test_a_cookie_is_deleted_once_the_bookie_is_gone_and_its_id_typed(
    data: DataDirectory, uri: str, store: Any
) -> None:
    run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1")
    assert "nothing was changed" in refused(run("cookie", "delete", "--metadata", uri, "b1", typed="b2\n"))
    store.create("/ledgers/available/readonly/b1", parents=True)
    assert "it runs" in refused(run("cookie", "delete", "--metadata", uri, "b1", typed="b1\n"))
    store.delete("/ledgers/available/readonly/b1")
    assert run("cookie", "delete", "--metadata", uri, "b1", typed="b1\n").exit_code == 0
    assert store.get("/ledgers/cookies/b1") is None
    assert "has no cookie" in refused(run("cookie", "delete", "--metadata", uri, "b1", "--yes"))


def test_a_wrong_uri_and_a_wrong_id_are_said(uri: str) -> None:
    assert "nosuch" in refused(run("cookie", "show", "--metadata", "nosuch:x"))
    assert "bookie id" in refused(run("cookie", "show", "--metadata", uri, "a/b"))


# ---- migrate ----


def test_migrate_prints_toml_and_says_what_is_left_to_do(tmp_path: Path) -> None:
    file = tmp_path / "bk_server.conf"
    file.write_bytes(b"bookiePort=4181\n# caf\xe9\njournalSyncData=false\n")
    result = run("migrate", file)
    assert result.exit_code == 0
    assert 'listen = "0.0.0.0:4181"' in result.stdout
    assert "never acknowledged before it is durable" in result.stdout
    assert "write advertise" in result.stderr


# ---- sanity: the bytes, and what is told ----


class Model(socketserver.BaseRequestHandler):
    """A bookie in a dictionary; `answers` puts another code in place of some (protocol, operation)."""

    answers: ClassVar[dict[tuple[int, int], int]] = {}
    corrupt: ClassVar[bool] = False
    requests: ClassVar[list[bytes]] = []
    entries: ClassVar[dict[tuple[int, int], bytes]] = {}
    fenced: ClassVar[set[int]] = set()

    def handle(self) -> None:
        while head := self.request.recv(4, 0x100):
            payload = b""
            while len(payload) < int.from_bytes(head, "big"):
                payload += self.request.recv(65536)
            Model.requests.append(payload)
            reply = self.v3(payload) if payload[0] == 0x0A else self.v2(payload)
            self.request.sendall(struct.pack(">I", len(reply)) + reply)

    def add(self, entry: bytes) -> int:
        ledger, entry_id = struct.unpack(">qq", entry[:16])
        if ledger in Model.fenced:
            return 504
        Model.entries[ledger, entry_id] = entry[:-1] + b"?" if Model.corrupt else entry
        return 0

    def read(self, ledger: int, entry_id: int) -> tuple[int, bytes]:
        known = [at for of, at in Model.entries if of == ledger]
        if not known:
            return 402, b""
        found = Model.entries.get((ledger, max(known) if entry_id == -1 else entry_id))
        return (403, b"") if found is None else (0, found)

    def v2(self, payload: bytes) -> bytes:
        operation, flags = payload[1], int.from_bytes(payload[2:4], "big")
        body = b""
        if operation == 1:
            ledger, entry_id = struct.unpack(">qq", payload[24:40])
            code = self.add(payload[24:])
        else:
            ledger, entry_id = struct.unpack(">qq", payload[4:20])
            if flags & 1:
                assert len(payload) == 40
                Model.fenced.add(ledger)
            code, body = self.read(ledger, entry_id)
        code = {0: 0, 402: 1, 403: 2, 504: 104}[code]
        code = Model.answers.get((V2, operation), code)
        return struct.pack(">BBHiqq", 2, operation, 0, code, ledger, entry_id) + (body if code == 0 else b"")

    def v3(self, payload: bytes) -> bytes:
        from walkeeper_bookie.commands._client import _bytes, _fields, _number

        message = _fields(payload)
        head = _fields(message[1])  # type: ignore[arg-type]
        operation = head[2]
        assert isinstance(operation, int)
        field = {1: 100, 2: 101, 8: 105}[operation]
        inner: Any = _fields(message[field])  # type: ignore[arg-type]
        more, code = b"", 0
        if operation == 2:
            code = self.add(inner[4])
        elif operation == 1:
            code, body = self.read(inner[1], inner[2])
            more = _bytes(4, body) if code == 0 else b""
        else:
            more = _number(2, 1000) + _number(3, 600)
        code = Model.answers.get((V3, operation), code)
        return _bytes(1, message[1]) + _number(2, code) + _bytes(field, _number(1, code) + more)  # type: ignore[arg-type]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in (("answers", {}), ("requests", []), ("entries", {}), ("fenced", set()), ("corrupt", False)):
        monkeypatch.setattr(Model, name, value)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Model) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_sound_bookie_is_sane(model: str) -> None:
    result = run("sanity", model)
    assert result.exit_code == 0, result.output
    assert "600 of 1,000 bytes are free" in result.stdout
    assert len(Model.entries) == 2
    assert all(ledger >= 2**62 for ledger, _ in Model.entries)
    assert Model.fenced


def test_without_writing_nothing_is_added(model: str) -> None:
    assert run("sanity", model, "--no-write").exit_code == 0
    assert Model.entries == {}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({(V2, 2): 2}, "code 2 instead of 1 (no such ledger)"),
        ({(V3, 1): 403}, "code 403 instead of 402"),
        ({(V3, 8): 501}, "code 501 instead of 0"),
        ({(V2, 1): 101}, "code 101 instead of 0 (the add is durable)"),
        ({(V3, 2): 502}, "code 502 instead of 0 (the add is durable)"),
    ],
)
def test_a_wrong_answer_is_named(model: str, answers: dict[tuple[int, int], int], said: str) -> None:
    Model.answers.update(answers)
    result = run("sanity", model)
    assert result.exit_code == 1
    assert f"WRONG: {said}" in result.stderr


def test_an_entry_that_comes_back_otherwise_is_named(model: str) -> None:
    Model.corrupt = True
    result = run("sanity", model)
    assert result.exit_code == 1
    assert "not the one that was added" in result.stderr


def test_read_only_and_limbo_are_states_and_no_defects(model: str) -> None:
    Model.answers.update({(V2, 1): 105, (V3, 1): 507, (V2, 2): 101})
    result = run("sanity", model)
    assert result.exit_code == 0, result.output
    assert "read-only" in result.stdout
    assert "limbo" in result.stdout


def test_an_address_where_nobody_answers_is_said() -> None:
    assert "does not answer" in refused(run("sanity", "127.0.0.1:1", "--timeout", "5"))
    assert "HOST:PORT" in refused(run("sanity", "nowhere"))


def test_the_bytes_are_bookkeepers(model: str) -> None:
    host, port = model.split(":")
    key = "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    with Connection(host, int(port), V2, 30) as v2, Connection(host, int(port), V3, 30) as v3:
        v2.add(1, 0, b"hello")
        v2.read(1, -1, fence=True)
        v3.read(1, -1)
    entry = "00000000000000010000000000000000ffffffffffffffff0000000000000005" + "0000000030a56872" + "68656c6c6f"
    assert [request.hex() for request in Model.requests] == [
        "02010000" + key + entry,
        "02020001" + "0000000000000001" + "ffffffffffffffff" + key,
        "0a060803100118" + "01" + "a2060d" + "0801" + "10ffffffffffffffffff01",
    ]
