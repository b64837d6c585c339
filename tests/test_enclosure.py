"""What a test leaves behind when it is ended: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bookie_runs import until

ENCLOSURE = Path(__file__).with_name("enclosure.py")
# It says its number once it is in a session of its own, and an orphan.
ORPHAN = "trap '' TERM; (setsid sh -c 'echo $$; exec sleep 600' &) ; "


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def enclosed(command: str) -> subprocess.Popen[str]:
    whole = [sys.executable, str(ENCLOSURE), "sh", "-c", command]
    return subprocess.Popen(whole, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def first_number(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_an_orphan_does_not_outlive_the_command() -> None:
    with enclosed(f"{ORPHAN} read end; exit 7") as process:
        orphan = first_number(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 7
        assert not is_there(orphan)


def test_who_ends_it_ends_all_of_it() -> None:
    with enclosed(f"{ORPHAN} sleep 600") as process:
        orphan = first_number(process)
        process.terminate()
        process.wait(60)
        assert not is_there(orphan)


def test_it_ends_with_who_started_it() -> None:
    program = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    command = [sys.executable, str(ENCLOSURE), "sh", "-c", f"{ORPHAN} sleep 600"]
    with subprocess.Popen([sys.executable, "-c", program, *command], stdout=subprocess.PIPE, text=True) as process:
        orphan = first_number(process)
        process.kill()
        process.wait(60)
        until(lambda: not is_there(orphan), "the orphan is gone")


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_signal_that_ended_the_command_is_told(number: int) -> None:
    with enclosed(f"kill -{int(number)} $$") as process:
        assert process.wait(60) == -number
