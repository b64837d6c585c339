"""A ZooKeeper server for tests: one process on loopback, with a directory of its own, that can be killed and restarted.

The server is Debian's: `apt-get install --no-install-recommends libzookeeper-java default-jre-headless`. Where it is
missing the tests are skipped, except in CI, where they fail.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from ports import free_port

JAR = Path("/usr/share/java/zookeeper.jar")  # its manifest names the jars that it needs
CLASS_PATH = f"{JAR}:/usr/share/java/slf4j-simple.jar"
MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
INSTALL = "apt-get install --no-install-recommends libzookeeper-java default-jre-headless"
START_SECONDS_MAX = 120.0
TICK_MS = 100  # a session expires at a multiple of it
SESSION_MS_MIN = 500
CONFIGURATION = f"""
tickTime={TICK_MS}
minSessionTimeout={SESSION_MS_MIN}
maxSessionTimeout=60000
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
"""
# A small process that starts soon. What the kernel was given outlives a killed process, so nothing is synced.
JAVA_OPTIONS = [
    "-Xmx128m",
    "-Xshare:auto",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=1024",
    "-Djava.net.preferIPv4Stack=true",
]


def missing() -> str | None:
    """Why there can be no server on this machine, or None."""
    if shutil.which("java") and JAR.exists():
        return None
    return f"no ZooKeeper server: {INSTALL}"


class ZooKeeperServer:
    """A running server. `kill` leaves its data, `restart` brings it back at the same port, `stop` removes all of it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="walkeeper-zookeeper-"))
        self.process: subprocess.Popen[bytes] | None = None
        for attempt in range(5):  # somebody else may take the port before the server does
            self.port = free_port()
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
        configuration = self.directory / "zoo.cfg"
        data = self.directory / "data"
        configuration.write_text(f"{CONFIGURATION}dataDir={data}\nclientPort={self.port}\n")
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["java", *JAVA_OPTIONS, "-cp", CLASS_PATH, MAIN, str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._serves():
            if self.process.poll() is not None:
                raise ChildProcessError(f"ZooKeeper ended at its start:\n{self._log()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"ZooKeeper does not serve after {START_SECONDS_MAX:.0f} s:\n{self._log()}")
            time.sleep(0.05)

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(b"srvr")
                return connection.recv(4096).startswith(b"Zookeeper version")
        except OSError:
            return False

    def _log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-4000:]


@functools.cache
def shared_server() -> ZooKeeperServer:
    """The server of all tests of this run; it is started when the first asks for it. Who kills it restarts it."""
    reason = missing()
    if reason:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    server = ZooKeeperServer()
    atexit.register(server.stop)
    return server
