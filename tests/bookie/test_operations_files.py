"""The unit, the Dockerfile and the page for operators name options, statuses and commands that there are."""

from __future__ import annotations

import re
from pathlib import Path

from walkeeper_bookie._exit_status import MEANINGS, ExitStatus
from walkeeper_bookie._settings import KEYS
from walkeeper_bookie.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = ROOT / "docs/operations"
UNIT = (OPERATIONS / "walkeeper-bookie.service").read_text()
DOCKERFILE = (OPERATIONS / "Dockerfile").read_text()
FILES = [OPERATIONS / name for name in ("bookie.md", "walkeeper-bookie.service", "Dockerfile")]
OPTIONS = {one.option for one in KEYS} | {"--config", "--init", "--print-config", "--help"}
OF_COMMANDS = {
    "--bookie-id",
    "--metadata",
    "--data",
    "--http",
    "--all",
    "--force",
    "--reason",
    "--entries",
    "--journal-to",
}


def test_every_option_that_is_named_is_one() -> None:
    for path in FILES:
        for line in path.read_text().splitlines():
            foreign = re.match(r"(RUN|COPY|#   docker|#     (useradd|install) | +&&| +pip install)", line)
            named = set() if foreign else set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", line))
            assert named <= OPTIONS | OF_COMMANDS, (path.name, line)


def test_every_setting_that_is_named_is_one() -> None:
    names = {one.name for one in KEYS}
    page = (OPERATIONS / "bookie.md").read_text()
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", page))
    assert named
    assert named <= names


def test_every_command_that_is_named_is_one() -> None:
    named = set(re.findall(r"walkeeper bookie ([a-z]+)", (OPERATIONS / "bookie.md").read_text()))
    assert named == set(COMMANDS)


def test_systemd_does_not_start_again_what_starting_again_cannot_help() -> None:
    prevented = re.search(r"^RestartPreventExitStatus=(.*)$", UNIT, re.MULTILINE)
    assert prevented is not None
    final = {ExitStatus.WRONG_USE, ExitStatus.OTHER_IDENTITY, ExitStatus.DISK_FAILED}
    assert {ExitStatus(int(status)) for status in prevented[1].split()} == final
    assert {status for status, (_, remedy) in MEANINGS.items() if "changes nothing" in remedy} <= final


def test_systemd_waits_for_longer_than_the_bookie_drains() -> None:
    assert "\nType=notify\n" in UNIT
    assert "\nTimeoutStopSec=2min\n" in UNIT
    assert next(one for one in KEYS if one.name == "drain_timeout").default == "30s"


# ---- as whoever installs it would read them ----


def scripts() -> set[str]:
    """The commands that an installation has."""
    section = (ROOT / "pyproject.toml").read_text().split("[project.scripts]")[1].split("\n[")[0]
    return set(re.findall(r"^([\w-]+) =", section, re.MULTILINE))


def needed_to_build() -> set[str]:
    """Debian's packages, as CI has them."""
    section = (ROOT / ".ci/packages").read_text().split("\tbuild)\n")[1].split(";;")[0]
    return set(re.findall(r"^\t\tneed ([a-z0-9-]+)", section, re.MULTILINE))


def installed(stage: str) -> set[str]:
    found = re.search(r"apt-get install -y --no-install-recommends ([a-z0-9 -]+)", stage)
    assert found is not None
    return set(found[1].split())


def test_the_unit_starts_what_its_installation_makes_in_the_directory_that_it_may_write() -> None:
    program = re.search(r"^ExecStart=(\S+) --config (\S+)$", UNIT, re.MULTILINE)
    assert program is not None
    venv, name = program[1].rsplit("/bin/", 1)
    assert name in scripts()
    assert f"python3 -m venv {venv} && {venv}/bin/pip install '.[zookeeper]'" in UNIT
    assert f"runuser -u walkeeper -- {program[1]} --config {program[2]} --init" in UNIT
    state = re.search(r"^StateDirectory=(\w+)$", UNIT, re.MULTILINE)
    assert state is not None
    place = f"/var/lib/{state[1]}"
    assert f"\nRequiresMountsFor={place}\n" in UNIT
    assert f'data = "{place}/bookie"' in UNIT
    assert f"install -d -o walkeeper -g walkeeper -m 0700 {place}\n" in UNIT


def test_the_image_is_built_of_what_is_there() -> None:
    _, build, run = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert build.split()[0] == run.split()[0]  # the libraries that it runs with are those that it was built with
    others = {"libsqlite3-dev"}  # of the adapter of SQLite, which is not in the image
    assert installed(build) == {name for name in needed_to_build() if not name.startswith("python3")} - others
    libraries = {"liburing-dev": "liburing2", "libzstd-dev": "libzstd1", "liblz4-dev": "liblz4-1"}
    assert libraries.keys() == {name for name in installed(build) if name.endswith("-dev") and name != "libc6-dev"}
    assert installed(run) == set(libraries.values())
    copied = " ".join(re.findall(r"^COPY (.*) /source/\S*$", build, re.MULTILINE)).split()
    assert copied == ["pyproject.toml", "README.md", "LICENSE", "native", "walkeeper", "bookie"]
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_runs_the_bookie_as_nobody_else_on_its_volume() -> None:
    entry = re.search(r'^ENTRYPOINT \["([\w-]+)", "--data", "(\S+)/bookie"\]$', DOCKERFILE, re.MULTILINE)
    assert entry is not None
    program, volume = entry.groups()
    assert program in scripts()
    assert f"\nVOLUME {volume}\n" in DOCKERFILE
    assert f"useradd --system --uid 3181 --home-dir {volume} walkeeper" in DOCKERFILE
    assert f"install -d -o walkeeper -g walkeeper -m 0700 {volume}\n" in DOCKERFILE
    assert DOCKERFILE.index("useradd") < DOCKERFILE.index("\nUSER walkeeper\n") < DOCKERFILE.index("\nENTRYPOINT")
    assert "\nEXPOSE 3181\n" in DOCKERFILE
