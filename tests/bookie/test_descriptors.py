"""How many connections a bookie takes where descriptors are few."""

from __future__ import annotations

import resource

import pytest

from walkeeper_bookie._descriptors import connections_permitted


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
