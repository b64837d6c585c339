#!/usr/bin/env python3
"""Seeded defects: each mutant of the *.toml beside this file must make the test it names fail.

The tree is copied to temporary directories, one for each of JOBS workers. There a mutant's text is replaced, what it
needs is built, and its test is run. A test that fails, or takes far longer than without the defect, has killed its
mutant. A mutant that lives, that no longer matches the source, that does not compile or whose test fails without it, is
an error.

    python tests/mutants/run.py                  all of them
    python tests/mutants/run.py NAME...          these
    python tests/mutants/run.py --some 12        so many, chosen by the seed
    python tests/mutants/run.py --seed 7         with another seed for the random tests; else the clock gives one
    python tests/mutants/run.py --check          only whether each still matches the source, and would compile

A test is the name of a native test, or a test of pytest ("tests/test_fork.py::test_..."). For the latter the package
that is installed where this script runs (`make mutants` sees to it) is given the mutant's libwalkeeper.so and Python
files.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS_MAX = 300  # for a test without a defect in the tree
TIMES_SLOWER = 4  # a defect that makes a test so much slower (and by 20 s at least) has been noticed
TRIES = 3  # tests with threads need not notice at once
LIBRARY = "libwalkeeper.so"
SQLITE_LIBRARY = "libwalkeeper_sqlite.so"
ENCLOSURE = ROOT / "tests" / "enclosure.py"
# The package is installed with its Python files left where they are: every interpreter of a test looks into the copy.
SITE = """
import sys

for finder in sys.meta_path:
    known = getattr(finder, "known_source_files", {{}})
    known.update({{name: path.replace({root!r}, {tree!r}) for name, path in known.items() if path.endswith(".py")}})
"""


@dataclass(frozen=True)
class Mutant:
    """One defect: in `file`, `search` becomes `replace`; `test` is the test that must notice."""

    name: str
    why: str
    file: str
    search: str
    replace: str
    test: str

    @property
    def is_python(self) -> bool:
        return self.test.endswith(".py") or ".py::" in self.test

    @property
    def target(self) -> str:
        """What must be built to run the test."""
        if self.test.startswith("tests/sqlite/"):
            return SQLITE_LIBRARY
        return LIBRARY if self.is_python else self.test

    @property
    def place(self) -> Path:
        """Where the test stands."""
        return Path(self.test.split("::")[0]) if self.is_python else Path("tests/native") / f"{self.test}.c"

    def applied_to(self, source: str) -> str:
        """The source with the defect in it. ValueError: the text is not there exactly once, or nothing would change."""
        found = source.count(self.search)
        if found != 1:
            raise ValueError(f"{self.name}: its text is {found} times in {self.file}, not once")
        if self.search == self.replace:
            raise ValueError(f"{self.name}: changes nothing")
        return source.replace(self.search, self.replace)


def parse_toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        from pip._vendor import tomli as tomllib
    return tomllib.loads(text)


def load(folder: Path) -> list[Mutant]:
    """Those of all files of a folder, file by file."""
    tables = [parse_toml(path.read_text()) for path in sorted(folder.glob("*.toml"))]
    mutants = [Mutant(**fields) for table in tables for fields in table.get("mutant", [])]
    names = [mutant.name for mutant in mutants]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"mutants in {folder} share a name: {', '.join(twice)}")
    return mutants


def problems(mutants: list[Mutant], root: Path = ROOT) -> list[str]:
    """What keeps mutants from being run at all: texts that no longer match, tests that do not exist."""
    found = []
    for mutant in mutants:
        if not (root / mutant.file).is_file():
            found.append(f"{mutant.name}: there is no {mutant.file}")
            continue
        try:
            mutant.applied_to((root / mutant.file).read_text())
        except ValueError as error:
            found.append(str(error))
        if not (root / mutant.place).is_file():
            found.append(f"{mutant.name}: there is no {mutant.place}")
        elif mutant.is_python and f"def {mutant.test.split('::')[-1]}(" not in (root / mutant.place).read_text():
            found.append(f"{mutant.name}: there is no test {mutant.test}")
    return found


def is_well_formed(mutant: Mutant) -> bool:
    """Whether its file is Python, or C, with the defect in it."""
    text = mutant.applied_to((ROOT / mutant.file).read_text())
    if mutant.file.endswith(".py"):
        try:
            compile(text, mutant.file, "exec")
        except SyntaxError:
            return False
        return True
    folders = [str((ROOT / mutant.file).parent), str(ROOT / "native"), str(ROOT / "native/include")]
    folders.append(str(ROOT / "adapters/sqlite/include"))
    command = ["cc", "-x", "c", "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-w", "-"]
    command += [f"-I{folder}" for folder in folders]
    return subprocess.run(command, input=text, text=True, stderr=subprocess.DEVNULL).returncode == 0


def ill_formed(mutants: list[Mutant], jobs: int = 2) -> list[str]:
    """Those that would not compile, and so count as alive when they are run."""
    with ThreadPoolExecutor(jobs) as pool:
        found = zip(mutants, pool.map(is_well_formed, mutants), strict=True)
        return [f"{mutant.name}: with it {mutant.file} does not compile" for mutant, is_well in found if not is_well]


class Workshop:
    """A copy of the tree and its build directory."""

    def __init__(self, place: Path, seed: int) -> None:
        self.tree = place / "tree"
        self.build = place / "build"
        self.environment = {**os.environ, "WALKEEPER_TEST_SEED": str(seed)}
        self.seconds: dict[str, float] = {}  # that a test takes without a defect
        self.tree.mkdir(parents=True)
        shutil.copy(ROOT / "pyproject.toml", self.tree)  # what pytest is told
        (self.tree / "sitecustomize.py").write_text(SITE.format(root=str(ROOT), tree=str(self.tree)))
        for folder in ("native", "walkeeper", "bookie", "adapters", "tests", "examples", "benchmarks/native"):
            if (ROOT / folder).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "golden")
                shutil.copytree(ROOT / folder, self.tree / folder, ignore=ignored)
        configure = ["cmake", "-S", str(self.tree / "native"), "-B", str(self.build), "-G", "Ninja", "-DWK_WERROR=OFF"]
        configure += ["-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2"]  # as the C tests are built, but nobody reads the symbols
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)

    def compile(self, target: str) -> subprocess.CompletedProcess[str]:
        command = ["ninja", "-C", str(self.build), "-j", "1", target]  # the others are at work as well
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, mutant: Mutant) -> tuple[bool, str]:
        """Whether the mutant's test passes, and the last thing it said."""
        place, environment = self.build, dict(self.environment)
        command = [str(self.build / mutant.test)]
        if mutant.is_python:
            # Looked at before the run path of the installed module, in the processes that a test starts as well.
            environment["LD_LIBRARY_PATH"] = str(self.build)
            environment["PYTHONPATH"] = str(self.tree)
            place = self.tree
            ours = f"assert {str(self.build / LIBRARY)!r} in open('/proc/self/maps').read()"
            ours += f"; assert walkeeper.__file__.startswith({str(self.tree)!r})"
            loaded = subprocess.run(
                [sys.executable, "-c", f"import walkeeper; {ours}"], cwd=self.build, env=environment, check=False
            )
            if loaded.returncode != 0:
                raise SystemExit(f"{mutant.test} would not run with the mutant's files: is walkeeper installed?")
            command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", mutant.test]
        known = self.seconds.get(mutant.test)
        timeout = SECONDS_MAX if known is None else 20 + TIMES_SLOWER * known
        start = time.monotonic()
        with subprocess.Popen(
            [sys.executable, str(ENCLOSURE), *command], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env=environment,
        ) as done:  # fmt: skip
            try:
                output, _ = done.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                done.terminate()  # and whatever servers the test had started
                return False, f"no end after {timeout:.0f} s"
        self.seconds.setdefault(mutant.test, time.monotonic() - start)
        lines = output.strip().splitlines()
        marks = ("failed:", "Assertion", "E   ")
        said = next((line for line in lines if any(mark in line for mark in marks)), lines[-1] if lines else "")
        if done.returncode == 77 or " skipped" in (lines[-1] if lines else ""):
            return True, f"skipped: {said}"
        if mutant.is_python and done.returncode > 1:  # neither passed nor failed: pytest could not run it
            raise SystemExit(f"pytest cannot run {mutant.test}: {output}")
        return done.returncode == 0, said or f"exit status {done.returncode}"

    def judge(self, mutant: Mutant) -> tuple[bool, str]:
        """Whether the mutant is killed, and by what."""
        source = self.tree / mutant.file
        sound = source.read_text()
        source.write_text(mutant.applied_to(sound))
        try:
            built = self.compile(mutant.target)
            if built.returncode != 0:
                return False, f"does not compile:\n{built.stdout}"
            for _ in range(TRIES):
                passed, said = self.run(mutant)
                if not passed:
                    return True, said
            return False, f"LIVES: {mutant.test} passes {TRIES} times ({said})"
        finally:
            source.write_text(sound)

    def judge_all(self, mutants: list[Mutant]) -> list[str]:
        """Mutants of one test, which passes without them; those that live. SystemExit: it does not pass."""
        built = self.compile(mutants[0].target)
        if built.returncode != 0:
            raise SystemExit(built.stdout)
        passed, said = self.run(mutants[0])
        if not passed or said.startswith("skipped"):
            raise SystemExit(f"{mutants[0].test} must pass without a mutant, and says: {said}")
        alive = []
        for mutant in mutants:
            start = time.monotonic()
            killed, said = self.judge(mutant)
            said = re.sub(r"^.*/tests/native/", "", said)
            mark = "killed" if killed else "ALIVE "
            print(f"{mark} {mutant.name} ({mutant.test}, {time.monotonic() - start:.1f} s): {said}", flush=True)
            if not killed:
                alive.append(mutant.name)
        return alive


def by_test(mutants: list[Mutant]) -> list[list[Mutant]]:
    """Those of one test together, and of these those of one file: what is built is built for few. The longest first."""
    groups: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        groups.setdefault(mutant.test, []).append(mutant)
    return sorted((sorted(group, key=lambda mutant: mutant.file) for group in groups.values()), key=len, reverse=True)


def judge_in_parallel(mutants: list[Mutant], jobs: int, seed: int) -> list[str]:
    """The names of those that live."""
    idle: queue.SimpleQueue[Workshop] = queue.SimpleQueue()

    def work(group: list[Mutant]) -> list[str]:
        workshop = idle.get()
        try:
            return workshop.judge_all(group)
        finally:
            idle.put(workshop)

    with tempfile.TemporaryDirectory(prefix="walkeeper-mutants-") as place, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            idle.put(Workshop(Path(place) / str(number), seed))
        try:
            judged = as_completed([pool.submit(work, group) for group in by_test(mutants)])
            return [name for done in judged for name in done.result()]
        finally:
            pool.shutdown(cancel_futures=True)  # where one of them could not be judged


def main() -> int:
    parser = argparse.ArgumentParser(description="Seeded defects that named tests must notice.")
    parser.add_argument("names", nargs="*", help="only these mutants")
    parser.add_argument(
        "--check", action="store_true", help="only whether each mutant still matches, and would compile"
    )
    parser.add_argument("--some", type=int, metavar="N", help="only so many, chosen by the seed")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the choice and of the random tests")
    parser.add_argument("--jobs", type=int, default=2, help="workers at once")
    arguments = parser.parse_args()

    mutants = load(Path(__file__).parent)
    unknown = set(arguments.names) - {mutant.name for mutant in mutants}
    if unknown:
        parser.error(f"no mutant is called {', '.join(sorted(unknown))}")
    if arguments.names:
        mutants = [mutant for mutant in mutants if mutant.name in arguments.names]
    wrong = problems(mutants)
    if arguments.check and not wrong:
        wrong = ill_formed(mutants, arguments.jobs)
    if wrong or arguments.check:
        print(*(wrong or [f"{len(mutants)} mutants match the source"]), sep="\n")
        return 1 if wrong else 0

    if arguments.some is not None and arguments.some < len(mutants):
        chosen = random.Random(arguments.seed).sample(range(len(mutants)), arguments.some)
        mutants = [mutants[i] for i in sorted(chosen)]
    print(f"{len(mutants)} mutants, seed {arguments.seed}", flush=True)
    alive = judge_in_parallel(mutants, arguments.jobs, arguments.seed)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processor time, seed {arguments.seed}")
    if alive:
        print("alive:", *alive)
    print(f"{len(mutants) - len(alive)} passed, {len(alive)} failed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
