"""
Java's side: BookKeeper 4.17.3 from Maven Central, its bookie (default and tuned), its client, and a ZooKeeper.

The settings of *tuned* are those that served best on a machine with two processors and a fast disk: no wait for a
group, DbLedgerStorage, no threads between the socket and the journal. Syncs are on in both. A bookie's port answers
before it is ready, so its log is waited for.
"""

from __future__ import annotations

import functools
import json
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

from harness.bench import HERE
from harness.fio import Absent

from bookies.servers import NO_COLLECTION_SECONDS, Child, Server, free_port

VERSION = "4.17.3"
TARGET = HERE.parent / "build" / "bench-java"
MEMORY = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g")
# Netty and BookKeeper's checksums reach into the JDK.
OPENED = ("java.base/java.nio", "java.base/jdk.internal.misc", "java.base/java.util.zip", "java.base/java.lang")
READY = "Started component bookie-server"

COMMON = {
    "advertisedAddress": "127.0.0.1",
    "allowLoopback": "true",
    "allowEphemeralPorts": "false",
    "diskUsageThreshold": "0.999",
    "diskUsageWarnThreshold": "0.99",
    "httpServerEnabled": "false",
    "autoRecoveryDaemonEnabled": "false",
    "enableStatistics": "false",
    "gcWaitTime": str(NO_COLLECTION_SECONDS * 1000),
    "minorCompactionInterval": str(NO_COLLECTION_SECONDS),
    "majorCompactionInterval": str(2 * NO_COLLECTION_SECONDS),
    "journalSyncData": "true",
}
TUNED = {
    "journalMaxGroupWaitMSec": "0",
    "journalFlushWhenQueueEmpty": "true",
    "journalAdaptiveGroupWrites": "false",
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "numAddWorkerThreads": "0",
    "numJournalCallbackThreads": "0",
    "serverNumIOThreads": "1",
}
KINDS: dict[str, dict[str, str]] = {"default": {}, "tuned": TUNED}


@functools.cache
def class_path() -> str:
    """Compiles the client and lets Maven fetch what is not there. Raises Absent where there is no Java or no Maven."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        raise Absent("Java and Maven are needed (Debian: default-jdk-headless, maven)")
    made = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(HERE / "java" / "pom.xml"), "compile"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        raise Absent(f"Maven could not build benchmarks/java: {(made.stdout + made.stderr)[-500:]}")
    return f"{TARGET / 'classes'}:{(TARGET / 'classpath').read_text().strip()}"


def command(main: str, *arguments: str, memory: tuple[str, ...] = MEMORY) -> list[str]:
    return [
        "java",
        *memory,
        *(option for place in OPENED for option in ("--add-opens", f"{place}=ALL-UNNAMED")),
        "-Dio.netty.tryReflectionSetAccessible=true",
        f"-Dlog4j2.configurationFile={HERE / 'java' / 'log4j2.xml'}",
        "-Dzookeeper.admin.enableServer=false",
        *("-cp", class_path(), main, *arguments),
    ]


def settings_text(settings: dict[str, str]) -> str:
    """A file of Java's properties."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


class ZooKeeper(Server):
    """One server with an empty cluster of BookKeeper's in it, made by BookKeeper's own command."""

    def __init__(self, place: Path) -> None:
        port = free_port()
        place.mkdir(parents=True, exist_ok=True)
        settings = place / "zoo.cfg"
        settings.write_text(
            settings_text(
                {
                    "tickTime": "500",
                    "dataDir": str(place / "data"),
                    "clientPort": str(port),
                    "clientPortAddress": "127.0.0.1",
                    "maxClientCnxns": "0",
                    "4lw.commands.whitelist": "srvr",
                }
            )
        )
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        super().__init__(place, command(main, str(settings), memory=("-Xmx256m", "-XX:+UseSerialGC")), port)
        self.await_(self._serves, "ZooKeeper did not start")
        conf = place / "cluster.conf"
        conf.write_text(settings_text({**COMMON, "metadataServiceUri": self.uri, "bookiePort": "3181"}))
        shell = "org.apache.bookkeeper.bookie.BookieShell"
        made = subprocess.run(
            command(shell, "-conf", str(conf), "initnewcluster", memory=("-Xmx256m",)), capture_output=True, text=True
        )
        if made.returncode != 0:
            raise self.failed(f"BookKeeper made no cluster: {made.stderr[-1000:]}")

    @property
    def uri(self) -> str:
        return f"zk+hierarchical://127.0.0.1:{self.port}/ledgers"

    def uri_of(self, root: str) -> str:
        """Of another cluster, which a bookie of ours makes at its start."""
        return f"zk+hierarchical://127.0.0.1:{self.port}/{root}"

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as asked:
                asked.sendall(b"srvr")
                return asked.recv(4096).startswith(b"Zookeeper version")
        except OSError:
            return False


class JavaBookie(Server):
    """
    A JVM with one bookie, of a kind of KINDS. Journal and ledgers lie on one disk, as ours do. In a place that another
    one had it takes that one's port: its cookie names it.
    """

    def __init__(self, place: Path, kind: str, zookeeper: ZooKeeper) -> None:
        place.mkdir(parents=True, exist_ok=True)
        kept = place / "port"
        port = int(kept.read_text()) if kept.exists() else free_port()
        kept.write_text(str(port))
        settings = place / "bookie.conf"
        settings.write_text(
            settings_text(
                {
                    **COMMON,
                    **KINDS[kind],
                    "metadataServiceUri": zookeeper.uri,
                    "bookiePort": str(port),
                    "journalDirectories": str(place / "journal"),
                    "ledgerDirectories": str(place / "ledgers"),
                }
            )
        )
        # A log that is told again (a restart in the same place) must not count as this start's.
        (place / "log").unlink(missing_ok=True)
        super().__init__(place, command("org.apache.bookkeeper.server.Main", "-c", str(settings)), port)
        self.await_(lambda: READY in self.log.read_text(errors="replace"), f"Java's bookie ({kind}) did not start")


class JavaClient(Child):
    """A JVM with BookKeeper's client, told what to do over its standard input, so that it stays warm."""

    def __init__(self, place: Path, metadata: str) -> None:
        super().__init__(place, command("Client", metadata), "client-log")
        self.line()

    def do(self, *words: object) -> dict[str, Any]:
        """An order, and its answer."""
        self.say(" ".join(map(str, words)))
        answer: dict[str, Any] = json.loads(self.line())
        return answer
