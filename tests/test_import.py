"""Importing walkeeper does no work. Each test runs in a process of its own, from /, to see the package alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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


def test_the_version_is_that_of_the_distribution() -> None:
    pyproject = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    found = re.search(r'^version = "(.*?)"', pyproject, flags=re.MULTILINE)
    assert found is not None
    run(
        "import importlib.metadata, walkeeper\n"
        f"assert walkeeper.__version__ == importlib.metadata.version('walkeeper') == {found[1]!r}\n"
        "assert '__version__' in dir(walkeeper)\n"
    )


def test_the_version_is_looked_up_when_somebody_asks() -> None:
    run(
        "import sys\n"
        "for name in [name for name in sys.modules if name.startswith('importlib.metadata')]: del sys.modules[name]\n"
        "import walkeeper\n"
        "assert 'importlib.metadata' not in sys.modules\n"
        "walkeeper.__version__\n"
        "assert 'importlib.metadata' in sys.modules\n"
        "del sys.modules['importlib.metadata']\n"
        "walkeeper.__version__\n"
        "assert 'importlib.metadata' not in sys.modules\n"
    )


def test_without_metadata_the_version_is_unknown() -> None:
    run(
        "import importlib.metadata as metadata, walkeeper\n"
        "def missing(name): raise metadata.PackageNotFoundError(name)\n"
        "metadata.version = missing\n"
        "assert walkeeper.__version__ == 'unknown'\n"
    )


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    run(
        "import walkeeper\n"
        "try: walkeeper.no_such_name\n"
        "except AttributeError as error: assert 'no_such_name' in str(error)\n"
        "else: raise SystemExit('walkeeper.no_such_name exists')\n"
    )


def test_the_checkout_is_not_on_the_path() -> None:
    run("import walkeeper, sys\nassert not {'adapters', 'bookie', 'native'} & set(sys.modules)")
