"""The Java client in a JVM of its own, which does what a test asks for (java/ClientProcess.java)."""

from __future__ import annotations

import queue
import shutil
import subprocess
import threading
import zlib
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pyspark

import walkeeper_spark_checkpoint as wks

HERE = Path(__file__).parent
MAIN = HERE / "java" / "ClientProcess.java"
JARS = Path(pyspark.__file__).parent / "jars"
PASSWORD = "changeit"
"""Of the certificates that the JVM trusts."""
PATIENCE_S = 60.0
"""For an outcome: far longer than anything here takes."""
OPENS = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.nio", "sun.nio.ch")]


def content(size: int) -> bytes:
    """What ClientProcess writes where it is asked for so many bytes."""
    period = bytes((31 * at + size) & 0xFF for at in range(256))
    return (period * (size // 256 + 1))[:size]


def summed(found: bytes) -> str:
    """What ClientProcess says of bytes that it reads."""
    return f"{len(found)} {zlib.crc32(found)}"


class Outcome(NamedTuple):
    kind: str
    """ "returned", or the name of an exception's class."""
    text: str


class Call:
    """An action on its way."""

    def __init__(self, client: JavaClient, number: int) -> None:
        self._client, self.number = client, number
        self._answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def answer(self, outcome: Outcome) -> None:
        self._answers.put(outcome)

    def outcome(self) -> Outcome:
        return self._answers.get(timeout=PATIENCE_S)

    def interrupt(self) -> None:
        self._client.do("interrupt", self.number)


class JavaClient:
    """A JVM. `place` has its classes, and its temporary files in `place`/spilled."""

    def __init__(self, place: Path, trust_store: Path) -> None:
        classes = place / "classes"
        class_path = f"{wks.jar()}:{JARS}/*"
        subprocess.run(["javac", "-Xlint:all,-classfile", "-cp", class_path, "-d", str(classes), str(MAIN)], check=True)
        self.spilled = place / "spilled"
        self.spilled.mkdir()
        self._log = (place / "log").open("wb")
        properties = {
            "java.io.tmpdir": self.spilled,
            "javax.net.ssl.trustStore": trust_store,
            "javax.net.ssl.trustStorePassword": PASSWORD,
            "log4j2.level": "ERROR",
        }
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *OPENS]
        command += [f"-D{name}={value}" for name, value in properties.items()]
        self._process = subprocess.Popen(
            [*command, "-cp", f"{classes}:{class_path}", "ClientProcess"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._calls: list[Call] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def begin(self, action: str, *arguments: object) -> Call:
        call = Call(self, len(self._calls))
        self._calls.append(call)
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, (call.number, action, *arguments))) + "\n")
        self._process.stdin.flush()
        return call

    def do(self, action: str, *arguments: object) -> Outcome:
        return self.begin(action, *arguments).outcome()

    def made(self, action: str, *arguments: object) -> str:
        """What the action returns; it must."""
        outcome = self.do(action, *arguments)
        assert outcome.kind == "returned", outcome
        return outcome.text

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, kind, text = line.rstrip("\n").split("\t", 2)
            self._calls[int(number)].answer(Outcome(kind, text))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._reader.join()
        self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> JavaClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Certificate(NamedTuple):
    """Of the host "localhost", and of no other."""

    certificate: Path
    key: Path
    trust_store: Path
    """What a JVM trusts: this certificate alone."""


def make_certificate(place: Path) -> Certificate:
    made = Certificate(place / "certificate.pem", place / "key.pem", place / "trusted.p12")
    request = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
    request += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(["openssl", "req", "-x509", "-days", "30", *request], check=True, capture_output=True)
    keytool = shutil.which("keytool") or "keytool"
    store = ["-keystore", str(made.trust_store), "-storetype", "PKCS12", "-storepass", PASSWORD, "-noprompt"]
    command = [keytool, "-importcert", "-alias", "localhost", "-file", str(made.certificate), *store]
    subprocess.run(command, check=True, capture_output=True)
    return made
