"""The example for Java runs: Apache BookKeeper's client on our bookies, with one of them killed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "examples" / "java" / "run.py"

MISSING = [f"{needed} (.ci/packages interop)" for needed in ("java", "javac", "mvn") if shutil.which(needed) is None]
if importlib.util.find_spec("kazoo") is None:
    MISSING.append("kazoo (the extra zookeeper)")
if MISSING:
    assert os.environ.get("CI") != "true", f"not installed: {', '.join(MISSING)}"
    pytest.skip(f"not installed: {', '.join(MISSING)}", allow_module_level=True)


def started(place: Path, *arguments: str) -> subprocess.Popen[str]:
    """The example, with `place` as the directory in which it makes its temporary one."""
    environment = {**os.environ, "TMPDIR": str(place), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, str(RUN), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left_in(place: Path) -> list[str]:
    """Processes that name the place on their command line; and what is left in it."""
    found = [str(path) for path in place.iterdir() if not path.name.startswith("hsperfdata")]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
        if f"{place}/" in command:
            found.append(command)
    return found


@pytest.mark.parametrize("protocol", ["v2", "v3"])
def test_every_acknowledged_order_is_there_after_a_kill_and_a_takeover(tmp_path: Path, protocol: str) -> None:
    run = started(tmp_path, "--orders", "2000", "--protocol", protocol)
    text, _ = run.communicate(timeout=300)
    assert run.returncode == 0, text
    for what in ("SIGKILL", "took over", "fenced", "recovered", "read back"):
        assert f"  {what} " in text
    assert left_in(tmp_path) == []


def test_ctrl_c_ends_all_processes_and_leaves_nothing(tmp_path: Path) -> None:
    run = started(tmp_path, "--orders", "1000000000")
    assert run.stdout is not None
    for line in run.stdout:
        if "  ledger " in line:
            break
    run.send_signal(signal.SIGINT)
    text, _ = run.communicate(timeout=300)
    assert run.returncode == 130, text
    assert left_in(tmp_path) == []
