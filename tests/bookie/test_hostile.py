"""Clients that mean harm. After each attack the bookie serves others, and has said little about it.

The sizes take seconds; `python benchmarks/hostile.py` attacks with the full figures, and measures what others notice.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from bookie_process import descriptors, resident_bytes, resident_bytes_peak
from bookie_runs import Running, free_port, until
from hostile_bookie import MIB, PATIENCE, SLACK, Watched
from hostile_bytes import FRAME_MAX
from tcp_proxy import proxy_to
from wire_client import (
    OK,
    TOO_MANY_REQUESTS,
    WireClient,
    add_request,
    read_request,
)

from tests.core_lib import lib

pytest_plugins = ["hostile_bookie"]

LIMIT = 128 * MIB
"""Of what is asked of the memory in one of its ways: so much that a tenth of it is more than all the rest moves."""


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
    http = free_port()
    bookie = start("--connections-max", "50", "--http", f"127.0.0.1:{http}")
    with Watched(bookie) as good:
        crowd = [socket.create_connection(("127.0.0.1", bookie.port), timeout=PATIENCE) for _ in range(500)]
        good.serve_more(50)
        assert descriptors(bookie) < 50 + 100
        until(lambda: refused_connections(http) == 500 - 49, "each who was sent away is counted")
        for each in crowd:
            each.close()
        good.serve_more(50)
    until(lambda: can_connect(bookie), "there is room again")


def refused_connections(http: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=PATIENCE) as answer:
        metrics = str(answer.read().decode())
    return int(metrics.partition("\nwalkeeper_connections_refused_total ")[2].split()[0])


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
        *("--file-size-min", "256KiB", "--file-size-max", "256KiB"),
        before="import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))",
    )
    with Watched(bookie) as good:
        crowd = [socket.create_connection(("127.0.0.1", bookie.port), timeout=PATIENCE) for _ in range(300)]
        good.serve_more(500)  # two megabytes of blocks: several files, and not as many as are kept for them
        assert bookie.process.poll() is None, bookie.said()
        for each in crowd:
            each.close()
        good.serve_more(100)
    until(lambda: can_connect(bookie), "there is room again")


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
