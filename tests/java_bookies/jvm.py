"""Apache BookKeeper's bookies and its client, unmodified, each in a JVM of its own. Maven fetches what is not there."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

from ports import free_port

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TARGET = ROOT / "build" / "java-bookies"
sys.path.insert(0, str(ROOT / "examples" / "java"))

from programs import OPENED, build  # noqa: E402  (examples/java/programs.py)
from programs import TARGET as EXAMPLES  # noqa: E402

PATIENCE_S = 90.0
READY = "Started component bookie-server"
"""A bookie's port answers before the bookie is ready; its log says when."""

BOOKIE = {
    "advertisedAddress": "127.0.0.1",
    "allowLoopback": "true",
    "autoRecoveryDaemonEnabled": "false",
    "httpServerEnabled": "false",
    "enableStatistics": "false",
    "diskUsageThreshold": "0.999",
    "diskUsageWarnThreshold": "0.99",
    "journalPreAllocSizeMB": "4",
    "minUsableSizeForIndexFileCreation": "1048576",
    "minUsableSizeForEntryLogCreation": "1048576",
    "minUsableSizeForHighPriorityWrites": "1048576",
    "skipListSizeLimit": "16777216",
    "logSizeLimit": "67108864",
    "entryLogFilePreallocationEnabled": "false",
    "numReadWorkerThreads": "2",
    "numHighPriorityWorkerThreads": "2",
    "serverNumIOThreads": "2",
    "zkTimeout": "20000",
}
"""What differs from BookKeeper's defaults: sizes and counts of threads, so that several fit on a small machine, and the
time after which ZooKeeper takes a silent bookie for dead. How data are stored is as by default."""
DB_STORAGE = {
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "dbStorage_writeCacheMaxSizeMb": "32",
    "dbStorage_readAheadCacheMaxSizeMb": "16",
    "dbStorage_rocksDB_blockCacheSize": "1048576",
}
"""The other storage of BookKeeper's, as Pulsar sets it."""


def missing() -> list[str]:
    """What these tests need and is not installed."""
    found = [f"{needed} (.ci/packages interop)" for needed in ("java", "javac", "mvn") if shutil.which(needed) is None]
    if importlib.util.find_spec("kazoo") is None:
        found.append("kazoo (the extra zookeeper)")
    return found


@functools.cache
def class_path() -> str:
    """Of BookKeeper, and of JavaClient.java, which it compiles."""
    build()
    libraries = (EXAMPLES / "classpath").read_text().strip()
    TARGET.mkdir(parents=True, exist_ok=True)
    command = ["javac", "-d", str(TARGET), "-cp", libraries, "-proc:none", str(HERE / "JavaClient.java")]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    return f"{TARGET}:{EXAMPLES / 'classes'}:{libraries}"


class Jvm:
    """A JVM that runs the main of a class; what it logs goes to `log`, which is extended."""

    def __init__(self, log: Path, name: str, *arguments: str, memory: tuple[str, ...] = ("-Xmx256m",)) -> None:
        self.log = log
        command = [
            *("java", *memory, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
            *(option for place in OPENED for option in ("--add-opens", f"{place}=ALL-UNNAMED")),
            "-Dio.netty.tryReflectionSetAccessible=true",
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}",
            *("-cp", class_path(), name, *arguments),
        ]
        with log.open("ab") as output:
            # In a session of its own: Ctrl-C is for the tests, which then end the JVMs one by one.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
            )

    def line(self) -> str:
        """The next line that it tells. AssertionError where it ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"{self.process.args} ended: {self.last_words()}"
        return line.strip()

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """SIGKILL, and what is left of it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


class JavaBookie:
    """A bookie that can be killed and started again, with its directories and at its port."""

    def __init__(self, place: Path, metadata: str, settings: dict[str, str] | None = None) -> None:
        place.mkdir()
        self.port = free_port()
        self.bookie_id = f"127.0.0.1:{self.port}"
        self.log = place / "log"
        self._conf = place / "bookie.conf"
        self._jvm: Jvm | None = None
        self._log_before = 0
        wanted = {
            **BOOKIE,
            **(settings or {}),
            "metadataServiceUri": metadata,
            "bookiePort": str(self.port),
            "journalDirectories": str(place / "journal"),
            "ledgerDirectories": str(place / "ledgers"),
        }
        self._conf.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))

    def launch(self) -> None:
        """Starts it, and waits for nothing."""
        self._log_before = self.log.stat().st_size if self.log.exists() else 0
        main = "org.apache.bookkeeper.server.Main"
        memory = ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=192m")
        self._jvm = Jvm(self.log, main, "-c", str(self._conf), memory=memory)

    def await_ready(self) -> None:
        assert self._jvm is not None
        until = time.monotonic() + PATIENCE_S
        while READY not in self.log.read_bytes()[self._log_before :].decode(errors="replace"):
            assert self._jvm.process.poll() is None, f"Java's bookie did not start: {self._jvm.last_words()}"
            assert time.monotonic() < until, f"Java's bookie is not ready: {self._jvm.last_words()}"
            time.sleep(0.02)

    def start(self) -> None:
        self.launch()
        self.await_ready()

    @property
    def pid(self) -> int:
        assert self._jvm is not None
        return self._jvm.process.pid

    @property
    def is_up(self) -> bool:
        return self._jvm is not None

    def kill(self) -> None:
        """SIGKILL. What it had told anybody must be on its disk."""
        if self._jvm is not None:
            self._jvm.kill()
            self._jvm = None


class Failed(Exception):
    """What BookKeeper's client threw: the name of the exception's class."""


class JavaClient:
    """BookKeeper's client in a JVM; JavaClient.java says what it can be told."""

    def __init__(self, log: Path, metadata: str) -> None:
        self._jvm = Jvm(log, "JavaClient", metadata, memory=("-Xmx512m",))
        self.line()

    def line(self) -> list[str]:
        """The words of the next answer."""
        kind, *words = self._jvm.line().split()
        if kind == "failed":
            raise Failed(*words)
        assert kind == "ok", (kind, words)
        return words

    def say(self, *order: object) -> None:
        """An order, whose answer `line` waits for."""
        assert self._jvm.process.stdin is not None
        self._jvm.process.stdin.write(" ".join(map(str, order)) + "\n")
        self._jvm.process.stdin.flush()

    def do(self, *order: object) -> list[str]:
        """An order, and the words of its answer. Failed where the client threw an exception of its own."""
        self.say(*order)
        return self.line()

    def create(
        self,
        bookies: list[str],
        digest: str = "CRC32C",
        password: bytes = b"",
        *,
        ack_quorum: int = 2,
        tells_lacs: bool = False,
    ) -> tuple[int, int]:
        """A writer's handle, and the ledger. `tells_lacs`: by WRITE_LAC, every 10 ms."""
        tells = "true" if tells_lacs else "false"
        handle, ledger = self.do("create", ",".join(bookies), ack_quorum, digest, password.hex() or "-", tells)
        return int(handle), int(ledger)

    def add(self, handle: int, *sizes: int) -> int:
        """The id of the last entry."""
        return int(self.do("add", handle, *sizes)[0])

    def open(
        self, ledger: int, digest: str = "CRC32C", password: bytes = b"", *, recovers: bool = True
    ) -> tuple[int, int, int]:
        """A reader's handle, the LAC and the length."""
        words = self.do("open", ledger, digest, password.hex() or "-", "true" if recovers else "false")
        handle, lac, length = map(int, words)
        return handle, lac, length

    def lac(self, handle: int) -> int:
        return int(self.do("lac", handle)[0])

    def read(self, handle: int, first: int, last: int, *, confirmed: bool = True) -> list[tuple[int, int]]:
        """The size and the CRC-32 of each entry."""
        words = list(map(int, self.do("read" if confirmed else "unconfirmed", handle, first, last)))
        return list(zip(words[::2], words[1::2], strict=True))

    def close(self, handle: int) -> None:
        self.do("close", handle)

    def end(self) -> None:
        self._jvm.kill()


def payload(entry_id: int, size: int) -> bytes:
    """As JavaClient.java makes it."""
    pattern = b"%d/" % entry_id
    return (pattern * (size // len(pattern) + 1))[:size]


def sums(payloads: list[bytes]) -> list[tuple[int, int]]:
    """As JavaClient.read tells them."""
    return [(len(each), zlib.crc32(each)) for each in payloads]


def environment(*folders: Path) -> dict[str, str]:
    """Of a process that imports the sources of the bookie, and modules of these folders."""
    path = os.pathsep.join([*map(str, folders), str(ROOT / "bookie"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}
