"""HadoopFiles: one folder on whichever file system Hadoop knows, reached through the driver's JVM."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walkeeper.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FoundFile", "HadoopFiles"]

CONDITIONAL = "fs.option.create.conditional.overwrite"
"""The capability, and the option, of a store that makes an object where there is none, in one step (s3a)."""
RENAMES_TO_NEW_NAMES = ("hdfs", "walkeeper")
"""Their rename is one step, and refuses a name that is taken."""


@dataclass(frozen=True)
class FoundFile:
    """A file below the folder."""

    path: str
    """Relative to the folder."""
    size: int


class HadoopFiles:
    """The files of a folder. Names are relative to it. Raises Py4JJavaError for what the file system refuses."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """UnsupportedError for a session of Spark Connect: it has no JVM here."""
        try:
            context = spark.sparkContext
        except Exception as wrong:
            raise UnsupportedError("this job wants a driver with a JVM, which Spark Connect has not") from wrong
        jvm: Any = context._jvm
        session: Any = spark._jsparkSession
        self._path_class = jvm.org.apache.hadoop.fs.Path
        given = self._path_class(folder)
        self._fs = given.getFileSystem(session.sessionState().newHadoopConf())
        self._folder = self._fs.makeQualified(given)
        self._scheme = str(self._fs.getUri().getScheme())

    @property
    def folder(self) -> str:
        """Its URI."""
        return str(self._folder.toString())

    def uri(self, name: str) -> str:
        """Of a file, for Spark."""
        return f"{self.folder.rstrip('/')}/{name}"

    def names(self, name: str = "") -> list[str]:
        """What is in a folder below this one, sorted; empty where there is no such folder."""
        path = self._of(name)
        if not self._fs.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(path))

    def files(self, name: str) -> Iterator[FoundFile]:
        """All files below a folder, at any depth; without those that Hadoop hides (their names begin with _ or .)."""
        path = self._of(name)
        if not self._fs.exists(path):
            return
        base = len(self.folder.rstrip("/")) + 1
        found = self._fs.listFiles(path, True)
        while found.hasNext():
            status = found.next()
            if str(status.getPath().getName()).startswith(("_", ".")):
                continue
            yield FoundFile(str(status.getPath().toString())[base:], int(status.getLen()))

    def read(self, name: str) -> bytes:
        """The whole of a small file."""
        stream = self._fs.open(self._of(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def delete(self, name: str) -> None:
        """A file, or a folder with all that is below it; nothing where it is not there."""
        self._fs.delete(self._of(name), True)

    def make_durable(self, names: list[str]) -> None:
        """What Hadoop writes to this machine's disk it does not sync; other file systems are durable by themselves."""
        if self._scheme != "file":
            return
        local = self._local("")
        paths = [os.path.join(local, name) for name in names]
        sums = (os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.crc") for path in paths)
        paths += [path for path in sums if os.path.exists(path)]  # Hadoop refuses a file that is not as its sums say
        folders = {os.path.dirname(path) for path in paths}
        for folder in list(folders):
            while folder not in (local, os.path.dirname(folder)):
                folder = os.path.dirname(folder)
                folders.add(folder)
        for path in [*paths, *folders, os.path.dirname(local)]:
            _sync(path)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Makes a file, whole and durable, where there is none of that name; whether this call did.

        Of several callers one alone is told True. UnsupportedError: the file system has no one step for that. What
        another writes to the same name must not be equal, so that a call whose answer was lost finds out.
        """
        if self._scheme == "file":
            return self._put_by_link(name, data)
        if self._fs.hasPathCapability(self._of(name), CONDITIONAL):
            return self._put_by_condition(name, data)
        if self._scheme in RENAMES_TO_NEW_NAMES:
            return self._put_by_rename(name, data)
        raise UnsupportedError(
            f"{self._scheme}: has no way to make a file only where there is none, so that two archivers could both win",
            hint=f"known are file:, {', '.join(f'{scheme}:' for scheme in RENAMES_TO_NEW_NAMES)} and stores with the "
            f"capability {CONDITIONAL} (s3a: of Hadoop 3.4.2 and newer)",
        )

    def _put_by_link(self, name: str, data: bytes) -> bool:
        path = self._local(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = os.path.join(os.path.dirname(path), _temporary(name))
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        _sync(os.path.dirname(path))
        return True

    def _put_by_condition(self, name: str, data: bytes) -> bool:
        try:
            self._write(self._fs.createFile(self._of(name)).overwrite(True).must(CONDITIONAL, True).build(), data)
        except Exception:
            if not self._fs.exists(self._of(name)):
                raise
        return self.read(name) == data

    def _put_by_rename(self, name: str, data: bytes) -> bool:
        path = self._of(name)
        temporary = self._of(os.path.join(os.path.dirname(name), _temporary(name)))
        self._write(self._fs.create(temporary, False), data)
        try:
            renamed = bool(self._fs.rename(temporary, path))
        except Exception:
            if not self._fs.exists(path):
                raise
            renamed = False
        if not renamed:
            self._fs.delete(temporary, False)
        return renamed or (bool(self._fs.exists(path)) and self.read(name) == data)

    def _write(self, stream: Any, data: bytes) -> None:
        stream.write(bytearray(data))
        stream.close()

    def _of(self, name: str) -> Any:
        return self._path_class(self.uri(name)) if name else self._folder

    def _local(self, name: str) -> str:
        folder = str(self._folder.toUri().getPath())
        return os.path.join(folder, name) if name else folder


def _temporary(name: str) -> str:
    """A name that nobody has, and that Hadoop hides."""
    return f".{os.path.basename(name)}.{uuid.uuid4().hex}"


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
