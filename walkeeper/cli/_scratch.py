"""A directory that a command has for itself, and that is gone when it ends: whatever ends it."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from walkeeper.cli._main import Refusal
from walkeeper.cli._show import printable


class Interrupts:
    """Ctrl-C while there is something to be removed: the first one is told, once nothing is held; others are not."""

    def __init__(self) -> None:
        self.held = True
        self.came = False
        self.told = False

    def __call__(self, *_: object) -> None:
        self.came = True
        self.tell()

    def tell(self) -> None:
        if self.came and not self.told and not self.held:
            self.told = True
            raise KeyboardInterrupt


@contextmanager
def interrupted_once() -> Iterator[Interrupts]:
    """Held from the start. Where Ctrl-C is ignored, or somebody else's, it stays so."""
    interrupts = Interrupts()
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.held = False
    interrupts.tell()


@contextmanager
def scratch(parent: Path, prefix: str, hint: str) -> Iterator[Path]:
    """A new directory in `parent`, which is made where it is missing. What was made, and is empty then, is removed.

    Refuses where there can be none.
    """
    with interrupted_once() as interrupts:
        made: list[Path] = []
        try:
            try:
                for folder in (*reversed(parent.parents), parent):
                    if not folder.exists():
                        folder.mkdir()
                        made.insert(0, folder)
                place = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            except OSError as error:
                raise Refusal(f"{parent}: {error.strerror}", hint) from error
            try:
                interrupts.held = False
                interrupts.tell()
                yield place
            finally:
                interrupts.held = True
                shutil.rmtree(place, ignore_errors=True)
                if place.exists():
                    click.echo(f"walkeeper: {printable(str(place))} could not be removed", err=True)
        finally:
            remove_empty(made)


def remove_empty(folders: list[Path]) -> None:
    """Up to the first one that is not."""
    try:
        for folder in folders:
            folder.rmdir()
    except OSError:
        pass  # what was to be made is in it
