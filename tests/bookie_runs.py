"""Bookies as processes, and a client of the protocol's version 2 that is just enough to see what they answer."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ports import free_port

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 60.0

OK, NO_LEDGER, NO_ENTRY, IO_ERROR, UNAUTHORIZED, FENCED, READ_ONLY = 0, 1, 2, 101, 102, 104, 105
"""Version 2's answers."""

KEY = hashlib.sha1(b"ledger").digest()
FENCE, RECOVERY, HIGH_PRIORITY = 1, 2, 4


FREE_SPACE_IS_IN_A_FILE = """
import os
from pathlib import Path
from walkeeper_bookie import _bookie, _disk_watch, _registration
_registration.LOOK_S, _disk_watch.NEWS_S = 0.05, 0.1
_bookie.look = lambda path: _disk_watch.Space(2**50, int(Path(os.environ["FREE_SPACE"]).read_text()))
"""
"""What a bookie runs first: its disk has the free bytes that the file FREE_SPACE says, and news are told soon."""


def until(condition: Callable[[], object], what: str, patience: float = PATIENCE_S) -> None:
    """Waits until something holds; fails where it does not in a very long time."""
    limit = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < limit, f"not within {patience:.0f} s: {what}"
        time.sleep(0.01)


class Running:
    """A bookie's process."""

    def __init__(
        self,
        place: Path,
        *options: str,
        port: int,
        metadata: str,
        data: Path,
        env: dict[str, str],
        before: str,
        stdout: int,
        stderr: int | None,
    ) -> None:
        self.port, self.data = port, data
        self.bookie_id = f"127.0.0.1:{port}"
        self.log = place / f"bookie-{time.monotonic_ns()}.log"
        arguments = ["--metadata", metadata, "--listen", self.bookie_id, "--data", str(data), *options]
        path = os.pathsep.join([str(ROOT / "bookie"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._errors = self.log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{before}\nfrom walkeeper_bookie._main import main\nmain()", *arguments],
            stdout=stdout,
            stderr=self._errors if stderr is None else stderr,
            text=True,
            env={**os.environ, "PYTHONPATH": path, **env},
        )

    def ready(self) -> str:
        """The line that says so."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert " ready on " in line, (line, self.said(), self.process.poll())
        return line

    def said(self) -> str:
        """Its log, so far."""
        return self.log.read_text()

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Its exit status."""
        status = self.process.wait(PATIENCE_S)
        self.close()
        return status

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._errors.close()


class Bookies:
    """Starts bookies of one cluster, on sqlite metadata in `place`; all are gone at the end."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.metadata = f"sqlite:{place / 'metadata.db'}"
        self._all: list[Running] = []

    def start(
        self,
        *options: str,
        port: int | None = None,
        data: Path | None = None,
        metadata: str | None = None,
        env: dict[str, str] | None = None,
        before: str = "",
        stdout: int = subprocess.PIPE,
        stderr: int | None = None,
    ) -> Running:
        """`before`: Python that its process runs first, to break something. `stderr`: in place of the file that
        Running.said reads."""
        running = Running(
            self.place,
            *options,
            port=port or free_port(),
            metadata=metadata or self.metadata,
            data=data or self.place / "data",
            env=env or {},
            before=before,
            stdout=stdout,
            stderr=stderr,
        )
        self._all.append(running)
        return running

    def close(self) -> None:
        for running in self._all:
            running.close()


@contextlib.contextmanager
def bookies_in(place: Path) -> Iterator[Bookies]:
    bookies = Bookies(place)
    try:
        yield bookies
    finally:
        bookies.close()


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def add(
        self, ledger_id: int, entry_id: int, payload: bytes = b"hello", flags: int = 0, damaged: bool = False
    ) -> int:
        """The code that is answered. The digest is CRC-32; of a `damaged` entry it does not match."""
        head = struct.pack(">qqqq", ledger_id, entry_id, entry_id - 1, len(payload))
        entry = head + struct.pack(">Q", zlib.crc32(payload, zlib.crc32(head)) ^ damaged) + payload
        return self._ask(1, flags, KEY + entry)[0]

    def read(self, ledger_id: int, entry_id: int, flags: int = 0) -> tuple[int, bytes]:
        """The code, and the entry."""
        return self._ask(2, flags, struct.pack(">qq", ledger_id, entry_id) + (KEY if flags & FENCE else b""))

    def _ask(self, operation: int, flags: int, body: bytes) -> tuple[int, bytes]:
        packet = struct.pack(">I", 2 << 24 | operation << 16 | flags) + body
        self._socket.sendall(struct.pack(">I", len(packet)) + packet)
        (size,) = struct.unpack(">I", self._receive(4))
        answer = self._receive(size)
        return int(struct.unpack(">i", answer[4:8])[0]), answer[24:]

    def _receive(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            some = self._socket.recv(size - len(found))
            if not some:
                raise ConnectionError("the bookie closed the connection")
            found += some
        return found
