"""What adds and reads are sent to: the bare loop, our bookie, Java's. Each is a process with a port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 120.0
NO_COLLECTION_SECONDS = 24 * 3600
"""The drivers make no ledgers in the metadata: a bookie that looked there would delete all of them."""


def free_port() -> int:
    """A port of loopback that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Child:
    """A process of ours that is told to end. What it logs goes to a file in `place`, which stays."""

    def __init__(self, place: Path, command: list[str], log: str = "log") -> None:
        place.mkdir(parents=True, exist_ok=True)
        self.place = place
        self.log = place / log
        self._errors = self.log.open("ab")
        # As it is installed: compiled. Where a caller forbids to write bytecode each start would compile it anew.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """The next line that it says. Raises RuntimeError where it ended without one."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self.failed("it ended")
        return line

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def failed(self, why: str) -> RuntimeError:
        """Kills it. The error says why, and how its log ends."""
        status = self.process.poll()
        self.kill()
        return RuntimeError(f"{why} (exit status {status}): {self.log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """SIGTERM; SIGKILL where that takes too long."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self._errors.close()


class Server(Child):
    """A process that serves `port`, `start_seconds` after it was started. Its data are `place`'s, and stay there."""

    def __init__(self, place: Path, command: list[str], port: int) -> None:
        self.port = port
        self.start_seconds = 0.0
        self._began = time.monotonic()
        super().__init__(place, command)

    def started(self) -> None:
        """Is to be called when it said that it is ready."""
        self.start_seconds = time.monotonic() - self._began

    def await_(self, holds: Callable[[], bool], why: str) -> None:
        """Until then; raises RuntimeError where it ends before, or takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise self.failed(why)
            time.sleep(0.005)
        self.started()


class Bare(Server):
    """benchmarks/native/bare_loop: a socket, a CRC, a durable write; with `grows` into space that was never written."""

    def __init__(self, place: Path, program: Path, *options: str) -> None:
        port_file = place / "port"
        port_file.unlink(missing_ok=True)
        super().__init__(place, [str(program), str(place), str(port_file), *options], 0)
        self.await_(port_file.exists, "the bare loop did not start")
        self.port = int(port_file.read_text())


class Ours(Server):
    """A process walkeeper-bookie, on sqlite metadata unless other ones are given."""

    def __init__(self, place: Path, *options: str, metadata: str | None = None) -> None:
        self.data = place / "data"
        self._http = free_port()
        port = free_port()
        command = [
            str(Path(sys.executable).parent / "walkeeper-bookie"),
            "--init",
            *("--metadata", metadata or f"sqlite:{place / 'metadata.db'}"),
            *("--listen", f"127.0.0.1:{port}"),
            *("--bookie-id", "bench"),
            *("--data", str(self.data)),
            *("--http", f"127.0.0.1:{self._http}"),
            *("--gc-interval", f"{NO_COLLECTION_SECONDS}s"),
            *("--disk-read-only-percent", "0", "--disk-writable-percent", "0"),
            *options,
        ]
        super().__init__(place, command, port)
        if " ready on " not in self.line():
            raise self.failed("our bookie did not start")
        self.started()

    def metric(self, name: str) -> float:
        """One that it tells over HTTP, with its labels. Raises KeyError where it does not."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._http}/metrics", timeout=PATIENCE_SECONDS) as answer:
            return metric_of(answer.read().decode(), name)


def metric_of(text: str, name: str) -> float:
    """A sample of Prometheus' text; labels are a part of its name. Raises KeyError where there is none of this name."""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name:
            return float(words[1])
    raise KeyError(name)
