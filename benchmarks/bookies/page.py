"""The page that is committed and the lines of a terminal, made from a run's JSON, never typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report import number

COLUMNS = ("row", "what", "left", "right", "figure", "min - max", "must", "aim", "verdict")
MISSED, UNJUDGED = "NOT MET", "no verdict"
NEAR = 0.05
"""A figure that is not better than its must by more than this part of it is near it."""


def lines(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """One row of the table. Where there is no right side the figure is the left one."""
    sign = {True: "<= ", False: ">= ", None: ""}[answer["lower_is_better"]]
    compared = answer["reference"] is not None
    unit = "" if answer["unit"] in {"ratio", "exponent"} else f" {answer['unit']}"
    figure = answer["ratio"]
    return (
        str(answer["row"]),
        answer["name"] + (f"; {answer['note']}" if answer["note"] else ""),
        f"{number(answer['ours'])}{unit}" if compared else "",
        f"{number(answer['reference'])}{unit}" if compared else "",
        number(figure) if compared else f"{signed(figure)}{unit}",
        f"{signed(min(answer['values']))} - {signed(max(answer['values']))}",
        "" if answer["must"] is None else f"{sign}{answer['must']:g}",
        "" if answer["aim"] is None else f"{sign}{answer['aim']:g}",
        answer["verdict"],
    )


def signed(value: float) -> str:
    return f"-{number(-value)}" if value < 0 else number(value)


def table(question: Mapping[str, Any]) -> str:
    """A question's answers, for a terminal."""
    if question["absent"]:
        return f"NOT MEASURED: {question['absent']}"
    rows = [COLUMNS, *(lines(answer) for answer in question["answers"])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def missed(run: Mapping[str, Any]) -> list[str]:
    """The answers whose must is not met, and the questions that were not answered."""
    found = []
    for name, question in run["questions"].items():
        if question["absent"]:
            found.append(f"{name} was not measured: {question['absent']}")
        found += [f"row {each['row']}: {each['name']}" for each in question["answers"] if MISSED in each["verdict"]]
    return found


def doubts(answer: Mapping[str, Any]) -> list[str]:
    """Why a figure that does not miss its must is not sure to meet it; nothing where it is sure, or misses it."""
    must, lower = answer["must"], answer["lower_is_better"]
    if must is None or MISSED in answer["verdict"]:
        return []

    def is_near(value: float) -> bool:
        return value >= must * (1 - NEAR) if lower else value <= must * (1 + NEAR)

    found = []
    if answer["verdict"].startswith(UNJUDGED):
        found.append(f"{answer['clean']} of {len(answer['values'])} rounds clean")
    if is_near(answer["ratio"]):
        found.append("the median is near the must")
    clean = answer.get("clean_values")
    rounds = [value for value in (answer["values"] if clean is None else clean) if is_near(value)]
    if rounds:
        worst = signed(max(rounds) if lower else min(rounds))
        found.append(f"a {'clean round' if clean is not None else 'round, clean or not,'} had {worst}")
    return found


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """
    The new run, and of the old one the questions that were not asked now. Each ratio is of one run still, and each
    question has its date.
    """
    return {**new, "questions": {**old["questions"], **new["questions"]}}


def page(run: Mapping[str, Any], order: list[str]) -> str:
    """benchmarks/bookie.md. `order`: the questions' names as they are to stand there."""
    machine = "\n".join(f"| {name} | {value} |" for name, value in run["machine"].items())
    names = [name for name in order if name in run["questions"]]
    parts = "\n".join(_part(run["questions"][name]) for name in names)
    left_out = [name for name in order if name not in run["questions"]]
    not_asked = f"Not asked in this run: {', '.join(left_out)}.\n\n" if left_out else ""
    dates = sorted({run["questions"][name]["date"] for name in names})
    minutes = sum(run["questions"][name]["seconds"] for name in names) / 60
    quick = "QUICK RUN: short cells, little data or few rounds; not to be quoted.\n\n" if run["quick"] else ""
    misses = "\n".join(f"* {each}" for each in missed(run)) or "* none in this run"
    in_doubt = _in_doubt([run["questions"][name] for name in names])
    return f"""# The bookie, measured

<!-- Made by `make bench-bookie` from benchmarks/results/bookie.json. Do not edit: run it again. -->

{quick}{not_asked}Measured {" and ".join(dates)}, {minutes:.0f} minutes.

All cells of a question take turns, three rounds at least, the same client before every server. A figure is the median
of the rounds' ratios (left / right), with the smallest and the largest of them; where there is no right side it is what
was measured. *Bare loop*: a socket, a CRC and a durable write (`benchmarks/native/bare_loop.c`). *Java*: BookKeeper
{run["java_version"]} as it comes (default), and with the settings of `benchmarks/bookies/java.py` (tuned). How rounds
are judged: [README.md](README.md). Again: `make bench-bookie`, or a part of it: `make bench-bookie Q=add,tail`.

## The machine

Of the last run. A question that was asked before it names the processor that it was asked on.

| | |
|---|---|
{machine}

## What misses its must

{misses}

## What has no verdict, or is near its must

Figures that do not miss their must, and of which it is not sure that they meet it: fewer than half of the rounds were
clean; or the median, or a clean round, is not better than the must by more than {100 * NEAR:.0f} %.

{in_doubt}

{parts}"""


def _in_doubt(questions: list[Mapping[str, Any]]) -> str:
    """A table of them, and behind it what the questions say of their rows."""
    head = ("row", "what", "figure", "must", "in doubt, as")
    body, why = "", ""
    for question in questions:
        found = [(each, doubts(each)) for each in question["answers"]]
        for answer, reasons in found:
            row, what, *_, figure, _ends, must, _aim, _verdict = lines({**answer, "note": ""})
            if reasons:
                body += f"| {' | '.join(_escaped(cell) for cell in (row, what, figure, must, '; '.join(reasons)))} |\n"
        missing = _rows_missed(question)
        for row in sorted({int(answer["row"]) for answer, reasons in found if reasons}):
            if row in missing:
                why += f"\n**Row {row}.** Another of its figures misses its must: see there.\n"
            elif str(row) in question["why"]:
                why += f"\n**Row {row}.** {question['why'][str(row)]}\n"
    return f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n{body}{why}".rstrip() if body else "* none in this run"


def _rows_missed(question: Mapping[str, Any]) -> list[int]:
    return sorted({int(each["row"]) for each in question["answers"] if MISSED in each["verdict"]})


def _part(question: Mapping[str, Any]) -> str:
    text = f"## {question['title']}\n\n{question['about']}\n\nMeasured {question['date']} on {question['cpu']}.\n\n"
    if question["absent"]:
        return text + f"Not measured: {question['absent']}\n"
    body = "\n".join(f"| {' | '.join(_escaped(cell) for cell in lines(answer))} |" for answer in question["answers"])
    text += f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n{body}\n"
    for row in _rows_missed(question):
        text += f"\n**Why row {row} misses its must.** {question['why'].get(str(row), 'Not explained yet.')}\n"
    return text


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
