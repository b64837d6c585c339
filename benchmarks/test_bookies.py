"""What is pure of the bookie's benchmarks: texts that are parsed, files that are found, the page."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import hostile
from bookies import page
from bookies.__main__ import QUESTIONS
from bookies.fio import data_files
from bookies.java import COMMON, KINDS, settings_text
from bookies.process import counter, disk_bytes, rest, status_bytes
from bookies.questions.beside import clear
from bookies.servers import metric_of
from harness.result import Answer, at_least, at_most
from harness.stalls import Stalls

QUESTION_FILES = sorted(Path(__file__).parent.glob("bookies/questions/*.py"))


def an_answer(row: int = 1, goal: Any = None, values: list[float] | None = None, **more: Any) -> dict[str, Any]:
    given = values or [1.5, 1.0, 2.0]
    made = Answer(row, "ours / bare", "us", goal, 3.0, more.pop("reference", 2.0), "bare", given, len(given), **more)
    return made.as_dict()


def a_question(*answers: dict[str, Any], absent: str = "", why: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "title": "Adds",
        "about": "What do they cost?",
        "why": why or {},
        "date": "2026-01-01",
        "cpu": "a processor",
        "seconds": 60.0,
        "answers": list(answers),
        "absent": absent,
    }


def a_run(**questions: dict[str, Any]) -> dict[str, Any]:
    machine = {"cpus": "2"}
    return {"quick": False, "java_version": "4.17.3", "machine": machine, "questions": questions, "canaries_ns": [1.0]}


def test_sizes_of_a_process_are_in_bytes() -> None:
    text = "Name:\tjava\nVmHWM:\t  2048 kB\nVmRSS:\t    12 kB\n"
    assert status_bytes(text, "VmRSS") == 12 * 1024
    with pytest.raises(KeyError):
        status_bytes(text, "VmSwap")


def test_adds_during_a_stall_are_left_out() -> None:
    trace = b"".join(
        struct.pack("=QQ", began, began + took) for began, took in ((0, 10), (20, 500), (100, 30), (600, 20))
    )
    left = clear(trace, Stalls([(50, 90), (400, 410)]))
    assert left == {"clear_p99_ns": 30, "clear_share": 0.75, "stalled_share": 50 / 620}


def test_what_was_written_is_not_what_was_cancelled() -> None:
    text = "rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n"
    assert counter(text, "write_bytes") == 4096
    with pytest.raises(KeyError):
        counter(text, "bytes")


def test_a_metric_is_found_among_its_likes_and_labels_are_in_its_name() -> None:
    text = '# HELP moved_total 9\nmoved_total_more 1\nmoved_total{a="b"} 2\nmoved_total 3.5\n'
    assert metric_of(text, "moved_total") == 3.5
    assert metric_of(text, 'moved_total{a="b"}') == 2
    with pytest.raises(KeyError):
        metric_of(text, "moved")


def test_a_directory_takes_the_blocks_of_its_files_and_not_their_lengths(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as made:
        made.truncate(1 << 30)
    assert disk_bytes(tmp_path) < 1 << 20
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "full").write_bytes(os.urandom(1 << 20))
    assert disk_bytes(tmp_path) >= 1 << 20


def test_files_are_read_in_the_order_they_were_written_and_small_ones_are_not_data(tmp_path: Path) -> None:
    for name, size in (("0002.wkj", 100), ("0001.wkj", 200), ("lock", 3)):
        (tmp_path / name).write_bytes(bytes(size))
    assert [path.name for path in data_files(tmp_path, 100)] == ["0001.wkj", "0002.wkj"]


def test_a_process_that_works_is_not_at_rest() -> None:
    assert not rest(os.getpid(), at_most=0.0)


def test_java_is_tuned_as_it_is_said_and_syncs_in_both() -> None:
    tuned = {**COMMON, **KINDS["tuned"]}
    assert tuned["journalMaxGroupWaitMSec"] == "0"
    assert tuned["ledgerStorageClass"].endswith("DbLedgerStorage")
    assert all({**COMMON, **kind}["journalSyncData"] == "true" for kind in KINDS.values())
    assert settings_text({"a": "1", "b": "2"}) == "a=1\nb=2\n"


def test_cluster_rule_26_one_client_for_every_server() -> None:
    """In the committed run: the load generator, with the same arguments, on both sides; and each stack beside it."""
    run = json.loads((Path(__file__).parent / "results" / "bookie.json").read_text())
    asked_of_servers = [each for each in run["questions"]["add"]["answers"] if not each["name"].startswith("fio")]
    compared = [each for each in asked_of_servers if each["row"] in (1, 2, 3, 4)]
    assert len(compared) > 10
    for answer in compared:
        left, right = answer["details"]["ours"], answer["details"]["reference"]
        for asked in ("connections", "ledgers", "size", "window", "rate"):
            assert left[asked] == right[asked], answer["name"]
    stacks = run["questions"]["stacks"]["answers"]
    assert any("Java's client on ours" in each["name"] + each["reference_name"] for each in stacks)


def test_every_question_has_a_file_and_every_file_is_asked() -> None:
    assert {path.stem for path in QUESTION_FILES} - {"__init__"} == set(QUESTIONS)


def test_a_line_shows_both_sides_and_the_rounds_ends() -> None:
    line = page.lines(an_answer(goal=at_most(1.6, 1.1)))
    assert line[1:8] == ("ours / bare", "3.00 us", "2.00 us", "1.50", "1.00 - 2.00", "<= 1.6", "<= 1.1")
    alone = page.lines(an_answer(reference=None, values=[-0.02], goal=at_most(0.1, 0.05)))
    assert alone[2:6] == ("", "", "-0.020 us", "-0.020 - -0.020")


def test_a_missed_must_is_listed_and_explained_where_an_explanation_stands() -> None:
    missing = an_answer(2, at_least(5, 9))
    met = an_answer(3, at_least(0.5, 9))
    told = page.page(a_run(add=a_question(missing, met, why={"2": "The disk.", "3": "never shown"})), ["add"])
    assert "* row 2: ours / bare\n" in told
    assert "**Why row 2 misses its must.** The disk." in told
    assert "never shown" not in told
    assert "Not explained yet" in page.page(a_run(add=a_question(missing)), ["add"])


def test_what_has_no_verdict_or_is_near_its_must_is_listed_and_explained() -> None:
    far = an_answer(1, at_most(2.2, 1.1))
    assert page.doubts(far) == []
    near = an_answer(2, at_most(1.55, 1.1))
    assert page.doubts(near) == ["the median is near the must", "a clean round had 2.00"]
    round_near = an_answer(2, at_least(1.0, 9))
    assert page.doubts(round_near) == ["a clean round had 1.00"]
    disturbed = {**an_answer(3, at_least(0.5, 0.9)), "verdict": "no verdict: 1 of 3 rounds clean (aim met)", "clean": 1}
    assert page.doubts(disturbed) == ["1 of 3 rounds clean"]
    assert page.doubts({**round_near, "clean_values": [1.5]}) == []
    assert page.doubts({**round_near, "clean_values": None}) == ["a round, clean or not, had 1.00"]
    assert page.doubts(an_answer(4, at_most(1.4, 1.1))) == []  # it misses it: that is another list
    assert page.doubts(an_answer(4, None)) == []
    why = {"1": "never shown", "2": "The disk.", "3": "The neighbours.", "4": "The law."}
    missing = an_answer(4, at_most(1.4, 1.1))
    beside_it = an_answer(4, at_most(1.55, 1.1))
    told = page.page(a_run(add=a_question(far, near, disturbed, missing, beside_it, why=why)), ["add"])
    section = told.partition("## What has no verdict, or is near its must")[2].partition("\n## ")[0]
    assert "| 2 | ours / bare | 1.50 | <= 1.55 | the median is near the must; a clean round had 2.00 |" in section
    assert "| 3 | ours / bare | 1.50 | >= 0.5 | 1 of 3 rounds clean |" in section
    assert "**Row 2.** The disk." in section
    assert "**Row 3.** The neighbours." in section
    assert "**Row 4.** Another of its figures misses its must: see there." in section
    assert "never shown" not in told
    assert told.count("The law.") == 1
    assert "* none in this run" in page.page(a_run(add=a_question(far, missing)), ["add"]).partition("near its must")[2]


def test_what_was_not_measured_and_what_was_not_asked_are_told_apart() -> None:
    told = page.page(a_run(add=a_question(absent="no Java")), ["add", "tail"])
    assert "Not measured: no Java" in told
    assert "* add was not measured: no Java" in told
    assert "Not asked in this run: tail." in told
    assert page.table(a_question(absent="no Java")) == "NOT MEASURED: no Java"


def test_a_part_of_the_questions_keeps_the_others_answers() -> None:
    old = a_run(add=a_question(an_answer(1)), tail=a_question(an_answer(9)))
    new = a_run(tail=a_question(absent="broken"))
    both = page.merged(old, json.loads(json.dumps(new)))
    assert both["questions"]["add"]["answers"][0]["row"] == 1
    assert both["questions"]["tail"]["absent"] == "broken"


def an_attack(name: str, adds: hostile.Noticed, reads: hostile.Noticed) -> hostile.Row:
    return hostile.Row(name, adds, reads, 0.25, 7.0, 0.5, 3)


def test_the_page_of_attacks_has_a_row_for_each() -> None:
    adds, reads = hostile.Noticed(1000.0, 3000.0, 2000.0, 1.5), hostile.Noticed(4000.0, 4000.0, 4000.0, 1.0)
    rows = [an_attack(name, adds, reads) for name in ("garbage", "drips")]
    said = hostile.page(hostile.Run("2026-01-01", 10.0, 2, rows))
    head, _, *table = [line for line in said.splitlines() if line.startswith("|")]
    assert [line.split(" | ")[0] for line in table] == ["| garbage", "| drips"]
    assert table[0] == "| garbage | 1 | 3 | 3.00 | 2.00 | 1.50 | 4 | 4 | 1.00 | 1.00 | 1.00 | 25 | 7 | 0.50 | 3 |"
    assert head.count("|") == table[0].count("|")
    assert said.count("* **") == 2  # the adds of each; the reads are as without
    assert "none in this run" in hostile.page(hostile.Run("2026-01-01", 10.0, 2, [an_attack("x", reads, reads)]))


@pytest.mark.parametrize(
    ("attacked", "other", "clear", "says"),
    [
        (3000, 4000, 3.0, "adds 3.00 x, 4.00 x at the bookie that nobody attacks: nothing is left"),
        (3000, 2000, 3.0, "50 % of what was added is the machine's, and 1 us are the attacked bookie's; by itself"),
        (3000, 2000, 3.0, "that is 1.50 x, within the must"),
        (3000, 900, 3.0, "0 % of what was added is the machine's, and 2 us are the attacked bookie's"),
        (3000, 900, 3.0, "that is 3.00 x, not within the must either"),
        (3000, 4000, 1.5, "attacked bookie's; 1.50 x without the requests during which the host"),
    ],
)
def test_whose_it_is_that_clients_notice_is_told_by_the_bookie_that_nobody_attacks(
    attacked: float, other: float, clear: float, says: str
) -> None:
    assert says in hostile.whose("adds", hostile.Noticed(1000.0, attacked, other, clear))


def test_what_is_near_twice_is_explained() -> None:
    quiet, near = hostile.Noticed(100.0, 189.0, 50.0, 1.0), hostile.Noticed(100.0, 190.0, 200.0, 1.0)
    assert hostile.explained([an_attack("a", quiet, near)]).startswith("* **a**: reads 1.90 x, 2.00 x at")


def test_the_page_of_attacks_is_made_again_from_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adds = hostile.Noticed(1000.0, 3000.0, 2000.0, float("nan"))
    run = hostile.Run("2026-01-01", 10.0, 2, [an_attack("garbage", adds, adds)])
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "hostile.json").write_text(run.as_json())
    monkeypatch.setattr(sys, "argv", ["hostile.py", "--page", str(tmp_path / "hostile.md"), "--render"])
    hostile.main()
    assert (tmp_path / "hostile.md").read_text() == hostile.page(run)
