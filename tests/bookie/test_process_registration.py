"""What a bookie says of its registration, and how it starts and ends, while the system or its metadata fail it."""

from __future__ import annotations

import json
import random
import resource
import shutil
import socket
import sqlite3
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import FREE_SPACE_IS_IN_A_FILE, Bookies, bookies_in, free_port, until
from wire_client import OK, READ_ONLY, WireClient

from walkeeper import LedgerClient
from walkeeper.ledgers.placement import WeightedPolicy
from walkeeper.metadata import Cluster, SqliteStore

LOOKS_OFTEN = "from walkeeper_bookie import _registration; _registration.LOOK_S = 0.05"


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as bookies:
        yield bookies


def ask(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refused:
        return str(refused.read().decode())


def make_read_only(port: int) -> None:
    path = f"http://127.0.0.1:{port}/api/v1/bookie/state/readonly"
    wish = urllib.request.Request(path, data=b'{"readOnly": true}', method="PUT")
    with urllib.request.urlopen(wish, timeout=30) as answer:
        assert json.load(answer) == {"readOnly": True}


def test_a_time_without_descriptors_costs_no_registration_and_it_is_kept_up_afterwards(
    bookies: Bookies, tmp_path: Path
) -> None:
    http = free_port()
    bookie = bookies.start("--init", "--http", f"127.0.0.1:{http}", before=LOOKS_OFTEN)
    bookie.ready()
    with SqliteStore(tmp_path / "metadata.db") as store:
        usual = resource.prlimit(bookie.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(bookie.process.pid, resource.RLIMIT_NOFILE, (3, usual[1]))
        until(lambda: "cannot be told" in bookie.said(), "it cannot look")
        waiting = socket.create_connection(("127.0.0.1", bookie.port))
        time.sleep(0.2)  # it is tried again every tenth of a second
        resource.prlimit(bookie.process.pid, resource.RLIMIT_NOFILE, usual)
        until(lambda: "answers again" in bookie.said(), "it looks")
        waiting.close()
        assert "\nwalkeeper_accept_shortages_total 0\n" not in ask(http, "/metrics")
        assert store.children("/ledgers/available") == [bookie.bookie_id, "readonly"]
        make_read_only(http)
        until(
            lambda: (
                store.children("/ledgers/available/readonly") == [bookie.bookie_id]
                and store.children("/ledgers/available") == ["readonly"]
            ),
            "the registration follows",
        )
        assert ask(http, "/ready") == "ready\n"
    assert bookie.stop() == 0


def test_a_bookie_whose_metadata_were_removed_is_not_ready_for_ever(bookies: Bookies, tmp_path: Path) -> None:
    http = free_port()
    bookie = bookies.start("--init", "--http", f"127.0.0.1:{http}", "--session-timeout", "1s", before=LOOKS_OFTEN)
    bookie.ready()
    assert "walkeeper_registered 1\n" in ask(http, "/metrics")
    (tmp_path / "metadata.db").unlink()
    until(lambda: "has not answered for" in ask(http, "/ready"), "it is missed")
    metrics = ask(http, "/metrics")
    assert "walkeeper_registered 0\n" in metrics
    assert "bookie_SERVER_STATUS 0\n" in metrics
    assert bookie.stop() == 0


# ---- a start while the metadata are away ----

SOON_S = 8.0
"""Before `docker stop` kills, and a store's own calls end."""
SAYS_THAT_IT_OPENS = """
import sys
from walkeeper_bookie import _bookie
real = _bookie.open_metadata

def opens(*arguments, **more):
    print("opening", file=sys.stderr, flush=True)
    return real(*arguments, **more)

_bookie.open_metadata = opens
"""


def test_a_start_that_waits_for_zookeeper_ends_soon_when_it_is_told_to(bookies: Bookies) -> None:
    bookie = bookies.start("--init", "--start-timeout", "1h", metadata=f"zk://127.0.0.1:{free_port()}/ledgers")
    until(lambda: "cannot be reached" in bookie.said(), "it waits")
    began = time.monotonic()
    assert bookie.stop() == 0
    assert time.monotonic() - began < SOON_S
    lines = bookie.said().splitlines()
    assert [line for line in lines if not line.startswith("time=")] == []
    assert len([line for line in lines if "cannot be reached, trying again" in line]) == 1


def test_a_start_that_waits_for_a_busy_file_ends_soon_when_it_is_told_to(bookies: Bookies, tmp_path: Path) -> None:
    first = bookies.start("--init")
    first.ready()
    assert first.stop() == 0
    writer = sqlite3.connect(tmp_path / "metadata.db", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    bookie = bookies.start("--start-timeout", "1h", port=first.port, before=SAYS_THAT_IT_OPENS)
    until(lambda: "opening" in bookie.said(), "it waits")
    began = time.monotonic()
    assert bookie.stop() == 0
    assert time.monotonic() - began < SOON_S
    writer.close()


def test_start_timeout_is_kept_whatever_the_store_s_own_calls_take(bookies: Bookies, tmp_path: Path) -> None:
    first = bookies.start("--init")
    first.ready()
    assert first.stop() == 0
    writer = sqlite3.connect(tmp_path / "metadata.db", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    bookie = bookies.start("--start-timeout", "500ms", port=first.port)
    assert bookie.ended() == 3
    assert time.monotonic() - began < SOON_S
    assert "no answer within 0.5 s" in bookie.said()
    writer.close()


NOTES_WHEN_TOLD = """
import os, time
from walkeeper_bookie import _bookie
from walkeeper_bookie._limbo import Limbo
_bookie.NOTE_LIMBO_S = 0.3
note = Limbo.note
def when_told(self):
    while not os.path.exists(os.environ["TOLD"]):
        time.sleep(0.01)
    return note(self)
Limbo.note = when_told
"""


def test_a_new_bookie_is_given_no_ledgers_before_it_takes_them(bookies: Bookies, tmp_path: Path) -> None:
    """While every ledger is in limbo, an ordinary add is refused: who makes a ledger must not choose this bookie."""
    told = tmp_path / "told"
    with SqliteStore(tmp_path / "metadata.db") as store:
        first = bookies.start("--init")
        first.ready()
        store.create("/ledgers/00/0000/L0007", b"of a bookie that is gone", parents=True)
        second = bookies.start("--init", data=tmp_path / "second", env={"TOLD": str(told)}, before=NOTES_WHEN_TOLD)
        second.ready()
        with WireClient(second.port) as client:
            assert client.add(8, 0, b"of a new ledger") == READ_ONLY
            assert store.children("/ledgers/available/readonly") == [second.bookie_id]
            assert store.children("/ledgers/available") == [first.bookie_id, "readonly"]
            told.touch()
            until(lambda: second.bookie_id in store.children("/ledgers/available"), "what it concerns is found")
            assert client.add(8, 0, b"of a new ledger") == OK
        assert store.children("/ledgers/available/readonly") == []
    assert first.stop() == second.stop() == 0


def test_a_new_bookie_of_a_small_cluster_is_registered_as_writable_at_once(bookies: Bookies, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "metadata.db") as store:
        first = bookies.start("--init")
        first.ready()
        store.create("/ledgers/00/0000/L0007", b"of a bookie that is gone", parents=True)
        second = bookies.start("--init", data=tmp_path / "second")
        second.ready()
        assert second.said().count("msg=registered") == 1
        with WireClient(second.port) as client:
            assert client.add(8, 0, b"of a new ledger") == OK
        assert store.children("/ledgers/available/readonly") == []
        assert second.said().count("msg=registered") == 1
    assert first.stop() == second.stop() == 0


# ---- free space ----


def published(store: SqliteStore, bookie_id: str) -> int | None:
    info = Cluster(store, "/ledgers").bookies.service_info(bookie_id)
    return None if info is None else info.free_bytes


def test_a_bookie_publishes_the_free_space_of_its_disk(bookies: Bookies, tmp_path: Path) -> None:
    bookie = bookies.start("--init")
    bookie.ready()
    with SqliteStore(tmp_path / "metadata.db") as store:
        free = published(store, bookie.bookie_id)
        assert free is not None
        assert free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
    assert bookie.stop() == 0


def test_clients_find_a_bookie_all_the_while_that_its_free_space_is_published(bookies: Bookies, tmp_path: Path) -> None:
    space = tmp_path / "free"
    space.write_text(str(2**49))
    options = ("--init", "--disk-check-interval", "100ms")
    bookie = bookies.start(*options, before=FREE_SPACE_IS_IN_A_FILE, env={"FREE_SPACE": str(space)})
    bookie.ready()
    with SqliteStore(tmp_path / "metadata.db") as store:
        assert published(store, bookie.bookie_id) == 2**49
        for free in (2**48, 2**47, 2**49):
            replaced = tmp_path / "replaced"
            replaced.write_text(str(free))
            replaced.rename(space)
            until(lambda free=free: published(store, bookie.bookie_id) == free, "it is published")  # type: ignore[misc]
        assert bookie.said().count(" msg=registered ") == 1, "and never registered again"
        bookie.kill()
        until(lambda: store.children("/ledgers/available") == ["readonly"], "it goes with its process")


def test_weighted_clients_prefer_the_bookie_that_says_that_it_has_more_room(bookies: Bookies, tmp_path: Path) -> None:
    running = []
    for number, free in enumerate((1, 1, 4)):
        space = tmp_path / f"free-{number}"
        space.write_text(str(free * 2**48))
        data = tmp_path / f"data-{number}"
        bookie = bookies.start("--init", data=data, before=FREE_SPACE_IS_IN_A_FILE, env={"FREE_SPACE": str(space)})
        bookie.ready()
        running.append(bookie)
    chosen: Counter[str] = Counter()
    policy = WeightedPolicy(chance=random.Random(9))
    with LedgerClient(bookies.metadata, placement=policy) as client:
        for _ in range(200):
            with client.create(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer:
                chosen.update(writer.metadata.segments[0])
    assert 95 <= chosen[running[2].bookie_id] <= 145, "3 of 5: the cap is three medians"
