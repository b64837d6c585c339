"""Closing from where a program hears that its record is durable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_futures_callback_may_close_the_namespace(directory: Path) -> None:
    """The callback runs in the thread that completes futures; another record is on its way when it closes."""
    code = """
import sys, threading, walkeeper
namespace = walkeeper.open(sys.argv[1])
writer = namespace.log("orders").writer()
closed = threading.Event()

def close(first):
    second.append(writer.submit(b"second"))
    namespace.close()
    closed.set()

second = []
writer.submit(b"first").add_done_callback(close)
if not closed.wait(10):
    sys.exit("the callback did not return")
assert second[0].result(10).sequence_id == 1
"""
    done = subprocess.run([sys.executable, "-c", code, directory], cwd="/", timeout=60, check=False)
    assert done.returncode == 0


def test_a_signal_handler_may_close_the_namespace(directory: Path) -> None:
    """A service closes on SIGTERM. The handler runs between two steps of whatever call the main thread is in."""
    code = """
import random, signal, sys, faulthandler, walkeeper
faulthandler.dump_traceback_later(30, exit=True)
signal.signal(signal.SIGALRM, lambda *_: namespace.close())
for _ in range(100):
    namespace = walkeeper.open(sys.argv[1])
    signal.setitimer(signal.ITIMER_REAL, 0.002 + random.random() * 0.004)
    try:
        while True:
            namespace.stats()
    except walkeeper.ClosedError:
        pass
"""
    done = subprocess.run([sys.executable, "-c", code, directory], cwd="/", timeout=60, check=False)
    assert done.returncode == 0
