"""native/core for tests: its private headers, and the pure public ones, as a cffi module that is not installed.

The module is compiled from native/core alone when it is first imported, and kept in build/core_lib under a name made
from what it was compiled from.

    from tests.core_lib import ffi, lib
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING

from cffi import FFI

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "native"
NAME = "walkeeper_core"
PUBLIC = ("core", "entry", "histogram", "record")  # pure: compiled from native/core
PRIVATE = (
    "block_window", "budgets", "catalogue_record", "digest", "footer", "hosted", "index_file", "journal_block",
    "journal_scan", "ledger_recovery", "ledger_rules", "ledger_writer", "lock_text", "owner", "quorum", "sha1",
    "superblock", "wire",
)  # fmt: skip
HEADERS = [*(f"walkeeper/{name}.h" for name in PUBLIC), *(f"core/{name}.h" for name in PRIVATE)]


def _load(name: str, path: Path) -> object:
    spec = importlib.util.spec_from_file_location(name, path)
    assert isinstance(spec, ModuleSpec)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compile(path: Path, sources: list[Path]) -> None:
    """The module, at `path`. CalledProcessError: the compiler refuses it."""
    build_ffi = _load("build_ffi", NATIVE / "python" / "build_ffi.py")
    ffi = FFI()
    ffi.cdef(build_ffi.cdef(HEADERS))  # type: ignore[attr-defined]
    ffi.set_source(NAME, "".join(f'#include "{header}"\n' for header in HEADERS))
    glue = path.with_suffix(".c")
    with contextlib.redirect_stdout(None):  # it tells what it writes
        ffi.emit_c_code(str(glue))
    unfinished = path.with_suffix(".unfinished")
    compiler = [
        *shlex.split(os.environ.get("CC", "cc")),
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-std=gnu11",
        "-O1",
    ]
    folders = [NATIVE, NATIVE / "include", sysconfig.get_path("include")]
    flags = [f"-I{folder}" for folder in folders]
    subprocess.run([*compiler, *flags, "-o", unfinished, glue, *sources], check=True)
    unfinished.rename(path)


def _module() -> object:
    sources = sorted((NATIVE / "core").glob("*.c"))
    seen = hashlib.sha256(f"{sys.version} {sys.platform} {HEADERS}".encode())
    for file in [*sources, *sorted((NATIVE / "core").glob("*.h")), *sorted(NATIVE.glob("include/walkeeper/*.h"))]:
        seen.update(f"{file.name} ".encode() + file.read_bytes())
    folder = ROOT / "build" / "core_lib" / seen.hexdigest()[:16]
    path = folder / f"{NAME}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:  # test processes begin side by side
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _compile(path, sources)
    return _load(NAME, path)


if TYPE_CHECKING:
    from walkeeper._native import ffi, lib
else:
    _loaded = _module()
    ffi, lib = _loaded.ffi, _loaded.lib

__all__ = ["ffi", "lib"]
