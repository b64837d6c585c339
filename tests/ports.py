"""Ports of loopback for servers that tests start, end and start again at the same port."""

from __future__ import annotations

import itertools
import os
import random
import socket
from collections.abc import Iterator

__all__ = ["free_port"]

FIRST, END = 10_000, 32_000  # below those that Linux gives to connections: none takes a port while its server is away
WORKERS_MAX = 16


def _candidates() -> Iterator[int]:
    """Ports that no other worker of this run is given, each once before one comes again."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS_MAX
    mine = range(FIRST + worker, END, WORKERS_MAX)
    start = random.SystemRandom().randrange(len(mine))  # other runs on this machine start elsewhere
    return itertools.cycle((*mine[start:], *mine[:start]))


_of_this_process = _candidates()


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    for port in _of_this_process:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("a cycle does not end")
