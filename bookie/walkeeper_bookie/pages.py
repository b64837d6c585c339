"""The pages that are made from the code: `python -m walkeeper_bookie.pages docs` writes them, `--check` compares."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from walkeeper_bookie import _exit_status
from walkeeper_bookie._settings import GROUPS, KEYS, Java, Key

__all__ = ["PAGES", "settings_page"]

HEAD = """\
# Settings of a bookie

*Made by `python -m walkeeper_bookie.pages docs` from `bookie/walkeeper_bookie/_settings.py`; do not edit.*

Every setting is an option of `walkeeper-bookie` (`gc_interval` is `--gc-interval`) and a key of the file that
`--config` names. The command line counts before the file, the file before the default.
`walkeeper-bookie … --print-config` writes the file that says what would count.

The file is TOML without tables: `gc_interval = "5min"`. What it does not know it refuses.

* A size has a unit (`B`, `KiB`, `MiB`, `GiB`, `TiB`, or `kB`, `MB`, `GB`, `TB`); a number without one is bytes.
  A rate ends with `/s`.
* A time has a unit (`us`, `ms`, `s`, `min`, `h`, `d`); a number without one is refused.
* *Reload*: SIGHUP makes a running bookie read the file again, and it takes these. Of the others it says that they
  wait for a restart.
* *Java* is the key of `bk_server.conf`; `walkeeper bookie migrate bk_server.conf` writes the file.
"""

COLUMNS = "| setting | value | default | what it does | reload | Java |"

UNITS = {
    "ms": "milliseconds",
    "s": "seconds",
    "B": "bytes",
    "B/s": "bytes a second",
    "KiB": "KiB",
    "MiB": "MiB",
    "fraction": "a fraction of 1",
    "free": "what a used fraction of 1 leaves",
    "": "",
}


def java_cell(java: Java | None) -> str:
    if java is None:
        return ""
    unit = UNITS[java.unit]
    return f"`{java.key}`" + (f" ({unit})" if unit else "")


def default_cell(one: Key) -> str:
    if one.required:
        return "*must be given*"
    return f"`{one.default}`" if one.default is not None else ""


def cell(words: str) -> str:
    """Words in a table."""
    return words.replace("|", "\\|")


def settings_page() -> str:
    """docs/operations/bookie-settings.md."""
    parts = [HEAD]
    for group in GROUPS:
        parts.append(f"## {group.capitalize()}\n\n{COLUMNS}\n|---|---|---|---|---|---|")
        parts += [
            f"| `{one.name}` | {cell(one.kind.name)} | {default_cell(one)} | {cell(one.words)} | "
            f"{'yes' if one.reloadable else ''} | {java_cell(one.java)} |"
            for one in KEYS
            if one.group == group
        ]
        parts.append("")
    parts.append("## Exit statuses\n\n| | what happened | what to do |\n|---|---|---|")
    parts += [f"| {status} | {cell(happened)} | {cell(remedy)} |" for status, happened, remedy in _exit_status.rows()]
    return "\n".join(parts) + "\n"


PAGES = {"operations/bookie-settings.md": settings_page}


@click.command()
@click.argument("docs", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 where a page is not what it should be.")
def main(docs: Path, check: bool) -> None:
    """Write the pages that are made from the code below DOCS."""
    stale = []
    for name, make in PAGES.items():
        path, text = docs / name, make()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        click.echo(f"{docs / name}: {'is not what the code says' if check else 'written'}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
