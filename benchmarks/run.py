"""
The table of speed, with its floor in the same run.

    python benchmarks/run.py [--quick] [--only ROW[,ROW…]] [--dir SCRATCH] [--build BUILD] [--keep] [--readme]

Builds the drivers, asks every question of benchmarks/questions, prints the table and writes results/latest.json, the
plots and, with --readme, the section of README.md. Exit status 1 where a row misses its must, 2 where one could not
be measured, so that a script can tell.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from harness import report
from harness.bench import HERE, Absent, Bench, build_drivers
from harness.machine import describe, is_memory_file_system

QUESTIONS = (
    "append_latency",
    "bandwidth",
    "python_batches",
    "rocksdb",
    "sqlite_lmdb",
    "disk_bytes",
    "replay",
    "start",
    "catch_up",
    "idle_memory",
    "growth",
    "space",
    "first_append",
)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="short cells, three pairs: to see that it works, not to quote"
    )
    parser.add_argument("--only", default="", help="rows, separated by commas")
    parser.add_argument(
        "--dir",
        type=Path,
        help="where scratch files go (a new directory is made there and removed); default: beside the build",
    )
    parser.add_argument(
        "--build", type=Path, default=HERE.parent / "build" / "bench", help="where the drivers are built"
    )
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where the JSON and the plots go")
    parser.add_argument("--readme", action="store_true", help="replace the results section of benchmarks/README.md")
    parser.add_argument("--keep", action="store_true", help="rows that are not measured now keep their last answers")
    parser.add_argument(
        "--render", action="store_true", help="measure nothing: make plots and README again from results/latest.json"
    )
    return parser.parse_args()


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    wanted = {int(row) for row in arguments.only.split(",") if row}
    build_drivers(arguments.build.resolve(), log)
    near = arguments.dir or arguments.build.parent
    near.mkdir(parents=True, exist_ok=True)
    if is_memory_file_system(near):
        raise SystemExit(f"{near} lies in memory: a durable write costs nothing there. Give --dir on a disk.")
    scratch = Path(tempfile.mkdtemp(prefix="bench-scratch-", dir=near))
    answers: list[dict[str, Any]] = []
    absent: dict[str, str] = {}
    started = time.monotonic()
    try:
        bench = Bench(scratch, arguments.build.resolve(), arguments.quick, log)
        for name in QUESTIONS:
            question = importlib.import_module(f"questions.{name}")
            if wanted and not wanted.intersection(question.ROWS):
                continue
            log(f"{name} (row {', '.join(map(str, question.ROWS))})")
            try:
                answers += [answer.as_dict() for answer in question.measure(bench)]
            except Absent as reason:
                log(f"  NOT MEASURED: {reason}")
                absent.update({str(row): str(reason) for row in question.ROWS})
            except Exception as error:  # one broken row must not cost the others; the table says that it broke
                log(traceback.format_exc())
                absent.update({str(row): f"{type(error).__name__}: {error}" for row in question.ROWS})
        return {
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
            if sys.version_info >= (3, 11)
            else str(datetime.date.today()),
            "quick": arguments.quick,
            "elapsed_seconds": time.monotonic() - started,
            "machine": describe(scratch),
            "canaries_ns": bench.canaries or [bench.canary()],
            "answers": answers,
            "absent": absent,
            "plots": [],
        }
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> int:
    arguments = parsed()
    latest = arguments.results / "latest.json"
    if arguments.render:
        run = json.loads(latest.read_text())
    else:
        run = measure(arguments)
        if arguments.keep and latest.exists():
            run = report.merged(json.loads(latest.read_text()), run)
    run["plots"] = report.plots(arguments.results, run["answers"])
    report.write_json(latest, run)
    if arguments.readme:
        report.update_readme(HERE / "README.md", run)
    print(report.table(run))
    if any("NOT MET" in answer["verdict"] for answer in run["answers"]):
        return 1
    return 2 if run["absent"] else 0


if __name__ == "__main__":
    sys.exit(main())
