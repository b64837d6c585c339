"""Host: a process in C that has databases in walkeeper by their URIs, without Python (host.c)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import walkeeper._native
import walkeeper_sqlite

SOURCE = Path(__file__).with_name("host.c")
ROOT = SOURCE.parents[2]


def compile_host(folder: Path) -> Path:
    program = folder / "host"
    library = Path(walkeeper_sqlite.extension_path())
    engine = Path(walkeeper._native.__file__).parent
    command = ["cc", "-O1", "-D_GNU_SOURCE", "-o", str(program), str(SOURCE), str(library), "-lsqlite3", "-pthread"]
    command += [f"-I{ROOT / place}/include" for place in ("native", "adapters/sqlite")]
    command += [f"-Wl,-rpath,{library.parent}", f"-Wl,-rpath-link,{engine}"]
    subprocess.run(command, check=True)
    return program


class RefusedError(Exception):
    """What SQLite answered."""

    def __init__(self, code: int, text: str, log: str) -> None:
        super().__init__(f"{code} {text}; {log}")
        self.code = code
        self.log = log
        """What SQLite's error log was told since the statement began."""


class Rows(list[str]):
    def fetchall(self) -> Rows:
        return self


class Host:
    """Its connection is opened by the first statement. A context manager: leaving it kills the process."""

    def __init__(self, program: Path, uri: str) -> None:
        self.uri = uri
        self.acknowledged: list[int] = []
        """What `.rows` said so far."""
        command = [str(program), walkeeper_sqlite.extension_path(), uri]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def begin(self, line: str) -> None:
        """Sends a line."""
        assert self.process.stdin is not None
        assert "\n" not in line
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> Rows:
        """What came of it. Raises RefusedError."""
        assert self.process.stdout is not None
        rows, log = Rows(), []
        for line in self.process.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "row":
                rows.append(rest)
            elif word == "id":
                self.acknowledged.append(int(rest))
            elif word == "log":
                log.append(rest)
            elif word == "ok":
                return rows
            else:
                code, _, text = rest.partition(" ")
                raise RefusedError(int(code), text, "\n".join(log))
        raise AssertionError("the host ended")

    def hear(self, count: int) -> None:
        """So many rows of `.rows`."""
        assert self.process.stdout is not None
        while len(self.acknowledged) < count:
            word, _, rest = self.process.stdout.readline().partition(" ")
            assert word in ("id", "log"), (word, rest)
            if word == "id":
                self.acknowledged.append(int(rest))

    def execute(self, sql: str, values: Sequence[object] = ()) -> Rows:
        """As a connection of sqlite3 does, with literals for the values."""
        first, *rest = sql.split("?")
        assert len(rest) == len(values)
        self.begin(first + "".join(_literal(value) + piece for value, piece in zip(values, rest, strict=True)))
        return self.end()

    def executemany(self, sql: str, many: Iterable[Sequence[object]]) -> None:
        for values in many:
            self.execute(sql, values)

    def close(self) -> None:
        """The connection: the next statement opens another one."""
        self.execute(".close")

    def finish(self) -> None:
        """The process ends by itself, and well."""
        self.process.communicate()
        assert self.process.returncode == 0


def _literal(value: object) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    assert isinstance(value, int)
    return str(value)
