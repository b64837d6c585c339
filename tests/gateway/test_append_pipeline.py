"""AppendPipeline, the payloads that requests carry, and what the gateway makes of them."""

from __future__ import annotations

import gc
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow
import pytest

import walkeeper
from walkeeper.gateway import Gateway, GatewayClient
from walkeeper.gateway._arguments import payloads_of
from walkeeper.gateway._columns import joined_of, numbers_in, packed_numbers
from walkeeper.gateway._log_errors import refusal
from walkeeper.gateway._log_service import packed_range
from walkeeper.gateway._protocol import HEAD, Body, Refused, Request, Status, answer, packed_text, packed_u32

PIECES = [[b"%d.%d" % (piece, number) for number in range(3)] for piece in range(6)]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(tmp_path / "wal") as made:
        yield made


@pytest.fixture
def client(gateway: Gateway) -> Iterator[GatewayClient]:
    with GatewayClient(gateway.addresses, token=gateway.token) as made:
        made.open_log("a")
        yield made


def contents(client: GatewayClient, log: str = "a") -> list[bytes]:
    return [bytes(payload) for payload in client.read(log).payloads]


# ---- the pipeline ----


def test_appends_keep_their_order_and_each_is_answered(client: GatewayClient) -> None:
    with client.append_pipeline("a") as line:
        for piece in PIECES:
            line.send(pyarrow.array(piece))
        assert line.unanswered == len(PIECES)
        found = [line.receive() for _ in PIECES]
        assert line.unanswered == 0
    assert [(at.first.sequence_id, at.last.sequence_id, at.count) for at in found] == [
        (3 * number, 3 * number + 2, 3) for number in range(len(PIECES))
    ]
    assert contents(client) == [payload for piece in PIECES for payload in piece]


def test_a_refusal_is_raised_in_its_place(client: GatewayClient) -> None:
    with client.append_pipeline("a") as line:
        for expected in (0, 1, 7):
            line.send([b"%d" % expected], expected=expected)
        assert [line.receive().first.sequence_id for _ in range(2)] == [0, 1]
        with pytest.raises(walkeeper.SequenceMismatchError) as caught:
            line.receive()
        assert (caught.value.outcome, caught.value.log) == ("not_written", "a")
        with pytest.raises(walkeeper.InvalidError, match="answered"):
            line.receive()
        line.send([b"2"])
        assert line.receive().first.sequence_id == 2
    assert contents(client) == [b"0", b"1", b"2"]


def test_what_cannot_be_sent_is_not_sent(client: GatewayClient) -> None:
    with client.append_pipeline("a") as line:
        with pytest.raises(walkeeper.TooLargeError):
            line.send([bytes(1024 * 1024)] * 5)
        with pytest.raises(walkeeper.InvalidError, match="nothing to append"):
            line.send([])
        assert line.unanswered == 0
        line.send([b"x"])
        line.receive()
    assert contents(client) == [b"x"]


def test_a_connection_is_kept_where_all_is_answered(client: GatewayClient) -> None:
    kept = list(client._idle)
    with client.append_pipeline("a") as line:
        line.send([b"x"])
        line.receive()
    assert client._idle == kept
    with client.append_pipeline("a") as line:
        line.send([b"y"])
    assert client._idle == []  # its answer would be taken for that of the next request
    with pytest.raises(walkeeper.ClosedError):
        line.send([b"z"])
    assert client.append_many("a", [b"w"]).count == 1


Talk = Callable[[socket.socket, list[int]], None]


@contextmanager
def double(talk: Talk, count: int) -> Iterator[str]:
    """The address of a gateway that takes `count` appends of one connection before `talk` answers them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connected, _ = listener.accept()
            with connected, connected.makefile("rb") as given:

                def request() -> tuple[int, int]:
                    length, number, code = HEAD.unpack(given.read(HEAD.size))
                    given.read(length - 5)
                    return number, code

                number, code = request()
                assert code == Request.HELLO
                connected.sendall(answer(number, Status.OK, packed_u32(1) + packed_text("a double")))
                talk(connected, [request()[0] for _ in range(count)])

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def range_from(sequence_id: int) -> bytes:
    at = walkeeper.Position((1, sequence_id, 0, sequence_id, 7))
    return packed_range(walkeeper.AppendRange(at, at, 1))


def test_appends_are_sent_before_the_first_is_answered_and_answers_come_in_any_order() -> None:
    def talk(connected: socket.socket, numbers: list[int]) -> None:
        for place in reversed(range(len(numbers))):
            connected.sendall(answer(numbers[place], Status.OK, range_from(place)))

    with (
        double(talk, 3) as address,
        GatewayClient(address, token="", timeout=10) as client,
        client.append_pipeline("a") as line,
    ):
        for _ in range(3):
            line.send([b"x"])
        assert [line.receive().first.sequence_id for _ in range(3)] == [0, 1, 2]


def test_a_connection_that_breaks_closes_the_pipeline() -> None:
    def talk(connected: socket.socket, numbers: list[int]) -> None:
        connected.sendall(answer(numbers[0], Status.OK, range_from(0)))

    with double(talk, 3) as address, GatewayClient(address, token="", timeout=10) as client:
        with client.append_pipeline("a") as line:
            for _ in range(3):
                line.send([b"x"])
            assert line.receive().first.sequence_id == 0
            with pytest.raises(walkeeper.UnavailableError) as caught:
                line.receive()
            assert caught.value.outcome == "unknown"
            assert line.unanswered == 2
            with pytest.raises(walkeeper.ClosedError):
                line.receive()
            line.drain()
        assert client._idle == []


def test_drain_waits_for_each_answer_whatever_it_is() -> None:
    def talk(connected: socket.socket, numbers: list[int]) -> None:
        connected.sendall(answer(numbers[0], *refusal(walkeeper.NoSpaceError("full", outcome="not_written"))))
        connected.sendall(answer(numbers[1], Status.OK, range_from(0)))
        connected.sendall(answer(numbers[2], *refusal(walkeeper.FencedError("gone", outcome="unknown"))))

    with double(talk, 3) as address, GatewayClient(address, token="", timeout=10) as client:
        with client.append_pipeline("a") as line:
            for _ in range(3):
                line.send([b"x"])
            line.drain()
            assert line.unanswered == 0
        assert len(client._idle) == 1


# ---- payloads ----

VALUES = [b"skipped", b"a", b"", b"bcd", b"left out"]


@pytest.mark.parametrize(
    "given",
    [
        VALUES[1:4],
        pyarrow.array(VALUES[1:4], pyarrow.binary()),
        pyarrow.array(VALUES[1:4], pyarrow.large_binary()),
        pyarrow.array(VALUES, pyarrow.binary())[1:4],
        pyarrow.array(VALUES, pyarrow.large_binary())[1:4],
        pyarrow.array([value.decode() for value in VALUES], pyarrow.string())[1:4],
        pyarrow.array([value.decode() for value in VALUES], pyarrow.large_string())[1:4],
    ],
)
def test_payloads_of_arrays_are_those_of_bytes(given: object) -> None:
    found = payloads_of(given)  # type: ignore[arg-type]
    assert (found.count, bytes(found.data)) == (3, b"abcd")
    assert numbers_in(bytes(found.offsets)).tolist() == [0, 1, 1, 4]


@pytest.mark.parametrize("given", [[], pyarrow.array([], pyarrow.binary()), pyarrow.array(VALUES)[2:2]])
def test_no_payloads_have_one_offset(given: object) -> None:
    found = payloads_of(given)  # type: ignore[arg-type]
    assert (found.count, bytes(found.offsets), bytes(found.data)) == (0, bytes(8), b"")


def test_payloads_of_an_array_are_not_copied() -> None:
    array = pyarrow.array([b"x" * 1000] * 10, pyarrow.binary())
    data = payloads_of(array[2:5]).data
    memory = memoryview(array.buffers()[2])
    assert pyarrow.py_buffer(data).address == pyarrow.py_buffer(memory).address + 2000


def test_what_the_gateway_takes_from_a_request_is_not_copied() -> None:
    body = packed_numbers([0, 1, 1, 4]) + b"abcd"
    data, sizes = joined_of(Body(body), 3)
    assert (bytes(data), list(sizes)) == (b"abcd", [1, 0, 3])
    assert pyarrow.py_buffer(data).address == pyarrow.py_buffer(body).address + 32


@pytest.mark.parametrize(
    "offsets",
    [
        [1, 1, 4],
        [0, 1, 3],
        [0, 1, 5],
        [0, 5, 4],
        [0, -1, 4],
        [0, 2**32, 4],
        [0, 2**62, 4],
        [-(2**63), 2**62, 4],
    ],
)
def test_offsets_that_are_not_those_of_the_payloads_are_refused(offsets: list[int]) -> None:
    with pytest.raises(Refused, match="must rise from 0 to 4"):
        joined_of(Body(packed_numbers(offsets) + b"abcd"), 2)


def test_refused_appends_of_a_gateway_are_collected(client: GatewayClient) -> None:
    with client.append_pipeline("a") as line:
        for _ in range(200):
            line.send([b"x"], expected=5)
        line.drain()
    gc.collect()
    assert client.append_many("a", [b"sound"]).first.sequence_id == 0


def test_a_frame_is_whole_however_large_its_end_is(client: GatewayClient) -> None:
    sizes = [0, 1, 64 * 1024 - 1, 64 * 1024, 900_000]
    for size in sizes:
        assert client.append_many("a", [struct.pack("<I", size) + bytes(size)]).count == 1
    assert [len(payload) - 4 for payload in contents(client)] == sizes
