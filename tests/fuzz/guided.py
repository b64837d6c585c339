"""One parser in Python, fuzzed by coverage (atheris, that is libFuzzer): python -m tests.fuzz.guided NAME SECONDS.

What it learns is kept in build/fuzz/learned/python_NAME, what it finds in build/fuzz/found/python_NAME: its bytes.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import FunctionType

import atheris
import tomllib

from tests.fuzz.parsers import PARSERS, WORDS, check

WATCHED = ("walkeeper.metadata", "walkeeper_bookie", tomllib.__name__)
BUILD = Path(__file__).resolve().parents[2] / "build" / "fuzz"


def instrument() -> None:
    """What is loaded already: how an editable installation loads modules, atheris' import hook does not know."""
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and found.__module__ and found.__module__.startswith(WATCHED):
            atheris.instrument_func(found)


def main(name: str, seconds: str) -> None:
    parser = PARSERS[name]
    learned, found = BUILD / "learned" / f"python_{name}", BUILD / "found" / f"python_{name}"
    for place in (learned, found):
        place.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(parser.seeds):
        (learned / f"seed-{number}").write_bytes(seed)
    words = learned.with_suffix(".words")
    words.write_text("".join(f'"{escaped(word)}"\n' for word in WORDS if len(word) <= 64))
    options = [f"-max_total_time={float(seconds):.0f}", "-max_len=4096", "-timeout=10"]
    options += [f"-artifact_prefix={found}/", f"-dict={words}"]
    instrument()
    atheris.Setup([sys.argv[0], *options, str(learned)], lambda data: check(parser, data))
    atheris.Fuzz()


def escaped(word: bytes) -> str:
    """A word as libFuzzer's dictionaries have it."""
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main(*sys.argv[1:])
