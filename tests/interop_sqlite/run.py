"""Suites of SQLite and of those that use it, unmodified, against databases whose write-ahead log is in walkeeper.

run.py ci         runs the suites that CI has
run.py all        runs all but `veryquick`, and writes what came of them to docs/interop.md
run.py NAME...    runs these

Each suite runs twice: with SQLite's own VFS under the conditions that walkeeper makes (the base), and with walkeeper
(default_vfs.c). A case counts as failed where it passes with the base, and not with walkeeper. run.py fails where such
a case is not in exclusions.txt, where a case that is there passes, and where a suite did not use walkeeper.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

import walkeeper_sqlite

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build/interop_sqlite"
PAGE = ROOT / "docs/interop.md"
TITLE = "## SQLite's suites, and those of its users, on databases in walkeeper"
LIBRARY = Path(walkeeper_sqlite.extension_path())
EXTENSION = BUILD / "default_vfs.so"
VENV = BUILD / "venv"
SECONDS_MAX = 900
SCRIPT_SECONDS_MAX = 240

WAL_SCRIPTS = [
    *(
        "wal",
        "wal2",
        "wal3",
        "wal4",
        "wal5",
        "wal6",
        "wal7",
        "wal8",
        "wal9",
        "walbak",
        "walcksum",
        "walhook",
        "walmode",
    ),
    *("waloverwrite", "walpersist", "walprotocol", "walprotocol2", "walro", "walro2", "walrofault", "walsetlk"),
    *("walshared", "walnoshm", "walvfs", "walcrash", "walfault", "walfault2"),
]
DJANGO_APPS = [
    *("transactions", "transaction_hooks", "backends", "basic", "bulk_create", "delete", "update", "get_or_create"),
    *("queries", "aggregation", "schema"),
]
SQLALCHEMY_TESTS = [
    *("test/dialect/sqlite", "test/engine/test_transaction.py", "test/engine/test_reflection.py"),
    *("test/engine/test_execute.py", "test/engine/test_reconnect.py", "test/orm/test_unitofwork.py"),
    *("test/orm/test_unitofworkv2.py", "test/orm/test_query.py"),
]
THREAD_TESTS = ["walthread1", "walthread5", "checkpoint_starvation_2"]

NOT_VERYQUICK = ["e_walauto", "incrvacuum2", "init", "lock4", "sharedA"]
"""40,000 commits one after the other; cases that are numbered by allocations; scripts that do not end with the base."""

Cases = dict[str, str]
"""What became of each case: ok, failed or skipped."""


@dataclass(frozen=True)
class Exclusion:
    suite: str
    case: str
    reason: str

    def has(self, case: str) -> bool:
        return re.fullmatch(".*".join(map(re.escape, self.case.split("*"))), case) is not None


@dataclass
class Counts:
    """What default_vfs.c counted in all processes of a run."""

    opens: int = 0
    databases: int = 0
    adopted_anew: int = 0
    refused: int = 0
    commits: int = 0
    healed: int = 0
    poisoned: int = 0


@dataclass(frozen=True)
class Run:
    """One run of a suite. `place` is a directory of its own."""

    suite: str
    place: Path
    log: Path
    with_walkeeper: bool

    def environment(self, *, preload: bool, **others: str) -> dict[str, str]:
        settings = {name: value for name, value in os.environ.items() if not name.startswith("WALKEEPER_SQLITE_")}
        settings |= {"WALKEEPER_SQLITE_COUNTS": str(self.place / "counts"), "INTEROP_SQLITE_PLACE": str(self.place)}
        if self.with_walkeeper:
            (self.place / "logs").mkdir(exist_ok=True)
            settings["WALKEEPER_SQLITE_ROOT"] = str(self.place / "logs")
        if preload:
            settings |= {"LD_PRELOAD": str(EXTENSION), "WALKEEPER_SQLITE_PRELOAD": "libsqlite3.so.0"}
        return settings | others

    def call(
        self,
        command: list[str],
        *,
        cwd: Path | None = None,
        preload: bool = True,
        seconds: int = SECONDS_MAX,
        **environment: str,
    ) -> str:
        """What the command printed. One that does not end in time is killed, and its other cases are missing."""
        with self.log.open("ab") as log:
            start = log.tell()
            try:
                subprocess.run(
                    ["nice", "-n", "10", *command],
                    cwd=cwd or self.place,
                    env=self.environment(preload=preload, **environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=seconds,
                )
            except subprocess.TimeoutExpired:
                print(f"{self.suite}: {command[0]} was killed after {seconds} s", flush=True)
        return self.log.read_bytes()[start:].decode("utf-8", "replace")

    def counts(self) -> Counts:
        total = Counts()
        path = self.place / "counts"
        for line in path.read_text().splitlines() if path.exists() else []:
            for name, value in re.findall(r"(\w+)=(\d+)", line.partition(" reason=")[0]):
                setattr(total, name, getattr(total, name) + int(value))
        return total


@dataclass(frozen=True)
class Suite:
    name: str
    what: str
    in_ci: bool
    prepare: Callable[[], None]
    run: Callable[[Run], Cases]
    same_cases: bool = True
    """Both runs have the same cases: one that is missing has failed."""
    in_all: bool = True


@dataclass
class Outcome:
    base: Cases
    ours: Cases
    counts: Counts
    only_ours: list[str] = field(default_factory=list)


# ---- what is built and fetched ----


def build_extension() -> None:
    packages = [LIBRARY.parent, LIBRARY.parent.parent / "walkeeper"]
    includes = [ROOT / "native/include", ROOT / "adapters/sqlite/include"]
    subprocess.run(
        [
            *("cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
            *(f"-I{path}" for path in includes),
            *("-o", str(EXTENSION), str(HERE / "default_vfs.c")),
            *(f"-L{path}" for path in packages),
            *("-lwalkeeper_sqlite", "-lwalkeeper", "-lpthread"),
            *(f"-Wl,-rpath,{path}" for path in packages),
        ],
        check=True,
    )


def once(name: str, make: Callable[[Path], None]) -> Path:
    """The directory `name` of the build, made by `make` where it is not there whole."""
    made = BUILD / name
    if not made.is_dir():
        part = BUILD / f"{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        make(part)
        part.rename(made)
    return made


def sqlite_source() -> Path:
    """The source of the distribution's SQLite, unpatched."""
    [unpacked] = once("sqlite", fetch_sqlite).glob("sqlite3-*/")
    return unpacked


def fetch_sqlite(place: Path) -> None:
    """apt-get fetches it by sources of ours: those of the machine, as sources of source packages."""
    lists = place / "lists"
    (lists / "partial").mkdir(parents=True)
    sources = place / "sources.sources"
    deb822 = [path.read_text() for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources"))]
    texts = [re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.M) for text in deb822]
    sources.write_text("\n\n".join(text.strip() for text in texts) + "\n")
    options = ["-qq", "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null"]
    options += ["-o", f"Dir::State::lists={lists}", "-o", "APT::Sandbox::User=root"]
    subprocess.run(["apt-get", *options, "update"], check=True, cwd=place)
    subprocess.run(["apt-get", *options, "source", "--download-only", "sqlite3"], check=True, cwd=place)
    [archive] = [path for path in place.glob("sqlite3_*.orig.tar.*") if "www" not in path.name]
    with tarfile.open(archive) as tar:
        tar.extractall(place)


def testfixture() -> Path:
    """SQLite's test program, as a command that runs wrap.tcl first; the processes that it starts are it, too."""
    program = once("testfixture", build_testfixture) / "testfixture"
    command = BUILD / "testfixture-with-vfs"
    command.write_text(f'#!/bin/bash\nexec -a "{command}" "{program}" "{HERE / "wrap.tcl"}" "$@"\n')
    command.chmod(0o755)
    return command


def build_testfixture(place: Path) -> None:
    tcl = next(iter(sorted(Path("/usr/lib").glob("tcl8*"))), None)
    if tcl is None or not (tcl / "tclConfig.sh").exists():
        raise SystemExit("testfixture wants Tcl's development files: apt-get install tcl-dev")
    configure = [str(sqlite_source() / "configure"), f"--with-tcl={tcl}", "--enable-all", "--disable-shared"]
    for command in (configure, ["make", f"-j{os.cpu_count()}", "testfixture"]):
        with (place / "build.log").open("ab") as log:
            subprocess.run(["nice", "-n", "10", *command], check=True, cwd=place, stdout=log, stderr=log)


def threadtest() -> Path:
    return once("threadtest3", build_threadtest) / "threadtest3"


def build_threadtest(place: Path) -> None:
    source = sqlite_source()
    files = [source / "test/threadtest3.c", source / "src/test_multiplex.c"]
    includes = [f"-I{source / 'test'}", f"-I{source / 'src'}"]
    output = ["-o", str(place / "threadtest3")]
    subprocess.run(
        ["cc", "-O1", "-w", *includes, *output, *map(str, files), "-lsqlite3", "-lpthread", "-lm"], check=True
    )


def environment(*packages: str) -> Path:
    """The interpreter of a virtual environment that has these packages."""
    python = VENV / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], check=True)
    return python


def sdist(package: str) -> Path:
    """Its source distribution, unpacked: the tests are not in the wheel."""

    def fetch(place: Path) -> None:
        pip = [str(VENV / "bin/python"), "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--no-binary", ":all:", "-d", str(place), package], check=True)
        [archive] = place.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(place)

    [unpacked] = once(f"sdist-{re.match(r'[a-z]+', package)[0]}", fetch).glob("*/")  # type: ignore[index]
    return unpacked


# ---- the suites ----


def parse_tcl(text: str) -> Cases:
    cases: Cases = {}
    for name, rest in re.findall(r"^(\S+)\.\.\.(.*)$", text, flags=re.M):
        case = re.sub(r"(trans-9\.\d+)[.-](\d)[.-]\d+$", r"\1.\2", name)  # behind it is a random number of rows
        answer = "ok" if rest.endswith("Ok") else "skipped" if "mitted" in rest else "failed"
        if cases.get(case) != "failed":
            cases[case] = answer
    return cases


def run_script(run: Run, name: str, *arguments: str) -> Cases:
    """A script of SQLite's tests. Their default page size is 1024."""
    place = Path(tempfile.mkdtemp(dir=run.place))
    settings = {"WALKEEPER_SQLITE_EXTENSION": str(EXTENSION), "WALKEEPER_SQLITE_PAGE_SIZE": "1024"}
    script = sqlite_source() / "test" / f"{name}.test"
    command = [str(testfixture()), str(script), *arguments, "--verbose=1"]
    printed = run.call(command, cwd=place, preload=False, seconds=SCRIPT_SECONDS_MAX, **settings)
    shutil.rmtree(place, ignore_errors=True)
    return parse_tcl(printed)


def run_permutation(run: Run) -> Cases:
    return run_script(run, "permutations", "wal")


def run_wal_scripts(run: Run) -> Cases:
    cases: Cases = {}
    for name in WAL_SCRIPTS:
        cases |= run_script(run, name)
    return cases


def veryquick_scripts() -> list[str]:
    """Those of SQLite's permutation `veryquick`, but for its extensions: as permutations.test says."""
    folder = sqlite_source() / "test"
    text = (folder / "permutations.test").read_text()
    left_out: list[str] = []
    for name in ("alltests [test_set $alltests", "allquicktests [test_set $alltests"):
        left_out += re.findall(r"set " + re.escape(name) + r" -exclude \{(.*?)\n\}\]", text, flags=re.S)[-1].split()
    patterns = re.findall(r'"veryquick".*?-exclude (.*?)\n\]', text, flags=re.S)[0].replace("\\\n", " ").split()
    left_out += [f"{name}.test" for name in NOT_VERYQUICK]
    names = [path.name for path in sorted(folder.glob("*.test")) if path.name not in left_out]
    return [Path(name).stem for name in names if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def run_veryquick(run: Run) -> Cases:
    """Each script has a directory of logs of its own: what it leaves is in nobody's way."""
    cases: Cases = {}
    for name in veryquick_scripts():
        alone = replace(run, place=run.place / name)
        alone.place.mkdir()
        cases |= run_script(alone, name)
        with (run.place / "counts").open("a") as counts:
            counts.write((alone.place / "counts").read_text() if (alone.place / "counts").exists() else "")
        shutil.rmtree(alone.place, ignore_errors=True)
    return cases


def prepare_testfixture() -> None:
    testfixture()


def prepare_threads() -> None:
    threadtest()


def run_threads(run: Run) -> Cases:
    printed = run.call([str(threadtest()), *THREAD_TESTS])
    cases: Cases = {}
    parts = re.split(r"^Running (\w+) for .*$", printed, flags=re.M)
    for name, part in zip(parts[1::2], parts[2::2], strict=True):
        cases[name] = "failed" if re.search(r"error|INVARIANT", re.sub("0 errors", "", part), flags=re.I) else "ok"
    return cases


def parse_junit(path: Path) -> Cases:
    cases: Cases = {}
    for case in ElementTree.parse(path).iter("testcase") if path.exists() else []:
        name = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".").strip()
        wrong = case.find("failure") is not None or case.find("error") is not None
        cases[name] = "failed" if wrong else "skipped" if case.find("skipped") is not None else "ok"
    return cases


def parse_unittest(text: str) -> Cases:
    """Of `unittest -v`: a case is named, and some lines later it is said what became of it."""
    cases: Cases = {}
    current = None
    for line in text.splitlines():
        named = re.match(r"^\w+ \(([\w.]+)\)", line)
        if named is not None:
            current = named[1]
            cases.setdefault(current, "failed")  # the process may end in it
        ended = re.search(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped .*|expected failure)$", line)
        if ended is not None and current is not None:
            good = ended[1] in ("ok", "expected failure")
            cases[current] = "ok" if good else "skipped" if ended[1].startswith("skipped") else "failed"
            current = None
    for name in re.findall(r"^(?:ERROR|FAIL): \w+ \(([\w.]+)\)", text, flags=re.M):
        cases[name] = "failed"
    return cases


def prepare_cpython() -> None:
    asked = subprocess.run([sys.executable, "-c", "import test.test_sqlite3"], capture_output=True)
    if asked.returncode != 0:
        raise SystemExit("this interpreter came without its tests (test.test_sqlite3)")


def run_cpython(run: Run) -> Cases:
    report = run.place / "report.xml"
    run.call([sys.executable, "-m", "test", "test_sqlite3", "--junit-xml", str(report)])
    return parse_junit(report)


def prepare_django() -> None:
    environment("django<5.3")
    sdist("django<5.3")


def run_django(run: Run) -> Cases:
    script = sdist("django<5.3") / "tests/runtests.py"
    arguments = ["--settings=django_settings", "--parallel=1", "-v", "2", *DJANGO_APPS]
    return parse_unittest(run.call([str(VENV / "bin/python"), str(script), *arguments], PYTHONPATH=str(HERE)))


def prepare_sqlalchemy() -> None:
    environment("sqlalchemy", "pytest")
    sdist("sqlalchemy")


def run_sqlalchemy(run: Run) -> Cases:
    """In a copy: its databases lie beside its tests."""
    copy, report = run.place / "sqlalchemy", run.place / "report.xml"
    shutil.copytree(sdist("sqlalchemy"), copy)
    options = ["-q", "-p", "no:cacheprovider", "--db", "sqlite_file", f"--junitxml={report}"]
    run.call([str(VENV / "bin/python"), "-m", "pytest", *options, *SQLALCHEMY_TESTS], cwd=copy)
    return parse_junit(report)


def prepare_apsw() -> None:
    environment("apsw")


def run_apsw(run: Run) -> Cases:
    """APSW brings a SQLite of its own, which loads the extension itself."""
    command = [str(VENV / "bin/python"), str(HERE / "apsw_tests.py"), str(EXTENSION)]
    return parse_unittest(run.call(command, preload=False))


SUITES = [
    Suite("permutation", "SQLite: permutation `wal`", False, prepare_testfixture, run_permutation),
    Suite("wal", "SQLite: the scripts `wal*.test`", False, prepare_testfixture, run_wal_scripts, same_cases=False),
    Suite("cpython", "CPython: `test_sqlite3`", True, prepare_cpython, run_cpython),
    Suite("threads", "SQLite: `threadtest3`", True, prepare_threads, run_threads),
    Suite("django", "Django: its tests of the database layer", True, prepare_django, run_django),
    Suite(
        "sqlalchemy", "SQLAlchemy: its tests of the dialect, engine and ORM", False, prepare_sqlalchemy, run_sqlalchemy
    ),
    Suite("apsw", "APSW: its own tests", False, prepare_apsw, run_apsw),
    Suite(
        name="veryquick",
        what="SQLite: permutation `veryquick`",
        in_ci=False,
        prepare=prepare_testfixture,
        run=run_veryquick,
        same_cases=False,
        in_all=False,
    ),
]

NOT_RUN = {
    "SQLite: `mptest`": "several processes write to one database: one process has a database of walkeeper",
    "SQLite: cases with several processes, of scripts that run": "the same; wrap.tcl leaves them out",
    "SQLite: `walslow`, `walthread`": "minutes of what `savepoint6` and `threadtest3` do",
    "SQLite: `walbig`": "makes a file of 5 GB by hand, which does not end with a page",
    "SQLite: `wal64k`, `walblock`": "want system calls of SQLite's own VFS to be replaced, which no other VFS has",
    "SQLite: `walcrash2`": "1000 of its 1001 cases fail with the base, too",
    "SQLite: `walcrash3`, `walcrash4`": "take longer than all others together",
}


# ---- comparing ----


def exclusions() -> list[Exclusion]:
    lines = [line for line in (HERE / "exclusions.txt").read_text().splitlines() if line and not line.startswith("#")]
    return [Exclusion(*(part.strip() for part in line.split("|", 2))) for line in lines]


def failed_only_ours(suite: Suite, base: Cases, ours: Cases) -> list[str]:
    failed = [case for case, what in ours.items() if what == "failed" and base.get(case) == "ok"]
    missing = [case for case, what in base.items() if what == "ok" and case not in ours] if suite.same_cases else []
    return failed + missing


def run_both(suite: Suite) -> Outcome:
    suite.prepare()
    answers: list[tuple[Cases, Counts]] = []
    for name in ("base", "walkeeper"):
        log = BUILD / "output" / f"{suite.name}.{name}.log"
        log.parent.mkdir(exist_ok=True)
        log.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="walkeeper-", ignore_cleanup_errors=True) as place:
            run = Run(suite.name, Path(place), log, with_walkeeper=name == "walkeeper")
            answers.append((suite.run(run), run.counts()))
    (base, _), (ours, counts) = answers
    return Outcome(base, ours, counts, failed_only_ours(suite, base, ours))


def problems(suite: Suite, outcome: Outcome) -> list[str]:
    known = [each for each in exclusions() if each.suite == suite.name]
    wrong = [
        f"{suite.name}: {case} fails with walkeeper alone"
        for case in outcome.only_ours
        if not any(each.has(case) for each in known)
    ]
    wrong += [
        f"{suite.name}: {each.case} is excluded, and no such case fails with walkeeper alone"
        for each in known
        if not any(each.has(case) for case in outcome.only_ours)
    ]
    if outcome.counts.commits == 0 or "ok" not in outcome.ours.values():
        wrong.append(f"{suite.name} did not run, or not on databases of walkeeper")
    return wrong


# ---- the page ----


def table(rows: Iterable[tuple[str, ...]], *heads: str) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (heads, tuple("---" for _ in heads), *rows)] + [""]


def row(suite: Suite, outcome: Outcome) -> tuple[str, ...]:
    def number(cases: Cases, what: str) -> str:
        return str(sum(each == what for each in cases.values()))

    base, ours = outcome.base, outcome.ours
    return (
        *(suite.what, number(base, "ok"), number(base, "failed"), number(ours, "ok"), number(ours, "failed")),
        *(str(len(outcome.only_ours)), str(outcome.counts.commits), str(outcome.counts.healed)),
    )


def section(found: dict[str, Outcome]) -> str:
    day = datetime.now(timezone.utc).date()
    suites = [suite for suite in SUITES if suite.name in found]
    excluded = [(f"{each.suite}: `{each.case}`", each.reason) for each in exclusions() if each.suite in found]
    passed = sum(what == "ok" for outcome in found.values() for what in outcome.ours.values())
    heads = ("suite", "passed", "failed", "passed", "failed", "excluded", "commits", "healed")
    lines = [
        TITLE,
        "",
        f"`make interop-sqlite` runs unmodified tests of SQLite {sqlite_source().name.rpartition('-')[2]}, CPython, "
        "Django, SQLAlchemy and APSW, and writes this part of the page.",
        f"Run on {day}: {passed} cases passed with walkeeper.",
        "",
        "Each suite runs twice. The base is SQLite's own VFS under the conditions that walkeeper makes: every database",
        "is in WAL mode from its first page on, and stays so. A case that fails with the base fails under these",
        "conditions.",
        "A case that fails with walkeeper alone is excluded, with its reason, or fails the run.",
        "A commit is healed where SQLite left wrong checksums in its WAL.",
        "The first two numbers are the base's, the next two walkeeper's.",
        "",
        *table([row(suite, found[suite.name]) for suite in suites], *heads),
        "Cases that fail with walkeeper alone:",
        "",
        *table(excluded, "case", "because"),
        "What does not run:",
        "",
        *table(list(NOT_RUN.items()), "tests", "because"),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def write(found: dict[str, Outcome]) -> None:
    """In the place of the section that the page has, or at its end."""
    before, _, rest = PAGE.read_text().partition(TITLE)
    after = rest.partition("\n## ")[2]
    text = f"{before.rstrip()}\n\n{section(found)}"
    PAGE.write_text(text + (f"\n## {after}" if after else ""))


def chosen(arguments: list[str]) -> list[Suite]:
    if arguments == ["all"]:
        return [suite for suite in SUITES if suite.in_all]
    if arguments == ["ci"]:
        return [suite for suite in SUITES if suite.in_ci]
    named = [suite for suite in SUITES if suite.name in arguments]
    if not arguments or len(named) != len(arguments):
        raise SystemExit(f"{__doc__}\nNAME is one of {' '.join(suite.name for suite in SUITES)}")
    return named


def main(arguments: list[str]) -> None:
    suites = chosen(arguments)
    BUILD.mkdir(parents=True, exist_ok=True)
    build_extension()
    found: dict[str, Outcome] = {}
    wrong: list[str] = []
    for suite in suites:
        print(f"{suite.name} ...", flush=True)
        found[suite.name] = run_both(suite)
        wrong += problems(suite, found[suite.name])
    heads = ("suite", "base: passed", "failed", "ours: passed", "failed", "only ours", "commits", "healed")
    print("\n".join(table([row(suite, found[suite.name]) for suite in suites], *heads)))
    if wrong:
        raise SystemExit("\n".join(wrong))
    if arguments == ["all"]:
        write(found)
    print(f"{sum(what == 'ok' for outcome in found.values() for what in outcome.ours.values())} passed, 0 failed")


if __name__ == "__main__":
    main(sys.argv[1:])
