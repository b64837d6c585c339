"""The root command: finds the subcommands, and turns exceptions into one or two sentences and an exit status."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

import click

from walkeeper._low_descriptors import occupy_low_descriptors

EXIT_DAMAGED = 1
EXIT_CANNOT = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

DAMAGED = "walkeeper.damaged"
"""True in click's `meta` where a command showed what can be read of a damaged directory."""

COMMANDS = {
    "ls": "_reading",
    "cat": "_reading",
    "tail": "_reading",
    "stat": "_reading",
    "append": "_writing",
    "truncate": "_writing",
    "cursor": "_cursor",
    "backup": "_writing",
    "inspect": "_files",
    "verify": "_files",
    "recover": "_salvage",
    "bench": "_bench",
    "doctor": "_doctor",
    "ledgers": "_ledgers",
    "ledger": "_ledgers",
    "bookies": "_ledgers",
    "gateway": "_gateway",
    "checkpoint": "_checkpoint",
}
"""The module of each command; it is imported when the command is called, so that one does not wait for the others."""


class Refusal(click.ClickException):
    """It could not be done: what is said instead of a traceback."""

    exit_code = EXIT_CANNOT

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: Any = None) -> None:
        from walkeeper.cli._show import printable

        click.echo(f"walkeeper: {printable(self.message)}", file=file, err=file is None)
        if self.hint:
            click.echo(f"  {printable(self.hint)}", file=file, err=file is None)


class Damage(Refusal):
    """What was looked at is damaged."""

    exit_code = EXIT_DAMAGED


class Commands(click.Group):
    """Loads its subcommands when they are asked for; other packages add some by the entry points walkeeper.commands."""

    added_by: ClassVar[str] = "walkeeper.commands"

    def list_commands(self, ctx: click.Context) -> list[str]:
        added = {point.name for point in entry_points(group=self.added_by) if is_there(point)}
        return [*COMMANDS, *sorted(added - COMMANDS.keys())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            found = getattr(importlib.import_module(f"walkeeper.cli.{COMMANDS[cmd_name]}"), cmd_name)
        else:
            points = [point for point in entry_points(group=self.added_by, name=cmd_name) if is_there(point)]
            found = points[0].load() if points else None
        assert found is None or isinstance(found, click.Command)
        return found

    def make_context(self, *given: Any, **options: Any) -> click.Context:
        if sys.stdout is None:
            raise Refusal("the output is closed: there is nowhere to write to")
        with guarded():
            return super().make_context(*given, **options)

    def invoke(self, ctx: click.Context) -> None:
        with guarded():
            super().invoke(ctx)
            sys.stdout.flush()
        if ctx.meta.get(DAMAGED):
            ctx.exit(EXIT_DAMAGED)

    def main(self, *given: Any, **options: Any) -> Any:
        """As click's, with our exit statuses: also where what is to be said of it cannot be written."""
        try:
            status = super().main(*given, **{**options, "standalone_mode": False})
        except click.Abort:
            status = EXIT_INTERRUPTED
        except click.ClickException as error:
            status = error.exit_code if isinstance(error, Refusal) else EXIT_CANNOT
            try:
                error.show()
            except OSError:
                discard(sys.stderr)
        sys.exit(status)


def is_there(point: EntryPoint) -> bool:
    """Whether its package can be imported: one wheel names the commands of several packages, of which some may be left
    out where it was installed. Nothing is imported to find out."""
    return importlib.util.find_spec(point.module.partition(".")[0]) is not None


@contextmanager
def guarded() -> Iterator[None]:
    """Turns what a command raises into a Refusal or an exit status; with WALKEEPER_DEBUG=1 only Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        discard(sys.stdout)
        raise click.exceptions.Exit(EXIT_BROKEN_PIPE) from None
    except (click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename == Output.NAME:
            discard(sys.stdout)
        refusal = None if os.environ.get("WALKEEPER_DEBUG") == "1" else refusal_of(error)
        if refusal is None:
            raise
        raise refusal from error


def refusal_of(error: Exception) -> Refusal | None:
    """What to say of an exception that users can do something about; None for one that is a defect."""
    from walkeeper import errors

    if isinstance(error, errors.DirectoryLockedError):
        return Refusal(in_options(str(error)), holder(error.holder_pid) or "stop the process that writes it")
    if isinstance(error, errors.Error):
        damaged = isinstance(error, (errors.DamagedError, errors.CorruptError))
        hint = HINTS.get(type(error).__name__, error.hint)
        if damaged and REMEDY.search(str(error)):
            hint = None
        return (Damage if damaged else Refusal)(in_options(str(error)), hint)
    if isinstance(error, OSError):
        said = error.strerror or str(error)
        return Refusal(f"{os.fsdecode(error.filename)}: {said}" if error.filename else said)
    return None


HINTS: dict[str, str | None] = {
    "CursorHoldsError": "walkeeper cursor set moves the cursor forward, walkeeper cursor delete deletes it; "
    "--force truncates all the same",
    "CursorNotFoundError": "walkeeper cursor ls lists the cursors",
    "DamagedError": "walkeeper verify shows the extent; walkeeper recover salvages what can be read",
    "TruncatedError": "--from start begins with the first record that is left",
    "WouldBlockError": None,
}
"""What can be done on the command line about an error whose own hint speaks to programs."""

REMEDY = re.compile(r"\b[Rr]estore |`walkeeper recover")
"""In what is said of damage: the remedy is named."""

WORDS = (
    ("; open it with create to make it", ""),
    (": close it there, or open it here with read_only to follow it", ""),
    ("truncate with force", "truncate with --force"),
    (", or open it with kind ledgers", ""),
)
"""What the engine says to programs, and how the command line says it."""


def in_options(said: str) -> str:
    for words, ours in WORDS:
        said = said.replace(words, ours)
    return said


def holder(pid: int | None) -> str:
    """Which process holds the directory; empty where that is not known."""
    if pid is None:
        return ""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            words = file.read().rstrip("\0").replace("\0", " ")
    except OSError:
        words = ""
    program = f": {words:.120}" if words else ""
    return f"it is held by process {pid}{program}"


class Output(io.FileIO):
    """The output: an error of it says so, and not only what the matter is."""

    NAME: ClassVar[str] = "writing the output"

    def write(self, some: Any, /) -> int:
        try:
            return super().write(some)
        except OSError as error:
            error.filename = self.NAME
            raise


def told_apart(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """The same output, whose errors say that they are its."""
    raw = Output(stream.fileno(), "w", closefd=False)
    lines, at_once = stream.line_buffering, stream.write_through
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, line_buffering=lines, write_through=at_once)


def discard(stream: Any) -> None:
    """Nobody can read this stream any more; what is still buffered must not fail once again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="walkeeper", prog_name="walkeeper")
def commands() -> None:
    """Look at, use and check walkeeper directories, and the ledgers of a cluster of bookies.

    Exit status: 0 done; 1 damage was found, or records are missing; 2 it could not be done; 130 Ctrl-C; 141 the reader
    of the output went away.
    """


def main() -> None:
    """The console script."""
    occupy_low_descriptors()
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout = told_apart(sys.stdout)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(
                    errors="backslashreplace"
                )  # names need not be text, nor the locale be able to show it
        commands(prog_name="walkeeper")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception:
        traceback.print_exc()
        sys.exit(EXIT_CANNOT)  # and not the status of damage, which is Python's for a traceback
    finally:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # what is left to be interrupted is the end of Python
