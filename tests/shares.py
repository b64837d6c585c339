"""Which tests a run takes where it does not take all: a part that a seed chooses, and the tests of what changed.

    python tests/shares.py KIND [ARGUMENT...] --parts N [--seed S] [--base REVISION]

prints the names and says on stderr which share they are. N runs with N seeds in a row take everything.

What changed differs from the base: REVISION; else the merge base with the upstream branch or origin/main, where that is
not HEAD itself; else the last commit that is a day older than HEAD. A changed file leads to tests in three ways: the
file is a test; or mutants in tests/mutants are defects in the file, and name tests; or the entry of a mutant changed.
A large change leads to most of the tests. So the tests of what changed are at most as many as one part has, chosen by
the seed: no share is longer than two parts.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = "tests/mutants"
DAY_SECONDS = 86400
sys.path[:0] = [str(ROOT), str(ROOT / MUTANTS)]

import run as mutants_run  # noqa: E402  (tests/mutants/run.py)


def share(names: Mapping[str, str], changed: set[str], parts: int, seed: int) -> tuple[list[str], list[str]]:
    """The part of the names that the seed chooses, and the changed names that are not in it.

    `names` maps each name to its unit; a unit is never divided."""
    units = sorted(set(names.values()))
    chosen = set(units[seed % parts :: parts])
    part = sorted(name for name, unit in names.items() if unit in chosen)
    others = sorted(changed & set(names) - set(part))
    most = math.ceil(len(names) / parts)
    return part, sorted(random.Random(seed).sample(others, min(len(others), most)))


# ---- what changed ----


def git(*arguments: str) -> str:
    """What git prints, or nothing where it fails: there may be no repository, or not enough history."""
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def find_base(wanted: str) -> tuple[str, str]:
    """The commit that this tree is compared with, and how it was found. Nothing: there is none."""
    if wanted:
        found = git("rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}")
        if not found:
            raise SystemExit(f"BASE={wanted} is no commit of this repository")
        return found, f"BASE={wanted}"
    head = git("rev-parse", "HEAD")
    for branch in ("@{upstream}", "origin/main"):
        found = git("merge-base", "HEAD", branch)
        if found and found != head:
            return found, f"the merge base with {branch}"
    seconds = git("show", "--no-patch", "--format=%ct", "HEAD")
    found = seconds and git("rev-list", "-1", f"--before={int(seconds) - DAY_SECONDS}", "HEAD")
    return (found, "a day before HEAD") if found else ("", "there is no older commit")


def changed_files(base: str) -> set[str]:
    """The files that differ from the base, committed or not. A file that only moved does not differ."""
    lines = git("diff", "--name-status", "--find-renames", base).splitlines() if base else []
    return {line.split("\t")[-1] for line in lines if not line.startswith(("R100", "D"))}


def changed_mutants(files: set[str], base: str) -> list[mutants_run.Mutant]:
    """The mutants whose entry, file or test changed."""
    tables = [file for file in files if file.startswith(f"{MUTANTS}/") and file.endswith(".toml")]
    before = [mutants_run.parse_toml(git("show", f"{base}:{table}")).get("mutant", []) for table in tables]
    now = [mutants_run.parse_toml((ROOT / table).read_text()).get("mutant", []) for table in tables]
    old = [fields for table in before for fields in table]
    new = {fields["name"] for table in now for fields in table if fields not in old}
    return [
        mutant
        for mutant in mutants_run.load(ROOT / MUTANTS)
        if mutant.name in new or mutant.file in files or mutant.place.as_posix() in files
    ]


# ---- the kinds: their names, each with its unit, and those of what changed ----

Kind = tuple[Mapping[str, str], set[str]]


def native(files: set[str], mutants: list[mutants_run.Mutant], build: str, *options: str) -> Kind:
    """The tests of a configured build directory, as far as the options of ctest choose them."""
    command = ["ctest", "--test-dir", build, "--show-only=json-v1", *options]
    tests = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["tests"]
    names = {test["name"]: test["name"].removesuffix("_without_uring") for test in tests}
    sources = {Path(file).stem for file in files if file.startswith("tests/")} | {mutant.test for mutant in mutants}
    return names, {name for name, source in names.items() if source in sources}


def python(files: set[str], mutants: list[mutants_run.Mutant], *left_out: str) -> Kind:
    """The files of Python tests but some."""
    found = [path.relative_to(ROOT) for path in ROOT.glob("tests/**/test_*.py")]
    without = {*left_out, "tests/java_bookies"}  # interop's
    names = [path.as_posix() for path in found if not {path.as_posix(), *map(str, path.parents)} & without]
    return dict(zip(names, names, strict=True)), files | {mutant.place.as_posix() for mutant in mutants}


def fuzzers(files: set[str], mutants: list[mutants_run.Mutant]) -> Kind:
    """The fuzzers in C; the file of one, or its saved corpus, may have changed."""
    names = [path.stem for path in ROOT.glob("tests/fuzz/fuzz_*.c")]
    return dict(zip(names, names, strict=True)), {part.removesuffix(".c") for file in files for part in file.split("/")}


def parsers(files: set[str], mutants: list[mutants_run.Mutant]) -> Kind:
    """The parsers in Python that are fuzzed."""
    from tests.fuzz.parsers import PARSERS

    return {name: name for name in PARSERS}, set()


def interop(files: set[str], mutants: list[mutants_run.Mutant]) -> Kind:
    """The classes of tests that run against BookKeeper, and the files of tests of our client on its bookies."""
    from tests.interop import report

    names = report.expected("ci") | report.python_files()
    changed = {Path(file).stem for file in files if file.endswith(".java")}
    folder = report.PYTHON.relative_to(ROOT).as_posix()
    if any(file.startswith(f"{folder}/") and "/test_" not in file for file in files):  # what they share
        changed |= report.python_files()
    return {name: name for name in names}, files | changed


def mutants(files: set[str], mutants: list[mutants_run.Mutant]) -> Kind:
    """The mutants, those of one test together: the test is built, and passes without them, once."""
    names = {mutant.name: mutant.test for mutant in mutants_run.load(ROOT / MUTANTS)}
    return names, {mutant.name for mutant in mutants}


KINDS = {kind.__name__: kind for kind in (native, python, fuzzers, parsers, interop, mutants)}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Prints which tests are a run's share.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--parts", type=int, required=True, help="how many parts everything has")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="chooses the part; else the clock does")
    parser.add_argument("--base", default="", help="what changed since this revision is part of every share")
    parser.add_argument("--separator", default="\n", help="stands between the names")
    options, rest = parser.parse_known_args(arguments)

    base, how = find_base(options.base)
    files = changed_files(base)
    names, changed = KINDS[options.kind](files, changed_mutants(files, base), *rest)
    part, others = share(names, changed, options.parts, options.seed)
    all_changed = len(changed & set(names) - set(part))
    print(
        f"{options.kind}: share {options.seed % options.parts + 1} of {options.parts}, {len(part)} of {len(names)}, "
        f"and {len(others)} of {all_changed} others of what changed since {base[:12] or 'no commit'} ({how}); "
        f"SEED={options.seed}",
        file=sys.stderr,
    )
    print(*part, *others, sep=options.separator)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
