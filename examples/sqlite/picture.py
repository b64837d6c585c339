"""The picture of a run: flights inserted over time, with kill and failover, and which airline is late."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib
from flights import Groups

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@dataclass(frozen=True)
class Commit:
    """A COMMIT that returned."""

    at: float
    """By time.monotonic()."""
    flights: int
    machine: int


def draw(path: Path, commits: list[Commit], moments: dict[str, float], carriers: Groups, names: dict[str, str]) -> None:
    """Writes the PNG. `moments` are marked by their names."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 8), height_ratios=[2, 3], constrained_layout=True)
    total = sum(flights for flights, _, _ in carriers.values())
    figure.suptitle(f"nycflights13 into SQLite, its log on three bookies: {total:,} flights, one failover", fontsize=13)
    origin = commits[0].at
    for machine, colour in ((1, "#1f6feb"), (2, "#1a7f37")):
        chosen = [commit for commit in commits if commit.machine == machine]
        seconds = [commit.at - origin for commit in chosen]
        above.plot(
            seconds, [commit.flights for commit in chosen], ".", color=colour, markersize=3, label=f"machine {machine}"
        )
    for (name, at), colour in zip(moments.items(), ("#cf222e", "#9a6700", "#8250df"), strict=False):
        above.axvline(at - origin, color=colour, linewidth=1.2, label=name)
    above.set_xlabel("seconds")
    above.set_ylabel("flights that are committed")
    above.set_ylim(bottom=0)
    above.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    above.legend(loc="lower right", fontsize=8, frameon=False)

    delays = {carrier: delay / arrived for carrier, (_, arrived, delay) in carriers.items()}
    late_last = sorted(delays, key=lambda carrier: delays[carrier])
    colours = ["#9a6700" if delays[carrier] > 0 else "#1a7f37" for carrier in late_last]
    bars = below.barh([names[carrier] for carrier in late_last], [delays[of] for of in late_last], color=colours)
    below.bar_label(bars, [f"{carriers[carrier][0]:,} flights" for carrier in late_last], padding=3, fontsize=7)
    below.set_xlabel("mean delay at arrival, minutes")
    below.axvline(0, color="#656d76", linewidth=0.8)
    below.tick_params(axis="y", labelsize=8)
    below.margins(x=0.12)
    for axes in (above, below):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
