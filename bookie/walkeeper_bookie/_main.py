"""The command `walkeeper-bookie`: reads options and file into Settings and runs the bookie."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from walkeeper_bookie._exit_status import ExitStatus, help_text
from walkeeper_bookie._printable import printable
from walkeeper_bookie._settings import GROUPS, KEYS, REMOVED, Key, Settings, SettingsError, parse_value, read_settings

HELP = f"""Run a bookie: a server of BookKeeper's protocol on one data directory.

Every setting may stand in the configuration file as well, under the name of its option with _ for -; the command line
counts. At the first start of a new bookie give --init.

SIGTERM ends it when what it accepted is answered; SIGHUP makes it read the settings marked (reloadable) again.

\b
Exit status:
{help_text()}
"""


class BookieCommand(click.Command):
    """A command whose help shows the settings by group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        group_of = {one.name: one.group for one in KEYS}
        for group in ("", *GROUPS):
            shown = [each for each in self.get_params(ctx) if group_of.get(str(each.name), "") == group]
            records = [record for each in shown if (record := each.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(group.capitalize() or "Options"):
                    formatter.write_dl(records)


def option_help(one: Key) -> str:
    """What the help says of a setting; backquotes are for pages."""
    notes = []
    if one.required:
        notes.append("required")
    elif one.default is not None:
        notes.append(f"default {one.default}")
    if one.reloadable:
        notes.append("reloadable")
    words = one.words.replace("`", "")
    return f"{words} [{'; '.join(notes)}]" if notes else words


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each row of the schema, in its order."""
    for one in reversed(KEYS):
        command = click.option(one.option, one.name, metavar=one.kind.metavar, help=option_help(one))(command)
    for name in REMOVED:
        command = click.option(
            "--" + name.replace("_", "-"), hidden=True, expose_value=False, callback=_refuse_removed
        )(command)
    return command


def _refuse_removed(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise SettingsError(f"{option.opts[0]}: there is no such option any more. {REMOVED[str(option.name)]}")


@click.command(
    cls=BookieCommand,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "auto_envvar_prefix": None},
)
@click.option("--config", metavar="FILE", help="A file of settings, in TOML.")
@click.option(
    "--init",
    is_flag=True,
    help="Make what is not there yet: the cluster's layout and instance id, the directory, the cookie. Nothing that is "
    "there is overwritten.",
)
@click.option("--print-config", is_flag=True, help="Write the settings that would count, as a file, and end.")
@with_settings
@click.version_option(package_name="walkeeper")
def command(config: str | None, init: bool, print_config: bool, **options: str | None) -> None:
    settings = read_settings(
        {one.name: parse_value(one, text) for one in KEYS if (text := options[one.name]) is not None},
        None if config is None else Path(config),
    )
    if print_config:
        print_settings(settings)
        return
    importlib.import_module("walkeeper._low_descriptors").occupy_low_descriptors()
    process = importlib.import_module("walkeeper_bookie._process")
    raise click.exceptions.Exit(int(process.run(settings, init=init)))


def settings_file(settings: Settings) -> str:
    """The settings as a configuration file; those that have no value are comments."""
    lines = []
    for one in KEYS:
        value = getattr(settings, one.name)
        if value is None and one.optional:
            lines.append(f"# {one.name} = ")
        else:
            lines.append(f"{one.name} = {one.kind.toml(value)}")
    return "\n".join(lines) + "\n"


def print_settings(settings: Settings) -> None:
    """The file on standard output, in UTF-8 as TOML is, whatever the locale. Raises SettingsError."""
    try:
        click.echo(settings_file(settings).encode(), nl=False)
    except OSError as error:
        raise SettingsError(f"standard output: {error.strerror}") from None


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Until the process has handlers of its own nothing is begun: told to stop, it just ends."""

    def end(number: int, frame: FrameType | None) -> None:
        os._exit(ExitStatus.DRAINED)

    handlers: dict[signal.Signals, Any] = {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGHUP: signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is handlers[number]:
                signal.signal(number, handler)


def main(arguments: list[str] | None = None) -> None:
    """The console script; ends the process with a status of ExitStatus."""
    try:
        with ended_by_signals():
            status = command.main(arguments, prog_name="walkeeper-bookie", standalone_mode=False)
    except SettingsError as error:
        click.echo(f"walkeeper-bookie: {printable(str(error))}", err=True)
        status = ExitStatus.WRONG_USE
    except click.ClickException as error:
        error.show()
        status = ExitStatus.WRONG_USE
    except click.Abort:
        status = ExitStatus.UNEXPECTED
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = ExitStatus.UNEXPECTED
    sys.exit(int(status or 0))
