"""Emit the C of a cffi module; its cdef is the public headers, preprocessed, so that nothing is declared twice.

Usage: build_ffi.py OUTPUT.c [MODULE]   (run by CMake; walkeeper._native, or walkeeper_sqlite._native)
       build_ffi.py --cdef [MODULE]     (print what cffi is given)
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
SQLITE_INCLUDE = NATIVE.parent / "adapters/sqlite/include"
HEADERS = sorted(f"walkeeper/{header.name}" for header in (INCLUDE / "walkeeper").glob("*.h"))


def includes(headers: list[str]) -> str:
    return "".join(f'#include "{header}"\n' for header in headers)


# What C calls in Python: the targets of wk_inspect_fn and wk_verify_fn. `context` is an ffi.new_handle.
CALLBACKS = """
extern "Python" bool walkeeper_inspect_line(void *context, const char *json);
extern "Python" bool walkeeper_verify_progress(void *context, uint64_t bytes_done, uint64_t bytes_total);
"""

# And the calls of a wk_database_log whose log is one of Python's.
SQLITE_CALLBACKS = """
extern "Python" wk_status walkeeper_sqlite_take_over(void *context, wk_error *error);
extern "Python" wk_status walkeeper_sqlite_append(void *context, const uint8_t *bytes, const uint32_t *sizes,
                                                  size_t count, int64_t *last, wk_error *error);
extern "Python" wk_status walkeeper_sqlite_submit(void *context, const uint8_t *bytes, const uint32_t *sizes,
                                                  size_t count, int64_t *last, uint64_t *ticket, wk_error *error);
extern "Python" wk_status walkeeper_sqlite_wait(void *context, uint64_t ticket, wk_error *error);
extern "Python" wk_status walkeeper_sqlite_read(void *context, int64_t from, wk_database_record_fn record,
                                                void *record_context, wk_error *error);
extern "Python" wk_status walkeeper_sqlite_range(void *context, int64_t *first, int64_t *next, wk_error *error);
extern "Python" void walkeeper_sqlite_close(void *context);
extern "Python" wk_status walkeeper_sqlite_take_over_bookies(void *context, wk_cluster_writer **writer,
                                                             wk_error *error);
extern "Python" wk_status walkeeper_sqlite_next_segment(void *context, int64_t txid, wk_error *error);
extern "Python" wk_status walkeeper_sqlite_explain(void *context, wk_status status, wk_error *error);
"""

MODULES = {
    "walkeeper._native": (HEADERS, CALLBACKS),
    "walkeeper_sqlite._native": (["walkeeper/sqlite.h"], SQLITE_CALLBACKS),
}


def cdef(headers: list[str]) -> str:
    """Headers as cffi wants them: no directives, no attributes (WK_CDEF), the C library's headers empty."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory() as stubs:
        for name in ("stdbool.h", "stddef.h", "stdint.h"):
            pathlib.Path(stubs, name).touch()
        flags = ["-E", "-P", "-xc", "-DWK_CDEF", "-nostdinc", "-I", stubs]
        flags += ["-I", str(INCLUDE), "-I", str(SQLITE_INCLUDE), "-I", str(NATIVE), "-"]
        asked, command = includes(headers), [*compiler, *flags]
        done = subprocess.run(command, input=asked, text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout


def main(arguments: list[str]) -> int:
    module = arguments[1] if len(arguments) == 2 else "walkeeper._native"
    if len(arguments) not in (1, 2) or module not in MODULES:
        print(__doc__, file=sys.stderr)
        return 2
    headers, callbacks = MODULES[module]
    if arguments[0] == "--cdef":
        print(cdef(headers) + callbacks)
        return 0
    ffi = FFI()
    ffi.cdef(cdef(headers))
    ffi.cdef(callbacks)
    ffi.set_source(module, includes(headers), py_limited_api=True)
    ffi.emit_c_code(arguments[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
