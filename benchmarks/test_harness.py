"""The arithmetic of the table, and the rules about what counts."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness import report
from harness.ratio import Goal, Interval, bootstrap, exponent
from harness.result import Answer, Round, at_least, at_most, chosen
from harness.stalls import FORK, Stalls, union, watched


def a_round(canary_moves: float = 0.0, best: float = 100.0, strangers: float = 0.0) -> Round:
    return Round({}, 100.0, 100.0 * (1 + canary_moves), best, strangers)


def an_answer(goal: Goal | None, values: list[float], clean: int | None = None) -> Answer:
    return Answer(1, "ours | theirs", "us", goal, 1.0, 2.0, "theirs", values, len(values) if clean is None else clean)


def test_a_disk_that_changes_its_speed_disturbs_what_is_timed_alone() -> None:
    assert not Round({}, 100.0, 200.0, 50.0, 0.5).clean
    assert Round({}, 100.0, 200.0, 50.0, 0.5, timed=False).clean


def test_the_interval_of_equal_values_is_that_value() -> None:
    assert bootstrap([1.5] * 7) == Interval(1.5, 1.5, 1.5)


def test_the_interval_holds_the_median_and_repeats() -> None:
    values = [1.0, 1.1, 0.9, 1.2, 1.05, 0.95, 3.0]
    found = bootstrap(values)
    assert found.low <= found.median == 1.05 <= found.high
    assert found.high < 3.0, "one outlier of seven must not reach the interval's end"
    assert bootstrap(values) == found


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="no values"):
        bootstrap([])


@pytest.mark.parametrize(
    ("goal", "value", "verdict"),
    [
        (at_most(1.1, 1.05), 1.04, "aim met"),
        (at_most(1.1, 1.05), 1.07, "must met"),
        (at_most(1.1, 1.05), 1.2, "NOT MET"),
        (at_least(0.75, 0.9), 0.95, "aim met"),
        (at_least(0.75, 0.9), 0.8, "must met"),
        (at_least(0.75, 0.9), 0.5, "NOT MET"),
    ],
)
def test_a_certain_median_is_judged_by_its_bounds(goal: Goal, value: float, verdict: str) -> None:
    assert goal.verdict(Interval(value, value, value)) == verdict


def test_an_interval_across_the_bound_is_not_certain() -> None:
    assert at_most(1.1, 1.05).verdict(Interval(1.08, 1.06, 1.2)) == "must met (?)"
    assert at_most(1.1, 1.05).verdict(Interval(1.15, 1.05, 1.2)) == "NOT MET (?)"


def test_a_straight_line_has_its_exponent() -> None:
    assert exponent([(10, 5.0), (100, 5.0), (1000, 5.0)]) == pytest.approx(0.0)
    assert exponent([(10, 10.0), (100, 100.0), (1000, 1000.0)]) == pytest.approx(1.0)


def test_a_round_with_a_moved_canary_or_with_strangers_is_disturbed() -> None:
    assert a_round().clean
    assert not a_round(canary_moves=0.2).clean
    assert not a_round(canary_moves=-0.2).clean
    assert not a_round(best=50.0).clean, "a neighbour who stays does not move the canary, but lifts it"
    assert not a_round(strangers=0.5).clean


def test_clean_rounds_count_alone_when_there_are_enough() -> None:
    clean, disturbed = [a_round() for _ in range(7)], [a_round(strangers=1.0)]
    assert chosen(clean + disturbed) == clean
    assert chosen(clean[:3] + disturbed * 11) == clean[:3] + disturbed * 11


def test_too_few_pairs_and_disturbed_ones_are_named_in_the_verdict() -> None:
    assert an_answer(at_most(1.1, 1.05), [1.0] * 7).verdict == "aim met"
    assert an_answer(at_most(1.1, 1.05), [1.0] * 3).verdict == "aim met, n=3"
    assert an_answer(at_most(1.1, 1.05), [1.0] * 7, clean=6).verdict == "aim met, 6 clean"


def test_there_is_no_verdict_where_most_rounds_were_disturbed() -> None:
    assert an_answer(at_most(1.1, 1.05), [1.0] * 7, clean=3).verdict == "no verdict: 3 of 7 rounds clean (aim met)"


def a_run(*answers: Answer) -> dict[str, object]:
    return {
        "date": "2026-01-01",
        "quick": False,
        "elapsed_seconds": 60.0,
        "machine": {"cpus": "2"},
        "canaries_ns": [40e3, 50e3],
        "answers": [answer.as_dict() for answer in answers],
        "absent": {"8": "no reader"},
        "plots": ["ratios.png"],
    }


def test_the_readme_keeps_its_text_and_shows_what_was_lost(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.update_readme(readme, a_run(an_answer(at_most(1.1, 1.05), [2.0] * 7)))
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "Row 1: ours | theirs: 2.00" in text
    assert "ours \\| theirs" in text
    assert "Row 8 was not measured: no reader" in text


def test_a_readme_without_marks_is_left_alone(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("typed by hand\n")
    with pytest.raises(ValueError, match="marks"):
        report.update_readme(readme, a_run())
    assert readme.read_text() == "typed by hand\n"


def test_a_partial_run_replaces_its_rows_and_keeps_the_others() -> None:
    second = Answer(2, "two", "us", None, 1.0, None, "", [1.0], 1)
    old = a_run(an_answer(None, [1.0]), second)
    new = a_run(an_answer(None, [9.0])) | {"absent": {}}
    both = report.merged(old, new)
    assert [(answer["row"], answer["ratio"]) for answer in both["answers"]] == [(1, 9.0), (2, 1.0)]
    assert both["absent"] == {"8": "no reader"}


def test_the_table_lists_what_was_not_measured() -> None:
    assert "NOT MEASURED: no reader" in report.table(a_run(an_answer(None, [1.0])))


def test_spans_that_touch_are_one_stall() -> None:
    assert union([(30, 40), (10, 20), (15, 25), (40, 41)]) == [(10, 25), (30, 41)]


def test_what_was_under_way_during_a_stall_is_told_from_what_was_not() -> None:
    stalls = Stalls([(10, 20), (30, 40)])
    assert [stalls.overlap(*span) for span in ((0, 10), (0, 11), (12, 13), (20, 30), (19, 20), (5, 50), (40, 50))] == [
        *(False, True, True, False, True, True, False)
    ]
    assert not Stalls([]).overlap(0, 10)
    assert stalls.share(0, 40) == 0.5
    assert stalls.share(15, 35) == 0.5


def test_a_processor_that_is_taken_away_is_seen() -> None:
    """A real-time process with a higher priority takes it, which for the watcher is the same."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))
    except PermissionError:
        pytest.skip("a real-time priority takes a privilege")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    thief = FORK.Process(target=_take_a_processor)
    with watched() as stalls:
        began = time.monotonic_ns()
        thief.start()
        thief.join()
        ended = time.monotonic_ns()
    assert stalls.known
    assert stalls.overlap(began, ended)


def _take_a_processor() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        pass
