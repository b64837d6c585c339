"""Settings of which clients, the metadata or the kernel can tell that a running bookie goes by them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from bookie_runs import IO_ERROR, OK, Bookies, Client, Running, bookies_in, free_port, until
from tcp_proxy import proxy_to

from walkeeper.metadata import Cookie, ServiceInfo, open_store

RING, POLL = "anon_inode:[io_uring]", "anon_inode:[eventpoll]"


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


# ---- advertise ----


def registered(bookies: Bookies, bookie_id: str) -> tuple[str, int]:
    """Where clients find it. Nobody else is registered, and it has a cookie under that name."""
    with open_store(bookies.metadata).store as store:
        assert sorted(store.children("/ledgers/available")) == sorted([bookie_id, "readonly"])
        value, cookie = store.get(f"/ledgers/available/{bookie_id}"), store.get(f"/ledgers/cookies/{bookie_id}")
    assert value is not None
    assert cookie is not None
    assert Cookie.parse(cookie.data).bookie_id == bookie_id
    found = ServiceInfo.parse(value.data).bookie
    assert found is not None
    return found.host, found.port


def test_cluster_rule_8_what_is_advertised_is_where_clients_come(bookies: Bookies) -> None:
    """Behind a proxy, as behind another network's address: another host and another port than it listens on."""
    port = free_port()
    with proxy_to(port) as proxy:
        shown = f"localhost:{proxy.port}"
        bookie = bookies.start("--init", "--advertise", shown, port=port)
        assert bookie.ready().startswith(f"walkeeper-bookie {shown} ready on 127.0.0.1:{port}, ")
        host, where = registered(bookies, shown)
        assert (host, where) == ("localhost", proxy.port)
        with Client(where) as client:
            assert client.add(7, 0) == OK
        assert proxy.accepted > 0
        assert bookie.stop() == 0


def test_cluster_rule_8_a_name_stays_and_what_is_advertised_may_change(bookies: Bookies) -> None:
    port = free_port()
    for n in (1, 2):
        bookie = bookies.start("--init", "--bookie-id", "b1", "--advertise", f"host-{n}.example.org:318{n}", port=port)
        assert bookie.ready().startswith(f"walkeeper-bookie b1 ready on 127.0.0.1:{port}, ")
        assert registered(bookies, "b1") == (f"host-{n}.example.org", 3180 + n)
        assert bookie.stop() == 0


# ---- backend ----


def descriptors(bookie: Running) -> Counter[str]:
    """What the kernel says of them."""
    place, found = Path(f"/proc/{bookie.process.pid}/fd"), Counter[str]()
    for number in os.listdir(place):
        with suppress(FileNotFoundError):  # it was closed meanwhile
            found[os.readlink(place / number)] += 1
    return found


def test_psync_makes_no_ring(bookies: Bookies) -> None:
    bookie = bookies.start("--init", "--backend", "psync")
    bookie.ready()
    found = descriptors(bookie)
    assert (found[RING], found[POLL]) == (0, 1)
    until(lambda: " files=psync sockets=psync\n" in bookie.said(), "the log says so")
    with Client(bookie.port) as client:
        assert client.add(7, 0) == client.read(7, 0)[0] == OK
    assert bookie.stop() == 0


def test_auto_takes_what_the_kernel_gives_and_the_log_says_what_it_is(bookies: Bookies) -> None:
    """Rings for files and for sockets; where there is none for sockets, epoll."""
    bookie = bookies.start("--init")
    bookie.ready()
    found = descriptors(bookie)
    files, sockets = "io_uring" if found[RING] else "psync", "psync" if found[POLL] else "io_uring"
    until(lambda: f" files={files} sockets={sockets}\n" in bookie.said(), "the log says so")
    assert bookie.stop() == 0
    forced = bookies.start("--backend", "io_uring", port=bookie.port)
    if "psync" in (files, sockets):
        assert forced.ended() == 2
        assert "backend psync" in forced.said()
    else:
        forced.ready()
        found = descriptors(forced)
        assert found[RING] >= 2
        assert found[POLL] == 0
        assert forced.stop() == 0


# ---- verify_digest ----


@pytest.mark.parametrize(("word", "answer"), [("learned", IO_ERROR), ("off", OK)])
def test_whether_digests_are_verified(bookies: Bookies, word: str, answer: int) -> None:
    bookie = bookies.start("--init", "--verify-digest", word)
    bookie.ready()
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
        assert client.add(7, 1, damaged=True) == answer
        assert client.add(7, 2) == OK
    assert bookie.stop() == 0
