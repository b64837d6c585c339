"""checkpoint: checkpoints of Spark's Structured Streaming in the files of a gateway, for operators.

Looking reads the log of a root at one position, beside whichever gateway has it. Changing goes through a gateway.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path as LocalPath
from typing import Any

import click

from walkeeper import Namespace
from walkeeper.cli._checkpoint_copy import (
    Advance,
    Changed,
    CutSource,
    LocalSource,
    copy_to_gateway,
    copy_to_local,
)
from walkeeper.cli._checkpoint_findings import verified
from walkeeper.cli._checkpoint_inspection import inspected, inspection_tables
from walkeeper.cli._checkpoint_layout import object_of, of_file, query_id_of
from walkeeper.cli._directory import (
    LOCK_TIMEOUT_S,
    NAMESPACE,
    NamespacePlace,
    Place,
    journal_option,
    journal_options,
    json_flag,
    namespace_option,
    reading,
)
from walkeeper.cli._ledgers import moment
from walkeeper.cli._main import EXIT_DAMAGED, Refusal, holder, in_options
from walkeeper.cli._show import counted, printable, show, size, table
from walkeeper.errors import DirectoryLockedError, Error, LogNotFoundError, NotFoundError
from walkeeper.gateway import Gateway
from walkeeper.gateway._cut import Cut, at_a_cut
from walkeeper.gateway._file_client import FileClient
from walkeeper.gateway._file_tree import Directory, File
from walkeeper.gateway._path import Path, log_of, parse, root_of, shown

SCHEME = "walkeeper:"
SERVED_SECONDS = 30.0
"""A reader of a cluster learns so late, at most, of what another process wrote."""


def file_path(value: str) -> Path:
    """The path of a file or directory behind a gateway; walkeeper:///app/query is one, too. Raises BadParameter."""
    text = value.removeprefix(SCHEME)
    if text != value and text.startswith("//"):
        authority, slash, below = text[2:].partition("/")
        if authority:
            raise click.BadParameter(f"{value!r} names a gateway: write /{below}, and --gateway where it is needed")
        text = slash + below
    try:
        found = parse(text.rstrip("/") or "/")
    except Error as wrong:
        raise click.BadParameter(str(wrong)) from None
    if not found:
        raise click.BadParameter(f"{value!r} is no checkpoint: /ROOT/NAME")
    return found


def root_argument(*, exists: bool) -> Callable[[Any], Any]:
    """The namespace that has the files: what walkeeper.open takes."""

    def with_root(command: Any) -> Any:
        place = NamespacePlace(exists=exists, file_okay=False)
        return click.argument("root", metavar="ROOT", type=place)(namespace_option(journal_option(command)))

    return with_root


def path_argument(name: str = "path", *, required: bool = True) -> Callable[[Any], Any]:
    metavar = name.upper() if required else f"[{name.upper()}]"
    return click.argument(name, metavar=metavar, type=file_path, required=required)


def changing_options(command: Any) -> Any:
    """Who makes a change: a gateway that runs, or one that this command starts for as long as it takes."""
    file = click.Path(exists=True, dir_okay=False, path_type=LocalPath)
    for option in (
        click.option("--take-over", is_flag=True, help="Of a cluster: also where another gateway has the root."),
        click.option("--tls-ca", type=file, help="The gateway speaks TLS; PEM of who signed its certificate."),
        click.option("--token-file", type=file, help="A file whose first line is the token of that gateway."),
        click.option("--gateway", metavar="ADDRESS", help="The gateway that has ROOT: HOST:PORT, or unix:PATH."),
    ):
        command = option(command)
    return command


batch_option = click.option(
    "--batch", type=click.IntRange(0), metavar="N", help="As it was when batch N was committed: N + 1 comes next."
)


@click.group()
def checkpoint() -> None:
    """Look at, copy and check checkpoints of Spark's Structured Streaming.

    ROOT is the namespace that has the files: a directory, or the URI of a cluster. PATH is the location of the
    checkpoint, behind walkeeper://: /app/digits. Looking fences nobody, and works while a gateway has ROOT.
    """


# ---- looking ----


@checkpoint.command("ls")
@root_argument(exists=True)
@path_argument(required=False)
@click.option("-R", "--recursive", is_flag=True, help="Also what is below the directories.")
@json_flag
def ls(root: LocalPath | str, path: Path | None, recursive: bool, as_json: bool) -> None:
    """The files at PATH, or the roots: bytes, time of the last change (UTC), name."""
    with reading(root) as namespace:
        names = [path[0]] if path else _roots(namespace)
        rows = [row for name in names for row in at_a_cut(namespace, name, lambda cut: _rows(cut, path, recursive))]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    if not rows:
        click.echo("no files", err=True)
        return
    shown_rows = table(">bytes", "changed", "name")
    for row in rows:
        is_file = row["kind"] == "file"
        name = row["path"] + ("" if is_file else "/")
        shown_rows.add_row(f"{row['bytes']:,}" if is_file else "-", moment(row["modified_ms"]), printable(name))
    show(shown_rows)
    for name in names:
        of_root = [row["sequence_id"] for row in rows if parse(row["path"])[0] == name]
        if of_root:
            click.echo(f"walkeeper: /{printable(name)} as of record {of_root[0]}", err=True)


def _roots(namespace: Namespace) -> list[str]:
    return [name for log in namespace.logs("files/") if (name := root_of(log)) is not None]


def _rows(cut: Cut, path: Path | None, recursive: bool) -> list[dict[str, Any]]:
    """What is told of each entry, by path."""
    if path is None and cut.tree.at((cut.root,)) is None:
        return []  # all of it was deleted
    place = path or (cut.root,)
    found = cut.at(place)
    below: list[tuple[Path, Directory | File]]
    if recursive:
        entries: list[tuple[Path, Directory | File]] = [*cut.tree.directories(), *cut.tree.files()]
        below = [(at, entry) for at, entry in entries if at[: len(place)] == place and at != place]
        if path is None or isinstance(found, File):
            below.append((place, found))
    elif path is None or isinstance(found, File):
        below = [(place, found)]
    else:
        below = [((*place, name), entry) for name, entry in found.children.items()]
    return [
        {
            "path": shown(at),
            "kind": "file" if isinstance(entry, File) else "directory",
            "bytes": entry.size if isinstance(entry, File) else 0,
            "modified_ms": entry.modified_ms,
            "sequence_id": cut.sequence_id,
        }
        for at, entry in sorted(below)
    ]


@checkpoint.command("inspect")
@root_argument(exists=True)
@path_argument()
@json_flag
def inspect(root: LocalPath | str, path: Path, as_json: bool) -> None:
    """What the checkpoint at PATH says: query, batches, sources, state, owner, space."""
    with reading(root) as namespace:
        told = at_a_cut(namespace, path[0], lambda cut: inspected(cut, path))
    if as_json:
        click.echo(json.dumps(told))
    else:
        show(*inspection_tables(told))


@checkpoint.command("verify")
@root_argument(exists=True)
@path_argument(required=False)
@json_flag
def verify(root: LocalPath | str, path: Path | None, as_json: bool) -> None:
    """Read every record and file of the root of PATH, or of all roots, and check that Spark can go on from it.

    Exit status 0: clean. 1: something is wrong; each finding is a line. Files outside PATH are left out.
    """
    rows: list[dict[str, Any]] = []
    with reading(root) as namespace:
        names = [path[0]] if path else _roots(namespace)
        for name in names:
            place = path or (name,)

            def read(cut: Cut, place: Path = place, chosen: bool = path is not None) -> dict[str, Any]:
                if chosen:
                    cut.at(place)
                total = sum(file.size for at, file in cut.tree.files() if at[: len(place)] == place)
                with progress("verify", total) as advance:
                    return {"path": shown(place), **asdict(verified(cut, place, advance))}

            rows.append(at_a_cut(namespace, name, read, tolerant=True))
    for row in rows:
        if as_json:
            click.echo(json.dumps(row))
            continue
        for finding in row["findings"]:
            click.echo(printable(finding))
        for left in row["unfinished"]:
            click.echo(f"walkeeper: {printable(left)} was left by an import or a fork that was ended", err=True)
        click.echo(printable(f"{row['path']} as of record {row['sequence_id']}: {_read_of(row)}"))
    if not rows and not as_json:
        click.echo("no files", err=True)
    if any(row["findings"] for row in rows):
        sys.exit(EXIT_DAMAGED)


def _read_of(row: dict[str, Any]) -> str:
    parts = (counted(row["records_count"], "record"), counted(row["files_count"], "file"), size(row["bytes"]))
    found = counted(len(row["checkpoints"]), "checkpoint"), counted(len(row["findings"]), "finding")
    return f"{', '.join(parts)} read; {', '.join(found)}"


# ---- copying ----


@checkpoint.command("export")
@root_argument(exists=True)
@path_argument()
@click.argument("destination", metavar="DEST", type=Place(file_okay=False))
@batch_option
@json_flag
def export(root: LocalPath | str, path: Path, destination: LocalPath, batch: int | None, as_json: bool) -> None:
    """Copy the checkpoint at PATH to the local directory DEST, which does not exist, or is empty.

    Spark goes on from DEST with file://. The copy is as of one record of the log; DEST is there when all of it is.
    """
    made = LocalPath(os.path.realpath(destination))
    if made.is_dir() and any(made.iterdir()):
        raise Refusal(f"{destination} is not empty", "name a directory that is, or that does not exist")
    if isinstance(root, LocalPath) and root.resolve() in (made, *made.parents):
        raise Refusal(f"{destination} is inside {root}", "name a path outside: ROOT itself is left as it is")

    def copy(cut: Cut) -> dict[str, Any]:
        source = CutSource(cut, path, batch)
        with progress("export", source.size) as advance:
            copied = copy_to_local(Changed(source, f"file:{made}"), made, advance)
        return {"path": shown(path), "destination": str(destination), **asdict(copied), **_cut_of(cut, batch)}

    with reading(root) as namespace:
        told = at_a_cut(namespace, path[0], copy)
    _tell(told, "exported to", as_json)


@checkpoint.command("import")
@root_argument(exists=False)
@path_argument()
@click.argument("source", metavar="SOURCE", type=Place(exists=True, file_okay=False))
@changing_options
@json_flag
def import_command(root: LocalPath | str, path: Path, source: LocalPath, as_json: bool, **changing: Any) -> None:
    """Copy the local directory SOURCE, a checkpoint that export or Spark made, to PATH, which does not exist.

    PATH is there when all of it is durable, or not at all. No query may write SOURCE meanwhile.
    """
    _check_has_parent(path)
    found = LocalSource(source)
    with changed_files(root, path, **changing) as (client, begun), progress("import", found.size) as advance:
        changed = Changed(found, SCHEME + shown(path))
        copied = copy_to_gateway(changed, client, path, advance, begun=begun, ended=found.check_unchanged)
    told = {"path": str(source), "destination": shown(path), **asdict(copied)}
    _tell(told, "imported to", as_json)


@checkpoint.command("fork")
@root_argument(exists=True)
@path_argument()
@path_argument("new_path")
@batch_option
@click.option("--keep-query-id", is_flag=True, help="The copy is of the same query, and goes on in its stead.")
@changing_options
@json_flag
def fork(
    root: LocalPath | str,
    path: Path,
    new_path: Path,
    batch: int | None,
    keep_query_id: bool,
    as_json: bool,
    **changing: Any,
) -> None:
    """Copy the checkpoint at PATH to NEW_PATH, which does not exist, as of one record of the log.

    The copy is of a new query, unless --keep-query-id: Spark does not run two queries with one id, and a sink that
    knows batches by the query's id skips those that it has.
    """
    _check_has_parent(new_path)
    if new_path[: len(path)] == path:
        raise Refusal(f"{shown(new_path)} is {shown(path)}, or below it")

    with changed_files(root, new_path, **changing) as (client, begun), reading(root) as namespace:

        def copy(cut: Cut) -> dict[str, Any]:
            source = CutSource(cut, path, batch)
            metadata = _metadata(cut, (*path, "metadata"), keep_query_id)
            changed = Changed(source, SCHEME + shown(new_path), metadata)
            with progress("fork", source.size) as advance:
                copied = copy_to_gateway(changed, client, new_path, advance, begun=begun, ended=lambda: None)
            told = {"path": shown(path), "destination": shown(new_path), **asdict(copied), **_cut_of(cut, batch)}
            return {**told, "query_id": query_id_of(metadata)}

        told = at_a_cut(namespace, path[0], copy)
    _tell(told, "forked to", as_json)


def _check_has_parent(path: Path) -> None:
    if len(path) < 2:
        raise Refusal(f"{shown(path)} is a root: a checkpoint that is copied goes below one, to {shown(path)}/NAME")


def _cut_of(cut: Cut, batch: int | None) -> dict[str, Any]:
    return {"log": log_of(cut.root), "sequence_id": cut.sequence_id, "batch": batch}


def _metadata(cut: Cut, path: Path, keep_query_id: bool) -> bytes:
    """The file `metadata` of the copy."""
    content = cut.content(path)
    with of_file(path):
        query_id_of(content)
        if keep_query_id:
            return content
        told = {**object_of(content.decode()), "id": str(uuid.uuid4())}
    return json.dumps(told, separators=(",", ":")).encode()


def _tell(told: dict[str, Any], how: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(told))
        return
    amount = f"{counted(told['files_count'], 'file')}, {size(told['bytes'])}"
    place = f", as of record {told['sequence_id']} of log {told['log']}" if "sequence_id" in told else ""
    behind = f", behind batch {told['batch']}" if told.get("batch") is not None else ""
    click.echo(printable(f"{told['path']} is {how} {told['destination']}: {amount}{place}{behind}"))
    if "query_id" in told:
        click.echo(f"query id: {printable(told['query_id'])}")


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """A bar for a terminal. Called with the bytes that were done since."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(None), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


# ---- changing ----


@contextmanager
def changed_files(
    root: LocalPath | str,
    target: Path,
    *,
    gateway: str | None,
    token_file: LocalPath | None,
    tls_ca: LocalPath | None,
    take_over: bool,
) -> Iterator[tuple[FileClient, Callable[[Path], None]]]:
    """A client of a gateway of ROOT; and what refuses a directory that was made by it and is not in ROOT."""
    if gateway is None:
        if token_file is not None or tls_ca is not None:
            raise click.UsageError("--token-file and --tls-ca go with --gateway")
        with (
            _own_gateway(root, target[0], take_over) as own,
            FileClient(own.addresses[0], token=own.token) as client,
        ):
            yield client, lambda _: None
        return
    if take_over:
        raise click.UsageError("--take-over goes without --gateway")
    if token_file is None:
        raise click.UsageError("--gateway wants --token-file")
    tls = None if tls_ca is None else ssl.create_default_context(cafile=tls_ca)
    token = token_file.read_text().partition("\n")[0].strip()
    with FileClient(gateway, token=token, tls=tls) as client:
        yield client, lambda made: _check_served(root, gateway, made)


def _check_served(root: LocalPath | str, gateway: str, made: Path) -> None:
    deadline = time.monotonic() + (SERVED_SECONDS if isinstance(root, str) else 0.0)
    while True:
        try:
            with reading(root) as namespace:
                at_a_cut(namespace, made[0], lambda cut: cut.at(made))
            return
        except NotFoundError:
            if time.monotonic() > deadline:
                raise Refusal(f"the gateway at {gateway} serves another root than {root}") from None
        time.sleep(0.1)


@contextmanager
def _own_gateway(root: LocalPath | str, name: str, take_over: bool) -> Iterator[Gateway]:
    options: dict[str, Any] = {}
    if isinstance(root, str):
        told: str | None = click.get_current_context().meta.get(NAMESPACE)
        options = {} if told is None else {"namespace": told}
        if not take_over:
            _check_free(root, name)
    elif take_over:
        raise click.UsageError("--take-over is for a cluster: a directory has one process that writes it")
    else:
        options = {**journal_options(root), "lock_timeout": LOCK_TIMEOUT_S}
    try:
        made = Gateway(root, **options)
    except DirectoryLockedError as locked:
        known = holder(locked.holder_pid) or "another process has it"
        hint = f"{known}; where that is a gateway: --gateway ADDRESS --token-file FILE"
        raise Refusal(in_options(str(locked)), hint) from locked
    with made:
        yield made


def _check_free(root: str, name: str) -> None:
    """Refuses where a gateway has the root: taking it over would fence that one."""
    from walkeeper.cluster._log import ClusterLog

    try:
        with reading(root) as namespace:
            log = namespace.log(log_of(name), create=False)
            assert isinstance(log, ClusterLog)
            document = log._document()
    except (LogNotFoundError, NotFoundError):
        return
    if document.open_segment is not None or document.intent is not None:
        raise Refusal(
            f"a gateway has /{name}, or had it when it was killed: {document.owner}",
            "--gateway ADDRESS --token-file FILE has that gateway do it; --take-over fences it",
        )
