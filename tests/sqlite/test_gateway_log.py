"""A database whose log is behind a gateway: the program that has it is in C, without Python (host.c).

WALKEEPER_SQLITE_GATEWAY_ROUNDS=n: so many kills of a gateway.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from sqlite.host import Host, RefusedError, compile_host
from sqlite.random_sql import PAGE_SIZES, Life
from tcp_proxy import TcpProxy

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import FencedError, NoSpaceError
from walkeeper.gateway import Gateway, GatewayClient, _log_writers
from walkeeper.gateway._log_fields import End
from walkeeper.gateway._log_service import LogService
from walkeeper.gateway._protocol import Body, Request
from walkeeper_bookie.cluster import LocalCluster

SEED = int(os.environ.get("WALKEEPER_TEST_SEED", "0")) or random.randrange(1, 1 << 32)
ROUNDS = int(os.environ.get("WALKEEPER_SQLITE_GATEWAY_ROUNDS", "4"))
ROOT = Path(__file__).resolve().parents[2]
IOERR, READONLY, FULL, CANTOPEN = 10, 8, 13, 14


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_host(tmp_path_factory.mktemp("host"))


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "bookie"), os.environ.get("PYTHONPATH", "")]))
        with LocalCluster(tmp_path_factory.mktemp("bookies"), 3) as made:
            made.start()
            yield made


@dataclass(frozen=True)
class Place:
    """Where a gateway has its logs."""

    root: str
    options: dict[str, str]

    def open(self) -> walkeeper.Namespace:
        return walkeeper.open(self.root, **self.options)

    def gateway(self, **options: Any) -> Gateway:
        return Gateway(self.root, token="secret", **self.options, **options)


@pytest.fixture
def directory(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "wal"), {})


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    bookies: LocalCluster = request.getfixturevalue("bookies")
    return Place(bookies.metadata, {"namespace": f"sqlite-{tmp_path.name}-{SEED}"})


@pytest.fixture(params=["directory", "cluster"], ids=["directory", "three bookies"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALKEEPER_TOKEN", "secret")


def uri(file: Path, address: str, parameters: str = "") -> str:
    return f"file:{file}?vfs=walkeeper&wk_gateway={address}&wk_log=app&{parameters}"


def group_host(program: Path, file: Path, gateway: Gateway) -> Host:
    return Host(program, uri(file, gateway.addresses[0], "wk_ack=group"))


@contextmanager
def attached(place: Place, file: Path) -> Iterator[sqlite3.Connection]:
    """Without a gateway."""
    with (
        place.open() as ns,
        walkeeper_sqlite.attach(file, ns.log("app")) as database,
        closing(database.connect(isolation_level=None)) as connection,
    ):
        yield connection


def status_of(host: Host) -> str:
    """Its state, by a connection that is not one of the database's last."""
    (found,) = host.execute("SELECT walkeeper_status()")
    state: str = found.partition('"state":"')[2].partition('"')[0]
    return state


def restored(place: Place, path: Path) -> Path:
    with place.open() as ns:
        walkeeper_sqlite.restore(ns.log("app"), path)
    return path


def ids_in(file: Path) -> list[int]:
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id")]


# ---- what the log has ----


class HostLife(Life):
    """A random life in the host."""

    host: Host

    def __init__(self, host: Host, seed: int, steps: int) -> None:
        self.host = host
        super().__init__(None, seed, steps, of_python=False)  # type: ignore[arg-type]

    def _connect(self) -> Any:
        for pragma in ("synchronous=NORMAL", f"cache_size={self.random.choice((1, 5, 2000))}"):
            self.host.execute(f"PRAGMA {pragma}")
        self.host.execute(f"PRAGMA wal_autocheckpoint={self.random.choice((0, 3, 10, 1000))}")
        if self.random.random() < 0.2:
            self.host.execute("PRAGMA locking_mode=EXCLUSIVE")
        return self.host

    def _mark(self) -> None:
        """Another process takes the database over from what the log has."""
        self.host.close()
        Path(self.host.uri.partition(":")[2].partition("?")[0]).unlink()
        self.connection = self._connect()


@pytest.mark.parametrize("share", range(3))
def test_the_log_makes_the_file_byte_for_byte(program: Path, place: Place, tmp_path: Path, share: int) -> None:
    seed = SEED + share
    print(f"WALKEEPER_TEST_SEED={SEED}")
    file = tmp_path / "app.db"
    page_size = random.Random(seed).choice(PAGE_SIZES)
    with place.gateway(listen=["127.0.0.1:0", f"unix:{tmp_path}/s"]) as gateway:
        address = gateway.addresses[share % 2]
        with Host(program, uri(file, address, f"wk_page_size={page_size}")) as host:
            if share == 2:
                host.execute(".signals")
            HostLife(host, seed, 30).live()
            host.finish()
    assert restored(place, tmp_path / "again.db").read_bytes() == file.read_bytes()


def test_a_transaction_of_many_frames_is_whole(program: Path, place: Place, tmp_path: Path) -> None:
    with place.gateway() as gateway, Host(program, uri(tmp_path / "app.db", gateway.addresses[0])) as host:
        host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        host.execute("BEGIN")
        for _ in range(12):
            host.execute("INSERT INTO t(x) VALUES(randomblob(1000000))")
        host.execute("COMMIT")
        host.finish()
    assert restored(place, tmp_path / "again.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_many_threads_commit_at_once(program: Path, place: Place, tmp_path: Path) -> None:
    with place.gateway() as gateway, group_host(program, tmp_path / "app.db", gateway) as host:
        host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        host.execute(".rows 48 20")
        assert sorted(host.acknowledged) == list(range(1, 961))
        host.finish()
    assert ids_in(restored(place, tmp_path / "again.db")) == list(range(1, 961))


def test_answers_out_of_their_order_are_told_apart(
    program: Path, directory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LogService._services[Request.APPEND_MANY]
    begun = 0
    answered: list[int] = []

    async def later(self: LogService, body: Body) -> bytes:
        nonlocal begun
        begun += 1
        number = begun
        answer = await real(self, body)
        await asyncio.sleep(0.02 * (number % 3))
        answered.append(number)
        return answer

    monkeypatch.setitem(LogService._services, Request.APPEND_MANY, later)
    with directory.gateway() as gateway, group_host(program, tmp_path / "app.db", gateway) as host:
        host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        host.execute(".rows 8 25")
        host.finish()
    assert answered != sorted(answered)
    assert ids_in(restored(directory, tmp_path / "again.db")) == list(range(1, 201))


def test_a_log_that_only_a_directory_had_goes_on_behind_a_gateway(
    program: Path, directory: Place, tmp_path: Path
) -> None:
    file = tmp_path / "app.db"
    with attached(directory, file) as connection:
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
    with directory.gateway() as gateway, Host(program, uri(file, gateway.addresses[0])) as host:
        host.execute("INSERT INTO t VALUES(1)")
        host.finish()
    with attached(directory, file) as connection:
        connection.execute("INSERT INTO t VALUES(2)")
    assert ids_in(restored(directory, tmp_path / "again.db")) == [1, 2]


def test_records_that_bookies_show_late_are_waited_for(
    program: Path, directory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has taken the log over knows how far it goes."""
    real = LogService._services[Request.READ]
    late = 0

    async def nothing_yet(self: LogService, body: Body) -> bytes:
        nonlocal late
        place, (records_max,) = body._bytes[7:40], struct.unpack(">I", body._bytes[40:44])  # behind the name
        if late == 0 or records_max == 1:  # the last record, before the log is taken over
            return await real(self, body)
        late -= 1
        return bytes([End.NOW]) + bytes(4) + place + bytes(2)

    monkeypatch.setitem(LogService._services, Request.READ, nothing_yet)
    with directory.gateway() as gateway:
        with Host(program, uri(tmp_path / "1.db", gateway.addresses[0])) as host:
            host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            for number in (1, 2):
                host.execute(f"INSERT INTO t VALUES({number})")
        late = 5
        with Host(program, uri(tmp_path / "2.db", gateway.addresses[0])) as host:
            assert host.execute("SELECT id FROM t") == ["1", "2"]
            assert late == 0
        with Host(program, uri(tmp_path / "3.db", gateway.addresses[0], "wk_timeout_ms=1000")) as host:
            late = 10**9
            with pytest.raises(RefusedError, match="does not show the end of the log"):
                host.execute("SELECT id FROM t")


def test_a_program_in_c_restores_through_a_gateway(program: Path, place: Place, tmp_path: Path) -> None:
    """It only reads the log: nobody is fenced, and a log that is not there is not made."""
    with place.gateway() as gateway:
        (address,) = gateway.addresses
        with Host(program, uri(tmp_path / "app.db", address)) as host, Host(program, "") as reader:
            with pytest.raises(RefusedError, match="app"):
                reader.execute(f".restore {address} {tmp_path}/none.db")
            with client_of(gateway) as client:
                assert client.logs() == []
            host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            host.execute("INSERT INTO t VALUES(1)")
            assert reader.execute(f".restore {address} {tmp_path}/1.db") == host.execute("SELECT walkeeper_lsn()")
            host.execute("INSERT INTO t VALUES(2)")
            assert reader.execute(f".restore {address} {tmp_path}/2.db") == host.execute("SELECT walkeeper_lsn()")
            host.close()
            reader.finish()
    assert ids_in(tmp_path / "1.db") == [1]
    assert (tmp_path / "2.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_a_log_begins_at_a_snapshot_that_a_program_in_c_made(program: Path, place: Place, tmp_path: Path) -> None:
    file = tmp_path / "app.db"
    with place.gateway() as gateway, client_of(gateway) as client:
        (address,) = gateway.addresses
        with Host(program, uri(file, address)) as host:
            host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
            host.execute("INSERT INTO t(x) VALUES(randomblob(50000))")
            (lsn,) = host.execute(f".snapshot {file}")
            host.execute("INSERT INTO t(x) VALUES(randomblob(100))")
            client.truncate("app", client.find("app", sequence_id=int(lsn)))
            assert client.log_info("app").first.sequence_id == int(lsn)
            host.execute("INSERT INTO t(x) VALUES(randomblob(100))")
            host.close()
            file.unlink()
            assert host.execute("SELECT id FROM t") == ["1", "2", "3"]
            host.finish()
    assert restored(place, tmp_path / "again.db").read_bytes() == file.read_bytes()


def test_the_shell_of_sqlite_has_a_database_behind_a_gateway(directory: Place, tmp_path: Path) -> None:
    shell = shutil.which("sqlite3")
    if shell is None:
        pytest.skip("the shell of SQLite is not installed")
    with directory.gateway() as gateway:
        script = f"""
            .load {walkeeper_sqlite.extension_path()} sqlite3_walkeeper_init
            .open '{uri(tmp_path / "app.db", gateway.addresses[0])}'
            CREATE TABLE t(id INTEGER PRIMARY KEY);
            INSERT INTO t VALUES(1);
        """
        subprocess.run([shell, "-bail"], input=textwrap.dedent(script), text=True, check=True)
    assert ids_in(restored(directory, tmp_path / "again.db")) == [1]


# ---- one writer ----


def test_who_attaches_fences_the_program_before_it(program: Path, place: Place, tmp_path: Path) -> None:
    """Both have the same gateway, and so the same writer of the log."""
    with place.gateway() as gateway:
        (address,) = gateway.addresses
        first, second = (Host(program, uri(tmp_path / name, address)) for name in ("1.db", "2.db"))
        with first, second:
            first.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            first.execute("INSERT INTO t VALUES(1)")
            assert second.execute("SELECT id FROM t") == ["1"]
            with pytest.raises(RefusedError, match="another program has appended") as refused:
                first.execute("INSERT INTO t VALUES(2)")
            assert refused.value.code & 0xFF == IOERR
            with pytest.raises(RefusedError) as refused:
                first.execute("INSERT INTO t VALUES(2)")
            assert refused.value.code & 0xFF == READONLY
            assert status_of(first) == "fenced"
            assert first.execute("SELECT id FROM t") == ["1"]
            second.execute("INSERT INTO t VALUES(3)")
            first.close()
            assert first.execute("SELECT id FROM t") == ["1", "3"]
            first.execute("INSERT INTO t VALUES(4)")
            with pytest.raises(RefusedError):
                second.execute("INSERT INTO t VALUES(5)")
    assert ids_in(restored(place, tmp_path / "again.db")) == [1, 3, 4]


def test_a_commit_of_many_records_is_fenced_in_its_middle(
    program: Path, directory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records that it had appended are passed over."""
    with directory.gateway() as gateway:
        (address,) = gateway.addresses
        first, second = (Host(program, uri(tmp_path / name, address)) for name in ("1.db", "2.db"))
        with first, second:
            first.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
            real = LogService._services[Request.APPEND_MANY]
            appends = 0

            async def take_over_behind_the_first(self: LogService, body: Body) -> bytes:
                nonlocal appends
                appends += 1
                answer = await real(self, body)
                if appends == 1:
                    await asyncio.get_running_loop().run_in_executor(None, second.execute, "SELECT count(*) FROM t")
                return answer

            monkeypatch.setitem(LogService._services, Request.APPEND_MANY, take_over_behind_the_first)
            with pytest.raises(RefusedError, match="another program has appended"):
                first.execute("INSERT INTO t(x) VALUES(randomblob(9000000))")
            assert appends == 3
            second.execute("INSERT INTO t VALUES(7, 'whole')")
    assert ids_in(restored(directory, tmp_path / "again.db")) == [7]


def test_programs_with_a_gateway_each_fence_each_other(program: Path, cluster: Place, tmp_path: Path) -> None:
    with cluster.gateway() as one, cluster.gateway() as other:
        first = Host(program, uri(tmp_path / "1.db", one.addresses[0]))
        second = Host(program, uri(tmp_path / "2.db", other.addresses[0]))
        with first, second:
            first.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            for number in range(1, 9, 2):
                second.execute(f"INSERT INTO t VALUES({number})")
                with pytest.raises(RefusedError):
                    first.execute("INSERT INTO t VALUES(0)")
                first.close()
                first.execute(f"INSERT INTO t VALUES({number + 1})")
                with pytest.raises(RefusedError):
                    second.execute("INSERT INTO t VALUES(0)")
                second.close()
            first.finish()
    assert ids_in(restored(cluster, tmp_path / "again.db")) == list(range(1, 9))


def test_programs_with_and_without_a_gateway_fence_each_other(program: Path, cluster: Place, tmp_path: Path) -> None:
    with cluster.gateway() as gateway, Host(program, uri(tmp_path / "1.db", gateway.addresses[0])) as host:
        host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        with attached(cluster, tmp_path / "2.db") as connection:
            connection.execute("INSERT INTO t VALUES(1)")
            with pytest.raises(RefusedError):
                host.execute("INSERT INTO t VALUES(2)")
            assert status_of(host) == "fenced"
            connection.execute("INSERT INTO t VALUES(3)")
            host.close()
            assert host.execute("SELECT id FROM t") == ["1", "3"]
            with pytest.raises(sqlite3.OperationalError):
                connection.execute("INSERT INTO t VALUES(4)")
            host.execute("INSERT INTO t VALUES(5)")
    assert ids_in(restored(cluster, tmp_path / "again.db")) == [1, 3, 5]


def test_a_program_that_was_fenced_meanwhile_does_not_fence_in_its_turn(
    program: Path, cluster: Place, tmp_path: Path
) -> None:
    """Its gateway has no writer any more, and would open one for the append that is refused."""
    listen = f"127.0.0.1:{free_port()}"
    with Host(program, uri(tmp_path / "1.db", listen)) as host:
        with cluster.gateway(listen=listen):
            host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        with attached(cluster, tmp_path / "2.db") as connection:
            connection.execute("INSERT INTO t VALUES(1)")
            with cluster.gateway(listen=listen), pytest.raises(RefusedError, match="another program has appended"):
                host.execute("INSERT INTO t VALUES(2)")
            connection.execute("INSERT INTO t VALUES(3)")
    assert ids_in(restored(cluster, tmp_path / "again.db")) == [1, 3]


def test_a_log_is_taken_from_a_writer_that_takes_it_back(
    program: Path, directory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = 0
    real = LogService._services[Request.APPEND_MANY]

    async def fence_twice(self: LogService, body: Body) -> bytes:
        nonlocal refusals
        refusals += 1
        if refusals <= 2:
            raise FencedError("another writer has the log", outcome="not_written")
        return await real(self, body)

    with directory.gateway() as gateway:
        address = uri(tmp_path / "app.db", gateway.addresses[0])
        with Host(program, address) as host:
            host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            host.finish()
        monkeypatch.setitem(LogService._services, Request.APPEND_MANY, fence_twice)
        with Host(program, address) as host:
            host.execute("INSERT INTO t VALUES(1)")
            host.finish()
    assert refusals == 4


# ---- failures ----


@contextmanager
def gateway_process(place: Place, port: int, token_file: Path) -> Iterator[subprocess.Popen[str]]:
    """Until it serves; it is killed at the end."""
    token_file.write_text("secret\n")
    command = [sys.executable, "-m", "walkeeper", "gateway", "--root", place.root, "--listen", f"127.0.0.1:{port}"]
    command += ["--token-file", str(token_file)]
    for name, value in place.options.items():
        command += [f"--{name}", value]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "is served" in process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("acknowledge", ["strict", "group"])
def test_no_acknowledged_commit_is_lost_where_the_gateway_is_killed(
    program: Path, place: Place, tmp_path: Path, acknowledge: str
) -> None:
    print(f"WALKEEPER_TEST_SEED={SEED}")
    chance = random.Random(f"{SEED} {acknowledge}")
    threads = 1 if acknowledge == "strict" else 6
    port = free_port()
    acknowledged: set[int] = set()
    for number in range(ROUNDS):
        name = f"{number // 2}.db"  # the same file once, then one that is made from the log
        with Host(program, uri(tmp_path / name, f"127.0.0.1:{port}", f"wk_ack={acknowledge}")) as host:
            with gateway_process(place, port, tmp_path / "token") as gateway:
                host.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x)")
                found = {int(row) for row in host.execute("SELECT id FROM t")}
                assert acknowledged <= found
                assert len(found) <= len(acknowledged) + threads
                host.begin(f".rows {threads} 1000000")
                host.hear(chance.randrange(5, 200))
                os.kill(gateway.pid, signal.SIGKILL)
                with pytest.raises(RefusedError):
                    host.end()
            acknowledged = found | set(host.acknowledged)
    with place.gateway() as last, Host(program, uri(tmp_path / "last.db", last.addresses[0])) as host:
        found = {int(row) for row in host.execute("SELECT id FROM t")}
        host.finish()
    assert acknowledged <= found
    assert len(found) <= len(acknowledged) + threads
    assert found == set(ids_in(tmp_path / "last.db")) == set(ids_in(restored(place, tmp_path / "again.db")))


def test_a_commit_without_a_gateway_is_rolled_back_and_the_next_one_goes_on(
    program: Path, place: Place, tmp_path: Path
) -> None:
    port = free_port()
    with Host(program, uri(tmp_path / "app.db", f"127.0.0.1:{port}")) as host:
        with gateway_process(place, port, tmp_path / "token"):
            host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        for _ in range(2):
            with pytest.raises(RefusedError, match="connecting: Connection refused") as refused:
                host.execute("INSERT INTO t VALUES(1)")
            assert refused.value.code & 0xFF == IOERR
            assert status_of(host) == "open"
        with gateway_process(place, port, tmp_path / "token"):
            host.execute("INSERT INTO t VALUES(2)")
            assert host.execute("SELECT id FROM t") == ["2"]
            host.finish()
    assert ids_in(restored(place, tmp_path / "again.db")) == [2]


@pytest.mark.parametrize("way", ["cut", "silent"])
def test_an_append_whose_answer_is_lost_has_an_unknown_outcome(
    program: Path, directory: Place, tmp_path: Path, way: str
) -> None:
    """The log decides when the database is attached again."""
    with directory.gateway() as gateway, closing(TcpProxy(int(gateway.addresses[0].rpartition(":")[2]))) as proxy:
        address = uri(tmp_path / "app.db", proxy.hosts, "wk_timeout_ms=1000")
        with Host(program, address) as host:
            host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            proxy.swallow_answers()
            host.begin("INSERT INTO t VALUES(1)")
            if way == "cut":
                with client_of(gateway) as client:
                    while client.log_info("app").next.sequence_id < 3:
                        time.sleep(0.01)
                proxy.cut()
            reason = "closed the connection|reset" if way == "cut" else "does not answer"
            with pytest.raises(RefusedError, match=reason):
                host.end()
            proxy.heal()
            with pytest.raises(RefusedError):
                host.execute("SELECT id FROM t")
            host.close()
            assert host.execute("SELECT id FROM t") == ["1"]
            host.finish()
    assert ids_in(restored(directory, tmp_path / "again.db")) == [1]


def client_of(gateway: Gateway) -> GatewayClient:
    return GatewayClient(gateway.addresses, token=gateway.token)


def test_a_refusal_that_wrote_nothing_rolls_back(
    program: Path, directory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(self: LogService, body: Body) -> bytes:
        raise NoSpaceError("the disk is full\x1b[2J", outcome="not_written")

    with directory.gateway() as gateway, Host(program, uri(tmp_path / "app.db", gateway.addresses[0])) as host:
        host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        with monkeypatch.context() as patch:
            patch.setitem(LogService._services, Request.APPEND_MANY, full)
            with pytest.raises(RefusedError, match=r"the disk is full\?\[2J") as refused:
                host.execute("INSERT INTO t VALUES(1)")
            assert refused.value.code & 0xFF == FULL
        assert status_of(host) == "open"
        host.execute("INSERT INTO t VALUES(2)")
        host.finish()
    assert ids_in(restored(directory, tmp_path / "again.db")) == [2]


def test_a_refusal_of_another_append_is_not_forgotten(
    program: Path, directory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two records on their way the second one is refused before the first is answered; then a third is appended."""
    real = LogService._services[Request.APPEND_MANY]
    appends = 0

    async def refuse_the_second(self: LogService, body: Body) -> bytes:
        nonlocal appends
        appends += 1
        if appends == 2:
            raise NoSpaceError("the disk is full", outcome="not_written")
        await asyncio.sleep(0.3)
        return await real(self, body)

    monkeypatch.setitem(LogService._services, Request.APPEND_MANY, refuse_the_second)
    with directory.gateway() as gateway, Host(program, "") as host:
        (statuses,) = host.execute(f".submit {gateway.addresses[0]}")
    no_space, failed = -14, -13
    assert statuses == f"{no_space}|{failed}|{no_space}"


def test_a_writer_that_the_gateway_closed_is_opened_again(
    program: Path, directory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_log_writers, "IDLE_SECONDS", 0.0)
    with directory.gateway() as gateway, Host(program, uri(tmp_path / "app.db", gateway.addresses[0])) as host:
        host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        time.sleep(2.5)
        host.execute("INSERT INTO t VALUES(1)")
        host.finish()
    assert ids_in(restored(directory, tmp_path / "again.db")) == [1]


# ---- peers that are no gateways ----


HELLO = struct.pack(">IIBI", 5 + 4 + 4 + 1, 0, 0, 1) + b"\0\0\0\1g"


def frame(code: int, body: bytes, request: int = 0) -> bytes:
    return struct.pack(">IIB", len(body) + 5, request, code) + body


PEERS: dict[str, tuple[list[bytes], str]] = {
    "closes at once": ([], "closed the connection before it said hello"),
    "http": ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], "the length of its answer is none"),
    "a frame that is too long": ([struct.pack(">IIB", 4 * 1024 * 1024 + 1, 0, 0)], "the length of its answer is none"),
    "a frame that is too short": ([struct.pack(">IIB", 4, 0, 0)], "the length of its answer is none"),
    "another version": ([frame(0, struct.pack(">II", 2, 0))], "its hello is none"),
    "half a hello": ([HELLO[:12]], "closed the connection before it said hello"),
    "an answer to nothing": ([frame(0, HELLO[9:], 7)], "answers a request that was not sent"),
    "no answer": ([HELLO], "closed the connection"),
    "an answer to another request": ([HELLO, frame(0, b"", 9)], "answers a request that was not sent"),
    "an info that is none": ([HELLO, frame(0, b"\0" * 170)], "an answer that is none"),
    "an info that is too long": ([HELLO, frame(0, b"\0" * 172)], "an answer that is none"),
    "an info before zero": ([HELLO, frame(0, b"\0" * 155 + b"\xff" * 16)], "an answer that is none"),
    "a refusal that is none": ([HELLO, frame(13, b"\0\0\0\xffno")], "does not say why"),
}


@contextmanager
def peer(answers: list[bytes], *, closes: bool = True) -> Iterator[str]:
    """Gives each answer behind some bytes that it receives, then closes the connection."""
    done = threading.Event()

    def serve(listener: socket.socket) -> None:
        taken, _ = listener.accept()
        with taken:
            taken.settimeout(30)
            for answer in answers:
                taken.recv(65536)
                taken.sendall(answer)
            if not closes:
                done.wait(60)
            with suppress(OSError):  # the client may have gone
                taken.shutdown(socket.SHUT_WR)
                while taken.recv(65536):  # else the client would find a connection that was reset
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            done.set()
            thread.join()


def attach_fails(program: Path, tmp_path: Path, address: str, parameters: str = "") -> str:
    """What SQLite's error log says."""
    with Host(program, uri(tmp_path / "app.db", address, parameters)) as host:
        with pytest.raises(RefusedError) as refused:
            host.execute("SELECT 1 FROM sqlite_master")
        assert refused.value.code & 0xFF == CANTOPEN
        assert not (tmp_path / "app.db").exists()
        host.finish()
        return refused.value.log


@pytest.mark.parametrize("kind", PEERS)
def test_a_peer_that_is_no_gateway_is_a_clear_error(program: Path, tmp_path: Path, kind: str) -> None:
    answers, reason = PEERS[kind]
    with peer(answers) as address:
        assert reason in attach_fails(program, tmp_path, address)


@pytest.mark.parametrize("answers", [[b""], [HELLO, b"\0"]], ids=["at once", "behind the hello"])
def test_a_peer_that_says_nothing_is_left(program: Path, tmp_path: Path, answers: list[bytes]) -> None:
    with peer(answers, closes=False) as address:
        assert "does not answer" in attach_fails(program, tmp_path, address, "wk_timeout_ms=300")


BEHIND_ANSWERS = {
    "noise": lambda: os.urandom(100),
    "an append that was not sent": lambda: frame(0, b"", 77),
    "an append of other records": lambda: frame(0, struct.pack(">10qI", *([7] * 10), 1), 1),
}


@pytest.mark.parametrize("kind", BEHIND_ANSWERS)
def test_garbage_instead_of_the_answer_to_an_append_is_an_unknown_outcome(
    program: Path, directory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from walkeeper.gateway import _session

    real = _session.answer
    bad = False

    def answer(request: int, status: Any, body: bytes = b"") -> bytes:
        if not bad or len(body) != 84:  # two positions and a count
            return real(request, status, body)
        made: Callable[[], bytes] = BEHIND_ANSWERS[kind]
        garbage = made()
        return (
            garbage[:4] + struct.pack(">I", request) + garbage[8:] if kind == "an append of other records" else garbage
        )

    monkeypatch.setattr(_session, "answer", answer)
    with directory.gateway() as gateway, Host(program, uri(tmp_path / "app.db", gateway.addresses[0])) as host:
        host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        bad = True
        with pytest.raises(RefusedError, match=r"is no gateway|an answer that is none"):
            host.execute("INSERT INTO t VALUES(1)")
        bad = False
        with pytest.raises(RefusedError):
            host.execute("SELECT id FROM t")
        host.close()
        assert host.execute("SELECT id FROM t") == ["1"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(folder / "key"), "-out", str(folder / "pem"), "-subj", "/CN=localhost"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pem", folder / "key")
    return context


def test_a_gateway_with_tls_is_a_clear_error(
    program: Path, directory: Place, tmp_path: Path, certificate: ssl.SSLContext
) -> None:
    with directory.gateway(tls=certificate) as gateway:
        assert "one with TLS, which C does not speak" in attach_fails(program, tmp_path, gateway.addresses[0])


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("10.1.2.3:4590", "another machine, which wants TLS"),
        ("gateway.example:4590", "another machine, which wants TLS"),
        ("[2001:db8::1]:4590", "another machine, which wants TLS"),
        ("127.0.0.1", "no address of a gateway"),
        ("127.0.0.1:", "no address of a gateway"),
        ("127.0.0.1:0", "no address of a gateway"),
        ("127.0.0.1:65536", "no address of a gateway"),
        ("127.0.0.1:45x", "no address of a gateway"),
        (":4590", "no address of a gateway"),
        ("", "no address of a gateway"),
        ("unix:", "the path of a Unix socket"),
        ("unix:" + "p" * 108, "the path of a Unix socket"),
        ("unix:/nowhere", "connecting: No such file"),
    ],
)
def test_an_address_that_cannot_be_asked_is_a_clear_error(
    program: Path, tmp_path: Path, address: str, reason: str
) -> None:
    assert reason in attach_fails(program, tmp_path, address)


def test_a_gateway_is_asked_by_each_name_of_this_machine(program: Path, directory: Place, tmp_path: Path) -> None:
    with directory.gateway(listen=["127.0.0.1:0", "[::1]:0"]) as gateway:
        port = gateway.addresses[0].rpartition(":")[2]
        for number, address in enumerate((f"localhost:{port}", f"127.0.0.1:{port}", gateway.addresses[1])):
            with Host(program, uri(tmp_path / f"{number}.db", address)) as host:
                host.execute(f"CREATE TABLE t{number}(x)")
                host.finish()


def test_the_token_comes_from_a_file_or_the_environment(
    program: Path, directory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("  secret \nnothing\n")
    with directory.gateway() as gateway:
        (address,) = gateway.addresses
        monkeypatch.setenv("WALKEEPER_TOKEN", "wrong")
        assert "the token is not this gateway's" in attach_fails(program, tmp_path, address)
        monkeypatch.delenv("WALKEEPER_TOKEN")
        assert "a gateway wants a token" in attach_fails(program, tmp_path, address)
        for wrong in ("\n", ""):
            (tmp_path / "empty").write_text(wrong)
            assert "its first line is to be the token" in attach_fails(
                program, tmp_path, address, f"wk_token_file={tmp_path}/empty"
            )
        assert "its first line is to be" in attach_fails(program, tmp_path, address, "wk_token_file=/nowhere")
        for environment, parameters in ((str(file), ""), ("/nowhere", f"wk_token_file={file}")):
            monkeypatch.setenv("WALKEEPER_TOKEN_FILE", environment)
            with Host(program, uri(tmp_path / "app.db", address, parameters)) as host:
                host.execute("CREATE TABLE IF NOT EXISTS t(x)")
                host.finish()


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ("wk_root=wal", "two places"),
        ("wk_timeout_ms=0", "wk_timeout_ms is a number"),
        ("wk_timeout_ms=99999999999", "wk_timeout_ms is a number"),
        ("wk_ack=later", "neither strict nor group"),
    ],
)
def test_a_uri_that_makes_no_sense_is_a_clear_error(
    program: Path, tmp_path: Path, parameters: str, reason: str
) -> None:
    assert reason in attach_fails(program, tmp_path, "127.0.0.1:1", parameters)


def test_a_log_that_is_none_of_a_database_is_not_taken_over(program: Path, directory: Place, tmp_path: Path) -> None:
    with directory.open() as ns, ns.log("app").writer() as writer:
        writer.append(b"paid 42")
    with directory.gateway() as gateway:
        assert "is none of a SQLite database" in attach_fails_with_file(program, tmp_path, gateway.addresses[0])
    with directory.open() as ns:
        assert ns.log("app").info().count == 1


def attach_fails_with_file(program: Path, tmp_path: Path, address: str) -> str:
    """The same where it is known late: the file may be there, empty."""
    with Host(program, uri(tmp_path / "app.db", address)) as host, pytest.raises(RefusedError) as refused:
        host.execute("SELECT 1 FROM sqlite_master")
    return refused.value.log


def test_the_library_needs_no_python() -> None:
    listing = subprocess.run(
        ["nm", "-D", "--undefined-only", walkeeper_sqlite.extension_path()], check=True, capture_output=True, text=True
    )
    names = {line.split()[-1] for line in listing.stdout.splitlines()}
    assert {name for name in names if name.startswith(("Py", "_Py"))} == set()
