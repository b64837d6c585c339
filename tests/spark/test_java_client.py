"""The Java client's promises, where gateways, connections and the local disk fail."""

from __future__ import annotations

import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark.gateway_doubles import Connection, Double, Frame, Relay, deaf, file_answer, hello, mute, silent, text
from spark.java_client import Certificate, JavaClient, content, make_certificate, summed

from walkeeper.gateway import Gateway, _session
from walkeeper.gateway._protocol import Request, Status
from walkeeper_bookie.cluster import LocalCluster

LARGE = 1_100_000
"""Bytes of a file that is uploaded in three pieces."""
PUT_MAX = 983_040
"""Bytes that the client sends in one request."""
SPILLED = 3_000_000
"""Bytes of a write, two of which are more than the client keeps in memory."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[JavaClient]:
    with JavaClient(tmp_path_factory.mktemp("java"), certificate.trust_store) as made:
        yield made


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(tmp_path / "wal") as made:
        yield made


def settings(addresses: str, token: str = "", **others: object) -> list[str]:
    named = {
        "fs.walkeeper.impl": "dev.walkeeper.spark.WalkeeperFileSystem",
        "fs.AbstractFileSystem.walkeeper.impl": "dev.walkeeper.spark.WalkeeperFs",
        "spark.sql.streaming.checkpointFileManagerClass": "dev.walkeeper.spark.WalkeeperCheckpointFileManager",
        "fs.walkeeper.impl.disable.cache": "true",
        "walkeeper.gateways": addresses,
        "walkeeper.gateway.token": token,
        **{f"walkeeper.gateway.{name.replace('_', '.')}": value for name, value in others.items()},
    }
    return [f"{name}={value}" for name, value in named.items()]


def files_of(java: JavaClient, addresses: str, token: str = "", **others: object) -> str:
    return java.made("file system", *settings(addresses, token, **others))


def put(java: JavaClient, files: str, path: str, size: int, *, overwrites: bool = False) -> None:
    stream = java.made("create", files, path, overwrites)
    java.made("write", stream, size)
    java.made("close", stream)


# ---- a local failure ----


@pytest.mark.parametrize("how", ["file system", "manager"])
def test_a_write_that_failed_publishes_nothing(java: JavaClient, gateway: Gateway, how: str) -> None:
    files = files_of(java, gateway.addresses[0], gateway.token)
    path = "walkeeper:///app/file"
    if how == "manager":
        manager = java.made("manager", "unused", path, *settings(gateway.addresses[0], gateway.token))
        stream = java.made("create atomic", manager, path, False)
    else:
        stream = java.made("create", files, path, False)
    java.made("write", stream, SPILLED)
    java.spilled.rmdir()
    try:
        assert java.do("write", stream, SPILLED).kind == "NoSuchFileException"
    finally:
        java.spilled.mkdir()
    refused = java.do("close", stream)
    assert refused.kind == "IOException"
    assert "a write to this file had failed" in refused.text
    assert java.made("exists", files, path) == "false"


# ---- a gateway that does not answer ----


def test_an_answer_that_breaks_off_is_asked_for_again(java: JavaClient) -> None:
    gets = 0

    def breaks_off_once(connection: Connection) -> None:
        nonlocal gets
        hello(connection)
        while True:
            request = connection.receive()
            assert request.code == Request.GET
            gets += 1
            answer = Frame(request.number, Status.OK, file_answer(content(1000))).packed()
            if gets == 1:
                connection.socket.sendall(answer[:500])
                return
            connection.socket.sendall(answer)

    with Double(breaks_off_once) as double:
        assert java.made("read", files_of(java, double.address), "/app/x") == summed(content(1000))
    assert gets == 2


def test_an_interrupt_ends_the_wait_for_an_answer(java: JavaClient) -> None:
    asked = threading.Event()

    def asked_for_nothing_more(connection: Connection) -> None:
        hello(connection)
        connection.receive()
        asked.set()
        connection.ending.wait()

    with Double(asked_for_nothing_more) as double:
        call = java.begin("exists", files_of(java, double.address, timeout_ms=3_600_000), "/app/x")
        assert asked.wait(60)
        call.interrupt()
        assert call.outcome().kind == "InterruptedIOException"


def test_an_interrupt_ends_the_pause_between_two_attempts(java: JavaClient) -> None:
    refused = threading.Semaphore(0)

    def refuses(connection: Connection) -> None:
        hello(connection)
        while True:
            connection.answer(connection.receive(), Status.UNAVAILABLE, text("not now"))
            refused.release()

    with Double(refuses) as double:
        call = java.begin("exists", files_of(java, double.address, timeout_ms=3_600_000), "/app/x")
        for _ in range(3):
            assert refused.acquire(timeout=60)
        call.interrupt()
        assert call.outcome().kind == "InterruptedIOException"


@pytest.mark.parametrize("action", ["ask", "write"])
@pytest.mark.parametrize("network", ["tcp", "tls", "unix"])
def test_one_limit_ends_a_call_also_where_nobody_reads(
    java: JavaClient, certificate: Certificate, tmp_path: Path, network: str, action: str
) -> None:
    tls = server_context(certificate) if network == "tls" else None
    path = tmp_path / "socket" if network == "unix" else None
    with Double(deaf if action == "write" else silent, tls=tls, path=path) as double:
        address = f"localhost:{double.port}" if network == "tls" else double.address
        files = files_of(java, address, timeout_ms=300, tls=network == "tls")
        if action == "ask":
            refused = java.do("exists", files, "/app/x")
        else:  # what the buffers of a connection do not take
            made = settings(address, timeout_ms=300, tls=network == "tls")
            manager = java.made("manager", "", "walkeeper:///app", *made)
            stream = java.made("create atomic", manager, "walkeeper:///app/x", True)
            java.made("write", stream, PUT_MAX)
            refused = java.do("close", stream)
        assert refused.kind == "IOException"
        assert "answered for good in 300 ms; the last said:" in refused.text
        assert "did not answer in 300 ms" in refused.text


def test_one_limit_ends_a_handshake(java: JavaClient) -> None:
    with Double(mute) as double:
        refused = java.do("exists", files_of(java, f"localhost:{double.port}", timeout_ms=300, tls=True), "/app/x")
        assert refused.kind == "IOException"
        assert "did not answer in 300 ms" in refused.text


def test_kept_connections_to_a_gateway_that_stands_still_cost_one_limit(java: JavaClient) -> None:
    """The first one that hangs says it for all of them: the others are not tried one after the other."""
    at_once = 8
    together = threading.Barrier(at_once)
    stands_still = threading.Event()
    unanswered: list[int] = []

    def answers_until_it_stands_still(connection: Connection) -> None:
        hello(connection)
        while True:
            request = connection.receive()
            if stands_still.is_set():
                unanswered.append(request.number)
                connection.ending.wait()
                return
            together.wait(60)
            connection.answer(request, Status.NOT_FOUND, text("nothing is there"))

    with Double(answers_until_it_stands_still) as double:
        files = files_of(java, double.address, timeout_ms=300)
        calls = [java.begin("exists", files, "/app/x") for _ in range(at_once)]
        assert {call.outcome().text for call in calls} == {"false"}
        stands_still.set()
        assert "answered for good in 300 ms" in java.do("exists", files, "/app/x").text
        assert len(unanswered) == 1


# ---- who the gateway is ----


def server_context(certificate: Certificate) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate.certificate, certificate.key)
    return made


def test_tls_wants_a_certificate_of_the_host_that_is_asked(
    java: JavaClient, certificate: Certificate, tmp_path: Path
) -> None:
    with Gateway(tmp_path / "wal", tls=server_context(certificate)) as gateway:
        port = gateway.addresses[0].rpartition(":")[2]
        asked = files_of(java, f"localhost:{port}", gateway.token, tls=True)
        put(java, asked, "/app/x", LARGE)
        assert java.made("read", asked, "/app/x") == summed(content(LARGE))
        by_number = files_of(java, f"127.0.0.1:{port}", gateway.token, tls=True, timeout_ms=300)
        another = java.do("exists", by_number, "/app/x")
        assert another.kind == "IOException"
        assert "No subject alternative names matching IP address 127.0.0.1 found" in another.text


def test_what_is_no_address_and_a_wrong_token_are_told_at_once(java: JavaClient, gateway: Gateway) -> None:
    """By the first answer: the limit is an hour."""
    for address in ("nonsense", "127.0.0.1:x", "127.0.0.1:65536", "unix:"):
        refused = java.do("file system", *settings(address, timeout_ms=3_600_000))
        assert refused.kind == "IOException"
        assert "is no address of a gateway" in refused.text
    refused = java.do("exists", files_of(java, gateway.addresses[0], "wrong", timeout_ms=3_600_000), "/app/x")
    assert "the token is not this gateway's" in refused.text


# ---- changes whose answer is lost, and gateways that go ----


def test_refused_uploads_are_discarded(java: JavaClient) -> None:
    """A connection has room for few of them, and is kept."""
    room, refusals = 2, 4
    open_uploads: set[int] = set()
    begun = 0

    def refuses_pieces(connection: Connection) -> None:
        nonlocal begun
        hello(connection)
        while True:
            request = connection.receive()
            if request.code == Request.UPLOAD:
                if len(open_uploads) == room:
                    connection.answer(request, Status.INVALID, text("there is no room"))
                    continue
                begun += 1
                open_uploads.add(begun)
                connection.answer(request, Status.OK, struct.pack(">Q", begun))
            elif request.code == Request.CHUNK and begun <= refusals:
                connection.answer(request, Status.UNAVAILABLE, text("not now"))
            elif request.code in (Request.DISCARD, Request.PUBLISH):
                at = 24 if request.code == Request.PUBLISH else 0  # behind the operation
                open_uploads.discard(*struct.unpack_from(">Q", request.body, at))
                connection.answer(request, Status.OK)
            elif request.code == Request.STAT:
                connection.answer(request, Status.NOT_FOUND, text("nothing is there"))
            else:
                connection.answer(request, Status.OK)

    with Double(refuses_pieces) as double:
        put(java, files_of(java, double.address), "/app/x", LARGE)
    assert begun == refusals + 1
    assert open_uploads == set()


@pytest.mark.parametrize(("size", "change"), [(1000, Request.PUT), (LARGE, Request.PUBLISH)])
def test_a_put_whose_answer_is_lost_is_made_once(
    java: JavaClient, gateway: Gateway, size: int, change: Request
) -> None:
    lost: list[Frame] = []

    def loses(request: Frame) -> bool:
        if request.code != change or len(lost) == 2:
            return False
        lost.append(request)
        return True

    with Relay(gateway.addresses[0], loses) as relay:
        files = files_of(java, relay.address, gateway.token)
        put(java, files, "/app/x", size)
        assert java.made("read", files, "/app/x") == summed(content(size))
        again = java.do("create", files, "/app/x", False)
        assert again.kind == "FileAlreadyExistsException"
    assert len({request.body[:24] for request in lost}) == 1  # one operation


def test_a_delete_and_a_rename_whose_answers_are_lost_are_made_once(java: JavaClient, gateway: Gateway) -> None:
    lost: set[int] = set()

    def loses(request: Frame) -> bool:
        if request.code not in (Request.DELETE, Request.RENAME) or request.code in lost:
            return False
        lost.add(request.code)
        return True

    with Relay(gateway.addresses[0], loses) as relay:
        files = files_of(java, relay.address, gateway.token)
        put(java, files, "/app/x", 10)
        java.made("rename over", files, "walkeeper:///app/x", "walkeeper:///app/y")
        assert java.made("delete", files, "/app/y", False) == "true"
        assert java.made("delete", files, "/app/y", False) == "false"
    assert lost == {Request.DELETE, Request.RENAME}


def test_a_root_that_another_gateway_has_is_asked_for_there(java: JavaClient, tmp_path: Path) -> None:
    with (
        Gateway(tmp_path / "wal", token="t") as one,
        Gateway(tmp_path / "wal", token="t") as other,
        Relay(one.addresses[0]) as first,
        Relay(other.addresses[0]) as second,
    ):
        put(java, files_of(java, first.address, "t"), "/app/0", 10)
        put(java, files_of(java, second.address, "t"), "/app/1", 10)
        both = files_of(java, f"{first.address},{second.address}", "t")
        put(java, both, "/app/2", 10)
        assert Request.TAKE not in first.requests + second.requests
        assert java.made("list", both, "/app") == "0 1 2"


def test_a_gateway_that_stands_still_leaves_time_for_the_next_one(java: JavaClient, gateway: Gateway) -> None:
    with Double(mute) as double:
        addresses = f"{double.address},{gateway.addresses[0]}"
        put(java, files_of(java, addresses, gateway.token, timeout_ms=2000), "/app/x", 10)


def test_a_root_that_no_gateway_has_any_more_is_taken_over(java: JavaClient, tmp_path: Path) -> None:
    with (
        Gateway(tmp_path / "wal", token="t") as one,
        Gateway(tmp_path / "wal", token="t") as other,
        Relay(one.addresses[0]) as relay,
    ):
        first = files_of(java, relay.address, "t")
        put(java, first, "/app/0", 10)
        put(java, files_of(java, other.addresses[0], "t"), "/app/1", 10)
        put(java, first, "/app/2", 10)  # the other one is not among its gateways
        assert Request.TAKE in relay.requests
        assert java.made("list", first, "/app") == "0 1 2"


def test_of_two_gateways_of_one_cluster_one_is_killed(java: JavaClient, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t\n")

    def start(root: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "walkeeper.cli", "gateway", "--root", root, "--listen", "127.0.0.1:0"]
        process = subprocess.Popen([*command, "--token-file", str(token)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, process.stdout.readline().split()[-1]

    with LocalCluster(tmp_path / "bookies", 3) as bookies:
        bookies.start()
        started = [start(bookies.metadata) for _ in range(2)]
        try:
            files = files_of(java, ",".join(address for _, address in started), "t")
            for number in range(4):
                put(java, files, f"/app/{number}", 1000 + number)
            started[0][0].kill()
            for number in range(4, 8):
                put(java, files, f"/app/{number}", 1000 + number)
            assert java.made("list", files, "/app") == "0 1 2 3 4 5 6 7"
            for number in range(8):
                assert java.made("read", files, f"/app/{number}") == summed(content(1000 + number))
        finally:
            for process, _ in started:
                process.kill()
                process.communicate()


# ---- files ----


def test_a_rename_of_file_context_replaces_a_file_in_one_request(java: JavaClient, gateway: Gateway) -> None:
    with Relay(gateway.addresses[0]) as relay:
        files = files_of(java, relay.address, gateway.token)
        put(java, files, "/app/new", 100)
        put(java, files, "/app/old", 50)
        relay.requests.clear()
        java.made("rename over", files, "walkeeper:///app/new", "walkeeper:///app/old")
        assert [code for code in relay.requests if code != Request.STAT] == [Request.RENAME]
        assert java.made("list", files, "/app") == "old"
        assert java.made("read", files, "/app/old") == summed(content(100))


def test_a_file_that_was_replaced_by_a_shorter_one_is_not_read_on(java: JavaClient, gateway: Gateway) -> None:
    files = files_of(java, gateway.addresses[0], gateway.token)
    put(java, files, "/app/x", 3_000_000)
    stream = java.made("open", files, "/app/x")
    assert java.made("read on", stream, 1_500_000) == summed(content(3_000_000)[:1_500_000])
    put(java, files, "/app/x", 10, overwrites=True)
    refused = java.do("read on", stream, 1_500_000)
    assert refused.kind == "IOException"
    assert "was replaced while it was read" in refused.text


def test_a_directory_of_several_pages_is_listed_whole(
    java: JavaClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session, "LIST_MAX", 100)
    files = files_of(java, gateway.addresses[0], gateway.token)
    for number in range(10):
        java.made("mkdirs", files, f"/app/{number}")
    assert java.made("list", files, "/app") == "0 1 2 3 4 5 6 7 8 9"


def test_a_full_root_directory_is_not_deleted(java: JavaClient, gateway: Gateway) -> None:
    files = files_of(java, gateway.addresses[0], gateway.token)
    assert java.made("delete", files, "/", False) == "false"
    put(java, files, "/app/x", 1)
    assert java.do("delete", files, "/", False).kind == "PathIsNotEmptyDirectoryException"
    assert java.made("delete", files, "/", True) == "false"
    assert java.made("exists", files, "/app/x") == "true"


def test_a_location_without_a_scheme_is_fenced_where_walkeeper_is_the_default_file_system(
    java: JavaClient, gateway: Gateway
) -> None:
    given = [*settings(gateway.addresses[0], gateway.token), "fs.defaultFS=walkeeper:///"]
    first, second = (java.made("manager", "", "/app/query", *given) for _ in range(2))
    assert java.made("create checkpoint directory", first) == "walkeeper:/app/query"
    stream = java.made("create atomic", first, "/app/query/0", False)
    java.made("write", stream, 10)
    java.made("create checkpoint directory", second)
    assert java.do("close", stream).kind == "FencedException"
