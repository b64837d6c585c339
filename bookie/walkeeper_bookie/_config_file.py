"""The configuration file: TOML, one key a line, no tables; everything that is not known is refused."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any

from walkeeper_bookie._kinds import WrongValue
from walkeeper_bookie._settings import BY_NAME, REMOVED, SettingsError


def read_file(path: Path) -> dict[str, Any]:
    """The values of a file by the names of their settings. Raises SettingsError, which names file and key."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    return values_in(path, data)


def values_in(path: Path, data: bytes) -> dict[str, Any]:
    """The values in a file's bytes. Raises SettingsError, which names file and key."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: byte {error.start} is not UTF-8, which TOML is") from None
    return {name: value_of(path, name, found) for name, found in parsed(path, text).items()}


def parsed(path: Path, text: str) -> dict[str, Any]:
    """What the TOML says. Raises SettingsError."""
    toml = toml_module()
    try:
        return dict(toml.loads(text))
    except ValueError as error:  # TOMLDecodeError, and a number of more digits than Python converts
        raise SettingsError(f"{path}: this is no TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{path}: brackets too deep in one another; no setting has any") from None


def toml_module() -> Any:
    """Python's parser, from 3.11 on; before that the package it was made of. Raises SettingsError."""
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib
    try:
        import tomli  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise SettingsError(
            "Python 3.10 has no parser of TOML: install tomli, use Python 3.11, or give all on the command line"
        ) from None
    return tomli


def value_of(path: Path, name: str, found: object) -> Any:
    """The value of one key. Raises SettingsError."""
    one = BY_NAME.get(name)
    if name in REMOVED:
        raise SettingsError(f"{path}: {name}: there is no such setting any more. {REMOVED[name]}")
    if one is None:
        raise SettingsError(f"{path}: {name}: there is no such setting. {hint_for(name, found)}")
    try:
        return one.kind.take(found)
    except WrongValue as wrong:
        raise SettingsError(f"{path}: {name} is {shown(found)}: {wrong}") from None


def hint_for(name: str, found: object) -> str:
    """What may have been meant by a key that is not known."""
    if isinstance(found, dict):
        return "The file has no tables: each setting stands by itself"
    same = name.replace("-", "_").lower()
    near = [same] if same in BY_NAME else difflib.get_close_matches(same, BY_NAME, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]}?"
    java = [one.name for one in BY_NAME.values() if one.java and one.java.key.lower() == name.lower()]
    if java:
        return (
            f"That is a key of a Java bookie; here it is {java[0]}. `walkeeper bookie migrate` writes the file for you"
        )
    return "`walkeeper-bookie --help` lists all settings"


def shown(found: object) -> str:
    """A value of TOML, as a message names it: its type, and itself where that is short."""
    types = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "a table",
    }
    kind = types.get(type(found), "a date or a time")
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, int) and abs(found) >= 10**80:  # Python writes no decimal number of over 4,300 digits
        return kind
    return f"{kind}, {found!r}" if isinstance(found, (int, float, str)) and len(repr(found)) <= 80 else kind
