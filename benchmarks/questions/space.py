"""
Row 13. How much disk does one hot log that is truncated as it goes hold beside 10,000 idle logs?

(disk - 4 files) / live bytes, by `du` of the directory, the largest journal file, and the engine's count of live
bytes (which is held against what the driver knows to be live). The worst order: each idle log's one record lies in
another stretch of the journal. Decided in the steady state under load.
"""

from __future__ import annotations

import statistics
from typing import Any

from harness.bench import MIB, Bench
from harness.result import Answer, at_most

ROWS = (13,)


def measure(bench: Bench) -> list[Answer]:
    repeats = 1 if bench.quick else bench.pairs
    size = (
        {"idle": 400, "live": 8 * MIB, "settle_seconds": 2}
        if bench.quick
        else {"idle": 10_000, "live": 64 * MIB, "settle_seconds": 10}
    )
    found = [bench.native("bench_space", **size) for _ in range(repeats)]
    answers = []
    for when, goal in (("steady", at_most(1.25, 1.1)), ("settled", None)):
        samples = [_sample(each, when) for each in found]
        ratios = [_ratio(sample) for sample in samples]
        last = samples[-1]
        note = (
            f"disk {last['disk_bytes'] / MIB:.0f} MiB, live {last['live_bytes'] / MIB:.0f} MiB "
            f"(payload {last['live_payload'] / MIB:.0f}), files of {last['largest_file'] / MIB:.0f} MiB"
        )
        answers.append(
            Answer(
                13,
                f"one hot log beside {size['idle']:,} idle ones, {when}: (disk - 4 files) / live",
                "ratio",
                goal,
                statistics.median(ratios),
                None,
                "",
                ratios,
                len(ratios),
                note=note,
                details=found[-1],
            )
        )
    worst = [max(_ratio(sample) for sample in each["samples"][len(each["samples"]) // 2 :]) for each in found]
    answers.append(
        Answer(
            13,
            "the same, the worst sample of the second half",
            "ratio",
            None,
            statistics.median(worst),
            None,
            "",
            worst,
            len(worst),
        )
    )
    return answers


def _sample(found: dict[str, Any], when: str) -> dict[str, Any]:
    sample: dict[str, Any] = [each for each in found["samples"] if each["when"] == when][-1]
    return sample


def _ratio(sample: dict[str, Any]) -> float:
    if sample["live_bytes"] > 1.2 * sample["live_payload"] + MIB:
        raise RuntimeError(
            f"the engine counts {sample['live_bytes']} live bytes where {sample['live_payload']} of payload are live"
        )
    return float(sample["disk_bytes"] - 4 * sample["largest_file"]) / float(sample["live_bytes"])
