"""How the command line ends where its output cannot be written, and under Ctrl-C: statuses, and no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import COMMAND, four_orders, run, run_process

from walkeeper.cli import _main

SCRIPT = "from importlib.metadata import entry_points as all; all(group='console_scripts')['walkeeper'].load()()"
INTERRUPTED = """
import os, signal, sys
module = sys.argv.pop(1)
class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return four_orders(tmp_path / "wal")


def shell(words: str, directory: Path) -> subprocess.CompletedProcess[bytes]:
    """What a shell does with these words; WALKEEPER and DIR stand for themselves."""
    line = words.replace("WALKEEPER", " ".join(COMMAND)).replace("DIR", str(directory))
    return subprocess.run(["bash", "-c", line], capture_output=True, timeout=60)


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "cat --help",
        "cat DIR orders",
        "cat --raw DIR orders",
        "tail --json DIR orders",
        "ls DIR",
        "cursor --help",
        "stat DIR",
        "verify DIR",
        "inspect DIR/superblock",
    ],
)
def test_an_output_that_is_full_is_said_to_be_it(directory: Path, words: str) -> None:
    done = shell(f"WALKEEPER {words} >/dev/full", directory)
    assert done.returncode == 2
    assert done.stderr == b"walkeeper: writing the output: No space left on device\n"


@pytest.mark.parametrize("words", ["--help", "--version", "cat --help", "ls DIR", "cat --raw DIR orders"])
def test_an_output_that_nobody_reads_is_141(directory: Path, words: str) -> None:
    done = shell(f"(sleep 0.2; WALKEEPER {words}; echo $? >&2) | true", directory)
    assert done.stderr == b"141\n"


@pytest.mark.parametrize(
    "words", ["ls DIR/nothing", "no-such-command", "cat DIR no-such-log", "cat --from x DIR orders"]
)
def test_what_cannot_be_said_is_no_damage(directory: Path, words: str) -> None:
    done = shell(f"WALKEEPER {words} 2>/dev/full", directory)
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_help_that_has_nowhere_to_go_is_refused(directory: Path) -> None:
    for words in ("--help", "--version"):
        done = shell(f"WALKEEPER {words} >&-", directory)
        assert done.returncode == 2
        assert b"the output is closed" in done.stderr


@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_defect_is_a_traceback_and_no_damage(directory: Path, debug: str) -> None:
    broken = f"from walkeeper.directory._log import DirectoryLog; DirectoryLog.info = None; {SCRIPT}"
    command = [sys.executable, "-c", broken, "ls", str(directory)]
    done = subprocess.run(command, capture_output=True, timeout=60, env={**os.environ, "WALKEEPER_DEBUG": debug})
    assert done.returncode == 2
    assert b"Traceback" in done.stderr
    refused = run_process("cat", directory, "no-such-log", WALKEEPER_DEBUG="1")
    assert refused.returncode == 2
    assert b"Traceback" in refused.stderr


def test_ctrl_c_is_130_also_where_tracebacks_are_shown(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("walkeeper.cli._reading.show", interrupted)
    for debug in ("0", "1"):
        monkeypatch.setenv("WALKEEPER_DEBUG", debug)
        result = run("ls", directory)
        assert (result.exit_code, result.stderr) == (_main.EXIT_INTERRUPTED, "")


@pytest.mark.parametrize("module", ["walkeeper.cli._reading", "rich"])
def test_ctrl_c_while_a_command_is_imported_is_no_traceback(directory: Path, module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED + SCRIPT, module, "ls", str(directory)]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (_main.EXIT_INTERRUPTED, b"", b"")


def test_ctrl_c_that_is_ignored_stays_so(directory: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED + SCRIPT, "walkeeper.errors", "ls", str(directory)]
    done = subprocess.run(
        command,
        capture_output=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 0
    assert b"orders" in done.stdout
