"""Opening a directory for a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import walkeeper
from walkeeper._namespace import is_cluster
from walkeeper.cli._main import DAMAGED, Refusal
from walkeeper.directory._paths import journal_of
from walkeeper.errors import DamagedError

LOCK_TIMEOUT_S = 1.0
"""How long a writing command waits for the lock: longer than the kernel needs to finish a killed process's writes."""


class Place(click.Path):
    """A path on the command line. An empty one is none: it would be the current directory."""

    def __init__(self, **options: bool) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("an empty path names nothing", param, ctx)
        if isinstance(value, str) and is_cluster(value) and not os.path.lexists(value):
            self.fail(f"{value!r} is the URI of a cluster; this command takes a path", param, ctx)
        try:
            os.stat(value)
        except (FileNotFoundError, NotADirectoryError):
            pass  # click says so where it must be there
        except (OSError, ValueError) as error:
            self.fail(f"{str(value)!r}: {getattr(error, 'strerror', error)}", param, ctx)
        return super().convert(value, param, ctx)


JOURNAL = "walkeeper.journal"
"""In click's `meta`: where the journal directory is, as the caller says."""


NAMESPACE = "walkeeper.namespace"
"""In click's `meta`: which namespace of a cluster, as the caller says."""


class NamespacePlace(Place):
    """A directory, as a path; or a cluster, as the URI of its metadata store, which stays a str."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and is_cluster(value):
            if ctx is not None and ctx.meta.get(JOURNAL) is not None:
                raise click.UsageError("--journal is for a directory: bookies keep their own journals", ctx)
            return value
        if isinstance(value, str) and "://" in value and not value.startswith((".", "/")):
            known = "sqlite:PATH, zk://HOST:PORT/ledgers and etcd://HOST:PORT/SCOPE; write ./ before a path"
            self.fail(f"{value!r} is no URI of a cluster: those are {known}", param, ctx)
        if ctx is not None and ctx.meta.get(NAMESPACE) is not None:
            raise click.UsageError("--namespace is for a cluster: a directory is one namespace", ctx)
        return super().convert(value, param, ctx)


def _note_namespace(context: click.Context, _: click.Parameter, told: str | None) -> None:
    context.meta[NAMESPACE] = told


namespace_option = click.option(
    "--namespace",
    metavar="NAME",
    is_eager=True,  # the place is checked against it
    expose_value=False,
    callback=_note_namespace,
    help="Which namespace of a cluster. [default: default]",
)


def _note_journal(context: click.Context, _: click.Parameter, told: Path | None) -> None:
    context.meta[JOURNAL] = told


journal_option = click.option(
    "--journal",
    metavar="JDIR",
    type=Place(exists=True, file_okay=False),
    is_eager=True,  # as --namespace
    expose_value=False,
    callback=_note_journal,
    help="Where the journal directory of DIR is now, if it has one; by default where it was last.",
)


def directory(command: Any) -> Any:
    """The directory that a command is about, which is there; and where its journal is."""
    return click.argument("directory", metavar="DIR", type=Place(exists=True, file_okay=False))(journal_option(command))


def namespace_place(command: Any) -> Any:
    """The namespace that a command is about, which is there: a directory, or one of a cluster."""
    place = NamespacePlace(exists=True, file_okay=False)
    return click.argument("directory", metavar="DIR|URI", type=place)(namespace_option(journal_option(command)))


def namespace_place_to_be(command: Any) -> Any:
    """The same, but it may not be there yet."""
    place = NamespacePlace(file_okay=False)
    return click.argument("directory", metavar="DIR|URI", type=place)(namespace_option(journal_option(command)))


def told_journal() -> Path | None:
    """Where the journal directory is, as the caller says; None: it is to be looked for."""
    told: Path | None = click.get_current_context().meta.get(JOURNAL)
    return told


def journal_place(path: Path) -> Path | None:
    """Where the journal directory is, as the caller says, or else as the directory itself does; None: it has none."""
    if (told := told_journal()) is not None:
        return told
    known = journal_of(path)
    return None if known is None else Path(known)


def journal_options(path: Path) -> dict[str, Any]:
    """The option of walkeeper.open that names the journal directory, for a directory that has one."""
    named = journal_place(path)
    return {} if named is None else {"journal": named}


directory_to_be = click.argument("directory", metavar="DIR", type=Place(file_okay=False))
plain_directory = click.argument("directory", metavar="DIR", type=Place(exists=True, file_okay=False))
destination = click.argument("destination", metavar="DEST", type=Place())
log_name = click.argument("log", metavar="LOG")
json_flag = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


@contextmanager
def reading(path: Path | str) -> Iterator[walkeeper.Namespace]:
    """The directory, or the cluster, read-only; no lock is taken.

    Where it is damaged, what can be read is shown, with a word about it, and gaps for the rest. Where opening meets the
    damage, and it is in use besides, or without a superblock, that is refused.
    """
    with open_to_read(path) as namespace:
        yield namespace


def open_to_read(path: Path | str) -> walkeeper.Namespace:
    if isinstance(path, str):
        return walkeeper.open(path, create=False, read_only=True, **_of_the_cluster())
    namespace = walkeeper.open(path, create=False, read_only=True, on_damage="skip", **journal_options(path))
    report = namespace.recovery()
    if (
        report.damaged_blocks
        or report.lost_files
        or report.lost_entries
        or report.lost_records
        or report.catalogue_lost
    ):
        click.echo(f"walkeeper: damaged, what can be read is shown: {damage_of(path)}", err=True)
        click.get_current_context().meta[DAMAGED] = True
    return namespace


def _of_the_cluster() -> dict[str, Any]:
    told: str | None = click.get_current_context().meta.get(NAMESPACE)
    return {"namespace": "default" if told is None else told}


def damage_of(path: Path) -> str:
    """What an open says that accepts none."""
    try:
        walkeeper.open(path, create=False, read_only=True, **journal_options(path)).close()
    except DamagedError as damage:
        return str(damage)
    return f"a file is missing. `walkeeper recover {path} DESTINATION` salvages the rest into a copy"


def check_destination(source: Path, destination: Path) -> None:
    """Refuses a destination that exists, lies inside the source, or is no name."""
    if os.path.lexists(destination):
        raise Refusal(f"{destination} exists", "name a path that does not: the copy is made there")
    if destination.name == "..":
        raise Refusal(f"{destination} does not exist", "DEST ends with the name of a directory that is made")
    if source.resolve() in destination.resolve().parents:
        raise Refusal(f"{destination} is inside {source}", "name a path outside: DIR itself is left as it is")


@contextmanager
def writing(path: Path | str, *, create: bool = False, **options: Any) -> Iterator[walkeeper.Namespace]:
    """The directory, or the cluster, for writing. DirectoryLockedError names the process that holds it."""
    if isinstance(path, str):
        with walkeeper.open(path, create=create, **_of_the_cluster()) as namespace:
            yield namespace
        return
    options.setdefault("lock_timeout", LOCK_TIMEOUT_S)
    with walkeeper.open(path, create=create, **journal_options(path), **options) as namespace:
        yield namespace
