"""Connection: one connection to a gateway; and what may go wrong on the way."""

from __future__ import annotations

import builtins
import select
import socket
import ssl
import struct
import time

from walkeeper.errors import Error, InvalidError, TimeoutError, UnauthorizedError, UnavailableError
from walkeeper.gateway._protocol import FRAME_MAX, HEAD, MAGIC, VERSION, Body, Request, Status, packed_text

__all__ = ["Address", "Connection", "parsed_address"]

CONNECT_SECONDS = 10.0
JOINED_BYTES = 64 * 1024
"""The end of a body that is shorter is copied, so that a request is one packet."""

Address = str | tuple[str, int]
"""The path of a Unix socket, or host and port."""

_UNIX = "unix:"
_HELLO = struct.Struct(">II")


def parsed_address(text: str) -> Address:
    """Raises InvalidError for what is neither HOST:PORT nor unix:PATH."""
    if not isinstance(text, str):
        raise TypeError(f"an address is a str, not {text!r}")
    if text.startswith(_UNIX):
        path = text[len(_UNIX) :]
        if not path:
            raise InvalidError("unix: wants a path")
        return path
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65535:
        raise InvalidError(f"{text!r} is no address: HOST:PORT, or unix:PATH")
    return host, int(port)


class Connection:
    """Opened by the constructor. It raises UnauthorizedError for another token, and UnavailableError or TimeoutError,
    with outcome "not_written", where no gateway answers.

    Behind any error of call() it is of no use any more.
    """

    def __init__(self, address: Address, token: str, tls: ssl.SSLContext | None, deadline: float) -> None:
        self.address = address
        self._requests = 0
        seconds = max(0.001, min(CONNECT_SECONDS, deadline - time.monotonic()))
        try:
            self._socket = _connected(address, tls, seconds)
        except OSError as error:
            raise UnavailableError(f"{_text(address)}: {error}", outcome="not_written") from error
        try:
            status, body = self.call(Request.HELLO, _HELLO.pack(MAGIC, VERSION) + packed_text(token), deadline)
        except Error as error:
            self.close()
            error.outcome = "not_written"
            raise
        if status != Status.OK:
            self.close()
            kind = UnauthorizedError if status == Status.UNAUTHORIZED else InvalidError
            raise kind(Body(bytes(body)).text(), outcome="not_written")

    def call(
        self, code: Request, body: bytes, deadline: float, data: bytes | memoryview = b""
    ) -> tuple[Status, memoryview]:
        """The status and the body of the answer. `data` is the end of what is sent.

        UnavailableError: the connection broke; TimeoutError: there was no answer by the deadline. What became of the
        request is unknown, unless the outcome says that it was not sent whole.
        """
        number = self.send(code, body, deadline, data)
        answered, status, answer = self.receive(deadline)
        if answered != number:
            raise self._broken(ConnectionError(f"an answer to request {answered}"), sent=True)
        return status, answer

    def send(self, code: Request, body: bytes, deadline: float, data: bytes | memoryview = b"") -> int:
        """The number of the request, which is not answered yet. Raises what call() raises: it is not sent whole."""
        self._requests += 1
        head = HEAD.pack(len(body) + len(data) + 5, self._requests, code)
        try:
            if len(data) < JOINED_BYTES:
                self._within(deadline).sendall(b"".join([head, body, data]))
            else:
                self._within(deadline).sendall(head + body)
                self._within(deadline).sendall(data)
        except OSError as error:  # a gateway does nothing for a part of a frame
            raise self._broken(error, sent=False) from error
        return self._requests

    def receive(self, deadline: float) -> tuple[int, Status, memoryview]:
        """The next answer: the number of its request, its status, its body. Raises what call() raises."""
        try:
            length, request, status = HEAD.unpack(self._received(HEAD.size, deadline))
            if not 0 < request <= self._requests or not 5 <= length <= FRAME_MAX:
                raise ConnectionError(f"an answer to request {request}, of {length} bytes")
            return request, Status(status), self._received(length - 5, deadline)
        except (OSError, ValueError) as error:
            raise self._broken(error, sent=True) from error

    @property
    def ended(self) -> bool:
        """Whether the gateway has closed it, as one does that is started again."""
        readable = select.poll()
        readable.register(self._socket, select.POLLIN)
        return bool(readable.poll(0))

    def close(self) -> None:
        self._socket.close()

    def _received(self, size: int, deadline: float) -> memoryview:
        memory = memoryview(bytearray(size))
        at = 0
        while at < size:
            taken = self._within(deadline).recv_into(memory[at:])
            if not taken:
                raise ConnectionError("the gateway closed the connection")
            at += taken
        return memory

    def _within(self, deadline: float) -> socket.socket:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        return self._socket

    def _broken(self, error: Exception, *, sent: bool) -> Error:
        kind = TimeoutError if isinstance(error, builtins.TimeoutError) else UnavailableError
        text = f"{_text(self.address)}: {error}"
        return kind(text, outcome="unknown" if sent else "not_written")


def _text(address: Address) -> str:
    return _UNIX + address if isinstance(address, str) else f"{address[0]}:{address[1]}"


def _connected(address: Address, tls: ssl.SSLContext | None, seconds: float) -> socket.socket:
    if isinstance(address, str):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(seconds)
            made.connect(address)
        except BaseException:
            made.close()
            raise
        return made
    made = socket.create_connection(address, seconds)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made if tls is None else tls.wrap_socket(made, server_hostname=address[0])
    except BaseException:
        made.close()
        raise
