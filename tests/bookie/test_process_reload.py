"""SIGHUP: each setting that a reload may change, and that the running bookie goes by it from then on."""

from __future__ import annotations

import re
import signal
import socket
import struct
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import (
    FENCED,
    HIGH_PRIORITY,
    NO_LEDGER,
    OK,
    READ_ONLY,
    Bookies,
    Client,
    Running,
    bookies_in,
    free_port,
    until,
)

from walkeeper.metadata import DigestType, LedgerMetadata, MetadataStore, Operation, open_store
from walkeeper_bookie._settings import KEYS

TESTED = {
    "log_level": "test_what_is_logged_is_what_the_settings_say_by_now",
    "drain_timeout": "test_the_drain_lasts_as_long_as_the_settings_say_by_now",
    "gc_interval": "test_a_hold_lasts_for_the_time_of_now",
    "gc_hold_time": "test_a_hold_lasts_for_the_time_of_now",
    "gc_tombstone_time": "test_a_ledger_that_is_deleted_now_is_refused_for_the_time_of_now",
    "disk_read_only_free": "test_free_space_is_judged_by_the_thresholds_of_now",
    "disk_read_only_percent": "test_free_space_is_judged_by_the_thresholds_of_now",
    "disk_writable_free": "test_free_space_is_judged_by_the_thresholds_of_now",
    "disk_writable_percent": "test_free_space_is_judged_by_the_thresholds_of_now",
    "disk_recovery_free": "test_free_space_is_judged_by_the_thresholds_of_now",
    "disk_check_interval": "test_free_space_is_looked_at_as_often_as_the_settings_say_by_now",
}


class Reloaded:
    """A bookie whose file is written anew."""

    def __init__(self, bookies: Bookies, **settings: str) -> None:
        self.file, self.http, self.times = bookies.place / "bookie.toml", free_port(), 0
        self._settings = settings
        self._write()
        self.bookie: Running = bookies.start("--init", "--config", str(self.file), "--http", f"127.0.0.1:{self.http}")
        self.bookie.ready()

    def _write(self) -> None:
        self.file.write_text("".join(f'{name} = "{value}"\n' for name, value in self._settings.items()))

    def change(self, **settings: str) -> None:
        """They count when it returns."""
        self._settings |= settings
        self._write()
        self.times += 1
        self.bookie.send(signal.SIGHUP)
        until(lambda: self.bookie.said().count("settings read again") == self.times, "the settings are read again")

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=30) as answer:
            found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found is not None, name
        return float(found[1])


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


def make_ledger(store: MetadataStore, ledger_id: int, bookie_id: str) -> None:
    metadata = LedgerMetadata(1, 1, 1, {0: (bookie_id,)}, digest_type=DigestType.CRC32)
    digits = f"{ledger_id:010d}"
    store.create(f"/ledgers/{digits[:2]}/{digits[2:6]}/L{digits[6:]}", metadata.serialise(), parents=True)


def test_each_setting_that_a_reload_may_change_has_a_test() -> None:
    assert TESTED.keys() == {one.name for one in KEYS if one.reloadable}
    assert set(TESTED.values()) <= globals().keys()


def test_what_is_logged_is_what_the_settings_say_by_now(bookies: Bookies) -> None:
    reloaded = Reloaded(bookies, log_level="error")
    assert reloaded.bookie.said() == ""
    reloaded.change(log_level="info")
    assert reloaded.bookie.stop() == 0
    assert "msg=stopped" in reloaded.bookie.said()


def test_the_drain_lasts_as_long_as_the_settings_say_by_now(bookies: Bookies) -> None:
    reloaded = Reloaded(bookies, drain_timeout="10d")
    bookie = reloaded.bookie
    with Client(bookie.port) as client:
        assert client.add(7, 0, b"x" * 2**19) == OK
    with socket.create_connection(("127.0.0.1", bookie.port)) as unread:
        packet = struct.pack(">Iqq", 2 << 24 | 2 << 16, 7, 0)
        unread.sendall((struct.pack(">I", len(packet)) + packet) * 200)
        assert unread.recv(1) != b""
        reloaded.change(drain_timeout="100ms")
        assert bookie.stop() == 8


def test_a_hold_lasts_for_the_time_of_now(bookies: Bookies) -> None:
    """Those of before for the time of then. Also, the interval: at first there is no pass."""
    reloaded = Reloaded(bookies, gc_interval="10d", gc_hold_time="7d")
    with Client(reloaded.bookie.port) as client, open_store(bookies.metadata).store as store:

        def make(ledger_ids: range) -> None:
            for ledger_id in ledger_ids:
                make_ledger(store, ledger_id, reloaded.bookie.bookie_id)
                assert client.add(ledger_id, 0) == OK

        def lose(ledger_ids: range) -> None:
            store.transact([Operation("delete", f"/ledgers/00/0000/L{ledger_id:04d}") for ledger_id in ledger_ids])

        def listed(count: int) -> None:
            until(lambda: reloaded.metric("walkeeper_gc_listed_ledgers") == count, "the ledgers are listed")

        make(range(60))
        assert reloaded.metric("walkeeper_gc_passes_total") == 0
        reloaded.change(gc_interval="50ms")
        listed(60)
        lose(range(50))
        until(lambda: reloaded.metric("walkeeper_gc_alarm") == 1, "ledgers are held back")
        reloaded.change(gc_hold_time="0s")
        make(range(100, 160))
        listed(70)
        lose(range(100, 160))
        until(lambda: reloaded.metric("bookie_gc_DELETED_LEDGER_TOTAL") == 60, "they are deleted")
        assert reloaded.metric("walkeeper_gc_alarm") == 1
        assert client.read(0, 0)[0] == OK
    assert reloaded.bookie.stop() == 0


def test_a_ledger_that_is_deleted_now_is_refused_for_the_time_of_now(bookies: Bookies) -> None:
    """Those of before for the time of then."""
    reloaded = Reloaded(bookies, gc_interval="50ms", gc_tombstone_time="7d")
    with Client(reloaded.bookie.port) as client:
        assert client.add(7, 0) == OK  # of no ledger in the metadata: it goes
        until(lambda: client.read(7, 0)[0] == NO_LEDGER, "it is deleted")
        assert client.add(7, 1) == FENCED
        reloaded.change(gc_tombstone_time="0s")
        assert client.add(8, 0) == OK
        until(lambda: client.read(8, 0)[0] == NO_LEDGER, "it is deleted")
        until(lambda: client.add(8, 1) == OK, "it is refused no longer")
        assert client.add(7, 1) == FENCED
    assert reloaded.bookie.stop() == 0


MUCH = "8000TB"
ANY = {
    "disk_read_only_free": "0B",
    "disk_writable_free": "0B",
    "disk_read_only_percent": "0",
    "disk_writable_percent": "0",
}


@pytest.mark.parametrize(("unit", "nothing", "most"), [("free", "0B", MUCH), ("percent", "0", "100")])
def test_free_space_is_judged_by_the_thresholds_of_now(bookies: Bookies, unit: str, nothing: str, most: str) -> None:
    """No disk has so much free: by the first of the pair it becomes read-only, and by the second it stays that."""
    low, high = f"disk_read_only_{unit}", f"disk_writable_{unit}"
    reloaded = Reloaded(bookies, **ANY, disk_recovery_free="0B", disk_check_interval="10d")
    with Client(reloaded.bookie.port) as client:
        assert client.add(7, 0) == OK
        reloaded.change(**{low: most, high: most}, disk_recovery_free=MUCH)
        until(lambda: client.add(7, 1, flags=HIGH_PRIORITY) == READ_ONLY, "it takes nothing")
        assert client.add(7, 1) == READ_ONLY
        reloaded.change(**{low: nothing}, disk_recovery_free="0B")
        until(lambda: client.add(7, 1, flags=HIGH_PRIORITY) == OK, "it takes what recovery brings")
        assert client.add(7, 2) == READ_ONLY
        reloaded.change(**{high: nothing})
        until(lambda: client.add(7, 2) == OK, "it is writable again")
    assert reloaded.bookie.stop() == 0


def test_free_space_is_looked_at_as_often_as_the_settings_say_by_now(bookies: Bookies) -> None:
    """By what it sees of an operator's wish, which it looks for then."""
    reloaded = Reloaded(bookies, disk_check_interval="10d")
    reloaded.change(disk_check_interval="50ms")
    wish = reloaded.bookie.data / "read-only"
    for _ in range(2):  # a reload looks once by itself
        wish.touch()
        until(lambda: reloaded.metric("walkeeper_read_only") == 1, "it is read-only")
        wish.unlink()
        until(lambda: reloaded.metric("walkeeper_read_only") == 0, "it is writable again")
    assert reloaded.bookie.stop() == 0
