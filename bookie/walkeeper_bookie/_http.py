"""HTTP: metrics, health and the few calls of BookKeeper's HTTP interface that operators' scripts use.

Off unless configured; meant for loopback, as it has no login. Therefore: nothing changes by GET; what changes the
bookie is taken from this machine alone, never from a web page (no Origin), and under no name that a page could have
been given (Host). Requests are small, short and few at a time.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import urlsplit

from walkeeper.errors import Error
from walkeeper_bookie._log import Log
from walkeeper_bookie._metrics import CONTENT_TYPE
from walkeeper_bookie._state_files import is_ids

__all__ = ["HttpServer", "Views"]

BODY_MAX = 64 * 1024
CONNECTIONS_MAX = 32
ACCEPT_PAUSE_S = 0.1
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
IDLE_S = 10.0
REQUEST_S = 30.0
"""A connection that is older is closed, however it keeps itself busy."""

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Views(Protocol):
    """What the process shows. From any thread. What a call raises is answered as an error; what is no walkeeper.Error
    nor OSError is a defect, and logged."""

    def metrics(self) -> str: ...

    def not_ready(self) -> str:
        """Why clients should not be sent here; empty: they may."""
        ...

    def info(self) -> Mapping[str, object]: ...

    def state(self) -> Mapping[str, object]: ...

    def set_read_only(self, read_only: bool) -> None:
        """The operator's wish. OSError, walkeeper.Error: it could not be kept."""

    def limbo(self) -> Mapping[str, object]: ...

    def change_limbo(self, add: bool, ledger_ids: Collection[int] | None) -> None:
        """Into limbo, or out of it; None: all. OSError, walkeeper.Error: it could not be kept. ValueError: it
        cannot be, and why."""


@dataclass(frozen=True)
class Answer:
    status: HTTPStatus
    body: str
    kind: str = TEXT


class HttpServer:
    """Serves from its making until `close`, at an address or at a socket that is `bound` to it, and is its own then.
    Raises OSError where it cannot listen."""

    def __init__(
        self, host: str, port: int, views: Views, log: Log | None = None, bound: socket.socket | None = None
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET

        class Listener(_Listener):
            address_family = family

        self._server = Listener((host, port), views, host, log or Log(), bound)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.cut(0)
        self._thread.join()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(
        self, address: tuple[str, int], views: Views, host: str, log: Log, bound: socket.socket | None
    ) -> None:
        self.views, self.host, self.log, self._bound = views, host, log, bound
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the name service for the name of the address.
        if self._bound is not None:
            self.socket.close()
            self.socket = self._bound
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._bound is None:
            self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.host, int(self.server_address[1])

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError as wrong:
            if wrong.errno in SHORTAGES:  # who asks is still there, and would be seen again at once
                time.sleep(ACCEPT_PAUSE_S)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._lock:
            if len(self._open) >= CONNECTIONS_MAX:
                return False
            self._open[request] = time.monotonic()
            return True

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        self.cut(REQUEST_S)

    def cut(self, age: float) -> None:
        """Ends connections that are older."""
        limit = time.monotonic() - age
        with self._lock:
            old = [connection for connection, since in self._open.items() if since <= limit]
        for connection in old:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # noqa: PERF203 - it has gone by itself
                pass

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away, and time-outs, are nobody's concern."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listener  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.0"  # one request a connection: none is smuggled behind another
    server_version, sys_version = "walkeeper-bookie", ""
    timeout = IDLE_S

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self._reply(self._asked(lambda: self._got(path)))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self._reply(self._put(urlsplit(self.path).path))

    def log_message(self, format: str, *args: Any) -> None:
        """Not on stderr."""

    def _got(self, path: str) -> Answer:
        views = self.server.views
        if path == "/metrics":
            return Answer(HTTPStatus.OK, views.metrics(), CONTENT_TYPE)
        if path in ("/health", "/heartbeat"):
            return Answer(HTTPStatus.OK, "OK\n")
        if path == "/ready":
            return self._readiness("ready")
        if not path.startswith("/api/"):
            return _missing()
        if refused := self._refusal():
            return refused
        if path == "/api/v1/bookie/is_ready":
            return self._readiness("Success")
        if path == "/api/v1/bookie/info":
            return _json(views.info())
        if path == "/api/v1/bookie/state":
            return _json(views.state())
        if path in READ_ONLY_PATHS:
            return _json({"readOnly": views.state()["readOnly"]})
        if path == LIMBO_PATH:
            return _json(views.limbo())
        return _missing()

    def _readiness(self, yes: str) -> Answer:
        reason = self.server.views.not_ready()
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, reason + "\n") if reason else Answer(HTTPStatus.OK, yes + "\n")

    def _put(self, path: str) -> Answer:
        change = CHANGES.get(path)
        if change is None:
            return _missing()
        if refused := self._refusal():
            return refused
        if "Origin" in self.headers:
            return Answer(HTTPStatus.FORBIDDEN, "a web page may not do this\n")
        if not self._is_own_machine():
            return Answer(HTTPStatus.FORBIDDEN, "only from the bookie's own machine; or: walkeeper bookie readonly\n")
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            return Answer(HTTPStatus.LENGTH_REQUIRED, "a body with its Content-Length is wanted\n")
        if len(length) > 9 or int(length) > BODY_MAX:
            return Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of at most {BODY_MAX} bytes is taken\n")
        try:
            wish = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            wish = None
        return self._asked(lambda: change(self.server.views, wish))

    def _asked(self, views: Callable[[], Answer]) -> Answer:
        """What the views answer, or what went wrong there."""
        try:
            return views()
        except OSError as wrong:
            said = f"it could not be done: {wrong.strerror or wrong}"
        except Error as wrong:
            said = f"it could not be done: {wrong}"
        except Exception:
            said = "a defect: the traceback stands in the bookie's log"
            self.server.log.error("an HTTP request failed: a defect", path=self.path, reason=traceback.format_exc())
        return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, said + "\n")

    def _is_own_machine(self) -> bool:
        """Whether it comes from here: from loopback, or from the very address that it came to."""
        peer = _address(self.client_address[0])
        return peer.is_loopback or peer == _address(self.connection.getsockname()[0])

    def _refusal(self) -> Answer | None:
        """A page of some site can make a browser ask us, once the site's name points to this machine; the name it was
        given then stands in Host."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) == 1 and _is_ours(hosts[0], self.server.host):
            return None
        return Answer(HTTPStatus.FORBIDDEN, "Host names neither an address nor this machine\n")

    def _reply(self, answer: Answer) -> None:
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _set_read_only(views: Views, wish: Any) -> Answer:
    if not (isinstance(wish, dict) and isinstance(wish.get("readOnly"), bool)):
        return Answer(HTTPStatus.BAD_REQUEST, 'the body is {"readOnly": true} or {"readOnly": false}\n')
    views.set_read_only(wish["readOnly"])
    return _json({"readOnly": views.state()["readOnly"]})


def _change_limbo(views: Views, wish: Any) -> Answer:
    if not (isinstance(wish, dict) and len(wish) == 1 and wish.keys() <= {"add", "clear"}):
        return Answer(HTTPStatus.BAD_REQUEST, LIMBO_BODY)
    ((what, ledgers),) = wish.items()
    if ledgers != "all" and not (ledgers and is_ids(ledgers)):
        return Answer(HTTPStatus.BAD_REQUEST, LIMBO_BODY)
    try:
        views.change_limbo(what == "add", None if ledgers == "all" else ledgers)
    except ValueError as wrong:
        return Answer(HTTPStatus.CONFLICT, f"{wrong}\n")
    return _json({what: ledgers})


LIMBO_BODY = 'the body is {"add": [ids]}, {"clear": [ids]}, {"add": "all"} or {"clear": "all"}\n'
READ_ONLY_PATHS = ("/api/v1/bookie/state/readonly", "/api/v1/bookie/readonly")
"""BookKeeper's, and a shorter one."""
LIMBO_PATH = "/api/v1/bookie/limbo"
CHANGES: Mapping[str, Callable[[Views, Any], Answer]] = {
    **dict.fromkeys(READ_ONLY_PATHS, _set_read_only),
    LIMBO_PATH: _change_limbo,
}


def _is_ours(host: str, configured: str) -> bool:
    try:
        name = urlsplit("//" + host).hostname or ""
        if name in {"localhost", configured.lower(), socket.gethostname().lower()}:
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Of a socket; one of IPv4 on a socket of IPv6 is that of IPv4."""
    found = ipaddress.ip_address(text.partition("%")[0])
    return getattr(found, "ipv4_mapped", None) or found


def _missing() -> Answer:
    return Answer(HTTPStatus.NOT_FOUND, "there is no such page\n")


def _json(value: Mapping[str, object]) -> Answer:
    return Answer(HTTPStatus.OK, json.dumps(value) + "\n", JSON)
