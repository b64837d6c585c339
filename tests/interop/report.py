"""Which of BookKeeper's test classes are run, and the page docs/interop.md from the reports that Maven left.

report.py classes WHICH     the classes, ours and BookKeeper's, as -Dchosen wants them; nothing where there are none
report.py python WHICH      the files of tests of our client on Java's bookies, for pytest
report.py again             BookKeeper's classes of which a test failed: they are run once more, alone
report.py write             writes docs/interop.md
report.py check WHICH       fails where a test failed that is not known to, or a class did not run

WHICH: ci, all, or classes of ci and files of Python tests, with commas between them.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REPORTS = ROOT / "build/interop/reports"
PAGE = ROOT / "docs/interop.md"
PYTHON = ROOT / "tests/java_bookies"
CLASSES = HERE / "upstream-classes.txt"
AGAIN = REPORTS / "again.txt"
"""What was run once more, a class a line."""
OURS = "walkeeper.interop."
SOURCES = HERE / "src/test/java" / OURS.replace(".", "/")


@dataclass(frozen=True)
class Upstream:
    """A row of upstream-classes.txt."""

    name: str
    how: str
    reason: str

    @property
    def class_name(self) -> str:
        return self.name.partition("#")[0]

    @property
    def method(self) -> str:
        """Of a class that is run, one that is not; or the numbers of parameters."""
        return self.name.partition("#")[2]


@dataclass
class Outcome:
    """What became of a class's tests."""

    passed: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def upstream_classes() -> list[Upstream]:
    rows = []
    for line in CLASSES.read_text().splitlines():
        if line and not line.startswith("#"):
            name, how, *reason = line.split(None, 2)
            if how not in ("ci", "all", "no", "fails") or (how in ("no", "fails")) != bool(reason):
                raise SystemExit(f"{CLASSES.name}: {line}")
            rows.append(Upstream(name, how, "".join(reason)))
    return rows


def our_classes() -> set[str]:
    return {path.stem for path in SOURCES.glob("*Test.java") if "public abstract class" not in path.read_text()}


def python_files() -> set[str]:
    """Of tests of our client on Java's bookies."""
    return {path.relative_to(ROOT).as_posix() for path in PYTHON.glob("test_*.py")}


def chosen_files(which: str) -> str:
    return " ".join(sorted(python_files() if which in ("ci", "all") else python_files() & set(which.split(","))))


def chosen(which: str) -> str:
    names = expected(which)
    if not names:
        return ""
    wanted = ("ci", "all") if which == "all" else ("ci",)
    rows = [row for row in upstream_classes() if row.class_name in names]
    ours = sorted(OURS.replace(".", "/") + name for name in names & our_classes())
    without = [f"!{row.name}*" for row in rows if row.how == "no" and row.method]
    return ",".join(ours + [row.name for row in rows if row.how in wanted] + without)


def expected(which: str) -> set[str]:
    """The simple names of the classes that must have run."""
    in_ci = our_classes() | {row.class_name for row in upstream_classes() if row.how == "ci"}
    if which == "ci":
        return in_ci
    if which == "all":
        return in_ci | {row.class_name for row in upstream_classes() if row.how == "all"}
    names = set(which.split(",")) - python_files()
    if unknown := names - in_ci:
        raise SystemExit(f"no class of CI is called {', '.join(sorted(unknown))}")
    return names


def known_to_fail() -> dict[str, str]:
    """Why, by `class#test`."""
    return {row.name: row.reason for row in upstream_classes() if row.how == "fails"}


def wrong_tests() -> list[tuple[str, str, str]]:
    """The class, the test and the message of each that failed, and is not known to."""
    known = known_to_fail()
    return [
        (name, test, message)
        for name, each in outcomes().items()
        for test, message in each.failed
        if f"{name.rpartition('.')[2]}#{test}" not in known
    ]


def again() -> str:
    classes = dict.fromkeys(name for name, _, _ in wrong_tests() if not name.startswith(OURS))
    failed = [name.rpartition(".")[2] for name in classes]
    AGAIN.write_text("".join(f"{name}\n" for name in failed))
    rows = upstream_classes()
    return ",".join(
        [row.name for row in rows if row.class_name in failed and row.how in ("ci", "all")]
        + [f"!{row.name}*" for row in rows if row.class_name in failed and row.how == "no"]
    )


def reports() -> Iterator[Path]:
    return iter(sorted(REPORTS.glob("TEST-*.xml")))


def outcomes() -> dict[str, Outcome]:
    """By the class's full name, in the order of names."""
    found: dict[str, Outcome] = {}
    not_applicable = {row.name for row in upstream_classes() if row.how == "no"}
    for path in reports():
        for case in ElementTree.parse(path).iter("testcase"):
            method = re.sub(r"\[.*", "", case.get("name", ""))
            if f"{case.get('classname', '').rpartition('.')[2]}#{method}" in not_applicable:
                continue
            outcome = found.setdefault(case.get("classname", ""), Outcome())
            name = case.get("name", "")
            wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
            if wrong is not None:
                lines = (wrong.get("message") or wrong.get("type") or "").splitlines() or [""]
                outcome.failed.append((name, lines[0][:160]))
            elif case.find("skipped") is not None:
                outcome.skipped.append(name)
            else:
                outcome.passed += 1
    return dict(sorted(found.items()))


def reasons() -> dict[str, str]:
    """Why a test of ours was skipped, by `name(class)`: it says so in its output."""
    said = re.compile(r"#### (\S.*\)) skipped: (?:got: .*|)(.*)")
    found = {}
    for path in sorted(REPORTS.glob(f"{OURS}*-output.txt")):
        for line in path.read_text(errors="replace").splitlines():
            if match := said.match(line):
                found[match[1]] = match[2]
    return found


def versions() -> str:
    facts: dict[str | None, str | None] = {}
    newest = 0.0
    for path in reports():
        newest = max(newest, path.stat().st_mtime)
        for each in ElementTree.parse(path).iter("property"):
            facts.setdefault(each.get("name"), each.get("value"))
    bookkeeper = re.search(r"<bookkeeper.version>(.*?)<", (HERE / "pom.xml").read_text())
    ours = re.search(r'^version = "(.*?)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    if bookkeeper is None or ours is None:
        raise SystemExit("no version in pom.xml or pyproject.toml")
    day = datetime.fromtimestamp(newest, timezone.utc).date()
    return (
        f"Run on {day}: walkeeper {ours[1]}, BookKeeper {bookkeeper[1]} with ZooKeeper 3.9.3, "
        f"Java {facts.get('java.version')}."
    )


def table(rows: Sequence[tuple[str, ...]], *heads: str) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (heads, tuple("---" for _ in heads), *rows)] + [""]


def page() -> str:
    found = outcomes()
    ours = {name: each for name, each in found.items() if name.startswith(OURS)}
    theirs = {name.rpartition(".")[2]: each for name, each in found.items() if not name.startswith(OURS)}
    total = sum(each.passed for each in found.values()), sum(len(each.failed) for each in found.values())
    lines = [
        "# Apache BookKeeper's clients and tools on walkeeper's bookies",
        "",
        "`make interop-all` runs unmodified BookKeeper against processes `walkeeper-bookie` and writes this page.",
        versions(),
        f"{total[0]} tests passed, {total[1]} failed.",
        "",
        "## Tests of this repository",
        "",
        "`tests/interop/src`: BookKeeper's client, shell and auto-recovery, with bookies of ours and mixed ones.",
        "",
        *table(
            [
                (f"`{name.removeprefix(OURS)}`", str(each.passed), str(len(each.failed)), str(len(each.skipped)))
                for name, each in ours.items()
            ],
            *("class", "passed", "failed", "not applicable"),
        ),
    ]
    why = reasons()
    skipped = [
        (f"`{name.removeprefix(OURS)}.{test}`", why.get(f"{test}({name})", ""))
        for name, each in ours.items()
        for test in sorted(each.skipped)
    ]
    lines += ["Not applicable:", "", *table(skipped, "test", "because")] if skipped else []
    lines += [
        "## walkeeper's client on Java's bookies",
        "",
        "`tests/java_bookies`, which `make interop` runs as well: `walkeeper.LedgerClient` and a replicated log on",
        "three bookies of BookKeeper's, with its default storage and with `DbLedgerStorage`, and on two of them",
        "beside one of ours. Each client opens, recovers and reads what the other one wrote or left open. Java's",
        "bookies are killed under load, hang, and refuse what is too much for them.",
        "",
    ]
    lines += [
        "## BookKeeper's own suite",
        "",
        "Each class of `bookkeeper-server`'s jar of tests that extends `BookKeeperClusterTestCase`; what starts their",
        "bookies is exchanged for what starts ours. `tests/interop/upstream-classes.txt` has the list.",
        "A client's `close()` may throw a NullPointerException where the answer to an add comes at that moment. It is",
        "a race of the client with itself, as frequent with Java's bookies (`CloseRace.java`): the harness waits",
        "a moment before it closes.",
        "",
    ]
    rows: list[tuple[str, ...]] = []
    for row in sorted(upstream_classes(), key=lambda each: (each.class_name, each.how)):
        outcome = theirs.get(row.class_name)
        if row.how == "no":
            name = f"{row.class_name}.{row.method}" if row.method else row.class_name
            rows.append((f"`{name}`", "", "", f"not applicable: {row.reason}"))
        elif row.how == "fails":
            continue
        elif outcome is None:
            rows.append((f"`{row.class_name}`", "", "", "was not run"))
        else:
            note = f"{len(outcome.skipped)} skipped by BookKeeper" if outcome.skipped else ""
            rows.append((f"`{row.class_name}`", str(outcome.passed), str(len(outcome.failed)), note))
    lines += table(rows, "class", "passed", "failed", "")
    repeated = AGAIN.read_text().split() if AGAIN.exists() else []
    if repeated:
        names = ", ".join(f"`{name}`" for name in repeated)
        lines += [
            f"A test failed beside others, and the class was run once more, alone, which is what counts: {names}.",
            "",
        ]
    known = known_to_fail()
    wrong = [
        (f"`{simple}.{test}`", message.replace("|", "\\|"), known.get(f"{simple}#{test}", ""))
        for simple, each in ((name.rpartition(".")[2], each) for name, each in found.items())
        for test, message in sorted(each.failed)
    ]
    lines += ["## What failed", "", *table(wrong, "test", "message", "because")] if wrong else []
    return "\n".join(lines).rstrip("\n") + "\n"


def others() -> str:
    """What tests/interop_spark writes behind it."""
    _, title, text = PAGE.read_text().partition("\n## Hadoop's and Spark's suites ")
    return title + text


def check(how: str) -> None:
    found = outcomes()
    wrong = [f"{name}.{test}: {message}" for name, test, message in wrong_tests()]
    ran = {name.rpartition(".")[2] for name, each in found.items() if each.passed}
    wrong += [f"{name} did not run" for name in sorted(expected(how) - ran)]
    why = reasons()
    wrong += [
        f"{name}.{test}: skipped without a reason"
        for name, each in found.items()
        for test in each.skipped
        if name.startswith(OURS) and not why.get(f"{test}({name})")
    ]
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"{sum(each.passed for each in found.values())} tests of BookKeeper's clients passed")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["classes", which]:
            print(chosen(which))
        case ["python", which]:
            print(chosen_files(which))
        case ["again"]:
            print(again())
        case ["write"]:
            PAGE.write_text(page() + others())
        case ["check", which]:
            check(which)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
