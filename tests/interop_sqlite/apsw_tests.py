"""APSW's own tests, with the default VFS of these suites: apsw_tests.py EXTENSION [ARGUMENT OF unittest]..."""

from __future__ import annotations

import importlib
import sys
import unittest
from typing import Any

apsw: Any = importlib.import_module("apsw")
tests: Any = importlib.import_module("apsw.tests.__main__")

VFS = "interop"


def load(extension: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(extension, "sqlite3_defaultvfs_init")
    connection.close()


def main(extension: str, arguments: list[str]) -> None:
    load(extension)
    their_set_up = tests.APSW.setUp

    def set_up(test: Any) -> None:
        load(extension)  # tests of VFSes, and of sqlite3_shutdown, make SQLite's own the default
        apsw.set_default_vfs(VFS)
        their_set_up(test)

    tests.APSW.setUp = set_up
    unittest.main(module=tests, defaultTest="APSW", argv=[sys.argv[0], "-v", *arguments])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
