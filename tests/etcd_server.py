"""An etcd server for tests: one process on loopback, with a directory of its own, that can be killed and restarted.

The server is Debian's: `apt-get install --no-install-recommends etcd-server`. Where it is missing the tests are
skipped, except in CI, where they fail.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import http.client
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from ports import free_port

INSTALL = "apt-get install --no-install-recommends etcd-server"
START_SECONDS_MAX = 120.0
MEMORY = Path("/dev/shm")
# Elections wait for these; a lease lives for one and a half at least, in whole seconds.
HEARTBEAT_MS, ELECTION_MS = 50, 500


def missing() -> str | None:
    """Why there can be no server on this machine, or None."""
    return None if shutil.which("etcd") else f"no etcd server: {INSTALL}"


class EtcdServer:
    """A running server. `kill` leaves its data, `restart` brings it back at the same port, `stop` removes all of it."""

    def __init__(self) -> None:
        # etcd 3.4 syncs whatever it is told; what is in memory outlives a killed process as well.
        place = MEMORY if os.access(MEMORY, os.W_OK) else None
        self.directory = Path(tempfile.mkdtemp(prefix="walkeeper-etcd-", dir=place))
        self.process: subprocess.Popen[bytes] | None = None
        for attempt in range(5):  # somebody else may take a port before the server does
            self.port, self._peer_port = free_port(), free_port()
            try:
                self._start()
                return
            except ChildProcessError:
                if attempt == 4:
                    self.stop()
                    raise
            except BaseException:
                self.stop()
                raise

    @property
    def hosts(self) -> str:
        """What a client is told."""
        return f"127.0.0.1:{self.port}"

    def kill(self) -> None:
        """The process is gone, as if its machine had failed; clients see their connections reset."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        """The server with the data that it had, at the same port; it serves when this returns."""
        self.kill()
        self._start()

    def stop(self) -> None:
        """The end of the server and of its data."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self) -> None:
        client, peer = f"http://{self.hosts}", f"http://127.0.0.1:{self._peer_port}"
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "etcd",
                    *("--data-dir", str(self.directory / "data")),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"default={peer}"),
                    *("--heartbeat-interval", str(HEARTBEAT_MS), "--election-timeout", str(ELECTION_MS)),
                    *("--logger", "zap", "--log-level", "warn", "--log-outputs", "stderr"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={name: value for name, value in os.environ.items() if not name.startswith("ETCD_")},
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._serves():
            if self.process.poll() is not None:
                raise ChildProcessError(f"etcd ended at its start:\n{self._log()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"etcd does not serve after {START_SECONDS_MAX:.0f} s:\n{self._log()}")
            time.sleep(0.02)

    def _serves(self) -> bool:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection:
            try:
                connection.request("GET", "/health")
                return b'"true"' in connection.getresponse().read()
            except OSError:
                return False

    def _log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-4000:]


@functools.cache
def shared_server() -> EtcdServer:
    """The server of all tests of this run; it is started when the first asks for it. Who kills it restarts it."""
    reason = missing()
    if reason:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    server = EtcdServer()
    atexit.register(server.stop)
    return server
