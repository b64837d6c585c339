"""Several workers of pytest-xdist: a test that is marked `alone` has no other test beside it (conftest.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = """
import os, time
import pytest

def note(what):
    with open("notes", "a") as notes:
        notes.write(f"{what}\\n")

@pytest.mark.parametrize("number", range(30))
def test_beside_others(number):
    note("begin")
    time.sleep(0.02)
    note("end")

@pytest.mark.alone
@pytest.mark.parametrize("number", range(5))
def test_alone(number):
    note("alone")
    time.sleep(0.1)
    note("no longer alone")
"""


def test_a_test_that_is_alone_has_no_other_beside_it(tmp_path: Path) -> None:
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "test_these.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
    command = [sys.executable, "-m", "pytest", "-n", "3", "--dist", "worksteal", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "WALKEEPER_"))}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "35 passed" in done.stdout
    beside = most_beside = 0
    alone = False
    for what in (tmp_path / "notes").read_text().splitlines():
        assert not alone or what == "no longer alone", what
        assert what != "alone" or beside == 0
        beside += {"begin": 1, "end": -1}.get(what, 0)
        alone = what == "alone"
        most_beside = max(most_beside, beside)
    assert most_beside > 1  # others do run at once
