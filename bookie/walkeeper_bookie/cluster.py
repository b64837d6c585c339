"""A local cluster: some bookies on this machine, each a process of its own, for development and tests.

    with LocalCluster(directory, bookies=3) as cluster:
        cluster.start(timeout=30)
        ... connect to cluster.metadata ...

Ports and directories are kept in `directory`: the same cluster comes up again the next time.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO
from urllib.parse import quote

from walkeeper_bookie._checked_lines import replace_file

__all__ = ["BookieProcess", "ClusterError", "LocalCluster", "Sample"]

HOST = "127.0.0.1"
PORTS = (10_000, 32_000)
PLACES = "cluster.json"
STOP_S = 40.0
"""After SIGTERM a bookie may drain so long; then it is killed."""
SCRAPE_S = 2.0
LAST_WORDS_MAX = 4096


class ClusterError(Exception):
    """The cluster did not come up; the text says which bookie, and where its log is."""


@dataclass(frozen=True)
class Sample:
    """What one look at a bookie's metrics found."""

    at: float
    writable: bool
    registered: bool
    ledgers: int
    entries: int
    disk_bytes: int


@dataclass
class BookieProcess:
    """One bookie: a process that was started, and what is known of it."""

    bookie_id: str
    port: int
    http_port: int
    data: Path
    log: Path
    journal: Path | None = None
    """A directory for the journal alone."""
    process: subprocess.Popen[str] | None = None
    ready: bool = False
    stopping: bool = False
    samples: list[Sample] = field(default_factory=list)
    """The last two."""

    @property
    def exit_status(self) -> int | None:
        """None, as long as it runs, or was not started."""
        return self.process.poll() if self.process is not None else None

    @property
    def died(self) -> bool:
        """It ended, and nobody had told it to."""
        return self.exit_status is not None and not self.stopping

    @property
    def state(self) -> str:
        """For people."""
        status = self.exit_status
        if self.process is None:
            return "not started"
        if status is not None:
            how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            return "stopped" if self.stopping and status == 0 else f"ended: {how}"
        if self.stopping:
            return "stopping"
        if not self.ready:
            return "starting"
        if self.samples and not self.samples[-1].writable:
            return "read-only" if self.samples[-1].registered else "not registered"
        return "writable"

    @property
    def last_words(self) -> str:
        """The end of its log; empty where there is none."""
        try:
            with open(self.log, "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - LAST_WORDS_MAX))
                lines = log.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return next((line for line in reversed(lines) if line.strip()), "")

    @property
    def entries_per_second(self) -> float:
        if len(self.samples) < 2:
            return 0.0
        before, now = self.samples[-2:]
        return max(0.0, (now.entries - before.entries) / max(now.at - before.at, 1e-6))

    def look(self) -> None:
        """Asks for its metrics, where it is ready; what cannot be had is left as it was."""
        if not self.ready or self.exit_status is not None:
            return
        with suppress(OSError, ValueError):
            # A proxy of the environment is not asked: it would not be on this machine.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://{HOST}:{self.http_port}/metrics", timeout=SCRAPE_S) as answer:
                values = dict(_values(answer.read().decode()))
            self.samples = [
                *self.samples[-1:],
                Sample(
                    at=time.monotonic(),
                    writable=values.get("bookie_SERVER_STATUS") == 1,
                    registered=values.get("walkeeper_registered") == 1,
                    ledgers=int(values.get("bookie_ledgers_count", 0)),
                    entries=int(values.get('bookkeeper_server_ADD_ENTRY_count{success="true"}', 0)),
                    disk_bytes=int(values.get("walkeeper_disk_used_bytes", 0)),
                ),
            ]


class LocalCluster:
    """Bookies of one cluster, numbered from 1. Leaving the context stops them all."""

    def __init__(
        self,
        directory: Path,
        bookies: int,
        metadata: str | None = None,
        journal: Path | None = None,
        *,
        tied: bool = False,
    ) -> None:
        """
        `journal`: below it are the journals of all, in directories of their own, as on another device. `tied`: they end
        with this process even where it is killed; the main thread must start them.

        Raises OSError, ClusterError where the directory is another thing's.
        """
        self.directory = Path(os.path.abspath(directory))
        self.journal = Path(os.path.abspath(journal)) if journal is not None else None
        for place in (self.directory, self.journal):
            if place is not None:
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._program = ["walkeeper_bookie._parent_death", str(os.getpid())] if tied else ["walkeeper_bookie"]
        self.metadata = metadata or "sqlite:" + quote(str(self.directory / "metadata.db"))
        self.bookies = [self._bookie(number, *ports) for number, ports in enumerate(self._ports(bookies), 1)]

    def _bookie(self, number: int, port: int, http_port: int) -> BookieProcess:
        name = f"bookie-{number}"
        log = self.directory / f"{name}.log"
        journal = self.journal / name if self.journal is not None else None
        return BookieProcess(f"{HOST}:{port}", port, http_port, self.directory / name, log, journal)

    def _ports(self, count: int) -> list[tuple[int, int]]:
        """Two a bookie; those of earlier times, and new ones for new bookies, kept before they are used."""
        path = self.directory / PLACES
        known: list[tuple[int, int]] = []
        with suppress(FileNotFoundError):
            try:
                known = [(int(one["port"]), int(one["http"])) for one in json.loads(path.read_text())["bookies"]]
            except (ValueError, TypeError, KeyError) as wrong:
                raise ClusterError(f"{path} is not a cluster's: {wrong!r}") from None
        if len(known) < count:
            ports = list(free_ports(2 * (count - len(known)), {port for pair in known for port in pair}))
            known += zip(ports[::2], ports[1::2], strict=True)
            text = json.dumps({"bookies": [{"port": port, "http": http} for port, http in known]}, indent=1)
            replace_file(path, text.encode() + b"\n")
        return known[:count]

    # ---- start and stop ----

    def start(self, timeout: float = 60.0) -> None:
        """Starts all, and returns when all are ready. Raises ClusterError where one is not; the others then run."""
        self.launch()
        until = time.monotonic() + timeout
        while not all(bookie.ready for bookie in self.bookies):
            for bookie in self.bookies:
                if bookie.died:
                    raise ClusterError(f"bookie {bookie.bookie_id} {bookie.state}; its log is {bookie.log}")
            if time.monotonic() > until:
                slow = ", ".join(bookie.bookie_id for bookie in self.bookies if not bookie.ready)
                raise ClusterError(f"not ready after {timeout:.0f} s: {slow}")
            time.sleep(0.02)

    def launch(self) -> None:
        """Starts all processes, and waits for nothing."""
        for bookie in self.bookies:
            self.launch_one(bookie)

    def launch_one(self, bookie: BookieProcess, options: Sequence[str] = ()) -> None:
        """Starts, or starts again, one process."""
        arguments = [
            *("--metadata", self.metadata),
            *("--listen", f"{HOST}:{bookie.port}"),
            *("--bookie-id", bookie.bookie_id),
            *("--data", str(bookie.data)),
            *(("--journal", str(bookie.journal)) if bookie.journal is not None else ()),
            *("--http", f"{HOST}:{bookie.http_port}"),
            "--init",
            *options,
        ]
        bookie.ready = bookie.stopping = False
        bookie.samples = []
        descriptor = os.open(bookie.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "ab") as log:
            # In a session of its own: Ctrl-C is for us, who then stop them one by one.
            bookie.process = subprocess.Popen(
                [sys.executable, "-m", *self._program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert bookie.process.stdout is not None
        threading.Thread(target=_read_lines, args=(bookie, bookie.process.stdout), daemon=True).start()

    def stop(self) -> bool:
        """Ends all; whether every one of them ended well, and none had to be killed."""
        running = [bookie for bookie in self.bookies if bookie.process is not None and bookie.exit_status is None]
        for bookie in running:
            bookie.stopping = True
            assert bookie.process is not None
            bookie.process.terminate()
        until = time.monotonic() + STOP_S
        well = True
        for bookie in running:
            assert bookie.process is not None
            try:
                bookie.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                bookie.process.kill()
                bookie.process.wait()
            well &= bookie.process.returncode == 0
        return well and not any(bookie.died for bookie in self.bookies)

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def free_ports(count: int, without: set[int]) -> Iterator[int]:
    """Ports that nobody listens on now; all are held until all are found, so that they differ.

    They lie below those that Linux gives to connections: none takes one before its bookie listens there.
    """
    held: list[socket.socket] = []
    try:
        while count:
            port = random.SystemRandom().randrange(*PORTS)
            if port in without:
                continue
            held.append(socket.socket())
            try:
                held[-1].bind((HOST, port))
            except OSError:  # somebody has it
                continue
            count -= 1
            yield port
    finally:
        for one in held:
            one.close()


def _read_lines(bookie: BookieProcess, lines: IO[str]) -> None:
    """Notes the line that says ready; reads on, so that the bookie never waits for us."""
    with lines:
        for line in lines:
            if re.match(r"walkeeper-bookie \S+ ready on ", line):
                bookie.ready = True


def _values(text: str) -> Iterator[tuple[str, float]]:
    """Samples of Prometheus' text."""
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            yield name, float(value)
