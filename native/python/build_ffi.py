"""Emit the C of walkeeper._native; the cdef is the public headers, preprocessed, so nothing is declared twice.

Usage: build_ffi.py OUTPUT.c            (run by CMake)
       build_ffi.py --cdef              (print what cffi is given)
"""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from cffi import FFI

NATIVE = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = NATIVE / "include"
HEADERS = sorted(f"walkeeper/{header.name}" for header in (INCLUDE / "walkeeper").glob("*.h"))


def includes(headers: list[str]) -> str:
    return "".join(f'#include "{header}"\n' for header in headers)


# What C calls in Python: the targets of wk_inspect_fn and wk_verify_fn. `context` is an ffi.new_handle.
CALLBACKS = """
extern "Python" bool walkeeper_inspect_line(void *context, const char *json);
extern "Python" bool walkeeper_verify_progress(void *context, uint64_t bytes_done, uint64_t bytes_total);
"""


def cdef(headers: list[str]) -> str:
    """Headers as cffi wants them: no directives, no attributes (WK_CDEF), the C library's headers empty."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory() as stubs:
        for name in ("stdbool.h", "stddef.h", "stdint.h"):
            pathlib.Path(stubs, name).touch()
        flags = ["-E", "-P", "-xc", "-DWK_CDEF", "-nostdinc", "-I", stubs, "-I", str(INCLUDE), "-I", str(NATIVE), "-"]
        asked, command = includes(headers), [*compiler, *flags]
        done = subprocess.run(command, input=asked, text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    if arguments == ["--cdef"]:
        print(cdef(HEADERS) + CALLBACKS)
        return 0
    ffi = FFI()
    ffi.cdef(cdef(HEADERS))
    ffi.cdef(CALLBACKS)
    ffi.set_source("walkeeper._native", includes(HEADERS), py_limited_api=True)
    ffi.emit_c_code(arguments[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
