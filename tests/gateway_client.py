"""A client of a gateway for tests: one connection (docs/formats/gateway_protocol.md)."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

from walkeeper.gateway import Gateway
from walkeeper.gateway._protocol import FRAME_MAX, Request, Status

MAGIC = 0x574B4757


class Answer(NamedTuple):
    status: Status
    body: bytes

    @property
    def text(self) -> str:
        """Of a refusal."""
        (size,) = struct.unpack_from(">I", self.body)
        return self.body[4 : 4 + size].decode()


class Entry(NamedTuple):
    is_directory: bool
    size: int
    version: int


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">I", len(raw)) + raw


class GatewayClient:
    def __init__(self, gateway: Gateway, token: str | None = None) -> None:
        host, _, port = gateway.addresses[0].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.identity = os.urandom(16)
        self.operations = self.requests = 0
        token = gateway.token if token is None else token
        self.hello = self.call(Request.HELLO, struct.pack(">II", MAGIC, 1) + text(token))

    def operation(self) -> bytes:
        self.operations += 1
        return self.identity + struct.pack(">Q", self.operations)

    def call(self, code: int, body: bytes) -> Answer:
        [answer] = self.call_at_once(code, [body])
        return answer

    def call_at_once(self, code: int, bodies: Sequence[bytes]) -> list[Answer]:
        """Requests that are sent before the first of them is answered."""
        first = self.requests + 1
        self.requests += len(bodies)
        frames = [struct.pack(">IIB", len(body) + 5, first + at, code) + body for at, body in enumerate(bodies)]
        self.socket.sendall(b"".join(frames))
        answers: dict[int, Answer] = {}
        for _ in bodies:
            length, request, status = struct.unpack(">IIB", self._exactly(9))
            assert length <= FRAME_MAX
            answers[request] = Answer(Status(status), self._exactly(length - 5))
        return [answers[first + at] for at in range(len(bodies))]

    def _exactly(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            more = self.socket.recv(size - len(taken))
            if not more:
                raise ConnectionError("the gateway closed the connection")
            taken += more
        return taken

    # ---- requests ----

    def acquire(self, path: str, owner: str) -> int:
        answer = self.call(Request.ACQUIRE, self.operation() + text(path) + text(owner))
        assert answer.status == Status.OK, answer.text
        return int(struct.unpack(">Q", answer.body)[0])

    def put(
        self, path: str, content: bytes, *, replaces: bool = False, epoch: int = 0, operation: bytes | None = None
    ) -> Answer:
        head = (operation or self.operation()) + text(path) + struct.pack(">QB", epoch, replaces)
        return self.call(Request.PUT, head + text(content))

    def piece(self, path: str, offset: int, size: int) -> Answer:
        return self.call(Request.GET, text(path) + struct.pack(">QI", offset, size))

    def get(self, path: str) -> bytes | Answer:
        """All of a file, or why not."""
        found = b""
        while True:
            answer = self.piece(path, len(found), 1 << 20)
            if answer.status != Status.OK:
                return answer
            (size,) = struct.unpack_from(">xQ", answer.body)
            found += answer.body[29:]
            if len(found) == size:
                return found

    def stat(self, path: str) -> Entry | None:
        answer = self.stat_as(path, 0)
        return _entry(answer.body) if answer.status == Status.OK else None

    def stat_as(self, path: str, epoch: int) -> Answer:
        return self.call(Request.STAT, text(path) + struct.pack(">Q", epoch))

    def list(self, path: str) -> dict[str, Entry] | Answer:
        """All pages of a directory, or why not."""
        found: dict[str, Entry] = {}
        more, after = 1, ""
        while more:
            answer = self.call(Request.LIST, text(path) + text(after))
            if answer.status != Status.OK:
                return answer
            (more, count), at = struct.unpack_from(">BI", answer.body), 5
            for _ in range(count):
                (size,) = struct.unpack_from(">I", answer.body, at)
                after = answer.body[at + 4 : at + 4 + size].decode()
                assert after not in found
                found[after] = _entry(answer.body[at + 4 + size :])
                at += 4 + size + 25
            assert at == len(answer.body)
        return found

    def mkdir(self, path: str, epoch: int = 0) -> Answer:
        return self.call(Request.MKDIR, self.operation() + text(path) + struct.pack(">Q", epoch))

    def delete(self, path: str, *, recursive: bool = False, epoch: int = 0) -> Answer:
        return self.call(Request.DELETE, self.operation() + text(path) + struct.pack(">QB", epoch, recursive))

    def rename(self, path: str, target: str, *, replaces: bool = False, epoch: int = 0) -> Answer:
        body = self.operation() + text(path) + text(target) + struct.pack(">QB", epoch, replaces)
        return self.call(Request.RENAME, body)

    def upload(self, path: str) -> int:
        answer = self.try_upload(path)
        assert answer.status == Status.OK, answer.text
        return int(struct.unpack(">Q", answer.body)[0])

    def try_upload(self, path: str) -> Answer:
        return self.call(Request.UPLOAD, text(path))

    def discard(self, upload: int) -> Answer:
        return self.call(Request.DISCARD, struct.pack(">Q", upload))

    def chunk(self, upload: int, offset: int, content: bytes) -> Answer:
        return self.call(Request.CHUNK, struct.pack(">QQ", upload, offset) + text(content))

    def publish(self, upload: int, path: str, *, replaces: bool = False, operation: bytes | None = None) -> Answer:
        head = (operation or self.operation()) + struct.pack(">Q", upload) + text(path)
        return self.call(Request.PUBLISH, head + struct.pack(">QB", 0, replaces))

    def take(self, path: str) -> Answer:
        return self.call(Request.TAKE, text(path))

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> GatewayClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _entry(body: bytes) -> Entry:
    kind, size, _, version = struct.unpack_from(">BQqQ", body)
    return Entry(kind == 1, size, version)
