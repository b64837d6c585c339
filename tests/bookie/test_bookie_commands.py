"""`walkeeper bookie …`: what operators do, and what is refused."""

from __future__ import annotations

import fcntl
import io
import itertools
import json
import os
import shutil
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
from click.testing import CliRunner, Result

import walkeeper
from walkeeper._native import ffi, lib
from walkeeper.cli import _main as root
from walkeeper.errors import InvalidError, check, new_error
from walkeeper.metadata import Cookie, MemoryStore, open_store
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._identity import establish, expected_cookie
from walkeeper_bookie._limbo import Limbo
from walkeeper_bookie._log import Log
from walkeeper_bookie._metadata import BookieMetadata, open_metadata
from walkeeper_bookie._state_files import LimboFile, LimboState, ReadOnlyFile
from walkeeper_bookie.commands import COMMANDS, bookie
from walkeeper_bookie.commands._client import entry_bytes

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


def make_logs(path: Path) -> None:
    """A namespace of logs with one record."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with walkeeper.open(path) as namespace, namespace.log("orders").writer() as writer:
        writer.append(b"a year of orders")


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
    }
    assert run("limbo", "clear", data.path, "--all").exit_code == 0
    assert LimboFile(data.limbo).load() == LimboState(unfenced=array("q", [5, 7, 9]))
    assert "nothing is in limbo" in run("limbo", "list", data.path).stderr


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


# ---- cookies and format ----


def test_a_formatted_directory_has_its_cookies_and_everything_in_limbo(tmp_path: Path, uri: str, store: Any) -> None:
    data = DataDirectory(tmp_path / "new")
    assert run("format", data.path, "--metadata", uri, "--bookie-id", "b1").exit_code == 0
    expected = Cookie("b1", (str(data.path),), (str(data.path),), INSTANCE)
    assert data.cookie.read_bytes() == store.get("/ledgers/cookies/b1").data == expected.serialise()
    assert LimboFile(data.limbo).load().everything
    assert run("inspect", data.path).exit_code == 0
    assert data.path.stat().st_mode & 0o777 == 0o700


def test_a_format_killed_behind_the_cookie_of_the_cluster_is_finished_by_the_next_start(
    tmp_path: Path, uri: str, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    def kill(*_: object) -> None:
        raise KilledError

    data = DataDirectory(tmp_path / "new")
    words = ["format", str(data.path), "--metadata", uri, "--bookie-id", "b1"]
    with monkeypatch.context() as killed:
        killed.setattr("walkeeper_bookie.commands._format.os.rename", kill)
        with pytest.raises(KilledError):
            bookie.main(words, standalone_mode=False)
    assert not data.cookie.exists()
    assert store.get("/ledgers/cookies/b1") is not None
    metadata = open_metadata(uri, 10.0, create=False)
    expected = expected_cookie("b1", data.path, INSTANCE)
    assert establish(metadata, data, expected, lambda: True, init=False)
    metadata.close()
    assert data.cookie.read_bytes() == expected.serialise()
    assert LimboFile(data.limbo).load().everything


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


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_format_by_force_takes_no_namespace_of_logs(tmp_path: Path, uri: str, store: Any) -> None:
    make_logs(tmp_path / "data" / "ledgers")
    words = ("format", tmp_path / "data", "--metadata", uri, "--bookie-id", "b1")
    before = everything_in(tmp_path)
    assert "--force" not in refused(run(*words))
    assert "is a namespace of logs" in refused(run(*words, "--force", typed="b1\n"))
    assert everything_in(tmp_path) == before
    assert store.get("/ledgers/cookies/b1") is None


@pytest.mark.parametrize(
    "files",
    [["ledgers/2025.csv"], ["ledgers/journal/2025.csv"], ["ledgers/superblock/a"], ["ledgers"]],
)
@pytest.mark.parametrize("beside", [[], ["invoices"], ["VERSION.new"]])
def test_format_by_force_takes_no_folder_of_that_name(
    tmp_path: Path, uri: str, files: list[str], beside: list[str]
) -> None:
    for name in files + beside:
        path = tmp_path / "acc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("years of work")
    words = ("format", tmp_path / "acc", "--metadata", uri, "--bookie-id", "b1")
    before = everything_in(tmp_path)
    assert "--force" not in refused(run(*words))
    said = refused(run(*words, "--force", typed="b1\n"))
    assert "nothing in it is removed" in said
    assert str(tmp_path / "acc" / files[0]) in said or beside == ["invoices"]
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("left", ["no store", "an empty one", "no superblock", "half a superblock"])
def test_format_by_force_takes_what_a_killed_one_left(data: DataDirectory, uri: str, left: str) -> None:
    LimboFile(data.limbo).save(LimboState(everything=True))
    if left in ("no store", "an empty one"):
        shutil.rmtree(data.store)
    if left == "an empty one":
        data.store.mkdir()
    if left == "no superblock":
        (data.store / "superblock").unlink()
    if left == "half a superblock":
        (data.store / "superblock").write_bytes(b"")
    words = ("format", data.path, "--metadata", uri, "--bookie-id", "b1", "--force")
    assert run(*words, typed="b1\n").exit_code == 0
    assert run("inspect", data.path, "--json").stdout == ""


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


def test_a_format_that_fails_leaves_nothing_in_the_way_of_the_next(tmp_path: Path, uri: str) -> None:
    """Also what an earlier one left is taken up: by force, as what stands there may be wanted."""
    words = ("format", tmp_path / "new", "--metadata", uri, "--bookie-id", "b1")
    failed = run(*words, "--journal", "/no/such/journal")
    assert failed.exit_code != 0
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "new" / "limbo").touch()
    assert "--force" in refused(run(*words))
    assert run(*words, "--force", typed="b1\n").exit_code == 0


def test_format_takes_no_directory_that_the_bookie_would_refuse(tmp_path: Path, uri: str) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    result = run("format", tmp_path / "open", "--metadata", uri, "--bookie-id", "b1")
    assert "can be written by its group or by others" in str(result.exception)
    assert list((tmp_path / "open").iterdir()) == []


def test_force_is_not_offered_where_it_would_be_refused(tmp_path: Path, uri: str) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a letter").touch()
    words = ("format", tmp_path / "letters", "--metadata", uri, "--bookie-id", "b1")
    assert "--force" not in refused(run(*words))
    refused(run(*words, "--force", typed="b1\n"))
    assert (tmp_path / "letters" / "a letter").exists()


def test_no_cluster_and_no_parent_are_said(tmp_path: Path, uri: str) -> None:
    result = run("format", tmp_path / "new", "--metadata", f"{uri}-empty", "--bookie-id", "b1")
    assert "no INSTANCEID" in refused(result)
    deep = run("format", tmp_path / "a" / "b", "--metadata", uri, "--bookie-id", "b1")
    assert deep.exit_code != 0
    assert "cannot be made: there is no" in str(deep.exception)
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


def test_a_directory_that_no_cookie_can_name_is_refused(
    data: DataDirectory, tmp_path: Path, uri: str, store: Any
) -> None:
    def wrong(*words: object) -> str:
        result = run(*words, "--metadata", uri, "--bookie-id", "b1")
        assert isinstance(result.exception, InvalidError)
        assert store.children("/ledgers/cookies") == []
        return str(result.exception)

    new, comma = tmp_path / "new", tmp_path / "a,b"
    assert "the data directory" in wrong("format", comma)
    assert "the journal directory" in wrong("format", new, "--journal", tmp_path / "a\tb")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    os.rename(data.path, comma)
    before = sorted(comma.iterdir())
    assert "has ',' in it" in wrong("cookie", "create", comma)
    assert sorted(comma.iterdir()) == before


def test_another_cookie_is_not_replaced(data: DataDirectory, uri: str, store: Any) -> None:
    data.cookie.write_bytes(Cookie("b1", ("/old",), ("/old",), INSTANCE).serialise())
    assert "journal_dirs" in refused(run("cookie", "create", data.path, "--metadata", uri))
    assert store.get("/ledgers/cookies/b1") is None


def test_a_damaged_cookie_is_said_with_its_remedy_which_works(data: DataDirectory, uri: str) -> None:
    data.cookie.write_bytes(b"rubbish\n")
    for words in (["create", data.path], ["show", "--data", data.path]):
        assert f"remove {data.cookie}, then walkeeper bookie cookie create" in refused(
            run("cookie", *words, "--metadata", uri)
        )
    data.cookie.unlink()
    assert run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1").exit_code == 0
    assert LimboFile(data.limbo).load().everything


def test_the_remedy_for_a_directory_that_was_moved_works(data: DataDirectory, uri: str, store: Any) -> None:
    old = Cookie("b1", ("/old",), ("/old",), INSTANCE).serialise()
    data.cookie.write_bytes(old)
    store.create("/ledgers/cookies/b1", old)
    said = refused(run("cookie", "create", data.path, "--metadata", uri))
    for step in ("cookie delete --metadata URI b1", f"remove {data.cookie}", "--bookie-id b1", "limbo"):
        assert step in said
    assert run("cookie", "delete", "--metadata", uri, "b1", "--yes").exit_code == 0
    data.cookie.unlink()
    assert run("cookie", "create", data.path, "--metadata", uri, "--bookie-id", "b1").exit_code == 0


def test_a_mistyped_path_of_metadata_is_said_and_not_made(data: DataDirectory, tmp_path: Path) -> None:
    uri = f"sqlite:{tmp_path / 'metadate.db'}"
    for words in (["show"], ["create", data.path, "--bookie-id", "b1"], ["delete", "b1", "--yes"]):
        assert "there is no cluster at" in refused(run("cookie", *words, "--metadata", uri))
    assert not (tmp_path / "metadate.db").exists()


def test_a_directory_without_ledgers_gets_no_cookie(tmp_path: Path, uri: str) -> None:
    assert "walkeeper bookie format" in refused(
        run("cookie", "create", tmp_path, "--metadata", uri, "--bookie-id", "b1")
    )


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
