"""The parsers in Python and bytes for them: only the error that they name may come out, and what is read is written and
read the same.

    python -m tests.fuzz.parsers [SECONDS [JOBS [NAME...]]]    all of them or these, for so long each
    python -m tests.fuzz.parsers NAME SECONDS [SEED]           one, by mutation alone

A finding is a traceback, with the seed and the bytes.
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from walkeeper.metadata import Cookie, Layout, LedgerMetadata, LedgerState, MetadataError, ServiceInfo
from walkeeper_bookie._config_file import values_in
from walkeeper_bookie._kinds import Address
from walkeeper_bookie._main import settings_file
from walkeeper_bookie._migration import migrated
from walkeeper_bookie._settings import BY_NAME, KEYS, Settings, SettingsError

BOOKIES = ("127.0.0.1:3181", "b.example:3182", "c_3")
OPEN = LedgerMetadata(3, 3, 3, {0: BOOKIES, 9: BOOKIES}, custom_metadata={"k": b"\0v"}, ctime=5, ctoken=6)
CLOSED = LedgerMetadata(3, 3, 3, {0: BOOKIES}, LedgerState.CLOSED, 100, 9, password=b'\t"\xff')
WORDS = [
    b"\t",
    b"\n",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"#",
    b":",
    b"-1",
    b"0x",
    b"\xff" * 9,
    b"segment",
    b"\\400",
    b" = ",
    b"\\u",
    b"'''",
    b'"""',
    b"[" * 99,
    b"1979-05-27T07:32:00Z",
    b"inf",
    b"9" * 99,
    b"9" * 400,
    b"0x" + b"f" * 4000,
    b"e13181880",
    b"e-13181880",
    b"0.999999999",
    b"3." + b"3" * 22,
    b"e-9",
]


@dataclass(frozen=True)
class Parser:
    """`parse` raises `refusal` and nothing else; what it gives is written by `serialise`, and read the same again."""

    parse: Callable[[bytes], Any]
    serialise: Callable[[Any], bytes]
    seeds: tuple[bytes, ...]
    refusal: type[Exception] = MetadataError


def parse_ledger_metadata(data: bytes) -> LedgerMetadata:
    """Without the creator's token, which is read in version 2 and, as by BookKeeper, not written."""
    found = LedgerMetadata.parse(data)
    return found if found.format_version == 3 else replace(found, ctoken=None)


HERE = Path("bookie.toml")


def write_values(values: Mapping[str, Any]) -> bytes:
    """A configuration file that says the same."""
    return "".join(f"{name} = {BY_NAME[name].kind.toml(value)}\n" for name, value in values.items()).encode()


def migrate(data: bytes) -> dict[str, Any]:
    """What bk_server.conf means to a bookie: the file that is written for it must be one that it reads, and where
    nothing is left to be done, one that it runs by."""
    made = migrated(data.decode("latin-1"))
    try:
        values = values_in(HERE, made.toml.encode())
        assert made.warnings or Settings(**values)
    except SettingsError as refused:
        raise AssertionError(f"a file was written that is refused: {refused}") from refused
    return values


CONF = b"""\
# a comment
bookiePort=3181
advertisedAddress = b1.example.org
zkServers=zk1:2181,zk2
zkLedgersRootPath: /bk/ledgers
ledgerDirectories=/disk1/bk,\\
   /disk2
gcWaitTime 900000
diskUsageThreshold=0.95
nettyMaxFrameSizeBytes=5242880
httpServerEnabled=true
httpServerPort=8\\u0030
"""
CONFIG = b"""\
metadata = "sqlite:/var/lib/m.db"
listen = '0.0.0.0:3181'
gc_interval = "5min"
disk_read_only_percent = 7.5
memtable = "64MiB" # comment
reads_max = 10_000
"""
NOTHING_LEFT = b"""\
advertisedAddress=b1.example.org
zkServers=zk1:2181,zk2/chroot
ledgerDirectories=/disk1/bk
journalDirectory=/disk2
minorCompactionInterval=0
zkTimeout=20000
"""
EVERY_KEY = settings_file(Settings(metadata="memory:", listen=Address("::1", 3181), data="/d")).encode()
EVERY_JAVA_KEY = CONF + "".join(f"{one.java.key}=0.5\n" for one in KEYS if one.java).encode()

PARSERS: dict[str, Parser] = {
    "ledger_metadata": Parser(
        parse_ledger_metadata,
        lambda metadata: metadata.serialise(metadata.format_version),
        tuple(made.serialise(version) for made in (OPEN, CLOSED) for version in (1, 2, 3)),
    ),
    "cookie": Parser(
        Cookie.parse,
        Cookie.serialise,
        (Cookie("b:1", ("/j", "/k"), ("/l", "/m"), "id", ("/i",)).serialise(), b"3\nb:1\n/j\n1\t/l\n"),
    ),
    "service_info": Parser(
        ServiceInfo.parse,
        ServiceInfo.serialise,
        (ServiceInfo.of_bookie("127.0.0.1", 3181, tls=True).serialise(),),
    ),
    "layout": Parser(Layout.parse, Layout.serialise, (Layout().serialise(),)),
    "config": Parser(lambda data: values_in(HERE, data), write_values, (CONFIG, EVERY_KEY), SettingsError),
    "migration": Parser(migrate, write_values, (CONF, NOTHING_LEFT, EVERY_JAVA_KEY), SettingsError),
}


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The bytes after some changes."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        at = draw.randrange(len(out) + 1)
        kind = draw.randrange(5)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del out[at : at + draw.randrange(1, 9)]
        elif kind == 2:
            out[at:at] = draw.choice(WORDS)
        elif kind == 3:
            out[at:at] = draw.randbytes(draw.randrange(1, 9))
        else:
            end = draw.randrange(at, len(out) + 1)
            out[at:at] = out[at:end]
    return bytes(out)


def check(parser: Parser, data: bytes) -> bool:
    """Whether it was valid. AssertionError where it is read otherwise the second time."""
    try:
        found = parser.parse(data)
    except parser.refusal:
        return False
    again = parser.parse if parser.parse is not migrate else lambda written: values_in(HERE, written)
    assert again(parser.serialise(found)) == found
    return True


def run(parser: Parser, seed: int, goes_on: Callable[[int], bool]) -> int:
    """Mutates without a look at what is reached. How many of the texts were valid."""
    draw = random.Random(seed)
    count = valid = 0
    while goes_on(count):
        data = mutated(draw.choice(parser.seeds), draw)
        try:
            valid += check(parser, data)
        except BaseException:
            print(f"seed {seed}, text {count}: {data!r}", file=sys.stderr)
            raise
        count += 1
    print(f"seed {seed}: {count} texts, {valid} of them valid")
    return valid


def fuzz_all(seconds: float, jobs: int, names: Collection[str] = ()) -> int:
    """Each parser, or each named one, in a process of its own. The exit status.

    Coverage guides them where atheris is installed, as in CI."""
    module = "tests.fuzz.guided"
    if importlib.util.find_spec("atheris") is None:
        if os.environ.get("CI") == "true":
            print("atheris is not installed: nothing was fuzzed", file=sys.stderr)
            return 1
        print("atheris is not installed: mutated without a look at what is reached", flush=True)
        module = "tests.fuzz.parsers"

    def fuzz(name: str) -> bool:
        command = [sys.executable, "-m", module, name, str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        lines = done.stdout.splitlines()
        print(
            "\n".join(f"{name}: {line}" for line in (lines[-1:] if done.returncode == 0 else lines[-40:])), flush=True
        )
        return done.returncode == 0

    with ThreadPoolExecutor(jobs) as pool:
        return 0 if all(list(pool.map(fuzz, names or PARSERS))) else 1


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in PARSERS:
        end = time.monotonic() + float(arguments[1])
        seed = int(arguments[2]) if len(arguments) > 2 else time.time_ns()
        run(PARSERS[arguments[0]], seed, lambda _: time.monotonic() < end)
        return 0
    seconds, jobs = float(arguments[0]) if arguments else 10.0, int(arguments[1]) if len(arguments) > 1 else 1
    return fuzz_all(seconds, jobs, arguments[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
