"""
The bookie beside a bare loop and beside Java's, in one run.

    python -m benchmarks.bookies [--quick] [--only QUESTION[,QUESTION…]] [--dir SCRATCH] [--build BUILD] [--render]

Builds the load generator, asks the questions of benchmarks/bookies/questions, prints must, aim and figure of each
row, and writes benchmarks/results/bookie.json and benchmarks/bookie.md. With --only the other questions keep their last
answers there. A quick run writes below the build directory instead. Exit status 1 where a row misses its must, 2 where
a question could not be answered.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from harness.bench import Absent, build_drivers  # noqa: E402
from harness.machine import describe, is_memory_file_system, version  # noqa: E402

from bookies import page  # noqa: E402
from bookies.bench import ROUNDS, BookieBench  # noqa: E402
from bookies.java import VERSION  # noqa: E402

QUESTIONS = {
    "add": "Adds: over the bare loop, over Java",
    "connections": "Many connections",
    "batch_read": "Reads of what is in memory",
    "catch_up": "Reads of what is not",
    "interleaved": "One of a thousand ledgers",
    "tail": "Following a ledger",
    "disk_bytes": "What is written to the disk",
    "beside": "Adds while a reader catches up",
    "idle": "Idle connections and ledgers",
    "resident": "Idle bookies",
    "start": "Starts",
    "growth": "As connections and ledgers grow",
    "stacks": "Each stack with its own client",
    "cluster": "Our client on three bookies",
    "cluster_log": "A log on three bookies",
    "cluster_stacks": "Three bookies, each stack with its own client",
}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short cells, little data: to see that it works")
    parser.add_argument("--only", default="", help=f"of {', '.join(QUESTIONS)}, separated by commas")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="fewer than three are not to be quoted")
    parser.add_argument("--dir", type=Path, help="where scratch files go; default: beside the build. needs 40 GB")
    parser.add_argument(
        "--build", type=Path, default=HERE.parents[1] / "build" / "bench", help="where drivers are built"
    )
    parser.add_argument("--render", action="store_true", help="measure nothing: make the page again from the JSON")
    return parser.parse_args()


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def asked(bench: BookieBench, name: str) -> dict[str, Any]:
    """A question's part of the JSON."""
    question = importlib.import_module(f"bookies.questions.{name}")
    log(f"{name} (row {', '.join(map(str, question.ROWS))})")
    answers: list[dict[str, Any]] = []
    absent = ""
    began = time.monotonic()
    try:
        with bench.question():
            answers = [answer.as_dict() for answer in question.measure(bench)]
    except Absent as reason:
        absent = str(reason)
    except Exception as error:  # one broken question must not cost the others; the page says that it broke
        log(traceback.format_exc())
        absent = f"{type(error).__name__}: {error}"[:300]
    found = {
        "title": QUESTIONS[name],
        "about": (question.__doc__ or "").strip(),
        "why": {str(row): text for row, text in question.WHY.items()},
        "date": datetime.date.today().isoformat(),
        "seconds": time.monotonic() - began,
        "answers": answers,
        "absent": absent,
    }
    print(page.table(found), flush=True)
    log(f"  {found['seconds']:.0f} s")
    return found


def measured(
    arguments: argparse.Namespace, names: list[str], keep: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """Hands over to `keep` what there is after each question: whoever ends the run has what was answered."""
    build_drivers(arguments.build.resolve(), log)
    near = arguments.dir or arguments.build.parent
    near.mkdir(parents=True, exist_ok=True)
    if is_memory_file_system(near):
        raise SystemExit(f"{near} lies in memory: a durable write costs nothing there. Give --dir on a disk.")
    scratch = Path(tempfile.mkdtemp(prefix="bench-bookie-", dir=near))
    try:
        bench = BookieBench(scratch, arguments.build.resolve(), arguments.quick, log, arguments.rounds)
        run: dict[str, Any] = {
            "quick": arguments.quick or arguments.rounds < ROUNDS,
            "java_version": VERSION,
            "machine": {**describe(scratch), "java": version("java", "--version")},
            "questions": {},
            "canaries_ns": bench.canaries,
        }
        for name in names:
            run["questions"][name] = {**asked(bench, name), "cpu": run["machine"]["cpu"]}
            keep(run)
        return run
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def explained(run: dict[str, Any]) -> dict[str, Any]:
    """The run with the texts as they stand in the questions now: they are written after it."""
    for name, question in run["questions"].items():
        module = importlib.import_module(f"bookies.questions.{name}")
        question["about"] = (module.__doc__ or "").strip()
        question["why"] = {str(row): text for row, text in module.WHY.items()}
    return run


def main() -> int:
    arguments = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the servers end with us
    names = [name for name in arguments.only.split(",") if name] or list(QUESTIONS)
    unknown = [name for name in names if name not in QUESTIONS]
    if unknown:
        raise SystemExit(f"no questions: {', '.join(unknown)}. There are {', '.join(QUESTIONS)}")
    to_quote = arguments.rounds >= ROUNDS and not arguments.quick
    place = HERE.parent if to_quote else arguments.build / "quick"
    results = place / "results" / "bookie.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(results.read_text()) if results.exists() and len(names) < len(QUESTIONS) else None

    def write(run: dict[str, Any]) -> dict[str, Any]:
        whole = page.merged(before, run) if before else run
        results.write_text(json.dumps(whole, indent=1) + "\n")
        (place / "bookie.md").write_text(page.page(whole, list(QUESTIONS)))
        return whole

    if arguments.render:
        before = None
        run = write(explained(json.loads(results.read_text())))
    else:
        run = write(measured(arguments, names, write))
    for miss in page.missed(run):
        print(miss)
    if any(page.MISSED in each["verdict"] for one in run["questions"].values() for each in one["answers"]):
        return 1
    return 2 if any(one["absent"] for one in run["questions"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
