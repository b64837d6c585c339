"""A start that fails leaves nothing behind that the next one, with what was wrong put right, would stumble over."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bookie_runs import Bookies, bookies_in, free_port

from walkeeper.metadata import open_store


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def nothing_was_made(bookies: Bookies) -> bool:
    opened = open_store(bookies.metadata).store
    try:
        return not (bookies.place / "data").exists() and opened.get("/ledgers/cookies") is None
    finally:
        opened.close()


def test_an_address_in_use_is_no_identity(bookies: Bookies) -> None:
    with taken_port() as port:
        bookie = bookies.start("--init", port=port)
        assert bookie.ended() == 7
        assert f"listen 127.0.0.1:{port}" in bookie.said()
        assert nothing_was_made(bookies)
        bookies.start("--init").ready()


def test_nor_is_one_whose_http_address_is_in_use(bookies: Bookies) -> None:
    with taken_port() as port:
        bookie = bookies.start("--init", "--http", f"127.0.0.1:{port}")
        assert bookie.ended() == 7
        assert f"http 127.0.0.1:{port}" in bookie.said()
        assert nothing_was_made(bookies)
        bookies.start("--init").ready()


def test_nor_is_one_that_wants_a_port_twice(bookies: Bookies) -> None:
    port = free_port()
    bookie = bookies.start("--init", "--http", f"127.0.0.1:{port}", port=port)
    assert bookie.ended() == 7
    assert nothing_was_made(bookies)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_a_host_that_is_not_this_machine_is_no_identity(bookies: Bookies, host: str) -> None:
    bookie = bookies.start("--init", "--listen", f"{host}:{free_port()}")
    assert bookie.ended() == 7
    assert host in bookie.said()
    assert "No such file" not in bookie.said()
    assert nothing_was_made(bookies)


@pytest.mark.parametrize("metadata", ["foo:bar", "zk+flat://127.0.0.1:1/ledgers"])
def test_behind_a_wrong_metadata_uri_the_journal_is_free_to_choose(bookies: Bookies, metadata: str) -> None:
    wrong = bookies.start("--init", metadata=metadata)
    assert wrong.ended() == 2
    assert nothing_was_made(bookies)
    bookies.start("--init", "--journal", str(bookies.place / "journal")).ready()


def test_metadata_that_did_not_answer_leave_the_journal_free_to_choose(bookies: Bookies) -> None:
    silent = bookies.start("--init", "--start-timeout", "300ms", metadata=f"zk://127.0.0.1:{free_port()}/ledgers")
    assert silent.ended() == 3
    assert nothing_was_made(bookies)
    bookies.start("--init", "--journal", str(bookies.place / "journal")).ready()
