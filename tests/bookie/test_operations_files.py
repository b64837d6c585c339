"""The unit, the Dockerfile and the page for operators name options, statuses and commands that there are."""

from __future__ import annotations

import re
from pathlib import Path

from walkeeper_bookie._exit_status import MEANINGS, ExitStatus
from walkeeper_bookie._settings import KEYS
from walkeeper_bookie.commands import COMMANDS

OPERATIONS = Path(__file__).resolve().parents[2] / "docs/operations"
FILES = [OPERATIONS / name for name in ("bookie.md", "walkeeper-bookie.service", "Dockerfile")]
OPTIONS = {one.option for one in KEYS} | {"--config", "--init", "--print-config", "--help"}
OF_COMMANDS = {"--bookie-id", "--metadata", "--data", "--http", "--all", "--force", "--reason", "--entries"}


def test_every_option_that_is_named_is_one() -> None:
    for path in FILES:
        for line in path.read_text().splitlines():
            foreign = re.match(r"(RUN|COPY|#   docker| +&&| +pip install)", line)
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
    unit = (OPERATIONS / "walkeeper-bookie.service").read_text()
    prevented = re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
    assert prevented is not None
    final = {ExitStatus.WRONG_USE, ExitStatus.OTHER_IDENTITY, ExitStatus.DISK_FAILED}
    assert {ExitStatus(int(status)) for status in prevented[1].split()} == final
    assert {status for status, (_, remedy) in MEANINGS.items() if "changes nothing" in remedy} <= final


def test_systemd_waits_for_longer_than_the_bookie_drains() -> None:
    unit = (OPERATIONS / "walkeeper-bookie.service").read_text()
    assert "\nType=notify\n" in unit
    assert "\nTimeoutStopSec=2min\n" in unit
    assert next(one for one in KEYS if one.name == "drain_timeout").default == "30s"
