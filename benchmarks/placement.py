"""
How evenly each placement policy spreads ledgers, and what a join or a loss moves: a simulation, without bookies.

    python benchmarks/placement.py [--seed N] [--ledgers N] [--sizes 5,50,1000] [--page FILE]

It asks the policies of walkeeper.ledgers.placement as the client does, once for each ledger, and counts slots of
ensembles. Every random source has a seed, which is printed; the same seed gives the same page. Nothing is timed.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from walkeeper.ledgers.placement import (
    Candidate,
    CentralisedPolicy,
    DealingPolicy,
    PlacementPolicy,
    RackAwarePolicy,
    RandomPolicy,
    WeightedPolicy,
)

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "results" / "placement.svg"
E, QW, QA = 3, 3, 2
GIB = 2**30
EQUAL = 1000 * GIB
RACKS = 4
FRESH = 20 * EQUAL
"""The free space of a bookie that joins with an empty disk beside others that are nearly full."""

POLICIES: dict[str, Callable[[random.Random], PlacementPolicy]] = {
    "random": lambda chance: RandomPolicy(chance),
    "weighted": lambda chance: WeightedPolicy(chance=chance),
    "centralised": lambda chance: CentralisedPolicy(chance=chance),
    "rack_aware": lambda chance: RackAwarePolicy(chance=chance),
    "rack_aware, weighted": lambda chance: RackAwarePolicy(weighted=True, chance=chance),
}
COLOURS = {
    "random": "line",
    "weighted": "ours",
    "centralised": "durable",
    "rack_aware": "reader",
    "rack_aware, weighted": "footer",
}


@dataclass(frozen=True)
class Row:
    """What one policy does to one cluster."""

    policy: str
    bookies: int
    sizes: str
    slots: float
    """Most slots of a bookie, as a multiple of the mean."""
    fill: float
    """Most slots for each byte of free space, as a multiple of the mean over the bytes."""
    one_rack: float
    """The share of ensembles that stand in one rack."""
    join_share: float
    """A bookie with 20 times the usual space joins: its share of the slots, as a multiple of a bookie's mean share."""
    join_moved: float
    """Slots that change where the same ledgers are placed again, as a multiple of those that the new bookie takes."""
    loss_moved: float
    """A bookie is lost, and each ledger that it had is changed: slots that change, as a multiple of those it had."""
    loss_slots: float
    """Most slots of a bookie after that, as a multiple of the mean."""


def cluster(count: int, sizes: str) -> list[Candidate]:
    """Equal, or a third each of one, two and four thousand GiB, by turns; racks of the same size, by turns of three."""
    weights = [EQUAL] * count if sizes == "equal" else [EQUAL * (1, 2, 4)[number % 3] for number in range(count)]
    return [
        Candidate(f"bookie{number}:3181", f"/rack{number // 3 % RACKS}", weight)
        for number, weight in enumerate(weights)
    ]


def placed(policy: str, seed: int, there: Sequence[Candidate], ledgers: int) -> list[tuple[str, ...]]:
    """The ensembles. A ledger has the same random source, and so the same key, whichever bookies there are, unless one
    deals for all."""
    make = POLICIES[policy]
    dealing = make(random.Random(seed))
    if isinstance(dealing, DealingPolicy):
        dealer = dealing.dealer()  # one client deals for all, and knows what it dealt before
        return [dealer.deal(E, QW, QA, there) for _ in range(ledgers)]
    return [
        make(random.Random(seed * 1_000_003 + ledger)).new_ensemble(E, QW, QA, there, ()) for ledger in range(ledgers)
    ]


def most(counts: Counter[str], there: Sequence[Candidate]) -> float:
    return max(counts.values()) / fmean(counts[bookie.bookie_id] for bookie in there)


def measured(policy: str, seed: int, count: int, sizes: str, ledgers: int) -> Row:
    there = cluster(count, sizes)
    racks = {bookie.bookie_id: bookie.rack for bookie in there}
    ensembles = placed(policy, seed, there, ledgers)
    counts = Counter(name for ensemble in ensembles for name in ensemble)
    space = {bookie.bookie_id: bookie.weight or 0 for bookie in there}
    by_byte = ledgers * E / sum(space.values())

    fresh = Candidate("fresh:3181", "/rack0", FRESH)
    joined = [*there, fresh]
    again = placed(policy, seed if "weighted" in policy else seed + 1, joined, ledgers)
    taken = sum(fresh.bookie_id in ensemble for ensemble in again)
    moved = sum(len(set(new) - set(old)) for old, new in zip(ensembles, again, strict=True))

    lost = there[0].bookie_id
    left = [replace(bookie, writable=bookie.bookie_id != lost) for bookie in there]
    chooser = POLICIES[policy](random.Random(seed))
    changed, after = 0, Counter[str]()
    for ensemble in ensembles:
        now = list(ensemble)
        if lost in now:
            slot = now.index(lost)
            for place, name in chooser.replacements(ensemble, [slot], QW, left, ()).items():
                now[place] = name
        changed += len(set(now) - set(ensemble))
        after.update(now)
    return Row(
        policy,
        count,
        sizes,
        most(counts, there),
        max(counts[name] / (space[name] * by_byte) for name in space),
        sum(len({racks[name] for name in ensemble}) == 1 for ensemble in ensembles) / ledgers,
        taken / (ledgers * E / len(joined)),
        moved / taken,
        changed / counts[lost],
        most(after, [bookie for bookie in there if bookie.bookie_id != lost]),
    )


def picture(rows: Sequence[Row]) -> str:
    """Bars: the fullest bookie of skewed clusters, for each byte that it has."""
    sys.path.append(str(HERE.parent / "docs" / "images"))
    from drawing import Drawing

    chosen = [row for row in rows if row.sizes == "skewed"]
    groups = sorted({row.bookies for row in chosen})
    drawing = Drawing("Slots for each byte of the fullest bookie", 900, 80 + len(chosen) * 26 + len(groups) * 34)
    drawing.text(40, 42, "The fullest bookie by its free space, as a multiple of the mean (1 is even)", "head")
    y, widest = 60.0, max(row.fill for row in chosen)
    for count in groups:
        drawing.text(40, y + 20, f"{count:,} bookies, skewed", "soft", colour="soft")
        y += 30
        for row in (row for row in chosen if row.bookies == count):
            width = 520 * row.fill / widest
            drawing.text(228, y + 16, row.policy, "", "end")
            drawing.box(240, y + 3, width, 17, COLOURS[row.policy], rx=3)
            drawing.text(250 + width, y + 17, f"{row.fill:.2f}", "soft")
            y += 26
        y += 4
    return drawing.svg()


def page(rows: Sequence[Row], seed: int, ledgers: int) -> str:
    head = ("bookies", "sizes", "policy", "slots", "fill", "in one rack", "fresh", "join", "loss", "slots after")
    return f"""# What placement policies do to balance

<!-- Made by benchmarks/placement.py. Do not edit: run it again. -->

A simulation of {ledgers:,} ledgers with E / Qw / Qa = {E} / {QW} / {QA} for each row, seed {seed}. It asks the code
that the client asks; of *centralised* the dealer, which one client has for all. All ledgers are equally long. Bookies
stand in {RACKS} racks, three in turn; of 5 bookies three are in one rack and two in another. *Equal* bookies have
{EQUAL // GIB:,} GiB free; *skewed* ones have as much, twice and four times as much by turns.

| {" | ".join(head)} |
|{"---|" * len(head)}
{chr(10).join(map(cells, rows))}

![The fullest bookie by its free space](results/{PICTURE.name})

## What the columns say

* **slots**: how many slots of ensembles the bookie with most has, as a multiple of the mean. 1 is even. {ledgers:,}
  ledgers are {E * ledgers // 1000:,} slots for each of 1,000 bookies, and chance alone then makes the largest number
  much larger than the mean.
* **fill**: the same for each byte of free space: how much sooner than the mean the fullest bookie is full.
* **in one rack**: ensembles that the loss of one rack takes away.
* **fresh**: a bookie with {FRESH // GIB:,} GiB free joins. Its slots among new ledgers, as a multiple of a bookie's
  mean. The weighted policies count it for three medians at most.
* **join**: slots that differ where the same ledgers are placed again with the fresh bookie, as a multiple of the slots
  that it takes. 1 is the least. A join moves no ledger: the column says what it would cost to place all again. A
  ledger keeps the key of its hash; policies without such keys draw, or deal, anew.
* **loss**: a bookie is lost, and each ledger that it had gets another one: slots that change, as a multiple of those
  that it had.
* **slots after**: the column *slots* after that, among the bookies that are left.
"""


def cells(row: Row) -> str:
    """A line of the table."""
    figures = (row.slots, row.fill, None, row.join_share, row.join_moved, row.loss_moved, row.loss_slots)
    shown = [f"{100 * row.one_rack:.1f} %" if figure is None else f"{figure:.2f}" for figure in figures]
    return f"| {row.bookies:,} | {row.sizes} | {row.policy} | {' | '.join(shown)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=20261127)
    parser.add_argument("--ledgers", type=int, default=10_000)
    parser.add_argument("--sizes", default="5,50,1000", help="numbers of bookies")
    parser.add_argument("--page", type=Path, help="write the page there, and its picture; without it print")
    given = parser.parse_args()
    print(f"seed {given.seed}", file=sys.stderr)
    rows = []
    for count in map(int, given.sizes.split(",")):
        for sizes in ("equal", "skewed"):
            for policy in POLICIES:
                rows.append(measured(policy, given.seed, count, sizes, given.ledgers))
                print(rows[-1], file=sys.stderr, flush=True)
    text = page(rows, given.seed, given.ledgers)
    if given.page is None:
        print(text)
        return
    given.page.write_text(text, encoding="utf-8")
    PICTURE.write_text(picture(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
