"""The settings of a bookie: one schema, of which the command line, the file, the reference page and the migration from
a Java configuration are made.

A field of `Settings` with its `key(...)` is a row of the schema. The command line beats the file, the file beats the
default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from walkeeper_bookie._kinds import Address, Choice, Count, HostPort, Kind, Percent, Size, Text, Time, WrongValue

MIB = 2**20
FRAME_SIZE_MAX = 5 * MIB + 64 * 1024

# What BookKeeper accepts, less the punctuation that its pattern has by mistake. A folder there is called "readonly".
BOOKIE_ID = r"(?!(?i:readonly|\.|\.\.)$)[A-Za-z0-9:_.\-]{1,255}"


class SettingsError(Exception):
    """A configuration that cannot be used. The text names where it stands, what was found and what to write."""


@dataclass(frozen=True)
class Java:
    """Where a setting comes from in bk_server.conf: the key, and how its number is read.

    `unit` stands behind the number: "ms", "s", "B", "B/s", "KiB", "MiB", "%"; "fraction" is one of 1, "free" what a
    used fraction of 1 leaves, "" the text itself.
    """

    key: str
    unit: str = ""


@dataclass(frozen=True)
class Key:
    """One setting. `default` is as it is written, None where it must be given, or None with `optional`."""

    name: str
    kind: Kind
    default: str | None
    words: str
    group: str
    java: Java | None = None
    reloadable: bool = False
    optional: bool = False

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        return self.default is None and not self.optional


def key(
    kind: Kind,
    default: str | None,
    words: str,
    group: str,
    *,
    java: Java | None = None,
    reloadable: bool = False,
    optional: bool = False,
) -> Any:
    """A field of Settings. Its name is filled in when KEYS is made."""
    made = Key("", kind, default, words, group, java, reloadable, optional)
    if default is not None:
        return field(default=kind.parse(default), metadata={"key": made})
    return field(default=None, metadata={"key": made}) if optional else field(metadata={"key": made})


WHERE = "identity and place"
REQUESTS = "requests"
MEMORY = "memory"
DISK = "disk space"
FILES = "files and background work"
CLUSTER = "cluster"

GROUPS = (WHERE, CLUSTER, REQUESTS, MEMORY, DISK, FILES)


@dataclass(frozen=True)
class Origin:
    """What the settings were made of, to make them again: the file, and what stood on the command line."""

    file: Path | None = None
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `walkeeper-bookie` runs by. Sizes are bytes, times seconds, percentages 0 to 100."""

    metadata: str = key(
        Text(
            "URI", "the URI of a metadata store, such as sqlite:/var/lib/walkeeper/metadata.db", r"[a-z][a-z0-9+.-]*:.*"
        ),
        None,
        "The metadata store of the cluster: `sqlite:PATH`, `zk+hierarchical://HOST:PORT;HOST:PORT/ledgers`, `etcd://HOST:PORT;HOST:PORT/SCOPE`.",
        WHERE,
        java=Java("metadataServiceUri"),
    )
    listen: Address = key(
        HostPort(),
        None,
        "Where the bookie listens. Port 0: any that is free.",
        WHERE,
        java=Java("bookiePort"),
    )
    data: str = key(
        Text("directory", "the path of a directory"),
        None,
        "The data directory; the journal is in it, unless `journal` says otherwise. One bookie has one.",
        WHERE,
        java=Java("ledgerDirectories"),
    )
    journal: str | None = key(
        Text("directory", "the path of a directory"),
        None,
        "A directory for the journal alone, at best on a device of its own. Its files stay there. Decided when the "
        "bookie is made, and given at each start from then on.",
        WHERE,
        java=Java("journalDirectories"),
        optional=True,
    )
    advertise: Address | None = key(
        HostPort(),
        None,
        "What clients are told to connect to, and the bookie's id where `bookie_id` is not given; `listen` where "
        "this is not given. Needed where `listen` is every address (0.0.0.0).",
        WHERE,
        java=Java("advertisedAddress"),
        optional=True,
    )
    bookie_id: str | None = key(
        Text("id", "letters, digits and : _ . - (BookKeeper's rules for a bookie's id)", BOOKIE_ID),
        None,
        "The bookie's name in the cluster, in ledgers and cookies: it never changes, whatever the address becomes.",
        WHERE,
        java=Java("bookieId"),
        optional=True,
    )
    http: Address | None = key(
        HostPort(none="off"),
        "off",
        "Where `/metrics`, `/health`, `/ready` and the switches to read-only and of limbo are served. It has no login: "
        "use loopback.",
        WHERE,
        java=Java("httpServerPort"),
    )
    log_level: str = key(
        Choice(("debug", "info", "warning", "error")),
        "info",
        "What is written to standard error, from this level on.",
        WHERE,
        reloadable=True,
    )

    session_timeout: float = key(
        Time(least=1, most=20 * 86400),
        "10s",
        "After so long without a sign of life the metadata store ends the bookie's registration.",
        CLUSTER,
        java=Java("zkTimeout", "ms"),
    )
    start_timeout: float = key(
        Time(least=0.1),
        "30s",
        "At the start the metadata store is waited for so long. Later it may be away for any time.",
        CLUSTER,
    )
    drain_timeout: float = key(
        Time(),
        "30s",
        "After SIGTERM so long for answers to what was accepted.",
        CLUSTER,
        reloadable=True,
    )
    gc_interval: float = key(
        Time(least=0.05),
        "10min",
        "How often the ledgers here are compared with the metadata: what vanished there in two passes is deleted.",
        CLUSTER,
        java=Java("gcWaitTime", "ms"),
        reloadable=True,
    )
    gc_hold_time: float = key(
        Time(),
        "1d",
        "Where the listing of the whole cluster has less than a quarter of its ledgers left, or none of this bookie, "
        "ledgers that vanished are deleted after this time: see *GC alarm*.",
        CLUSTER,
        reloadable=True,
    )
    gc_tombstone_time: float = key(
        Time(),
        "7d",
        "A deleted ledger's id is refused for so long: a writer that was away must not bring it to life.",
        CLUSTER,
        reloadable=True,
    )

    backend: str = key(
        Choice(("auto", "io_uring", "psync")),
        "auto",
        "How files and sockets are used; `auto`: io_uring where the kernel permits it.",
        REQUESTS,
    )
    reader_threads: int = key(
        Count(1, 64),
        "2",
        "Threads that read from files what is not in memory.",
        REQUESTS,
    )
    connections_max: int = key(
        Count(1, 2**31 - 1),
        "65536",
        "More connections are sent away. Fewer, where the process may not have so many descriptors (LimitNOFILE).",
        REQUESTS,
    )
    connections_per_address_max: int = key(
        Count(1, 2**31 - 1),
        "16384",
        "The same, of one address, so that one that floods leaves room. An IPv6 network of 64 bits is one address.",
        REQUESTS,
    )
    frame_size_max: int = key(
        Size(least=1024, most=FRAME_SIZE_MAX),
        "5MiB",
        "The largest request, its prefix included; an entry is somewhat smaller. The same on all bookies and clients.",
        REQUESTS,
        java=Java("nettyMaxFrameSizeBytes", "B"),
    )
    batch_bytes_max: int = key(
        Size(least=1024, most=FRAME_SIZE_MAX),
        "5MiB",
        "The largest reply to a batch read.",
        REQUESTS,
        java=Java("maxBatchReadSize", "B"),
    )
    reads_max: int = key(
        Count(1, 1_000_000),
        "10000",
        "Reads that wait for a thread, together with fences and lists that wait for the journal, and as many long "
        "polls; more are answered 506 (too many requests). For fences and LACs alone there is an eighth more, and 64 "
        "at least.",
        REQUESTS,
        java=Java("maxPendingReadRequestsPerThread"),
    )
    frame_timeout: float = key(
        Time(least=0.1),
        "30s",
        "A request begun and not finished for so long ends its connection; where others wait for the memory that it "
        "holds, for a 30th of it, and another for each 256 KiB that came. Idle connections live for ever.",
        REQUESTS,
    )
    peer_timeout: float = key(
        Time(least=2, most=86400),
        "2min",
        "A client whose machine vanished is noticed within this, idle or not; so is one that lives and reads nothing "
        "of what fills the buffers. Idle connections of living clients last for ever.",
        REQUESTS,
    )
    poll_timeout_max: float = key(
        Time(least=0.1),
        "60s",
        "A long poll waits no longer than this, whatever it asks for.",
        REQUESTS,
    )
    verify_digest: str = key(
        Choice(("learned", "off")),
        "learned",
        "`learned`: once a ledger's first entry showed that its digest is CRC32C or CRC32, entries that do not match "
        "are refused.",
        REQUESTS,
    )

    memtable: int = key(
        Size(least=MIB),
        "64MiB",
        "What was written last, kept for readers.",
        MEMORY,
        java=Java("skipListSizeLimit", "B"),
    )
    cache: int = key(
        Size(least=MIB),
        "32MiB",
        "Pages of indexes that were read; a quarter is for what is read ahead, up to 256 KiB a ledger.",
        MEMORY,
    )
    range: int = key(
        Size(least=MIB),
        "64MiB",
        "Lists of which files a ledger's entries are in; 48 bytes for each ledger and file.",
        MEMORY,
    )
    sort_memory: int = key(
        Size(most=512 * MIB),
        "128MiB",
        "For a while: files in which the entries of many ledgers stand in turn are sorted in it, four times as much at "
        "once, so that one ledger is read in long stretches; 0: they stay as they are.",
        MEMORY,
    )
    in_flight: int = key(
        Size(least=MIB),
        "32MiB",
        "Accepted and not yet durable; beyond it connections are not read for a while. There is an eighth more for "
        "fences and the adds of recovery alone.",
        MEMORY,
        java=Java("journalMaxMemorySizeMb", "MiB"),
    )
    receive_bytes: int = key(
        Size(least=8 * MIB),
        "256MiB",
        "Of all connections: requests not whole yet, and adds that wait for room.",
        MEMORY,
    )
    reply_bytes: int = key(
        Size(least=8 * MIB),
        "256MiB",
        "Of all connections: replies not sent yet; beyond it reads wait for their turn, as far as `reads_max` allows.",
        MEMORY,
    )

    on_damage: str = key(
        Choice(("stop", "skip")),
        "stop",
        "`stop`: where the journal is damaged the bookie does not start. `skip`: it goes on behind what is lost, with "
        "every ledger in limbo until it was repaired from the other bookies.",
        DISK,
    )
    disk_read_only_free: int = key(
        Size(),
        "256MiB",
        "The bookie becomes read-only when less than this is free ...",
        DISK,
        java=Java("minUsableSizeForEntryLogCreation", "B"),
        reloadable=True,
    )
    disk_read_only_percent: float = key(
        Percent(),
        "5",
        "... or less than this percentage of the disk.",
        DISK,
        java=Java("diskUsageThreshold", "free"),
        reloadable=True,
    )
    disk_writable_free: int = key(
        Size(),
        "384MiB",
        "It becomes writable again when more than this is free ...",
        DISK,
        reloadable=True,
    )
    disk_writable_percent: float = key(
        Percent(),
        "6",
        "... and more than this percentage.",
        DISK,
        java=Java("diskUsageLwmThreshold", "free"),
        reloadable=True,
    )
    disk_recovery_free: int = key(
        Size(),
        "64MiB",
        "Read-only, it goes on taking the adds of recovery and repair while more than this is free.",
        DISK,
        java=Java("minUsableSizeForHighPriorityWrites", "B"),
        reloadable=True,
    )
    disk_check_interval: float = key(
        Time(least=0.05),
        "10s",
        "How often free space is looked at.",
        DISK,
        java=Java("diskCheckInterval", "ms"),
        reloadable=True,
    )

    file_size_min: int = key(
        Size(least=64 * 1024, multiple=4096),
        "4MiB",
        "Journal files start at this size ...",
        FILES,
    )
    file_size_max: int = key(
        Size(least=64 * 1024, most=2**31, multiple=4096),
        "64MiB",
        "... and double up to this. Sealed ones are the storage of their entries.",
        FILES,
    )
    block_size_max: int = key(
        Size(least=4096, most=4 * MIB, multiple=4096),
        "512KiB",
        "What is written at once, at most.",
        FILES,
        java=Java("journalBufferedWritesThreshold", "B"),
    )
    deferred_max_delay: float = key(
        Time(least=0.001),
        "100ms",
        "An add with the write flag DEFERRED_SYNC is durable after this at the latest.",
        FILES,
    )
    lock_timeout: float = key(
        Time(),
        "10s",
        "At the start another process is given so long to let go of the directory.",
        FILES,
    )
    compact_rate: int = key(
        Size(least=64 * 1024, suffix="/s"),
        "64MiB/s",
        "What compaction and sorting may copy; sorting a quarter of it while entries are added.",
        FILES,
        java=Java("compactionRateByBytes", "B/s"),
    )
    minor_percent: int = key(
        Percent(whole=True),
        "20",
        "Files with less alive than this are compacted; 0: none, but for those with less than a tenth ...",
        FILES,
        java=Java("minorCompactionThreshold", "fraction"),
    )
    minor_interval: float = key(
        Time(least=1),
        "1h",
        "... this often;",
        FILES,
        java=Java("minorCompactionInterval", "s"),
    )
    major_percent: int = key(
        Percent(whole=True),
        "80",
        "and with less than this; 0: none ...",
        FILES,
        java=Java("majorCompactionThreshold", "fraction"),
    )
    major_interval: float = key(
        Time(least=1),
        "1d",
        "... this often.",
        FILES,
        java=Java("majorCompactionInterval", "s"),
    )
    sort_wait: float = key(
        Time(least=1),
        "1min",
        "Files of many ledgers in turn wait so long for more to be sorted with.",
        FILES,
    )
    scrub_rate: int = key(
        Size(suffix="/s"),
        "0B/s",
        "What is read again in the background to find damage; 0: nothing.",
        FILES,
    )

    origin: Origin = field(default_factory=Origin, compare=False, repr=False)

    def __post_init__(self) -> None:
        check(self)

    def advertised(self, port: int) -> Address:
        """What clients connect to; `port` is the one that is listened on, for settings that say 0."""
        address = self.advertise or self.listen
        return address if address.port else Address(address.host, port)

    def identity(self, port: int) -> str:
        """The bookie's id; `port` as above."""
        return self.bookie_id or str(self.advertised(port))

    def reloaded(self) -> tuple[Settings, list[str]]:
        """The settings of now, with what file and command line say by now where that can change without a restart; and
        the names of those that changed and cannot. Raises SettingsError; then nothing changes."""
        found = read_settings(self.origin.given, self.origin.file)
        changed = [one for one in KEYS if getattr(found, one.name) != getattr(self, one.name)]
        taken: dict[str, Any] = {one.name: getattr(found, one.name) for one in changed if one.reloadable}
        return dataclasses.replace(self, **taken), [one.name for one in changed if not one.reloadable]


KEYS: tuple[Key, ...] = tuple(
    dataclasses.replace(one.metadata["key"], name=one.name) for one in dataclasses.fields(Settings) if one.metadata
)
"""The schema, in the order of the reference page."""

BY_NAME: dict[str, Key] = {one.name: one for one in KEYS}


REMOVED = {
    "gc_alarm_percent": "Garbage collection no longer stops because many ledgers of this bookie vanished: it looks at "
    "the listing of the whole cluster, and needs no percentage. Remove the setting; gc_hold_time says for how long "
    "ledgers are held back where that listing collapsed",
}
"""Settings of older versions, each with what to do."""

ORDERED = (
    ("disk_read_only_free", "disk_writable_free"),
    ("disk_read_only_percent", "disk_writable_percent"),
    ("file_size_min", "file_size_max"),
    ("minor_percent", "major_percent"),
)
"""The first must not be above the second."""


def read_settings(given: Mapping[str, Any], file: Path | None = None) -> Settings:
    """Settings from parsed values of the command line, else of a file, else the defaults. Raises SettingsError."""
    from walkeeper_bookie._config_file import read_file

    values = {**(read_file(file) if file else {}), **given}
    missing = [one for one in KEYS if one.required and one.name not in values]
    if missing:
        places = " and ".join(f"{one.option} ({one.kind.name})" for one in missing)
        raise SettingsError(f"{places} must be given, on the command line or in the configuration file")
    try:
        return Settings(**values, origin=Origin(file, dict(given)))
    except SettingsError as wrong:
        where = f"{file} and the command line" if given else str(file)
        raise SettingsError(f"{where}: {wrong}" if file else str(wrong)) from None


def parse_value(one: Key, text: str) -> Any:
    """A value as it stands on the command line. Raises SettingsError."""
    try:
        return one.kind.parse(text)
    except WrongValue as wrong:
        raise SettingsError(f"{one.option} {text!r}: {wrong}") from None


def check(settings: Settings) -> None:
    """What must hold between settings. Raises SettingsError."""
    if settings.advertise is None and settings.listen.is_wildcard:
        raise SettingsError(
            f"listen is {settings.listen}: every address of this machine, and no name for it. Set advertise "
            "to HOST:PORT as clients see it"
        )
    if settings.advertise is not None and settings.advertise.is_wildcard:
        raise SettingsError(
            f"advertise is {settings.advertise}: no client can connect to that. Set it to HOST:PORT as clients see it"
        )
    for low, high in ORDERED:
        small, large = getattr(settings, low), getattr(settings, high)
        if small > large:
            kind = BY_NAME[low].kind
            raise SettingsError(
                f"{low} is {kind.show(small)}, {high} is {kind.show(large)}: {high} must not be below {low}"
            )
    for memory in ("receive_bytes", "reply_bytes"):
        if getattr(settings, memory) < settings.frame_size_max:
            raise SettingsError(f"{memory} is less than frame_size_max: no request of that size could be served")
