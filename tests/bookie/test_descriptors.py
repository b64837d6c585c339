"""How many connections a bookie takes where descriptors are few."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import Bookies, bookies_in

from walkeeper_bookie._descriptors import connections_permitted, limit_for


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    ("wanted", "limit", "permitted"),
    [
        (65536, 1024, 896),
        (65536, 2**20, 65536),
        (100, 1024, 100),
        (65536, 100, 36),
        (65536, 20, 1),
        (65536, resource.RLIM_INFINITY, 65536),
    ],
)
def test_files_are_left_their_part(wanted: int, limit: int, permitted: int) -> None:
    assert connections_permitted(wanted, limit) == permitted


@pytest.mark.parametrize("connections", [1, 2, 36, 448, 449, 1000, 65536, 1_000_000])
def test_the_limit_to_set_is_the_lowest_that_is_enough(connections: int) -> None:
    limit = limit_for(connections)
    assert connections_permitted(connections, limit) == connections
    assert limit == connections + 64 or connections_permitted(connections, limit - 1) < connections


@pytest.mark.parametrize(("limit", "connections", "to_set"), [(64, 1, 1142), (200, 136, 1142)])
def test_too_few_descriptors_are_warned_of_with_the_number_to_set(
    bookies: Bookies, limit: int, connections: int, to_set: int
) -> None:
    few = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))"
    bookie = bookies.start("--init", "--connections-max", "1000", before=few)
    bookie.ready()
    lines = [line for line in bookie.said().splitlines() if "fewer connections" in line]
    assert len(lines) == 1
    assert " level=warning " in lines[0]
    assert f" connections={connections} connections_max=1000 limit={limit} " in lines[0]
    assert f"raise it to {to_set} (LimitNOFILE" in lines[0]
    assert bookie.stop() == 0


def test_enough_descriptors_are_no_warning(bookies: Bookies) -> None:
    enough = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1142, 1142))"
    bookie = bookies.start("--init", "--connections-max", "1000", before=enough)
    bookie.ready()
    assert "fewer connections" not in bookie.said()
    assert bookie.stop() == 0
