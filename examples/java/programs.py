"""Builds the Java programs of this folder, runs them, and hears what they tell."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent
TARGET = HERE.parents[1] / "build" / "java-demo"
PATIENCE_S = 60.0
MEMORY = "-Xmx384m"
# Netty and BookKeeper's checksums reach into the JDK.
OPENED = ("java.base/java.nio", "java.base/jdk.internal.misc", "java.base/java.util.zip", "java.base/java.lang")


class ProgramError(Exception):
    """A program ended, or was silent, where it should have told something; the text is for people."""


@dataclass(frozen=True)
class Told:
    """A line that a program wrote, its words, and when it came."""

    at: float
    kind: str
    words: list[str]


def build() -> None:
    """Compiles what changed; Maven fetches what is not there. Raises ProgramError with what Maven said."""
    command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "compile"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise ProgramError("mvn is not installed; Debian's packages: default-jdk-headless, maven") from None
    if done.returncode != 0:
        raise ProgramError(f"Maven could not build {HERE}:\n{done.stdout}{done.stderr}")


class Program:
    """One JVM. Leaving the context ends it."""

    def __init__(self, name: str, *arguments: str, logs: Path) -> None:
        """`name` is the class whose main it runs; what it logs goes to a file in `logs`."""
        self.name = name
        self.log = logs / f"{name}.log"
        classes = f"{TARGET / 'classes'}:{(TARGET / 'classpath').read_text().strip()}"
        command = [
            *("java", MEMORY, "-XX:+UseSerialGC", "-cp", classes),
            *(option for place in OPENED for option in ("--add-opens", f"{place}=ALL-UNNAMED")),
            "-Dio.netty.tryReflectionSetAccessible=true",
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}",
            *(name, *arguments),
        ]
        self._lines: queue.SimpleQueue[Told | None] = queue.SimpleQueue()
        with self.log.open("wb") as log:
            # In a session of its own: Ctrl-C is for us, who then end the programs one by one.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, *words = line.split() or [""]
            self._lines.put(Told(time.monotonic(), kind, words))
        self._lines.put(None)

    def next(self) -> Told:
        """The next line. Raises ProgramError where none comes."""
        try:
            told = self._lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise ProgramError(f"{self.name} has been silent for {PATIENCE_S:.0f} s{self._last_words()}") from None
        if told is None:
            raise ProgramError(f"{self.name} ended with status {self._process.wait()}{self._last_words()}")
        return told

    def expect(self, kind: str) -> Told:
        """The next line of this kind; others before it are dropped. Raises ProgramError where none comes."""
        until = time.monotonic() + PATIENCE_S
        while (told := self.next()).kind != kind:
            if told.at > until:
                raise ProgramError(
                    f'{self.name} has told nothing of "{kind}" for {PATIENCE_S:.0f} s{self._last_words()}'
                )
        return told

    def _last_words(self) -> str:
        return "".join(f"\n  {line}" for line in self.log.read_text(errors="replace").splitlines()[-20:])

    def close(self) -> None:
        """Ends it: nothing that it does needs an orderly end."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
