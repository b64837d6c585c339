"""
The bench: builds the drivers, runs cells in processes of their own, alternates them, and watches the machine
meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.fio import Absent as Absent
from harness.fio import Floor
from harness.machine import Watch, as_dict
from harness.ratio import PAIRS_MIN, Goal
from harness.result import Answer, Round, chosen

HERE = Path(__file__).resolve().parent.parent
Cell = Callable[[], dict[str, Any]]

MIB = 1 << 20
GIB = 1 << 30
TRIM = 64 * MIB
"""
A trimmed log keeps between one and two times this: small enough to recycle soon, large enough not to truncate all the
time.
"""


class Bench:
    """One run. `quick` makes cells short and pairs few: to see that it works, not to quote."""

    def __init__(self, scratch: Path, build: Path, quick: bool, log: Callable[[str], None]) -> None:
        self.scratch = scratch
        self.quick = quick
        self.seconds = 0.5 if quick else 2.0
        self.canary_seconds = 0.3 if quick else 1.0
        self.pairs = 3 if quick else PAIRS_MIN
        self.most = self.pairs * (1 if quick else 2)
        """Where rounds are disturbed, so many are run at most."""
        self.log = log
        self.canaries: list[float] = []
        self._build = build
        self.floor = Floor(scratch)

    # ---- cells: one process, one JSON line -----------------------------------------------------------------

    def native(self, driver: str, directory: Path | None = None, /, **arguments: object) -> dict[str, Any]:
        """
        Runs a driver of benchmarks/native or benchmarks/peers; in a new directory, removed afterwards, where none is
        given.
        """
        program = self._build / driver
        if not program.exists():
            raise Absent(f"{driver} was not built (see the messages of the build above)")
        with self.directory(directory) as place:
            return _json_line([str(program), "--dir", str(place), *_arguments(arguments)])

    def python(self, cell: str, directory: Path | None = None, /, **arguments: object) -> dict[str, Any]:
        """
        Runs a program of benchmarks/cells with this interpreter. It answers 77 where what it measures cannot be
        imported.
        """
        with self.directory(directory) as place:
            return _json_line(
                [sys.executable, str(HERE / "cells" / f"{cell}.py"), "--dir", str(place), *_arguments(arguments)]
            )

    def driver(self, name: str) -> Path:
        """The path of a driver that a question must start and kill by itself."""
        if not (self._build / name).exists():
            raise Absent(f"{name} was not built")
        return self._build / name

    @contextlib.contextmanager
    def directory(self, given: Path | None = None) -> Iterator[Path]:
        """A new directory on the measured disk, or the one given (which stays)."""
        if given is not None:
            yield given
            return
        place = Path(tempfile.mkdtemp(prefix="cell-", dir=self.scratch))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    # ---- rounds ---------------------------------------------------------------------------------------------

    def canary(self) -> float:
        """The floor's p50 in ns, taken between rounds: where it moves, the disk or a neighbour did, not the cells."""
        found = self.floor.latency(self.canary_seconds)["p50_ns"]
        self.canaries.append(found)
        return found

    def rounds(
        self, cells: Mapping[str, Cell], counts: Callable[[Round], bool] | None = None, timed: bool = True
    ) -> list[Round]:
        """
        Runs all cells `pairs` times, A B … and then … B A, a canary between any two rounds. Rounds that the canary or
        strangers disturbed are repeated, up to twice the number; see `chosen` for what counts in the end. Where a
        question leaves out rounds of its own, too (`counts` says no), up to three times. Where nothing is `timed`,
        no round is disturbed.
        """
        done: list[Round] = []
        before = self.canary()
        names = list(cells)
        most = self.most + (0 if self.quick or counts is None else self.pairs)
        while sum(each.clean and (counts is None or counts(each)) for each in done) < self.pairs and len(done) < most:
            order = names if len(done) % 2 == 0 else names[::-1]
            found: dict[str, dict[str, Any]] = {}
            strangers, elapsed = 0.0, 0.0
            for name in order:
                started = time.monotonic()
                watch = Watch(self.scratch)
                found[name] = cells[name]()
                around = watch.stop()
                strangers += around.others_cpu_seconds
                elapsed += time.monotonic() - started
                found[name]["around"] = as_dict(around)
            after = self.canary()
            done.append(Round(found, before, after, min(self.canaries), strangers / elapsed, timed))
            self.log(
                f"  round {len(done)}: {'clean' if done[-1].clean else 'disturbed'} (canary {before / 1e3:.0f} -> "
                f"{after / 1e3:.0f} us, strangers {100 * done[-1].others_cpu_share:.0f} % of a core)"
            )
            before = after
        return done

    def compare(
        self,
        row: int,
        name: str,
        rounds: Sequence[Round],
        ours: str,
        reference: str,
        metric: str | tuple[str, str],
        goal: Goal | None,
        *,
        unit: str,
        reference_name: str | None = None,
        scale: float = 1.0,
        state: str = "",
        note: str = "",
    ) -> Answer:
        """The ratio ours / reference of a metric, round by round. `metric` may name one field for each."""
        ours_field, reference_field = (metric, metric) if isinstance(metric, str) else metric
        counted = chosen(rounds)
        pairs = [
            (float(each.cells[ours][ours_field]), float(each.cells[reference][reference_field])) for each in counted
        ]
        return Answer(
            row=row,
            name=name,
            unit=unit,
            goal=goal,
            ours=statistics.median(left for left, _ in pairs) * scale,
            reference=statistics.median(right for _, right in pairs) * scale,
            reference_name=reference_name or reference,
            values=[left / right for left, right in pairs],
            clean=sum(each.clean for each in counted),
            state=state,
            note=note,
            details={"ours": counted[-1].cells[ours], "reference": counted[-1].cells[reference]},
            clean_values=[left / right for each, (left, right) in zip(counted, pairs, strict=True) if each.clean],
        )

    def ceiling(self, row: int, rounds: Sequence[Round], floor: str, peer: str) -> Answer:
        """
        The bare durable writes of the floor against a peer: with one record in flight each is one durable write, so
        this is what a log without any cost of its own would get.
        """
        return self.compare(
            row,
            f"what there is to win, one in flight: bare durable writes/s / {peer}",
            rounds,
            floor,
            peer,
            "rate",
            None,
            unit="k/s",
            scale=1e-3,
            state="recycled",
        )

    def bound(
        self,
        row: int,
        name: str,
        rounds: Sequence[Round],
        value: Callable[[Round], float],
        goal: Goal | None,
        *,
        unit: str,
        state: str = "",
        note: str = "",
        details: dict[str, Any] | None = None,
    ) -> Answer:
        """A value that has a bound of its own and no reference."""
        counted = chosen(rounds)
        values = [value(each) for each in counted]
        return Answer(
            row,
            name,
            unit,
            goal,
            statistics.median(values),
            None,
            "",
            values,
            sum(each.clean for each in counted),
            state,
            note,
            details or {},
            [found for each, found in zip(counted, values, strict=True) if each.clean],
        )


def build_drivers(build: Path, log: Callable[[str], None]) -> None:
    """
    Builds benchmarks/native with the engine, and benchmarks/peers. What cannot be built is reported and its rows are
    skipped.
    """
    native = HERE.parent / "native"
    commands = [
        ["cmake", "-S", str(native), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"],
        ["ninja", "-C", str(build), "-k", "0", *(path.stem for path in sorted((HERE / "native").glob("*.c")))],
        ["make", "-C", str(HERE / "peers"), f"OUT={build}"],
    ]
    build.mkdir(parents=True, exist_ok=True)
    for command in commands:
        found = subprocess.run(command, capture_output=True, text=True)
        for line in found.stdout.splitlines():
            if line.startswith("SKIPPED"):
                log(line)
        if found.returncode != 0:
            log(f"FAILED: {' '.join(command[:2])} …\n{(found.stdout + found.stderr)[-2000:]}")


def _arguments(arguments: Mapping[str, object]) -> list[str]:
    return [part for name, value in arguments.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def _json_line(command: Sequence[str]) -> dict[str, Any]:
    found = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if found.returncode == 77:
        raise Absent(found.stderr.strip())
    if found.returncode != 0:
        said = found.stderr.strip()[-1000:]
        raise RuntimeError(f"{Path(command[0]).name} {' '.join(command[1:])} answered {found.returncode}: {said}")
    answer: dict[str, Any] = json.loads(found.stdout.strip().splitlines()[-1])
    return answer
