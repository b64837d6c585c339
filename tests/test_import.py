"""Importing walkeeper does no work. Each test runs in a process of its own, from /, to see the package alone."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/", timeout=60)


def test_import_opens_no_file_and_starts_no_thread() -> None:
    run(
        "import os, threading\n"
        "before = os.listdir('/proc/self/fd')\n"
        "import walkeeper\n"
        "after = os.listdir('/proc/self/fd')\n"
        "assert len(after) == len(before), (before, after)\n"
        "assert threading.active_count() == 1\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
    )


@pytest.mark.parametrize(
    "module", ["pyspark", "sqlite3", "pyarrow", "asyncio", "click", "rich", "concurrent.futures", "socket"]
)
def test_import_leaves_out(module: str) -> None:
    run(f"import sys, walkeeper\nassert {module!r} not in sys.modules")


def test_who_wants_the_errors_alone_gets_no_more() -> None:
    run(
        "import sys, walkeeper.errors\n"
        "assert not {'walkeeper._log', 'walkeeper._namespace', 'walkeeper._reader'} & set(sys.modules)\n"
        "assert walkeeper.Reader is sys.modules['walkeeper._reader'].Reader\n"
    )


def test_aio_is_imported_when_somebody_asks() -> None:
    run(
        "import sys, walkeeper\n"
        "assert 'walkeeper.aio' not in sys.modules\n"
        "walkeeper.aio.open\n"
        "assert 'asyncio' in sys.modules\n"
    )


def test_all_names_exist() -> None:
    run("import walkeeper\nfor name in walkeeper.__all__: getattr(walkeeper, name)")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    run(
        "import walkeeper\n"
        "try: walkeeper.no_such_name\n"
        "except AttributeError as error: assert 'no_such_name' in str(error)\n"
        "else: raise SystemExit('walkeeper.no_such_name exists')\n"
    )


def test_the_checkout_is_not_on_the_path() -> None:
    run("import walkeeper, sys\nassert not {'adapters', 'bookie', 'native'} & set(sys.modules)")
