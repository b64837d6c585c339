"""Hadoop's contract tests and Spark's own suites, unmodified, against a gateway over a directory of this machine.

run.py ci         runs the suites of suites.toml that CI has
run.py all        runs all of them, and writes what came of them to docs/interop.md

Either fails where a test failed that is not excluded, where one that is excluded passed, or where a suite did not run.
A suite of which a test failed is run once more, alone: many of Spark's look at clocks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from walkeeper.gateway import Gateway

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build/interop_spark"
PAGE = ROOT / "docs/interop.md"
SUITES = HERE / "suites.toml"
TITLE = "## Hadoop's and Spark's suites on checkpoints in walkeeper"
TOKEN = "interop"
JVM_SECONDS_MAX = 3600

OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
        "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
        "sun.security.action", "sun.util.calendar",
    )
]  # fmt: skip
SPARK_PROPERTIES = {"io.netty.tryReflectionSetAccessible": "true", "jdk.reflect.useDirectMethodHandle": "false"}
"""What Spark's launcher gives a JVM, both of them."""


@dataclass(frozen=True)
class Suite:
    """An entry of suites.toml."""

    name: str
    project: str
    """hadoop or spark: the Maven project that has its class path."""
    in_ci: bool
    excluded: dict[str, str]
    """Why a test is not expected to pass, by its name, in which * stands for anything."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    def why_excluded(self, test: str) -> str | None:
        return next((reason for name, reason in self.excluded.items() if matches(name, test)), None)


@dataclass
class Outcome:
    """What became of a suite's tests."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """The message, by the name of the test."""
    skipped: list[str] = field(default_factory=list)


def matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def parse_toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        from pip._vendor import tomli as tomllib
    return tomllib.loads(text)


def suites() -> list[Suite]:
    tables = parse_toml(SUITES.read_text())["suite"]
    return [Suite(each["name"], each["project"], each["ci"], each.get("excluded", {})) for each in tables]


def not_run() -> dict[str, str]:
    """Why a suite is left out, by its name."""
    return dict(parse_toml(SUITES.read_text())["not_run"])


# ---- running ----


class Project:
    """A Maven project: compiled, with its class path."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.classes = BUILD / name / "test-classes"
        class_path = BUILD / name / "class-path"
        command = ["mvn", "-B", "-q", "-f", str(HERE / name / "pom.xml"), "test-compile"]
        subprocess.run(
            [*command, "dependency:build-classpath", f"-Dmdep.outputFile={class_path}"],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        self.jars = class_path.read_text().strip().split(":")

    # With assertions: RocksDB's classes count on them, and crash the JVM where a test uses an iterator that is closed.
    def java(self, properties: dict[str, str], places: Iterable[Path]) -> list[str]:
        made = ["java", "-Xmx3g", "-Xss4m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-ea", *OPENS]
        made += [f"-D{name}={value}" for name, value in properties.items()]
        return [*made, "-cp", ":".join([str(self.classes), *map(str, places), *self.jars])]


class Run:
    """Suites in JVMs, one after the other, with a gateway for all of them. `place` is for what they leave behind."""

    def __init__(self, place: Path, chosen: list[Suite]) -> None:
        self._place = place
        self._projects = {name: Project(name) for name in sorted({suite.project for suite in chosen})}
        self._reports = BUILD / "reports"
        shutil.rmtree(self._reports, ignore_errors=True)
        self._jvms = 0

    def run(self, group: list[Suite]) -> dict[str, Outcome]:
        """In one JVM; they are of one project. What became of each, by its name."""
        self._jvms += 1
        reports = self._reports / str(self._jvms)
        temporary = self._place / str(self._jvms)
        temporary.mkdir()
        project = self._projects[group[0].project]
        with Gateway(self._place / f"{self._jvms}.wal", token=TOKEN) as gateway:
            properties = {
                "gateway.address": gateway.addresses[0],
                "gateway.token": TOKEN,
                "java.io.tmpdir": str(temporary),
            }
            if project.name == "hadoop":
                command = [*project.java(properties, []), *junit(group, reports)]
            else:
                home = spark_home(project)
                properties |= {"spark.testing": "true", "spark.test.home": str(home), **SPARK_PROPERTIES}
                command = [*project.java(properties, [home / RESOURCES]), *scalatest(group, project, reports)]
            with (BUILD / f"{self._jvms}.log").open("wb") as log:
                subprocess.run(
                    ["nice", "-n", "10", *command],
                    cwd=temporary,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=JVM_SECONDS_MAX,
                )
        shutil.rmtree(temporary)
        return outcomes(reports)


RESOURCES = "sql/core/src/test/resources"


def spark_home(project: Project) -> Path:
    """A directory with the files that Spark's suites read beside their classes, laid out as in its repository."""
    home = BUILD / "home"
    made = home / RESOURCES
    if not made.is_dir():
        [tests] = [jar for jar in project.jars if re.search(r"/spark-sql_[^/]*-tests\.jar$", jar)]
        part = BUILD / "home.part"
        shutil.rmtree(part, ignore_errors=True)
        with zipfile.ZipFile(tests) as jar:
            jar.extractall(part / RESOURCES, [name for name in jar.namelist() if not name.endswith(".class")])
        shutil.rmtree(home, ignore_errors=True)
        part.rename(home)
    return home


def junit(group: list[Suite], reports: Path) -> list[str]:
    chosen = [f"--select-class={suite.name}" for suite in group]
    named = ["--include-classname=.*", f"--reports-dir={reports}", "--details=summary", "--disable-banner"]
    return ["org.junit.platform.console.ConsoleLauncher", "execute", *chosen, *named]


def scalatest(group: list[Suite], project: Project, reports: Path) -> list[str]:
    chosen = [word for suite in group for word in ("-s", suite.name)]
    return ["org.scalatest.tools.Runner", "-R", str(project.classes), "-oW", "-u", str(reports), *chosen]


def outcomes(reports: Path) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for path in sorted(reports.glob("*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            outcome = found.setdefault(case.get("classname", ""), Outcome())
            name = case.get("name", "").removesuffix("()")
            wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
            if wrong is not None:
                lines = (wrong.get("message") or wrong.text or "").strip().splitlines() or [""]
                outcome.failed[name] = lines[0][:200]
            elif case.find("skipped") is not None:
                outcome.skipped.append(name)
            else:
                outcome.passed.append(name)
    return found


def problems(suite: Suite, outcome: Outcome | None) -> list[str]:
    """What is wrong with it."""
    if outcome is None:
        return [f"{suite.short_name} did not run"]
    wrong = [
        f"{suite.short_name}: {test}: {message}"
        for test, message in outcome.failed.items()
        if suite.why_excluded(test) is None
    ]
    wrong += [
        f"{suite.short_name}: {test} is excluded, and passes"
        for test in outcome.passed
        if suite.why_excluded(test) is not None
    ]
    if suite.project == "hadoop":  # it is skipped by what contract/walkeeper.xml says
        wrong += [
            f"{suite.short_name}: {test} is skipped, and not excluded"
            for test in outcome.skipped
            if suite.why_excluded(test) is None
        ]
    ran = [*outcome.passed, *outcome.failed, *outcome.skipped]
    wrong += [
        f"{suite.short_name}: {name} is excluded, and there is no such test"
        for name in suite.excluded
        if not any(matches(name, test) for test in ran)
    ]
    return wrong


def run(chosen: list[Suite]) -> tuple[dict[str, Outcome], list[str]]:
    """What became of each suite, by its name, and what is wrong."""
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="walkeeper-") as place:
        runner = Run(Path(place), chosen)
        for group in groups(chosen):
            print(f"{', '.join(suite.short_name for suite in group)} ...", flush=True)
            found |= runner.run(group)
        for suite in chosen:
            if problems(suite, found.get(suite.name)):
                print(f"once more: {suite.short_name} ...", flush=True)
                found |= runner.run([suite])
    return found, [wrong for suite in chosen for wrong in problems(suite, found.get(suite.name))]


def groups(chosen: list[Suite]) -> list[list[Suite]]:
    """Those of a JVM: all of Hadoop's, those of Spark's that CI has, and each of the others by itself."""
    together = [[suite for suite in chosen if suite.in_ci and suite.project == name] for name in ("hadoop", "spark")]
    return [group for group in [*together, *([suite] for suite in chosen if not suite.in_ci)] if group]


# ---- the page ----


def version(project: str, name: str) -> str:
    found = re.search(rf"<{name}.version>(.*?)<", (HERE / project / "pom.xml").read_text())
    assert found is not None
    return found[1]


def table(rows: Iterable[tuple[str, ...]], *heads: str) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (heads, tuple("---" for _ in heads), *rows)] + [""]


def section(found: dict[str, Outcome]) -> str:
    day = datetime.now(timezone.utc).date()
    rows, excluded = [], []
    for suite in suites():
        outcome = found[suite.name]
        failed = [test for test in outcome.failed if suite.why_excluded(test) is None]
        without = [test for test in [*outcome.failed, *outcome.skipped] if suite.why_excluded(test) is not None]
        ignored = len(outcome.failed) + len(outcome.skipped) - len(failed) - len(without)
        note = f"{ignored} ignored by its authors" if ignored else ""
        rows.append((f"`{suite.short_name}`", str(len(outcome.passed)), str(len(failed)), str(len(without)), note))
        excluded += [(f"`{suite.short_name}`: {test}", str(suite.why_excluded(test))) for test in without]
    passed = sum(len(outcome.passed) for outcome in found.values())
    lines = [
        TITLE,
        "",
        f"`make interop-spark` runs unmodified tests of Hadoop {version('hadoop', 'hadoop')} and Spark "
        f"{version('spark', 'spark')} against a gateway over a directory, and writes this part of the page.",
        f"Run on {day}: {passed} tests passed.",
        "",
        "Hadoop's contract tests learn what the file system can do from `contract/walkeeper.xml`.",
        "Spark's suites know temporary directories of the machine alone. So they run with a checkpoint file manager",
        "and a local file system that keep these directories in walkeeper. Tests also look into a directory without",
        "Hadoop: each change is copied there, and a file that a test changes there is copied back (`Mapping.java`).",
        "",
        *table(rows, "suite", "passed", "failed", "excluded", ""),
        "Excluded tests run, and must not pass:",
        "",
        *table(excluded, "test", "because"),
        "Suites that do not run:",
        "",
        *table([(f"`{name}`", reason) for name, reason in not_run().items()], "suite", "because"),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def write(found: dict[str, Outcome]) -> None:
    others = PAGE.read_text().partition(TITLE)[0].rstrip("\n")
    PAGE.write_text(f"{others}\n\n{section(found)}")


def main(arguments: list[str]) -> None:
    if arguments not in (["ci"], ["all"]):
        raise SystemExit(__doc__)
    os.environ.pop("SPARK_HOME", None)
    chosen = [suite for suite in suites() if suite.in_ci or arguments == ["all"]]
    found, wrong = run(chosen)
    if wrong:
        raise SystemExit("\n".join(wrong))
    if arguments == ["all"]:
        write(found)
    print(f"{sum(len(outcome.passed) for outcome in found.values())} tests of Hadoop and Spark passed")


if __name__ == "__main__":
    main(sys.argv[1:])
