"""The table, the README's section and the plots: all made from the JSON of a run, never typed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
COLUMNS = ("row", "what", "ours", "floor or peer", "ratio", "95 % interval", "must", "aim", "verdict")


def number(value: float | None) -> str:
    """Three significant digits, without an exponent."""
    if value is None:
        return ""
    size = abs(value)
    return (
        f"{value:,.0f}"
        if size >= 100
        else f"{value:.1f}"
        if size >= 10
        else f"{value:.2f}"
        if size >= 0.1
        else f"{value:.3f}"
    )


def lines(answer: dict[str, Any]) -> tuple[str, ...]:
    """One row of the table as text."""
    sign = {True: "<= ", False: ">= ", None: ""}[answer["lower_is_better"]]
    what = answer["name"] + (f" ({answer['state']})" if answer["state"] else "")
    if answer["note"]:
        what += f"; {answer['note']}"
    reference = (
        ""
        if answer["reference"] is None
        else f"{number(answer['reference'])} {answer['unit']}, {answer['reference_name']}"
    )
    low, high = answer["interval"]
    return (
        str(answer["row"]),
        what,
        f"{number(answer['ours'])} {answer['unit']}",
        reference,
        number(answer["ratio"]) if answer["reference"] is not None else "",
        f"{number(low)} - {number(high)}",
        "" if answer["must"] is None else f"{sign}{answer['must']:g}",
        "" if answer["aim"] is None else f"{sign}{answer['aim']:g}",
        answer["verdict"],
    )


def table(run: dict[str, Any]) -> str:
    """For a terminal."""
    rows = [COLUMNS, *(lines(answer) for answer in run["answers"])]
    rows += [
        (str(row), f"NOT MEASURED: {reason}", "", "", "", "", "", "", "not measured")
        for row, reason in run["absent"].items()
    ]
    widths = [min(max(len(row[i]) for row in rows), 74) for i in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(_cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def markdown(run: dict[str, Any]) -> str:
    """The section of the README between its two marks."""
    machine = "\n".join(f"| {name} | {value} |" for name, value in run["machine"].items())
    head = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"
    body = "\n".join(f"| {' | '.join(_escaped(cell) for cell in lines(answer))} |" for answer in run["answers"])
    absent = "\n".join(f"* Row {row} was not measured: {reason}" for row, reason in run["absent"].items())
    losing = [answer for answer in run["answers"] if "NOT MET" in answer["verdict"]]
    lost = (
        "\n".join(f"* Row {answer['row']}: {answer['name']}: {number(answer['ratio'])}" for answer in losing)
        or "* none in this run"
    )
    low, high = min(run["canaries_ns"]), max(run["canaries_ns"])
    kind = "QUICK RUN: cells of half a second, three pairs; not to be quoted.\n\n" if run["quick"] else ""
    return f"""{BEGIN}
<!-- Made by benchmarks/run.py from results/latest.json. Do not edit: run it again. -->

{kind}Measured {run["date"]}, {run["elapsed_seconds"] / 60:.0f} minutes. Over the run the canary
(fio, 4 KiB dsync, p50) moved between {low / 1e3:.0f} and {high / 1e3:.0f} us.

### The machine

| | |
|---|---|
{machine}

### The table

{head}
{body}

{absent}

### What is lost

{lost}

### Plots

{"".join(f"![{name}](results/{name}){chr(10)}" for name in run["plots"])}
{END}"""


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def update_readme(readme: Path, run: dict[str, Any]) -> None:
    """Replaces what stands between the marks."""
    text = readme.read_text()
    before, found_begin, rest = text.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not found_begin or not found_end:
        raise ValueError(f"{readme.name} has lost its marks {BEGIN} and {END}")
    readme.write_text(before + markdown(run) + after)


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """
    The new run with the old one's answers for rows it did not measure. Each ratio is still of one run: rows do not
    mix.
    """
    rows = {answer["row"] for answer in new["answers"]} | {int(row) for row in new["absent"]}
    kept = [answer for answer in old["answers"] if answer["row"] not in rows]
    return new | {
        "answers": sorted(kept + new["answers"], key=lambda answer: int(answer["row"])),
        "absent": {row: why for row, why in old["absent"].items() if int(row) not in rows} | new["absent"],
        "canaries_ns": old["canaries_ns"] + new["canaries_ns"],
        "elapsed_seconds": old["elapsed_seconds"] + new["elapsed_seconds"],
        "quick": old["quick"] or new["quick"],
    }


def write_json(path: Path, run: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run, indent=1) + "\n")


def plots(directory: Path, answers: Sequence[dict[str, Any]]) -> list[str]:
    """Ratios against their goals, and the growth curves. Nothing where matplotlib is absent."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    made = []
    judged = [answer for answer in answers if answer["must"] is not None]
    if judged:
        figure, axes = pyplot.subplots(figsize=(11, 1.2 + 0.42 * len(judged)), layout="constrained")
        for y, answer in enumerate(reversed(judged)):
            # Everything is drawn as a share of its bound and turned so that right is good: 1 is the must, the diamond
            # the aim.
            share = _goodness(answer, answer["ratio"])
            ends = sorted((_goodness(answer, answer["interval"][0]), _goodness(answer, answer["interval"][1])))
            colour = (
                "tab:red"
                if "NOT MET" in answer["verdict"]
                else "tab:green"
                if "aim" in answer["verdict"]
                else "tab:blue"
            )
            axes.barh(y, share, color=colour, alpha=0.6, height=0.6)
            axes.plot(ends, (y, y), color="black", linewidth=1.2)
            axes.plot(_goodness(answer, answer["aim"]), y, marker="D", color="black", markersize=4, linestyle="none")
        axes.set_yticks(
            range(len(judged)),
            [f"{answer['row']}: {_cut(answer['name'], 70)}" for answer in reversed(judged)],
            fontsize=7,
        )
        axes.axvline(1, color="black", linestyle="--", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_xlabel("as a multiple of the must (dashed); right is better; diamond: the aim; line: 95 % interval")
        figure.savefig(directory / "ratios.png", dpi=120)
        pyplot.close(figure)
        made.append("ratios.png")
    curves = [answer for answer in answers if "curve_ns" in answer["details"]]
    if curves:
        figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
        for answer in curves:
            curve = answer["details"]["curve_ns"]
            label = f"{answer['name'].split(' to ')[-1].split(':')[0]} (exponent {answer['ratio']:.3f})"
            axes.plot([float(amount) for amount in curve], list(curve.values()), marker="o", label=label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("how many there already are")
        axes.set_ylabel("process CPU of a 128-byte entry, ns")
        axes.legend()
        figure.savefig(directory / "growth.png", dpi=120)
        pyplot.close(figure)
        made.append("growth.png")
    return made


def _goodness(answer: dict[str, Any], value: float) -> float:
    floor = 1e-3  # a slope may be 0 or less; on a log scale it is just very good
    value = max(value, floor)
    return float(answer["must"] / value if answer["lower_is_better"] else value / answer["must"])
