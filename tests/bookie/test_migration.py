"""From bk_server.conf to a configuration of ours: the syntax, the units, and a reason for all that is left."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from walkeeper_bookie._config_file import parsed
from walkeeper_bookie._kinds import Address
from walkeeper_bookie._migration import migrated
from walkeeper_bookie._migration_reasons import REASONS, reason_for
from walkeeper_bookie._properties import parse_properties
from walkeeper_bookie._settings import KEYS, Settings, SettingsError, read_settings

WHOLE = """
bookiePort=3181
advertisedAddress=b1.example.org
zkServers=zk1:2181,zk2
zkLedgersRootPath=/bk/ledgers
ledgerDirectories=/disk1/bk
"""


def settings_of(java: str, tmp_path: Path) -> Settings:
    """What the migrated file means to a bookie."""
    file = tmp_path / "bookie.toml"
    file.write_text(migrated(java).toml)
    return read_settings({}, file)


def values_of(java: str) -> dict[str, Any]:
    return parsed(Path("bookie.toml"), migrated(java).toml)


# ---- the syntax ----


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", [("a", "b")]),
        ("a = b c ", [("a", "b c ")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("  a\t=\tb", [("a", "b")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("a==b", [("a", "=b")]),
        ("a\\=b=c", [("a=b", "c")]),
        ("a\\ b=c", [("a b", "c")]),
        ("# a=b\n! c=d\n\n   \n  # e", []),
        ("a=b\\\n   c\\\n# d", [("a", "bc# d")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\", [("a", "b")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=\\t\\n\\r\\f\\q\\\\", [("a", "\t\n\r\fq\\")]),
        ("a=\\u0041\\u00e4", [("a", "Aä")]),
        ("a=\\ud83d\\ude00", [("a", "\U0001f600")]),
        ("a=b#c", [("a", "b#c")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, pairs: list[tuple[str, str]]) -> None:
    assert parse_properties(text) == pairs


def test_a_malformed_escape_is_refused() -> None:
    with pytest.raises(SettingsError, match="uXXXX"):
        migrated("a=\\u00g0")


# ---- what is carried over ----


def test_one_journal_directory_is_carried_over_and_of_several_one_must_be_chosen(tmp_path: Path) -> None:
    assert settings_of(WHOLE + "journalDirectories=/fast/bk\n", tmp_path).journal == "/fast/bk/walkeeper"
    assert settings_of(WHOLE + "journalDirectory=/fast/bk/\n", tmp_path).journal == "/fast/bk/walkeeper"
    assert settings_of(WHOLE, tmp_path).journal is None
    for several in ("journalDirectories=/j1,/j2\n", "journalDirectory=/j1, /j2\n"):
        with pytest.raises(SettingsError, match=r"one journal directory here.*Choose one"):
            migrated(WHOLE + several)


def test_a_journal_in_the_data_directory_is_where_ours_is_without_being_told(tmp_path: Path) -> None:
    same = WHOLE + "journalDirectories=/disk1/bk\n"
    assert settings_of(same, tmp_path).journal is None
    assert "it is the data directory" in migrated(same).toml


def test_a_whole_configuration_is_one_that_a_bookie_can_start_with(tmp_path: Path) -> None:
    settings = settings_of(WHOLE, tmp_path)
    assert settings.metadata == "zk+null://zk1:2181;zk2:2181/bk/ledgers"
    assert settings.listen == Address("0.0.0.0", 3181)
    assert settings.identity(0) == "b1.example.org:3181"
    assert settings.data == "/disk1/bk/walkeeper"
    assert migrated(WHOLE).warnings == []
    assert "Not carried over" not in migrated(WHOLE).toml


@pytest.mark.parametrize(
    ("java", "name", "value"),
    [
        ("gcWaitTime=900000", "gc_interval", "15min"),
        ("zkTimeout=12500", "session_timeout", "12500ms"),
        ("diskCheckInterval=10000", "disk_check_interval", "10s"),
        ("nettyMaxFrameSizeBytes=5253120", "frame_size_max", "5130KiB"),
        ("journalMaxMemorySizeMb=64", "in_flight", "64MiB"),
        ("skipListSizeLimit=67108864", "memtable", "64MiB"),
        ("minorCompactionThreshold=0.35", "minor_percent", 35),
        ("minorCompactionInterval=7200", "minor_interval", "2h"),
        ("majorCompactionInterval=86400", "major_interval", "1d"),
        ("diskUsageThreshold=0.97", "disk_read_only_percent", 3),
        ("maxPendingReadRequestsPerThread=2500", "reads_max", 2500),
        ("bookieId=b-17", "bookie_id", "b-17"),
        ("isThrottleByBytes=true\ncompactionRateByBytes=1048576", "compact_rate", "1MiB/s"),
        ("httpServerEnabled=true\nhttpServerPort=8001\nhttpServerHost=127.0.0.1", "http", "127.0.0.1:8001"),
        ("metadataServiceUri=zk+longhierarchical://a;b/ledgers", "metadata", "zk+longhierarchical://a;b/ledgers"),
        ("bookiePort=4181", "listen", "0.0.0.0:4181"),
    ],
)
def test_a_value_is_carried_over_in_its_unit(java: str, name: str, value: object) -> None:
    assert values_of(java)[name] == value


def test_every_java_key_of_the_schema_is_carried_over_or_said_why_not() -> None:
    """A key that is forgotten in a part with rules of its own would vanish silently."""
    for one in KEYS:
        if one.java is not None:
            for value in ("7", "x y"):
                made = migrated(f"{one.java.key}={value}")
                named = re.search(rf"^# {one.java.key} = |^{one.name} = ", made.toml, re.MULTILINE)
                assert named or one.java.key in ("httpServerPort",), (one.java.key, made.toml)


@pytest.mark.parametrize("java", ["majorCompactionInterval=-1", "majorCompactionThreshold=0"])
def test_major_compaction_that_is_off_takes_no_more_than_minor_does(java: str, tmp_path: Path) -> None:
    settings = settings_of(WHOLE + java, tmp_path)
    assert (settings.minor_percent, settings.major_percent) == (20, 20)


def test_compaction_that_is_off_stays_off(tmp_path: Path) -> None:
    settings = settings_of(WHOLE + "majorCompactionInterval=0\nminorCompactionInterval=0", tmp_path)
    assert (settings.minor_percent, settings.major_percent) == (0, 0)


@pytest.mark.parametrize("java", ["diskUsageThreshold=0.8", "diskUsageThreshold=0.9\ndiskUsageLwmThreshold=0.95"])
def test_writable_again_is_never_below_read_only(java: str, tmp_path: Path) -> None:
    settings = settings_of(WHOLE + java, tmp_path)
    assert settings.disk_writable_percent >= settings.disk_read_only_percent >= 10


@pytest.mark.parametrize(
    ("threshold", "percent"), [("0.999999999", 1e-7), ("0.9666666666666", 3.33333333334), ("0.9", 10), ("1", 0)]
)
def test_a_percentage_keeps_all_its_digits(threshold: str, percent: float, tmp_path: Path) -> None:
    settings = settings_of(f"{WHOLE}diskUsageThreshold={threshold}", tmp_path)
    assert settings.disk_read_only_percent == settings.disk_writable_percent == percent


def test_a_size_that_is_above_our_other_threshold_raises_that(tmp_path: Path) -> None:
    settings = settings_of(WHOLE + f"minUsableSizeForEntryLogCreation={2**30}", tmp_path)
    assert settings.disk_read_only_free == settings.disk_writable_free == 2**30


# ---- what is not ----


@pytest.mark.parametrize(
    ("java", "reason"),
    [
        ("journalSyncData=false", "never acknowledged before it is durable"),
        ("indexDirectories=/i", "there is one journal"),
        ("ledgerDirectories=/a,/b", "run one for each disk"),
        ("tlsProvider=OpenSSL", "no TLS"),
        ("autoRecoveryDaemonEnabled=true", "auto-recovery"),
        ("compactionRateByBytes=1000", "isThrottleByBytes is not true"),
        ("gcWaitTime=soon", "it is no number"),
        ("nettyMaxFrameSizeBytes=104857600", "write at most"),
        ("bookieId=a/b", "cannot be bookie_id"),
        ("bookiePort=http", "cannot be listen"),
        ("someKeyOfTomorrow=1", "not known here"),
        ("gcWaitTime=1000\ngcWaitTime=2000", "the first one counts"),
    ],
)
def test_what_cannot_be_carried_over_says_why(java: str, reason: str) -> None:
    made = migrated(java)
    assert reason in made.toml
    parsed(Path("bookie.toml"), made.toml)


@pytest.mark.parametrize(
    ("java", "says"),
    [
        ("bookiePort=99999", ["listen", "there is no default", 'advertise = "b1.example.org:PORT"']),
        ("bookieId=a/b", ["another bookie"]),
        ("nettyMaxFrameSizeBytes=104857600", ["write at most", "the default counts, "]),
        ("httpServerEnabled=true\nhttpServerPort=0x50", ["it is no port"]),
        ("gcWaitTime=12345678901234567890123", ["larger than anything here"]),
        ("gcWaitTime=1e17", ["gc_interval"]),
        ("gcWaitTime=1e18", ["larger than anything here"]),
        ("nettyMaxFrameSizeBytes=5241e13181880", ["larger than anything here", "the default counts, "]),
        ("diskUsageThreshold=1e-13181880", ["more digits than anything here"]),
        ("diskUsageThreshold=0e-13181880", ["more digits than anything here"]),
        ("minorCompactionThreshold=-1e13181880", ["larger than anything here"]),
    ],
)
def test_a_value_that_is_lost_is_to_be_chosen_by_somebody(java: str, says: list[str]) -> None:
    whole = "\n".join(line for line in WHOLE.splitlines() if line.partition("=")[0] != java.partition("=")[0])
    made = migrated(f"{whole}\n{java}\n")
    told = "\n".join(made.warnings)
    for words in says:
        assert words in told
    assert "invalid literal" not in made.toml
    for warning in made.warnings:
        assert warning in made.toml.partition("# To be done by you:")[2]


def test_a_key_without_a_value_is_not_set_as_in_javas_template() -> None:
    assert "someKey" not in migrated("someKey=\nbookieId=\n").toml


@pytest.mark.parametrize(
    ("java", "warning"),
    [
        ("zkServers=a\nledgerDirectories=/d", "write advertise"),
        ("advertisedAddress=b\nledgerDirectories=/d", "write metadata"),
        ("zkServers=a\nadvertisedAddress=b", "write data"),
        ("metadataServiceUri=etcd:http://a", "write metadata"),
        ("httpServerEnabled=true", "no login"),
        ("httpServerEnabled=maybe\nhttpServerPort=1", "neither true nor false"),
        ("ledgerDirectories=, ,", "write data"),
        ("ledgerDirectories=${base}/x", "write it out"),
        ("include = other.conf", "write its lines"),
        ("ledgerDirectories=/d\xe4ta", "ISO-8859-1"),
        ("ledgerDirectories=/d\\u0000", "cannot be data"),
        ("journalDirectory=/j\\u0000", "cannot be journal"),
        ("metadataServiceUri=zk+", "cannot be metadata"),
        ("metadataServiceUri=zk+Hier://z/l", "cannot be metadata"),
        ("zkServers=,", "write metadata"),
        ("advertisedAddress=0.0.0.0", "no client can connect"),
        ("advertisedAddress=b:4000", "cannot be advertise"),
        ("zkTimeout=2592000000", "write at most 20d"),
        ("maxPendingReadRequestsPerThread=2000000", "1 to 1000000"),
    ],
)
def test_what_a_person_has_to_do_is_said(java: str, warning: str) -> None:
    made = migrated(java)
    assert any(warning in one for one in made.warnings)
    assert warning in made.toml


@pytest.mark.parametrize(
    "java", ["bookiePort=99999", "advertisedAddress=b:4000", "zkServers=z\\u0000", "ledgerDirectories=/d\\u0000"]
)
def test_what_is_not_carried_over_is_told_as_it_stood_in_the_file(java: str) -> None:
    name, value = java.split("=")
    whole = f"{name} = {value.encode().decode('unicode_escape')} was not carried over: "
    assert [one for one in migrated(java).warnings if one.startswith(whole)]


def test_http_that_is_off_there_is_said_to_be() -> None:
    made = migrated(WHOLE + "httpServerEnabled=false\nhttpServerPort=8080\n")
    assert "httpServerPort = 8080\n#     it did not count there" in made.toml
    assert made.warnings == []


@pytest.mark.parametrize(
    ("servers", "uri"),
    [
        ("zk1/chroot", "zk+null://zk1:2181/chroot/bk/ledgers"),
        ("zk1,zk2:2182/a/b/", "zk+null://zk1:2181;zk2:2182/a/b/bk/ledgers"),
        ("zk1/", "zk+null://zk1:2181/bk/ledgers"),
    ],
)
def test_a_chroot_of_zookeeper_is_part_of_the_path(servers: str, uri: str) -> None:
    assert values_of(WHOLE.replace("zk1:2181,zk2", servers))["metadata"] == uri


def test_the_root_is_a_directory_too(tmp_path: Path) -> None:
    settings = settings_of(WHOLE + "journalDirectory=/", tmp_path)
    assert (settings.data, settings.journal) == ("/disk1/bk/walkeeper", "/walkeeper")


def test_nothing_of_the_file_can_end_a_comment(tmp_path: Path) -> None:
    made = migrated(WHOLE + "evil=a\\nlisten \\= 1\nzkRetry\\r\\n\\ x=\\u2028b")
    assert settings_of(WHOLE + "evil=a\\nlisten \\= 1", tmp_path).listen.port == 3181
    assert all(not line or line[0] == "#" or re.match(r"\w+ = ", line) for line in made.toml.splitlines())


def test_every_reason_can_be_reached_and_is_about_the_key_that_it_stands_with() -> None:
    for beginning, reason in REASONS:
        assert reason_for(beginning) == reason, f"{beginning} is hidden by a shorter one before it"
