"""Workers that test at once, on one machine, are given different ports; a port that somebody has is given to nobody."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import ports
import pytest

GIVEN = "from ports import free_port; print(*[free_port() for _ in range(2000)])"


def given_to(worker: str) -> set[int]:
    environment = {"PYTEST_XDIST_WORKER": worker, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", GIVEN], env=environment, capture_output=True, text=True, check=True)
    return {int(port) for port in done.stdout.split()}


def test_two_workers_are_never_given_the_same_port() -> None:
    first, second = given_to("gw0"), given_to("gw1")
    assert len(first) > 1000
    assert not first & second
    assert all(ports.FIRST <= port < ports.END for port in first | second)


def test_a_port_that_somebody_listens_on_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        taken = ports.free_port()
        held.bind(("127.0.0.1", taken))
        other = ports.free_port()
        monkeypatch.setattr(ports, "_of_this_process", iter([taken, other]))
        assert ports.free_port() == other
