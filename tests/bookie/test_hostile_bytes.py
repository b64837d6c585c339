"""Bytes that mean harm, or nothing. After each attack the bookie serves others, and has said little about it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
from bookie_process import resident_bytes
from bookie_runs import Running
from hostile_bookie import PATIENCE, SLACK, Watched
from hostile_bytes import FRAME_MAX, LENGTHS, PROTOBUF
from wire_client import (
    BAD_REQUEST,
    NO_ENTRY,
    OK,
    WireClient,
    add_request,
    frame,
    make_entry,
    read_request,
    request,
)

from tests.core_lib import lib

pytest_plugins = ["hostile_bookie"]

# ---- lengths ----


@pytest.mark.parametrize("behind", ["nothing", "zeros", "noise", "a request"])
def test_every_length_is_served_awaited_or_refused(start: Callable[..., Running], behind: str) -> None:
    bookie = start("--frame-timeout", "60s")
    source = random.Random(11)
    with Watched(bookie) as good:
        for length in LENGTHS:
            size = min(length, 70_000)
            more = {
                "nothing": b"",
                "zeros": bytes(size),
                "noise": source.randbytes(size),
                "a request": read_request(2, 1, 1)[4:].ljust(size, b"\0")[:size],
            }[behind]
            possible = 0 < length <= FRAME_MAX - 4
            whole = possible and len(more) >= length
            with WireClient(bookie.port, timeout=PATIENCE if not possible else 0.01) as client:
                try:
                    client.send(struct.pack(">I", length) + more)
                except ConnectionError:
                    assert not possible, length
                if not possible:
                    assert client.is_closed(), length
                elif not whole:
                    assert not client.is_closed(), length
        good.serve_more()


def test_the_largest_frame_is_taken_and_one_more_byte_ends_the_connection(start: Callable[..., Running]) -> None:
    bookie = start()
    room = FRAME_MAX - len(add_request(2, 5, 0, b""))
    with WireClient(bookie.port, 2) as client:
        assert client.add(5, 0, bytes(room)) == OK
        answer = client.read(5, 0)
        assert (answer.code, answer.payload) == (OK, bytes(room))
        with pytest.raises(ConnectionError):
            client.add(5, 1, bytes(room + 1))


# ---- bytes that mean nothing ----


@pytest.mark.parametrize("version", [2, 3])
def test_garbage_behind_a_request_does_not_harm_the_request(start: Callable[..., Running], version: int) -> None:
    bookie = start()
    source = random.Random(12)
    for number in range(30):
        with WireClient(bookie.port, version) as client:
            garbage = b"\xff" + source.randbytes(source.randint(10, 100_000))  # a length below 0
            client.send(add_request(version, 5, number, b"hello") + garbage)
            assert client.is_closed()  # perhaps before the answer: as with any connection that breaks
        with WireClient(bookie.port, version) as client:
            assert client.read(5, number).payload == b"hello"


@pytest.mark.parametrize("name", PROTOBUF)
def test_protobuf_that_was_made_to_hurt(start: Callable[..., Running], name: str) -> None:
    bookie = start()
    before = resident_bytes(bookie)
    with Watched(bookie) as good:
        for _ in range(10):
            with WireClient(bookie.port, timeout=0.5) as client:
                try:
                    client.send(frame(PROTOBUF[name]))
                    reply = client.receive()
                except (ConnectionError, TimeoutError):
                    continue
                assert reply.code == BAD_REQUEST, reply
        good.serve_more(20)
    assert resident_bytes(bookie) - before < 5 * FRAME_MAX + SLACK


def test_a_connection_may_turn_from_v3_to_v2_once(start: Callable[..., Running]) -> None:
    bookie = start()
    with WireClient(bookie.port, 3) as client:
        assert client.add(5, 0) == OK
        client.version = 2
        assert client.read(5, 0).payload == b"hello"
        assert client.add(5, 1) == OK
        client.version = 3
        client.send(read_request(3, 5, 0))
        client.version = 2
        try:  # what v2 makes of it: no request that anybody serves
            assert client.receive().code != OK
        except ConnectionError:
            pass
    with WireClient(bookie.port, 3) as client:
        assert client.read(5, 1).payload == b"hello"
        assert client.read(5, 2).code == NO_ENTRY


@pytest.mark.parametrize("seed", range(3))
def test_noise_in_whole_frames(start: Callable[..., Running], seed: int) -> None:
    """Requests in which bits were turned: each is answered, or ends its connection."""
    bookie = start()
    source = random.Random(seed)
    samples = [add_request(2, 5, 0, b"hello"), add_request(3, 5, 0, b"hello"), read_request(2, 5, 0)]
    samples += [read_request(3, 5, 0), request(3, lib.WK_WIRE_BOOKIE_INFO)]
    samples += [request(3, lib.WK_WIRE_AUTH, body=b"x" * 50)]
    samples += [request(3, lib.WK_WIRE_WRITE_LAC, 5, key=bytes(20), body=make_entry(5, 0, b"")[:20])]
    with Watched(bookie) as good:
        for _ in range(300):
            payload = bytearray(source.choice(samples)[4:])
            for _ in range(source.randint(1, 8)):
                payload[source.randrange(len(payload))] ^= 1 << source.randrange(8)
            with WireClient(bookie.port, timeout=0.01) as client:
                client.send(frame(bytes(payload)))
                client.is_closed()
        good.serve_more()
