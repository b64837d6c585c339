"""What stands where a gateway would: servers that misbehave, and a relay to a gateway that loses what it is told to."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from walkeeper.gateway._protocol import Request, Status

HEAD = struct.Struct(">IIB")
FILE = 2
"""The kind of a file in a status."""


class Frame(NamedTuple):
    number: int
    code: int
    body: bytes

    def packed(self) -> bytes:
        return HEAD.pack(len(self.body) + 5, self.number, self.code) + self.body


def text(value: str) -> bytes:
    return struct.pack(">I", len(value)) + value.encode()


def file_answer(content: bytes, version: int = 7) -> bytes:
    """The body of the answer to a get of all of a file."""
    return struct.pack(">BQqQI", FILE, len(content), 0, version, len(content)) + content


class Connection:
    """Of a client to a double, or of a relay to a gateway."""

    def __init__(self, connected: socket.socket, ending: threading.Event) -> None:
        self.socket = connected
        self.ending = ending
        """Set when the double is closed."""

    def receive(self) -> Frame:
        length, number, code = HEAD.unpack(self._exactly(HEAD.size))
        return Frame(number, code, self._exactly(length - 5))

    def send(self, frame: Frame) -> None:
        self.socket.sendall(frame.packed())

    def answer(self, request: Frame, status: Status, body: bytes = b"") -> None:
        self.send(Frame(request.number, status, body))

    def _exactly(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            more = self.socket.recv(size - len(taken))
            if not more:
                raise ConnectionError("the other side closed the connection")
            taken += more
        return bytes(taken)


class Double:
    """Listens on a free port, or on unix:PATH, and serves each connection by `serve` in a thread until it is closed."""

    def __init__(
        self, serve: Callable[[Connection], None], *, path: Path | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._serve, self._tls = serve, tls
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
            self.port = int(self._listener.getsockname()[1])
            self.address = f"127.0.0.1:{self.port}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen(200)
            self.address = f"unix:{path}"
        self._run(self._accept)

    def _run(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.append(connected)
            self._run(self._talk, connected)

    def _talk(self, connected: socket.socket) -> None:
        with contextlib.suppress(OSError), connected:
            if self._tls is not None:
                connected = self._tls.wrap_socket(connected, server_side=True)
                with self._lock:
                    self._open.append(connected)
            with connected:
                self._serve(Connection(connected, self._ending))

    def close(self) -> None:
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        with self._lock:
            for connected in self._open:
                with contextlib.suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def __enter__(self) -> Double:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def hello(connection: Connection) -> None:
    """Answers the first request of a client."""
    connection.answer(connection.receive(), Status.OK, struct.pack(">I", 1) + text("a double"))


def silent(connection: Connection) -> None:
    """Says hello, reads, and answers nothing more."""
    hello(connection)
    while True:
        connection.receive()


def deaf(connection: Connection) -> None:
    """Says hello, and reads nothing more."""
    hello(connection)
    connection.ending.wait()


def mute(connection: Connection) -> None:
    """Not even hello: over TLS, no handshake."""
    connection.ending.wait()


class Relay:
    """Stands between a client and a gateway. `loses` decides for each request whether its answer is lost: the gateway
    has done what was asked, and the client's connection breaks."""

    def __init__(self, gateway: str, loses: Callable[[Frame], bool] = lambda request: False) -> None:
        self._host, _, port = gateway.rpartition(":")
        self._port = int(port)
        self._loses = loses
        self.requests: list[Request] = []
        """What was asked for, in the order in which it came."""
        self.double = Double(self._relay)
        self.address = self.double.address

    def _relay(self, client: Connection) -> None:
        with socket.create_connection((self._host, self._port)) as made:
            gateway = Connection(made, client.ending)
            while True:
                request = client.receive()
                self.requests.append(Request(request.code))
                gateway.send(request)
                answer = gateway.receive()
                if self._loses(request):
                    return
                client.send(answer)

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.double.close()
