"""Real faults: a bookie's process is killed and stopped, its disk is full or damaged, its metadata are away.

`WALKEEPER_PROCESS_KILLS=N` kills N times in place of a few (`make process-kills N=…`); a seed is printed, and
`WALKEEPER_TEST_SEED` repeats it.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import Bookies, Running, bookies_in, free_port, until
from small_file_system import SmallFileSystem, mounted
from tcp_proxy import proxy_to
from wire_client import (
    FENCE,
    FENCED,
    NO_LEDGER,
    OK,
    READ_ONLY,
    Reply,
    WireClient,
    add_request,
    read_request,
    request,
)
from zookeeper_server import ZooKeeperServer, missing

from tests.core_lib import lib
from walkeeper.metadata import DigestType, LedgerMetadata, MetadataStore, open_store

MIB = 1024 * 1024
KILLS = int(os.environ.get("WALKEEPER_PROCESS_KILLS", "10"))


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


# ---- SIGKILL ----


class Ledger:
    """What was asked of one ledger, and what of it was acknowledged."""

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self.sent = 0  # so many entries, from 0 on
        self.acknowledged = 0
        self.fenced = False

    def payload(self, entry_id: int) -> bytes:
        source = random.Random(self.ledger_id * 1_000_003 + entry_id)
        return source.randbytes(source.choice((0, 1, 10, 100, 1000, 5000, 70_000 if entry_id % 50 == 0 else 300)))


class Writer:
    """Adds to ledgers, 32 entries in flight, and fences each after a while; until its bookie dies."""

    def __init__(self, port: int, version: int, first_ledger: int, seed: int) -> None:
        self._port, self._version, self._random = port, version, random.Random(seed)
        self.ledgers: list[Ledger] = []
        self._next = first_ledger
        self._thread = threading.Thread(target=self._work)
        self.failure: BaseException | None = None
        self._thread.start()

    def join(self) -> list[Ledger]:
        self._thread.join()
        if self.failure is not None:
            raise self.failure
        return self.ledgers

    def _work(self) -> None:
        try:
            with WireClient(self._port, self._version) as client:
                while True:
                    self._write(client)
        except OSError:  # as it was killed
            pass
        except BaseException as failure:
            self.failure = failure

    def _write(self, client: WireClient) -> None:
        ledger = Ledger(self._next)
        self._next += 1
        self.ledgers.append(ledger)
        for _ in range(self._random.randint(1, 300)):
            client.send(add_request(self._version, ledger.ledger_id, ledger.sent, ledger.payload(ledger.sent)))
            ledger.sent += 1
            if ledger.sent - ledger.acknowledged >= 32:
                self._take(client, ledger)
        while ledger.acknowledged < ledger.sent:
            self._take(client, ledger)
        if self._random.random() < 0.5:
            reply = client.read(ledger.ledger_id, ledger.sent - 1, FENCE)
            assert reply.code == OK, reply
            ledger.fenced = True

    def _take(self, client: WireClient, ledger: Ledger) -> None:
        reply = client.receive()
        assert (reply.code, reply.entry_id) == (OK, ledger.acknowledged), reply
        ledger.acknowledged += 1


def check_ledger(client: WireClient, ledger: Ledger) -> None:
    """What was acknowledged is there; of the rest what is there is what was sent."""
    for first in range(0, ledger.sent, 100):
        ids = range(first, min(first + 100, ledger.sent))
        client.send(b"".join(read_request(3, ledger.ledger_id, entry_id, txn_id=entry_id) for entry_id in ids))
        replies: dict[int, Reply] = {}
        for _ in ids:
            reply = client.receive()
            replies[reply.txn_id] = reply
        for entry_id in ids:
            reply = replies[entry_id]
            if entry_id < ledger.acknowledged or reply.code == OK:
                assert reply.code == OK, (ledger.ledger_id, entry_id, ledger.acknowledged, reply)
                assert reply.payload == ledger.payload(entry_id), (ledger.ledger_id, entry_id)
    if ledger.fenced:
        assert client.add(ledger.ledger_id, ledger.sent) == FENCED, ledger.ledger_id


def test_whatever_was_acknowledged_survives_kills(bookies: Bookies) -> None:
    seed = int(os.environ.get("WALKEEPER_TEST_SEED", time.time_ns() % 10**9))
    print(f"WALKEEPER_TEST_SEED={seed}")
    source = random.Random(seed)
    port = free_port()
    options = ("--file-size-min", "256KiB", "--file-size-max", "1MiB", "--memtable", "1MiB", "--cache", "1MiB")
    ledgers: list[Ledger] = []
    acknowledged = 0
    for life in range(KILLS + 1):
        bookie = bookies.start(*options, *(["--init"] if life == 0 else []), port=port)
        bookie.ready()
        assert "limbo" not in bookie.said(), bookie.said()
        with WireClient(port) as client:
            for ledger in ledgers if life == KILLS else ledgers[-12:]:
                check_ledger(client, ledger)
        if life == KILLS:
            break
        first = 1_000_000 * (life + 1)
        writers = [
            Writer(port, 2 + number % 2, first + 100_000 * number, source.randrange(2**32)) for number in range(3)
        ]
        time.sleep(source.uniform(0.05, 0.5))
        bookie.kill()
        for writer in writers:
            ledgers += writer.join()
        acknowledged = sum(ledger.acknowledged for ledger in ledgers)
    assert acknowledged > 10 * KILLS
    assert bookie.stop() == 0


# ---- metadata that are away ----


@pytest.fixture
def zookeeper() -> Iterator[ZooKeeperServer]:
    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    server = ZooKeeperServer()
    yield server
    server.stop()


def is_registered(store: MetadataStore, bookie: Running) -> bool:
    return bookie.bookie_id in store.children("/ledgers/available")


def test_a_stopped_process_loses_its_session_and_gets_another(bookies: Bookies, zookeeper: ZooKeeperServer) -> None:
    bookie = bookies.start("--init", "--session-timeout", "1s", metadata=f"zk://{zookeeper.hosts}/ledgers")
    bookie.ready()
    store = open_store(f"zk://{zookeeper.hosts}/ledgers").store
    with WireClient(bookie.port) as client:
        assert client.add(5, 0) == OK
        assert is_registered(store, bookie)
        bookie.send(signal.SIGSTOP)
        until(lambda: not is_registered(store, bookie), "its session ends")
        client.send(add_request(3, 5, 1, b"meanwhile", txn_id=2))  # the kernel takes it
        bookie.send(signal.SIGCONT)
        assert client.receive().code == OK
        until(lambda: is_registered(store, bookie), "it registers anew")
        assert client.read(5, 1).payload == b"meanwhile"
    store.close()
    assert bookie.stop() == 0


def test_it_serves_while_zookeeper_is_down_and_registers_again(bookies: Bookies, zookeeper: ZooKeeperServer) -> None:
    bookie = bookies.start("--init", "--session-timeout", "1s", metadata=f"zk://{zookeeper.hosts}/ledgers")
    bookie.ready()
    with WireClient(bookie.port) as client:
        assert client.add(5, 0) == OK
        zookeeper.kill()
        began, entry_id = time.monotonic(), 1
        while time.monotonic() - began < 3:  # longer than its session
            assert client.add(5, entry_id) == OK
            assert client.read(5, entry_id).code == OK
            entry_id += 1
        zookeeper.restart()
        store = open_store(f"zk://{zookeeper.hosts}/ledgers").store
        until(lambda: is_registered(store, bookie), "it registers again")
        assert client.add(5, entry_id) == OK
        store.close()
    assert bookie.stop() == 0


def test_a_session_that_expires_is_replaced(bookies: Bookies, zookeeper: ZooKeeperServer) -> None:
    """The network between the bookie and ZooKeeper swallows everything, until the session is over."""
    store = open_store(f"zk://{zookeeper.hosts}/ledgers").store
    with proxy_to(zookeeper.port) as proxy:
        bookie = bookies.start("--init", "--session-timeout", "1s", metadata=f"zk://{proxy.hosts}/ledgers")
        bookie.ready()
        with WireClient(bookie.port) as client:
            for round_number in range(2):
                until(lambda: is_registered(store, bookie), "it is registered")
                proxy.swallow()
                until(lambda: not is_registered(store, bookie), "its session expires")
                assert client.add(5, round_number) == OK
                proxy.heal()
            until(lambda: is_registered(store, bookie), "it registers anew")
            assert client.read(5, 1).code == OK
        assert bookie.process.poll() is None
        assert bookie.stop() == 0
    store.close()


# ---- the disk ----


def test_on_a_full_disk_it_is_read_only_and_fences_until_there_is_room(tmp_path: Path) -> None:
    with mounted(tmp_path, 96 * MIB) as disk, bookies_in(tmp_path) as bookies:
        options = (
            *("--disk-check-interval", "50ms", "--disk-read-only-free", "0B", "--disk-read-only-percent", "0"),
            *("--disk-writable-free", "1MiB", "--disk-writable-percent", "0", "--disk-recovery-free", "0B"),
            *("--file-size-min", "256KiB", "--file-size-max", "1MiB"),
        )
        bookie = bookies.start("--init", *options, data=disk.path / "data")
        bookie.ready()
        store = open_store(bookies.metadata).store
        with WireClient(bookie.port) as client:
            for ledger_id in range(10, 30):
                assert client.add(ledger_id, 0, b"first %d" % ledger_id) == OK
            disk.fill(leave=4 * MIB)
            added = 0
            while (code := client.add(5, added, bytes([added % 256]) * 50_000)) == OK:
                added += 1
                if added % 20 == 0:
                    disk.fill(leave=1 * MIB)
            assert code == READ_ONLY, bookie.said()
            disk.fill()
            for ledger_id in range(10, 20):
                assert client.read(ledger_id, 0, FENCE).payload == b"first %d" % ledger_id
            until(
                lambda: client.add(6, 0, bytes(50_000)) == READ_ONLY and not is_registered(store, bookie),
                "no writer finds it",
            )
            assert store.children("/ledgers/available/readonly") == [bookie.bookie_id]
            bookie.kill()

        again = bookies.start(*options, port=bookie.port, data=disk.path / "data")
        again.ready()  # a full disk is no reason not to start
        with WireClient(again.port) as client:
            for ledger_id in range(10, 20):
                assert client.add(ledger_id, 1) in (FENCED, READ_ONLY)
            for ledger_id in range(20, 30):
                assert client.read(ledger_id, 0, FENCE).code == OK
            for entry_id in range(added):
                assert client.read(5, entry_id).payload == bytes([entry_id % 256]) * 50_000
            disk.make_room()
            until(lambda: client.add(5, added) == OK, "it is writable again")
            until(lambda: is_registered(store, again), "writers find it again")
            for ledger_id in range(10, 30):
                assert client.add(ledger_id, 1) == FENCED
        assert again.stop() == 0
        store.close()


def filled(disk: SmallFileSystem) -> bool:
    """Whether it stays full for a second: what was written and is not needed any more comes back later."""
    disk.fill()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if disk.free() > 0:
            return False
        time.sleep(0.02)
    return True


def test_on_a_full_disk_what_was_deleted_gives_its_space_back(tmp_path: Path) -> None:
    with mounted(tmp_path, 96 * MIB) as disk, bookies_in(tmp_path) as bookies:
        bookie = bookies.start(
            *("--init", "--gc-interval", "100ms", "--disk-check-interval", "50ms"),
            *("--disk-read-only-free", "0B", "--disk-read-only-percent", "0"),
            *("--disk-writable-free", "1MiB", "--disk-writable-percent", "0"),
            *("--file-size-min", "256KiB", "--file-size-max", "1MiB", "--memtable", "1MiB"),
            data=disk.path / "data",
        )
        bookie.ready()
        store = open_store(bookies.metadata).store
        keys = [f"/ledgers/00/0000/L{ledger_id:04d}" for ledger_id in range(12)]
        for key in keys:
            store.create(key, LedgerMetadata(1, 1, 1, {0: (bookie.bookie_id,)}).serialise(), parents=True)
        with WireClient(bookie.port) as client:
            for ledger_id in range(12):
                for entry_id in range(60):
                    assert client.add(ledger_id, entry_id, bytes(50_000)) == OK
            until(lambda: filled(disk), "nothing gives it space")
            for key in keys[:9]:
                store.delete(key)
            tombstones = disk.path / "data" / "tombstones"
            until(lambda: tombstones.exists() or disk.fill(), "it is let go of without a free byte")
            until(lambda: client.read(0, 0).code == NO_LEDGER, "it is not there any more")
            until(lambda: disk.free() > 4 * MIB, "its space comes back")
            assert client.read(11, 59).payload == bytes(50_000)
            until(lambda: client.add(11, 60) == OK, "it is writable again")
        store.close()
        assert bookie.stop() == 0


# ---- directories ----


def test_swapped_directories_are_noticed(bookies: Bookies) -> None:
    places = [bookies.place / "one", bookies.place / "two"]
    pair = [bookies.start("--init", data=data) for data in places]
    for bookie in pair:
        bookie.ready()
    for bookie in pair:
        assert bookie.stop() == 0
    for bookie, data in zip(pair, reversed(places), strict=True):
        refused = bookies.start("--init", port=bookie.port, data=data)
        assert refused.ended() == 4
    for bookie in pair:  # and nothing was changed by trying
        again = bookies.start(port=bookie.port, data=bookie.data)
        again.ready()
        assert again.stop() == 0


def test_a_stopped_process_keeps_its_directory(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    first.send(signal.SIGSTOP)
    second = bookies.start("--lock-timeout", "300ms", port=first.port)
    assert second.ended() == 6
    first.send(signal.SIGCONT)
    with WireClient(first.port) as client:
        assert client.add(5, 0) == OK


# ---- clocks ----


class SteppedClock:
    """The wall clock of a process, that of its C as well as Python's."""

    def __init__(self, place: Path) -> None:
        self._file = place / "clock"
        self._file.write_bytes(bytes(8))
        library = place / "stepped_clock.so"
        source = Path(__file__).parents[1] / "stepped_clock.c"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run([*compiler, "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, source], check=True)
        self.env = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        """It is wrong by so much from now on."""
        with self._file.open("r+b") as file:  # written in place, and in one piece
            file.write(struct.pack("=q", seconds))


def long_poll(previous_lac: int, timeout_ms: int) -> bytes:
    flags = int(lib.WK_WIRE_LONG_POLL | lib.WK_WIRE_PIGGYBACK)
    more = {"flags": flags, "previous_lac": previous_lac, "timeout_ms": timeout_ms, "has_timeout": True}
    return request(3, lib.WK_WIRE_READ, 5, -1, txn_id=1, **more)


def test_a_wall_clock_that_jumps_does_not_matter(bookies: Bookies, tmp_path: Path) -> None:
    """Ten years forward, and back. A deleted ledger stays refused, and who waits is answered in time.

    Of C's clocks that one stamps changes of a LAC, for the clients to see; whatever is timed goes by the monotonic one.
    """
    clock = SteppedClock(tmp_path)
    options = ("--gc-interval", "50ms", "--disk-check-interval", "50ms")
    bookie = bookies.start("--init", *options, env=clock.env)
    bookie.ready()
    store = open_store(bookies.metadata).store
    for ledger_id in (5, 6):
        metadata = LedgerMetadata(1, 1, 1, {0: [bookie.bookie_id]}, digest_type=DigestType.CRC32C)
        store.create(f"/ledgers/00/0000/L{ledger_id:04d}", metadata.serialise(), parents=True)
    with WireClient(bookie.port) as client:
        assert client.add(6, 0) == OK
        assert client.add(5, 0) == OK
        store.delete("/ledgers/00/0000/L0006")
        until(lambda: client.read(6, 0).code == NO_LEDGER, "it is let go of")
        was = 0
        for number, jump in enumerate((0, 320_000_000, -320_000_000, 0)):
            assert client.add(5, number + 1) == OK  # the LAC is its predecessor
            assert client.read(5, number + 1).code == OK
            began = time.monotonic()
            client.send(long_poll(number, 1000))  # nothing comes
            clock.step(jump)
            stamp = client.receive().lac_update_ms / 1000
            assert 1 <= time.monotonic() - began < 30
            assert abs(stamp - time.time() - was) < 3600
            time.sleep(0.2)  # its workers ran several times
            assert client.add(6, 1) == FENCED
            assert is_registered(store, bookie)
            was = jump
    store.close()
    assert bookie.stop() == 0
