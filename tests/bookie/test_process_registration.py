"""What a running bookie says of its registration while the system, or its metadata, fail it."""

from __future__ import annotations

import json
import resource
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import Bookies, bookies_in, free_port, until

from walkeeper.metadata import SqliteStore

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
        resource.prlimit(bookie.process.pid, resource.RLIMIT_NOFILE, usual)
        until(lambda: "answers again" in bookie.said(), "it looks")
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
