"""Exceptions that somebody keeps: the frames in their tracebacks are collected, with all that they hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_KEPT = """
import gc, sys, pyarrow, walkeeper
with walkeeper.open(sys.argv[1]) as namespace, namespace.log("a").writer() as writer:
    view = memoryview(b"payload")
    calls = {
        "append": lambda: writer.append(view[1:], expected=5),
        "submit": lambda: writer.submit(view[1:], expected=5),
        "array": lambda: writer.append_many(pyarrow.array([b"x", b"y"])[1:], expected=5),
        "list": lambda: writer.append_many([view[1:]], expected=5),
    }
    def fail(call):
        try:
            call()
        except walkeeper.SequenceMismatchError as error:
            kept = error  # a cycle: the traceback has this frame
    for _ in range(20):
        fail(calls[sys.argv[2]])
    gc.collect()
    print(writer.append(b"sound").sequence_id)
"""


@pytest.mark.parametrize("call", ["append", "submit", "array", "list"])
def test_an_exception_of_an_append_is_collected(tmp_path: Path, call: str) -> None:
    """CPython dies where it collects a memoryview whose memory somebody has."""
    done = subprocess.run(
        [sys.executable, "-c", _KEPT, str(tmp_path / "wal"), call], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
