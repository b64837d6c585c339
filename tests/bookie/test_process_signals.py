"""Signals may come between any two steps of the bookie's process."""

from __future__ import annotations

import subprocess
import sys

# Every line that the waiting thread runs is followed by a signal's handler, as the interpreter may do it.
PROGRAM = """
import signal, sys
from types import SimpleNamespace
from walkeeper_bookie._log import Log
from walkeeper_bookie._process import Process

process = Process(SimpleNamespace(log_level="info"), Log())
process._read_settings_again = lambda bookie: None
steps = 0

def step(frame, event, argument):
    global steps
    if frame.f_code not in (Process._on_stop.__code__, Process._on_reload.__code__):
        steps += 1
        sys.settrace(None)
        process._on_reload(signal.SIGHUP, None)
        if steps == 300:
            process._on_stop(signal.SIGTERM, None)
            return None
        sys.settrace(step)
    return step

sys.settrace(step)
process._serve(SimpleNamespace(journal_failed=lambda: False, crashed=None))
print("ended")
"""


def test_no_handler_waits_for_the_thread_that_it_interrupts() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ended\n", done.stderr
