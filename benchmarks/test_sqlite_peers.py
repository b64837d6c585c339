"""What counts as lost, and what the page of SQLite beside its peers says where one of them is not there."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import sqlite_peers
from sqlite_peers import QUICK, Kill, built, loss_row, lost, page, rate_rows, said


@pytest.mark.parametrize(("acknowledged", "found", "missing"), [(3, 3, 0), (3, 1, 2), (3, 0, 3), (3, 4, 0)])
def test_acknowledged_commits_that_are_not_there_are_lost(acknowledged: int, found: int, missing: int) -> None:
    """The fourth was under way when the primary was killed."""
    assert lost(acknowledged, list(range(1, found + 1))) == missing


def test_a_hole_is_no_count_of_lost_commits() -> None:
    with pytest.raises(ValueError, match="not the first ones"):
        lost(3, [1, 3])


def test_a_line_that_the_kill_cut_is_no_commit() -> None:
    assert said("12 3.5 2000\n") == (12, 3.5, 2000)
    assert said("12 3.5 20") is None


def test_bytes_are_shared_by_the_commits_that_they_carry() -> None:
    kills = [Kill(10, 4, 0.5, 0.2, 600, 6), Kill(10, 10, 0.9, 0.1, 0, 0)]
    cells = [cell.strip() for cell in loss_row("way", kills).split("|")[1:-1]]
    assert cells == ["way", "20", "14", "7 (4 - 10)", "0.90 s", "150 ms (100 - 200)", "100"]


def test_a_replica_without_any_commit_has_no_bytes_of_one() -> None:
    assert loss_row("way", [Kill(10, 10, 0.9, 0.1, 0, 0)]).endswith("|  |")


@pytest.mark.parametrize(("others", "met"), [(0.05, "aim met"), (0.06, "no verdict: a busy machine (aim met)")])
def test_only_what_promises_the_same_has_a_goal_and_only_a_quiet_machine_a_verdict(others: float, met: str) -> None:
    rates = {"directory": [4.0], "bookies": [2.0], "streamed": [4.0], "waiting": [1.0]}
    verdicts = [row.cells(others).split("|")[-2].strip() for row in rate_rows(rates)]
    assert verdicts == [met, met, "-", "-"]


KILLS = {"walkeeper": [Kill(10, 0, 0.0, 0.2, 600, 6)]}


@pytest.mark.parametrize("others", [0.05, 0.06])
def test_the_page_says_that_a_busy_machine_has_no_times_to_quote(others: float) -> None:
    text = page({"directory": [4.0], "bookies": [2.0]}, KILLS, QUICK, others, 1, {})
    assert ("is not to be quoted" in text) == (others > 0.05)


def test_the_page_says_that_litestream_could_not_be_built() -> None:
    text = page({"directory": [4.0], "bookies": [2.0]}, KILLS, QUICK, 0.0, 1, {})
    assert f"{sqlite_peers.LITESTREAM} could not be built" in text
    assert "4.00 /s on directory and 2.00 /s on bookies" in text


def test_without_go_there_is_no_litestream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nice").symlink_to(shutil.which("nice") or "")
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    assert built(tmp_path / "peers") is None
