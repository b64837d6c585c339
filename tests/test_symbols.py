"""libwalkeeper.so exports what the public headers declare, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import walkeeper._native

LIBRARY = Path(walkeeper._native.__file__).with_name("libwalkeeper.so")
HEADERS = LIBRARY.with_name("include") / "walkeeper"


def declared() -> set[str]:
    """The functions that the installed headers mark with WK_API."""
    text = "".join(header.read_text() for header in sorted(HEADERS.glob("*.h")))
    text = re.sub(r"/\*.*?\*/|^#.*?$", " ", text, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"\bWK_API\b[^;(]*?(\w+)\(", text))


def exported() -> set[str]:
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    listing = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True)
    return {line.split()[-1].partition("@")[0] for line in listing.stdout.splitlines()}


def test_the_library_exports_only_names_that_begin_with_wk() -> None:
    assert {name for name in exported() if not name.startswith("wk_")} == set()


def test_everything_exported_is_declared_and_everything_declared_exported() -> None:
    assert len(declared()) > 50
    assert exported() == declared()


def test_the_library_needs_no_python() -> None:
    listing = subprocess.run(["nm", "-D", "--undefined-only", LIBRARY], check=True, capture_output=True, text=True)
    names = {line.split()[-1] for line in listing.stdout.splitlines()}
    assert {name for name in names if name.startswith(("Py", "_Py"))} == set()


def headers() -> str:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    asked = ["readelf", "--wide", "--segments", "--dynamic", "--dyn-syms", LIBRARY]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout


def test_what_a_defect_could_write_to_is_guarded() -> None:
    """Its tables of functions are read-only once it is loaded, its stack and its copies are looked at."""
    found = headers()
    assert "GNU_RELRO" in found
    assert re.search(r"\(BIND_NOW\)|\(FLAGS(_1)?\).*NOW", found)
    assert "__stack_chk_fail" in found
    assert re.search(r"__\w+_chk\b", found.replace("__stack_chk_fail", ""))
    assert not re.search(r"GNU_STACK.* RWE ", found)
