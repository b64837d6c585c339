"""`walkeeper bookie sanity`: the bytes, and what is told."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from walkeeper_bookie.commands import bookie
from walkeeper_bookie.commands._client import V2, V3, Connection, _bytes, _fields, _number


def run(*arguments: str) -> Result:
    return CliRunner().invoke(bookie, arguments)


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
    for arguments, said in ((("127.0.0.1:1", "--timeout", "5"), "does not answer"), (("nowhere",), "HOST:PORT")):
        result = run("sanity", *arguments)
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output
        assert said in result.stderr


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
