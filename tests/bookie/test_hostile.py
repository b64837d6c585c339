"""Clients that mean harm. After each attack the bookie serves others, and has said little about it.

The sizes take seconds; `python benchmarks/hostile.py` attacks with the full figures, and measures what others notice.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from bookie_process import descriptors, resident_bytes, resident_bytes_peak
from bookie_runs import Bookies, Running, bookies_in, until
from tcp_proxy import proxy_to
from wire_client import (
    BAD_REQUEST,
    NO_ENTRY,
    OK,
    TOO_MANY_REQUESTS,
    WireClient,
    add_request,
    frame,
    make_entry,
    read_request,
    request,
)

from walkeeper._native import lib

MIB = 1024 * 1024
FRAME_MAX = 5 * MIB
LIMIT = 128 * MIB
"""Of what is asked of the memory in one of its ways: so much that a tenth of it is more than all the rest moves."""
PATIENCE = 60.0
LINES_MAX = 60
"""Of stderr, in one test: what is said at start and stop, and some of what happened; not a line for each attack."""


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


@pytest.fixture
def start(bookies: Bookies) -> Iterator[Callable[..., Running]]:
    """Starts a bookie with these options. At the end it is asked for what a good client wants, and how it ended."""
    started: list[Running] = []

    def one(*options: str, before: str = "") -> Running:
        started.append(bookies.start("--init", *options, before=before))
        started[-1].ready()
        return started[-1]

    yield one
    for bookie in started:
        serves(bookie)
        assert bookie.stop() == 0, bookie.said()
        assert len(bookie.said().splitlines()) < LINES_MAX, bookie.said()


def serves(bookie: Running) -> None:
    """A good client of either version, on a connection of its own, adds and reads."""
    for version in (2, 3):
        ledger_id = 10**6 + version + 10 * int(time.monotonic_ns())
        with WireClient(bookie.port, version) as client:
            for entry_id in range(3):
                assert client.add(ledger_id, entry_id, b"good %d" % entry_id) == OK
            assert client.read(ledger_id, 2).payload == b"good 2"


class Watched:
    """A good client with a connection of its own from before the attack, at work on a thread of its own."""

    def __init__(self, bookie: Running, reads: bool = True) -> None:
        self._bookie, self._reads = bookie, reads
        self._ends = threading.Event()
        self.answers: list[float] = []
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Watched:
        self._thread.start()
        until(lambda: self.answers or self.failure, "the good client has a first answer")
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def serve_more(self, count: int = 10) -> None:
        """Returns when it was answered so often from now on."""
        wanted = len(self.answers) + count
        until(lambda: len(self.answers) >= wanted or self.failure, "the good client is answered")

    def _work(self) -> None:
        try:
            with WireClient(self._bookie.port) as client:
                entry_id = 0
                while not self._ends.is_set():
                    began = time.monotonic()
                    assert client.add(77, entry_id, b"x" * 1000) == OK
                    if self._reads:
                        assert client.read(77, entry_id).code == OK
                    self.answers.append(time.monotonic() - began)
                    entry_id += 1
        except BaseException as failure:
            self.failure = failure


# ---- lengths ----

NEAR = (0, 8, 24, 2**8, 2**16, 2**24, FRAME_MAX, 2**31, 2**32 - 2)
LENGTHS = sorted({number + more for number in NEAR for more in range(-5, 6) if 0 <= number + more < 2**32})


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


# ---- time ----


def test_a_dripped_frame_ends_its_connection_and_an_idle_one_stays(start: Callable[..., Running]) -> None:
    bookie = start("--frame-timeout", "300ms")
    whole = add_request(2, 5, 0, b"hello")
    with WireClient(bookie.port) as idle, WireClient(bookie.port, 2) as dripping:
        assert idle.add(6, 0) == OK

        def drips_on() -> bool:
            try:
                for byte in whole[:-1]:
                    dripping.send(bytes([byte]))
                    time.sleep(0.05 if len(whole) < 200 else 0.2)
            except ConnectionError:
                return False
            return True

        began = time.monotonic()
        assert not drips_on() or dripping.is_closed()
        assert time.monotonic() - began > 0.3
        assert idle.add(6, 1) == OK
    with WireClient(bookie.port) as client:
        assert client.read(5, 0).code == lib.WK_WIRE_NO_LEDGER


def test_hundreds_that_send_a_byte_a_second_are_ended_in_time_and_not_before(start: Callable[..., Running]) -> None:
    bookie = start("--frame-timeout", "5s")
    with Watched(bookie) as good, ExitStack() as stack:
        began: dict[WireClient, float] = {}
        for _ in range(400):
            client = stack.enter_context(WireClient(bookie.port))
            client.socket.setblocking(False)
            began[client] = time.monotonic()
            client.send(struct.pack(">I", FRAME_MAX - 4))
        lived: list[float] = []
        while began and min(began.values()) > time.monotonic() - PATIENCE:
            for client in list(began):
                if drips_on(client):
                    continue
                lived.append(time.monotonic() - began.pop(client))
            good.serve_more(2)
            time.sleep(1)
        assert len(lived) == 400
        assert min(lived) > 5
        good.serve_more()
    assert max(lived) < 25


def drips_on(client: WireClient) -> bool:
    """A byte more is sent, and the connection still stands."""
    try:
        client.send(b"x")
        return client.socket.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_many_that_drip_take_no_more_memory_than_they_may(start: Callable[..., Running]) -> None:
    """300 MiB of frames that are never whole, where 128 MiB are allowed for all."""
    bookie = start("--receive-bytes", str(LIMIT), "--frame-timeout", "20s")
    with Watched(bookie) as good, ExitStack() as stack:
        good.serve_more(50)
        before = resident_bytes(bookie)
        piece = struct.pack(">I", 4 * MIB) + bytes(3 * MIB)
        for _ in range(100):
            client = stack.enter_context(WireClient(bookie.port, timeout=0.05))
            try:
                client.send(piece)
            except (TimeoutError, ConnectionError):
                pass
        good.serve_more(50)
        places = LIMIT / 2 / (4 * MIB)  # half of the memory is for large frames, and three quarters of each were sent
        until(lambda: resident_bytes_peak(bookie) - before > places * 2.5 * MIB, "the places for them are taken")
        assert resident_bytes_peak(bookie) - before < LIMIT * 1.1
        until(lambda: descriptors_gone(bookie, 100), "those that drip are closed")
        good.serve_more(50)


SLACK = 16 * MIB
"""What the allocator, and reading and adding themselves, take besides."""


def descriptors_gone(bookie: Running, fewer_than: int) -> bool:
    return descriptors(bookie) < fewer_than


# ---- answers that nobody reads ----

SMALL_MEMORY = (
    *("--reply-bytes", "8MiB", "--receive-bytes", "8MiB"),
    *("--memtable", "1MiB", "--cache", "1MiB", "--in-flight", "1MiB"),
)


def put_large(bookie: Running, ledger_id: int, count: int, size: int) -> None:
    with WireClient(bookie.port) as client:
        for entry_id in range(count):
            assert client.add(ledger_id, entry_id, bytes([entry_id]) * size) == OK


@pytest.mark.parametrize(("connections", "limit"), [(1, LIMIT), (40, LIMIT), (40, 8 * MIB)])
@pytest.mark.parametrize("version", [2, 3])
def test_who_never_reads_its_answers_harms_nobody(
    start: Callable[..., Running], connections: int, limit: int, version: int
) -> None:
    """Each asks for 200 MiB, and takes none of it. Where there is little memory it is hard to leave others some."""
    bookie = start(*SMALL_MEMORY, "--reply-bytes", str(limit), "--frame-timeout", "1h")
    put_large(bookie, 5, 8, MIB)
    asked = b"".join(read_request(version, 5, entry_id % 8, txn_id=entry_id) for entry_id in range(200))
    with Watched(bookie) as good, ExitStack() as stack:
        good.serve_more(50)
        before = resident_bytes(bookie)
        for _ in range(connections):
            stack.enter_context(WireClient(bookie.port, version, receive_buffer=4096)).send(asked)
        good.serve_more(200)
        assert resident_bytes_peak(bookie) - before < LIMIT * 1.1
    assert resident_bytes(bookie) - before < LIMIT * 1.1


READS = 10**6


@pytest.mark.parametrize("connections", [1, 40])
def test_a_million_reads_of_the_largest_entries_take_no_more_memory_than_they_may(
    start: Callable[..., Running], connections: int
) -> None:
    """As many as the sockets take, and whenever they take more; what is not looked at stays in the kernel."""
    bookie = start(*SMALL_MEMORY, "--reply-bytes", str(LIMIT), "--frame-timeout", "1h")
    put_large(bookie, 5, 8, FRAME_MAX - 1024)
    asked = b"".join(read_request(2, 5, entry_id % 8) for entry_id in range(1000)) * (READS // 1000 // connections)
    with Watched(bookie) as good, ExitStack() as stack:
        good.serve_more(50)
        before = resident_bytes(bookie)
        left = {
            stack.enter_context(WireClient(bookie.port, 2, receive_buffer=4096)): memoryview(asked)
            for _ in range(connections)
        }
        for client in left:
            client.socket.setblocking(False)
        ends = time.monotonic() + 8
        while time.monotonic() < ends and any(left.values()):
            for client, rest in left.items():
                with suppress(BlockingIOError):
                    left[client] = rest[client.socket.send(rest) :]
            good.serve_more(2)
        if connections > 1:  # one has its share alone
            until(lambda: resident_bytes_peak(bookie) - before > LIMIT / 2, "what they ask for fills the memory")
        assert resident_bytes_peak(bookie) - before < LIMIT * 1.1
        for rest in left.values():
            assert len(asked) - len(rest) > 1000 * len(asked) * connections // READS  # more than it may have under way
        good.serve_more(100)


def test_reads_of_the_largest_entries_that_are_taken_hold_nobody_up(start: Callable[..., Running]) -> None:
    """Sixteen are always asked for, and taken as they come, for as long as another works."""
    bookie = start(*SMALL_MEMORY, "--reply-bytes", str(LIMIT))
    put_large(bookie, 5, 8, FRAME_MAX - 1024)
    ends = threading.Event()

    def takes_all() -> None:
        with WireClient(bookie.port, 2) as client:
            client.send(read_request(2, 5, 0) * 16)
            while not ends.is_set():
                assert client.receive().code == OK
                client.send(read_request(2, 5, 0))

    with Watched(bookie) as good:
        good.serve_more(50)
        before = resident_bytes(bookie)
        with ThreadPoolExecutor(1) as one:
            taker = one.submit(takes_all)
            good.serve_more(200)
            ends.set()
            taker.result()
        assert resident_bytes_peak(bookie) - before < LIMIT * 1.1


def test_many_reads_that_are_read_are_all_answered(start: Callable[..., Running]) -> None:
    """One that asks for much, and takes it, gets all of it, in spite of the limits."""
    bookie = start(*SMALL_MEMORY)
    put_large(bookie, 5, 4, MIB)
    with WireClient(bookie.port) as client:
        asked = b"".join(read_request(3, 5, number % 4, txn_id=number) for number in range(300))
        sender = threading.Thread(target=client.send, args=(asked,))
        sender.start()
        answers = [client.receive() for _ in range(300)]
        sender.join()
    assert sorted(answer.txn_id for answer in answers) == list(range(300))
    for answer in answers:
        assert answer.code in (OK, TOO_MANY_REQUESTS)
        assert answer.code != OK or answer.payload == bytes([answer.entry_id]) * MIB
    assert sum(answer.code == OK for answer in answers) == 300


def test_large_entries_that_come_from_the_disk_leave_no_memory_behind(start: Callable[..., Running]) -> None:
    """Read again and again, sixteen at once, and taken: what was held for one is used for the next."""
    bookie = start("--memtable", "1MiB", "--cache", "1MiB")
    put_large(bookie, 5, 6, 5 * MIB - 1024)
    with WireClient(bookie.port, 2) as client:
        before = resident_bytes(bookie)
        client.send(read_request(2, 5, 0) * 16)
        for number in range(400):
            assert client.receive().code == OK
            client.send(read_request(2, 5, number % 6))
        assert resident_bytes_peak(bookie) - before < 16 * 5 * MIB + 2 * SLACK


def test_small_answers_do_not_hold_large_blocks(start: Callable[..., Running]) -> None:
    """An entry of 5,000 bytes from each of many blocks of 512 KiB, just written, asked for and not taken."""
    bookie = start(*SMALL_MEMORY, "--reply-bytes", "64MiB", "--frame-timeout", "1h")
    put_large(bookie, 6, 4, MIB)
    with WireClient(bookie.port) as writer, WireClient(bookie.port, receive_buffer=4096) as deaf:
        deaf.send(b"".join(read_request(3, 6, number % 4) for number in range(6)))  # more than the kernel takes
        before = 0
        for number in range(120):
            adds = [add_request(3, 5, 2 * number, bytes(5000)), add_request(3, 5, 2 * number + 1, bytes(500_000))]
            writer.send(b"".join(adds))
            assert [writer.receive().code for _ in adds] == [OK, OK]
            deaf.send(read_request(3, 5, 2 * number))
            assert writer.read(5, 2 * number).code == OK  # by then the other one is read, too
            if number == 20:
                before = resident_bytes(bookie)
        assert resident_bytes(bookie) - before < 24 * MIB


# ---- too many ----


def test_many_beginnings_of_frames_are_no_way_to_fill_the_memory(start: Callable[..., Running]) -> None:
    """Each connection brings less than any limit: 400 KB of a frame. All would be 240 MB, where 128 are allowed."""
    bookie = start("--receive-bytes", str(LIMIT), "--frame-timeout", "1h")
    piece = struct.pack(">I", MIB) + bytes(400_000)
    with Watched(bookie) as good, ExitStack() as stack:
        good.serve_more(50)
        before = resident_bytes(bookie)
        for _ in range(600):
            client = stack.enter_context(WireClient(bookie.port, timeout=0.02))
            try:
                client.send(piece)
            except (TimeoutError, ConnectionError):
                pass
        good.serve_more(50)
        assert LIMIT / 4 < resident_bytes_peak(bookie) - before < LIMIT * 1.1


def test_frames_that_wait_for_memory_go_on_when_there_is_some(start: Callable[..., Running]) -> None:
    """What fills the memory ends well: those that waited are served, with no time passing."""
    bookie = start("--receive-bytes", "8MiB", "--frame-timeout", "1h")
    whole = add_request(3, 5, 0, bytes(50_000))
    with ExitStack() as stack:
        crowd = [stack.enter_context(WireClient(bookie.port)) for _ in range(83)]  # just over a half of 8 MiB
        for client in crowd:
            client.send(whole[:-1])
        late = stack.enter_context(WireClient(bookie.port))
        late.send(add_request(3, 6, 0, bytes(50_000))[:45_000])
        time.sleep(0.1)  # it helps to show what is tested, and nothing depends on it
        late.send(add_request(3, 6, 0, bytes(50_000))[45_000:])
        for client in crowd:
            client.send(whole[-1:])
            assert client.receive().code == OK
        assert late.receive().code == OK


def test_ten_times_the_connections_that_are_allowed(start: Callable[..., Running]) -> None:
    bookie = start("--connections-max", "50")
    with Watched(bookie) as good:
        crowd = [socket.create_connection(("127.0.0.1", bookie.port), timeout=PATIENCE) for _ in range(500)]
        good.serve_more(50)
        assert descriptors(bookie) < 50 + 100
        for each in crowd:
            each.close()
        good.serve_more(50)
    until(lambda: can_connect(bookie), "there is room again")


def test_an_address_that_floods_leaves_room_for_others(start: Callable[..., Running]) -> None:
    bookie = start("--connections-per-address-max", "20")
    crowd = [socket.create_connection(("127.0.0.1", bookie.port), timeout=PATIENCE) for _ in range(200)]
    assert not can_connect(bookie)
    with WireClient(bookie.port, source="127.0.0.2") as other:
        assert other.add(1, 0, b"from elsewhere") == OK
    assert descriptors(bookie) < 20 + 100
    for each in crowd:
        each.close()
    until(lambda: can_connect(bookie), "there is room again")


def can_connect(bookie: Running) -> bool:
    try:
        with WireClient(bookie.port) as client:
            return client.read(1, 1).code != 0
    except ConnectionError:
        return False


def test_without_descriptors_it_goes_on_and_so_does_its_journal(start: Callable[..., Running]) -> None:
    """Connections take all there are; the journal needs one for each new file."""
    bookie = start(
        *("--file-size-min", "64KiB", "--file-size-max", "64KiB"),
        before="import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))",
    )
    with Watched(bookie) as good:
        crowd = [socket.create_connection(("127.0.0.1", bookie.port), timeout=PATIENCE) for _ in range(300)]
        good.serve_more(500)  # half a megabyte: several files
        assert bookie.process.poll() is None, bookie.said()
        for each in crowd:
            each.close()
        good.serve_more(100)
    until(lambda: can_connect(bookie), "there is room again")


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


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


HEADER = b"\x0a\x06\x08\x03\x10\x01\x18\x07"  # v3, READ, transaction 7
PROTOBUF = {
    "a million unknown fields": HEADER + b"\xa0\x06\x01" * 1_000_000,
    "a million headers": HEADER * 500_000,
    "groups in groups": HEADER + b"\xa3\x06" * 1_000_000,
    "groups that end": HEADER + b"\xa3\x06" * 500_000 + b"\xa4\x06" * 500_000,
    "a length of 2**63": HEADER + b"\xa2\x06" + varint(2**63),
    "a length of 2**64 - 1": HEADER + b"\xa2\x06" + varint(2**64 - 1),
    "a length of 2**31": HEADER + b"\xa2\x06" + varint(2**31) + bytes(100),
    "a number without end": HEADER + b"\xa0\x06" + b"\xff" * 1_000_000,
    "field 0": HEADER + b"\x00\x00",
    "messages in messages": HEADER + b"\xa2\x06" + varint(900_000) + b"\xa2\x06" * 450_000,
    "a million contexts": HEADER + b"\xa2\x06\x04\x0a\x01a\x12" * 500_000,
}


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


# ---- connections that lead nowhere ----


def test_half_open_connections(start: Callable[..., Running]) -> None:
    """The network swallows everything between the bookie and twenty clients, with answers under way."""
    bookie = start(*SMALL_MEMORY)
    put_large(bookie, 5, 4, MIB)
    with Watched(bookie) as good, proxy_to(bookie.port) as proxy, ExitStack() as stack:
        clients = [stack.enter_context(WireClient(proxy.port)) for _ in range(20)]
        for client in clients:
            assert client.read(5, 0).code == OK
        proxy.leave_half_open()
        for client in clients:
            client.send(read_request(3, 5, 1))
        good.serve_more(50)


def test_who_closes_its_direction_or_resets_in_the_middle(start: Callable[..., Running]) -> None:
    bookie = start(*SMALL_MEMORY)
    put_large(bookie, 5, 4, MIB)
    whole = add_request(3, 6, 0, bytes(100_000))
    with Watched(bookie) as good:
        for size in (1, 3, 4, 5, 100, len(whole) - 1, len(whole)):
            with WireClient(bookie.port) as client:
                client.send(whole[:size])
                client.socket.shutdown(socket.SHUT_WR)
                assert client.is_closed(), size
        for _ in range(30):
            with WireClient(bookie.port, receive_buffer=4096) as client:
                client.send(b"".join(read_request(3, 5, entry_id % 4) for entry_id in range(20)))
                client.socket.recv(1000)
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        good.serve_more(50)
