"""HTTP (S16): no login, so nothing changes by GET, from afar, or for a web page; and nobody ties it up."""

from __future__ import annotations

import errno
import io
import json
import socket
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from http.server import ThreadingHTTPServer
from typing import Any
from unittest.mock import Mock

import pytest
from bookie_runs import PATIENCE_S, until

from walkeeper.errors import NoSpaceError
from walkeeper_bookie import _http
from walkeeper_bookie._http import BODY_MAX, CONNECTIONS_MAX, HttpServer
from walkeeper_bookie._log import Log
from walkeeper_bookie.commands._ask import ask as command_asks
from walkeeper_bookie.commands._refusal import Refusal


class Page:
    """Views that are told what to show."""

    def __init__(self) -> None:
        self.reason = ""
        self.read_only = False
        self.wishes: list[bool] = []
        self.limbo_wishes: list[tuple[bool, Collection[int] | None]] = []
        self.refuses = False
        self.error: Exception | None = None

    def metrics(self) -> str:
        if self.error is not None:
            raise self.error
        return "bookie_SERVER_STATUS 1\n"

    def not_ready(self) -> str:
        return self.reason

    def info(self) -> Mapping[str, object]:
        return {"freeSpace": 5, "totalSpace": 9}

    def state(self) -> Mapping[str, object]:
        return {
            "running": True,
            "readOnly": self.read_only,
            "shuttingDown": False,
            "availableForHighPriorityWrites": True,
        }

    def limbo(self) -> Mapping[str, object]:
        return {"everything": False, "ledgers": [7], "cleared": []}

    def change_limbo(self, add: bool, ledger_ids: Collection[int] | None) -> None:
        if self.refuses:
            raise OSError(28, "no space")
        if self.error is not None:
            raise self.error
        if not add and ledger_ids == [6]:
            raise ValueError("not in limbo: 6")
        self.limbo_wishes.append((add, ledger_ids))

    def set_read_only(self, read_only: bool) -> None:
        if self.refuses:
            raise OSError(28, "no space")
        self.wishes.append(read_only)
        self.read_only = read_only


@pytest.fixture
def page() -> Page:
    return Page()


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """One for all: ending one takes a moment."""
    server = HttpServer("127.0.0.1", 0, Page())
    yield server
    server.close()


@pytest.fixture
def said(server: HttpServer) -> Iterator[io.StringIO]:
    """What is logged."""
    stream = io.StringIO()
    server._server.log = Log(stream)
    yield stream
    server._server.log = Log()


@pytest.fixture
def port(server: HttpServer, page: Page) -> int:
    server._server.views = page
    return server.port


def exchange(port: int, data: bytes) -> bytes:
    """What is answered to these bytes, until the connection is closed."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection, suppress(ConnectionError):
        with suppress(OSError):  # it may be closed by now, and have been answered before
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        while some := connection.recv(65536):
            found += some
    return found


def ask(port: int, line: str, *headers: str, host: str = "localhost", body: bytes = b"") -> tuple[int, str]:
    """Status and body."""
    head = "\r\n".join([f"{line} HTTP/1.1", *([f"Host: {host}"] if host else []), *headers, "", ""])
    answer = exchange(port, head.encode("latin-1") + body)
    top, _, text = answer.partition(b"\r\n\r\n")
    return int(top.split()[1]), text.decode()


def put(
    port: int, body: bytes, *headers: str, path: str = "/api/v1/bookie/state/readonly", host: str = "localhost"
) -> int:
    return ask(port, f"PUT {path}", f"Content-Length: {len(body)}", *headers, host=host, body=body)[0]


GETS = [
    "/metrics", "/health", "/heartbeat", "/ready", "/api/v1/bookie/is_ready", "/api/v1/bookie/info",
    "/api/v1/bookie/state", "/api/v1/bookie/state/readonly", "/api/v1/bookie/readonly", "/api/v1/bookie/limbo",
]  # fmt: skip


def test_what_is_shown(port: int, page: Page) -> None:
    assert ask(port, "GET /metrics") == (200, "bookie_SERVER_STATUS 1\n")
    assert ask(port, "GET /health") == (200, "OK\n")
    assert ask(port, "GET /ready") == (200, "ready\n")
    assert ask(port, "GET /api/v1/bookie/is_ready") == (200, "Success\n")
    assert json.loads(ask(port, "GET /api/v1/bookie/info")[1]) == {"freeSpace": 5, "totalSpace": 9}
    assert json.loads(ask(port, "GET /api/v1/bookie/state")[1]) == page.state()
    assert json.loads(ask(port, "GET /api/v1/bookie/state/readonly")[1]) == {"readOnly": False}
    assert ask(port, "GET /api/v1/bookie/gc")[0] == 404
    assert ask(port, "GET /")[0] == 404


def test_not_ready_says_why_and_is_alive_all_the_same(port: int, page: Page) -> None:
    page.reason = "the journal failed"
    assert ask(port, "GET /ready") == (503, "the journal failed\n")
    assert ask(port, "GET /api/v1/bookie/is_ready")[0] == 503
    assert ask(port, "GET /health")[0] == 200


def test_an_operator_switches(port: int, page: Page) -> None:
    assert put(port, b'{"readOnly": true}') == 200
    assert put(port, b'{"readOnly": false}', path="/api/v1/bookie/readonly") == 200
    assert page.wishes == [True, False]


LIMBO = "/api/v1/bookie/limbo"


def test_an_operator_changes_what_is_in_limbo(port: int, page: Page) -> None:
    assert json.loads(ask(port, f"GET {LIMBO}")[1]) == {"everything": False, "ledgers": [7], "cleared": []}
    assert put(port, b'{"add": [7, 9223372036854775807]}', path=LIMBO) == 200
    assert put(port, b'{"clear": "all"}', path=LIMBO) == 200
    assert put(port, b'{"clear": [6]}', path=LIMBO) == 409
    assert page.limbo_wishes == [(True, [7, 2**63 - 1]), (False, None)]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b'{"add": []}', b'{"add": [-1]}', b'{"add": [true]}', b'{"add": "some"}', b'{"add": null}',
        b'{"add": [1], "clear": [2]}', b'{"add": [9223372036854775808]}', b'{"readOnly": true}',
    ],
)  # fmt: skip
def test_what_limbo_does_not_understand_changes_nothing(port: int, page: Page, body: bytes) -> None:
    assert put(port, body, path=LIMBO) == 400
    assert page.limbo_wishes == []


def test_limbo_is_for_the_bookies_own_machine_and_no_web_page(port: int, page: Page) -> None:
    assert put(port, b'{"clear": "all"}', "Origin: http://evil.example", path=LIMBO) == 403
    assert put(port, b'{"clear": "all"}', path=LIMBO, host="evil.example") == 403
    assert ask(port, f"GET {LIMBO}", host="evil.example")[0] == 403
    assert page.limbo_wishes == []


def test_a_wish_that_cannot_be_kept_is_an_error(port: int, page: Page) -> None:
    page.refuses = True
    assert put(port, b'{"readOnly": true}') == 500
    assert put(port, b'{"add": "all"}', path=LIMBO) == 500


def test_what_walkeeper_refuses_is_told(port: int, page: Page, said: io.StringIO) -> None:
    page.error = NoSpaceError("fencing ledger 7: no room")
    for line, body in ((f"PUT {LIMBO}", b'{"add": [7]}'), ("GET /metrics", b"")):
        status, text = ask(port, line, f"Content-Length: {len(body)}", body=body)
        assert (status, text) == (500, "it could not be done: fencing ledger 7: no room\n")
    assert said.getvalue() == ""


@pytest.mark.parametrize("error", [ZeroDivisionError("1 / 0"), MemoryError(), KeyError("x")])
def test_a_defect_is_an_answer_and_a_line_of_the_log(
    port: int, page: Page, said: io.StringIO, error: Exception
) -> None:
    page.error = error
    for line, body in ((f"PUT {LIMBO}", b'{"add": [7]}'), ("GET /metrics", b"")):
        said.truncate(0)
        status, text = ask(port, line, f"Content-Length: {len(body)}", body=body)
        assert (status, text) == (500, "a defect: the traceback stands in the bookie's log\n")
        assert said.getvalue().count("\n") == 1
        assert type(error).__name__ in said.getvalue()
    for _ in range(100):
        ask(port, "GET /metrics")
    assert said.getvalue().count("\n") < 100


def test_the_command_shows_what_was_refused(port: int, page: Page) -> None:
    page.error = NoSpaceError("fencing ledger 7: no room")
    with pytest.raises(Refusal, match="answers 500: it could not be done: fencing ledger 7: no room"):
        command_asks(f"127.0.0.1:{port}", LIMBO, {"add": [7]}, instead="")


@pytest.mark.parametrize("path", GETS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_but_put_changes_anything(port: int, page: Page, method: str, path: str) -> None:
    body = b'{"readOnly": true}'
    line = f"{method} {path}?readOnly=true"
    status, text = ask(port, line, "X-HTTP-Method-Override: PUT", f"Content-Length: {len(body)}", body=body)
    assert page.wishes == page.limbo_wishes == []
    assert (status, text) == (status, "") if method == "HEAD" else status in (200, 501)


@pytest.mark.parametrize(
    "path", [path for path in GETS if not path.endswith(("readonly", "limbo"))] + ["/", "/api/v1/bookie/gc"]
)
def test_put_is_for_one_thing(port: int, page: Page, path: str) -> None:
    assert put(port, b'{"readOnly": true}', path=path) == 404
    assert page.wishes == []


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "a b"]
)
def test_a_name_that_a_page_may_have_been_given_is_refused(port: int, page: Page, host: str) -> None:
    assert put(port, b'{"readOnly": true}', host=host) in (400, 403)
    assert ask(port, "GET /api/v1/bookie/state", host=host)[0] in (400, 403)
    assert page.wishes == []


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:8000", "[::1]:8000", "10.0.0.7"]
)
def test_an_address_or_this_machine_is_no_such_name(port: int, host: str) -> None:
    assert ask(port, "GET /api/v1/bookie/state", host=host)[0] == 200


def test_two_hosts_are_none(port: int, page: Page) -> None:
    assert put(port, b'{"readOnly": true}', "Host: evil.example") == 403
    assert page.wishes == []


def test_a_web_page_may_not_write(port: int, page: Page) -> None:
    for origin in ("http://evil.example", "http://localhost", "null"):
        assert put(port, b'{"readOnly": true}', f"Origin: {origin}") == 403
    assert page.wishes == []
    answer = exchange(port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n")
    assert b"access-control" not in answer.lower()


def test_another_machine_may_not_write(port: int, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(server: object, request: object, address: tuple[str, int]) -> None:
        handler = _http._Handler(request, ("10.1.2.3", 5), server)  # type: ignore[arg-type]
        assert handler.client_address[0] == "10.1.2.3"

    monkeypatch.setattr(_http._Listener, "finish_request", verify)
    assert put(port, b'{"readOnly": true}') == 403
    assert ask(port, "GET /metrics")[0] == 200
    assert page.wishes == []


def come_from(monkeypatch: pytest.MonkeyPatch, peer: str, to: str) -> None:
    """Whoever asks seems to have that address, and to have asked this one."""

    class Handler(_http._Handler):
        def setup(self) -> None:
            super().setup()
            connection, self.connection = self.connection, Mock(wraps=self.connection)
            self.connection.getsockname.side_effect = lambda: (to, connection.getsockname()[1])

    def verify(server: object, request: object, address: tuple[str, int]) -> None:
        Handler(request, (peer, 5), server)  # type: ignore[arg-type]

    monkeypatch.setattr(_http._Listener, "finish_request", verify)


@pytest.mark.parametrize(
    ("peer", "to"),
    [
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ("::ffff:127.0.0.1", "::ffff:192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "::ffff:192.0.2.7"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("::1", "::1"),
    ],
)
def test_the_bookies_own_machine_may_write_by_any_of_its_addresses(
    port: int, page: Page, monkeypatch: pytest.MonkeyPatch, peer: str, to: str
) -> None:
    come_from(monkeypatch, peer, to)
    assert put(port, b'{"readOnly": true}', host=f"{to}:80" if "." in to and ":" not in to else "localhost") == 200
    assert put(port, b'{"readOnly": false}', host="evil.example") == 403
    assert put(port, b'{"readOnly": false}', "Origin: http://localhost") == 403
    assert page.wishes == [True]


@pytest.mark.parametrize(
    ("peer", "to"),
    [("::ffff:192.0.2.8", "::ffff:192.0.2.7"), ("192.0.2.8", "192.0.2.7"), ("fe80::2", "fe80::1"), ("10.0.0.1", "::1")],
)
def test_one_beside_it_may_not(port: int, page: Page, monkeypatch: pytest.MonkeyPatch, peer: str, to: str) -> None:
    come_from(monkeypatch, peer, to)
    assert put(port, b'{"readOnly": true}') == 403
    assert page.wishes == []


def test_a_socket_of_both_families_knows_loopback(page: Page) -> None:
    try:
        server = HttpServer("::", 0, page)
    except OSError:
        pytest.skip("this machine has no IPv6")
    try:
        assert put(server.port, b'{"readOnly": true}') == 200
    finally:
        server.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"true",
        b"[]",
        b'{"readOnly": 1}',
        b'{"readOnly": "true"}',
        b'{"readOnly": null}',
        b"\xff",
        b"[" * 60000,
    ],
)
def test_a_body_that_says_something_else_is_refused(port: int, page: Page, body: bytes) -> None:
    assert put(port, body) == 400
    assert page.wishes == []


@pytest.mark.parametrize("length", ["-1", "+5", "1e3", "", "0x10", "\N{ARABIC-INDIC DIGIT FIVE}", "18, 18"])
def test_a_length_that_is_none_is_refused(port: int, page: Page, length: str) -> None:
    head = f"PUT /api/v1/bookie/readonly HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    answer = exchange(port, head.encode() + b'{"readOnly": true}')
    assert answer.split()[1] in (b"400", b"411")
    assert page.wishes == []


def test_chunks_are_refused(port: int, page: Page) -> None:
    assert put(port, b'{"readOnly": true}', "Transfer-Encoding: chunked") == 411
    assert page.wishes == []


@pytest.mark.parametrize("length", [BODY_MAX + 1, 2**31, 2**63, 10**30])
def test_a_large_body_is_refused_before_it_is_read(port: int, page: Page, length: int) -> None:
    assert ask(port, "PUT /api/v1/bookie/readonly", f"Content-Length: {length}")[0] == 413
    assert page.wishes == []


def test_one_request_a_connection(port: int, page: Page) -> None:
    smuggled = (
        b'PUT /api/v1/bookie/readonly HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18\r\n\r\n{"readOnly": true}'
    )
    answer = exchange(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n" + smuggled)
    assert answer.count(b"HTTP/1.") == 1
    assert page.wishes == []


@pytest.mark.parametrize(
    "data",
    [b"\0" * 100, b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
     b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 1000 + b"\r\n"],
)  # fmt: skip
def test_garbage_is_no_concern(port: int, data: bytes) -> None:
    exchange(port, data)
    assert ask(port, "GET /health")[0] == 200


def test_who_drips_is_cut_off(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http, "REQUEST_S", 0.5)
    server = HttpServer("127.0.0.1", 0, page)
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
            stop = threading.Event()

            def drip() -> None:
                try:
                    while not stop.wait(0.05):
                        connection.send(b"a")
                except OSError:
                    pass

            thread = threading.Thread(target=drip)
            thread.start()
            try:
                assert connection.recv(1000) == b""
            except ConnectionResetError:
                pass
            finally:
                stop.set()
                thread.join()
    finally:
        server.close()


def test_more_connections_than_the_cap_are_closed_and_room_is_made(port: int) -> None:
    held = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(CONNECTIONS_MAX)]
    try:
        refused = [exchange(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(10)]
        assert refused == [b""] * 10
    finally:
        for one in held:
            one.close()
    until(lambda: exchange(port, b"GET /health HTTP/1.0\r\n\r\n") != b"", "there is room again")


def test_without_descriptors_who_asks_waits_and_the_processor_rests(
    port: int, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, failed = ThreadingHTTPServer.get_request, 0

    def fails(server: ThreadingHTTPServer) -> Any:
        nonlocal failed
        if time.monotonic() < until_then:
            failed += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(server)

    until_then = time.monotonic() + 0.5
    monkeypatch.setattr(ThreadingHTTPServer, "get_request", fails)
    assert ask(port, "GET /health")[0] == 200
    assert 0 < failed <= 6


def test_who_gives_up_keeps_nobody_waiting(port: int, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    accept, gone = ThreadingHTTPServer.get_request, 5

    def fails(server: ThreadingHTTPServer) -> Any:
        nonlocal gone
        if gone > 0:
            gone -= 1
            raise OSError(errno.ECONNABORTED, "Software caused connection abort")
        return accept(server)

    monkeypatch.setattr(ThreadingHTTPServer, "get_request", fails)
    monkeypatch.setattr(_http.time, "sleep", pauses.append)
    assert ask(port, "GET /health")[0] == 200
    assert (gone, pauses) == (0, [])


def test_an_address_in_use_is_an_error(port: int, page: Page) -> None:
    with pytest.raises(OSError, match="in use"):
        HttpServer("127.0.0.1", port, page)


def test_ipv6(page: Page) -> None:
    try:
        server = HttpServer("::1", 0, page)
    except OSError:
        pytest.skip("this machine has no IPv6")
    try:
        with socket.create_connection(("::1", server.port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert b" 200 " in connection.recv(1000)
    finally:
        server.close()
