"""The schema: its kinds of values, its defaults, what must hold between settings, what SIGHUP may change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from walkeeper_bookie._config_file import parsed
from walkeeper_bookie._kinds import (
    TIME_UNITS,
    Address,
    Choice,
    Count,
    HostPort,
    Kind,
    Percent,
    Size,
    Text,
    Time,
    WrongValue,
)
from walkeeper_bookie._settings import BOOKIE_ID, BY_NAME, GROUPS, KEYS, Settings, SettingsError, read_settings

REQUIRED: dict[str, Any] = {"metadata": "memory:", "listen": Address("127.0.0.1", 3181), "data": "/d"}


def settings(**more: Any) -> Settings:
    return Settings(**{**REQUIRED, **more})


# ---- kinds ----


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 * 2**20), ("1 GiB", 2**30), ("5MB", 5_000_000), ("4096", 4096), ("0.5KiB", 512), ("0", 0), ("7B", 7)],
)
def test_a_size_has_a_unit_or_is_bytes(text: str, size: int) -> None:
    assert Size().parse(text) == size


@pytest.mark.parametrize("text", ["64M", "64mib", "-1", "", "MiB", "1e3", "0.3B", "1_000", "9" * 19, "\u0661"])
def test_no_other_size_is_guessed(text: str) -> None:
    with pytest.raises(WrongValue, match="write"):
        Size().parse(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10.0), ("250ms", 0.25), ("10min", 600.0), ("7d", 604800.0), ("1.5 h", 5400.0), ("0s", 0.0), ("5us", 5e-6)],
)
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert Time().parse(text) == seconds


@pytest.mark.parametrize("text", ["10", "10m", "-1s", "", "s", "1e3s", "10 S"])
def test_a_time_without_a_unit_is_refused_since_java_counts_milliseconds_here_and_seconds_there(text: str) -> None:
    with pytest.raises(WrongValue, match="unit"):
        Time().parse(text)


def test_a_number_in_toml_is_a_size_or_a_count_but_no_time() -> None:
    assert Size().take(4096) == 4096
    assert Count().take(3) == 3
    with pytest.raises(WrongValue, match="10s"):
        Time().take(10)


@pytest.mark.parametrize(
    "kind", [Size(), Count(), Percent(), Time(), HostPort(), Choice(("on", "off")), Text("t", "t")]
)
def test_true_is_no_number_and_no_word(kind: Kind) -> None:
    with pytest.raises(WrongValue):
        kind.take(True)


def test_limits_are_told() -> None:
    with pytest.raises(WrongValue, match="at least 64KiB"):
        Size(least=65536).parse("1KiB")
    with pytest.raises(WrongValue, match="at most 2GiB"):
        Size(most=2**31).parse("3GiB")
    with pytest.raises(WrongValue, match="multiple of 4096"):
        Size(multiple=4096).parse("4097")
    with pytest.raises(WrongValue, match="at least 1s"):
        Time(least=1).parse("10ms")
    with pytest.raises(WrongValue, match="1 to 9"):
        Count(1, 9).parse("0")


@pytest.mark.parametrize("text", ["101", "-1", "5%%", "", "nan"])
def test_a_percentage_lies_between_0_and_100(text: str) -> None:
    with pytest.raises(WrongValue):
        Percent().parse(text)


def test_percentages_with_and_without_the_sign() -> None:
    assert Percent().parse("5%") == Percent().parse("5") == Percent().take(5) == Percent().take(5.0) == 5.0
    assert Percent().parse("2.5") == 2.5
    with pytest.raises(WrongValue):
        Percent().take(float("nan"))
    with pytest.raises(WrongValue, match="whole"):
        Percent(whole=True).parse("2.5")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:3181", Address("127.0.0.1", 3181)),
        ("bookie-1.example.org:0", Address("bookie-1.example.org", 0)),
        ("[::1]:3181", Address("::1", 3181)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: Address) -> None:
    assert HostPort().parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["3181", ":3181", "host", "host:", "host:65536", "::1:3181", "a b:1", "h:-1", "off"])
def test_no_other_address_is_guessed(text: str) -> None:
    with pytest.raises(WrongValue, match="HOST:PORT"):
        HostPort().parse(text)


@pytest.mark.parametrize("text", ["[.]:80", "[1.]:80", "[b:4000]:3181", "[127.0.0.1]:80", "[::1%lo]:80", "[]:80"])
def test_what_stands_in_brackets_is_a_number_of_ipv6(text: str) -> None:
    with pytest.raises(WrongValue, match="HOST:PORT"):
        HostPort().parse(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "0x0", "0.0", "::", "::0", "0:0:0:0:0:0:0:0"])
def test_every_address_of_the_machine_is_no_name_however_it_is_written(host: str) -> None:
    assert Address(host, 1).is_wildcard
    with pytest.raises(SettingsError, match="every address"):
        settings(listen=Address(host, 3181))


@pytest.mark.parametrize("host", ["127.0.0.1", "b.example.org", "::1", "10.0.0.0", "b\0"])
def test_one_address_is_a_name(host: str) -> None:
    assert not Address(host, 1).is_wildcard


def test_a_text_that_no_file_can_say_is_refused() -> None:
    with pytest.raises(WrongValue, match="UTF-8"):
        Text("directory", "a path").parse("/d\udcff")


def test_off_is_no_address_where_the_kind_says_so() -> None:
    kind = HostPort(none="off")
    assert kind.parse("off") is None
    assert kind.show(None) == "off"


@given(st.integers(0, 2**63 - 1))
def test_a_size_that_is_shown_is_the_same_size(size: int) -> None:
    for suffix in ("", "/s"):
        kind = Size(suffix=suffix)
        assert kind.parse(kind.show(size)) == size


@given(st.floats(0, 1e9) | st.integers(0, 10**15).map(lambda microseconds: microseconds / 1e6))
@example(0.001123456789)  # 1.123456789ms
@example(5e-324)
def test_a_time_that_is_shown_is_the_same_time(seconds: float) -> None:
    assert Time().parse(Time().show(seconds)) == seconds


@given(st.integers(0, 10**4), st.integers(0, 10**18), st.sampled_from(sorted(TIME_UNITS)))
def test_a_time_of_any_unit_is_shown_as_one_that_is_read(whole: int, parts: int, unit: str) -> None:
    seconds = Time().parse(f"{whole}.{parts}{unit}")
    assert Time().parse(Time().show(seconds)) == seconds


@given(st.floats(0, 100))
@example(3.3333333333333335)
@example(1e-7)
@example(-0.0)
def test_a_percentage_that_is_shown_is_the_same_percentage(number: float) -> None:
    taken = Percent().take(number)
    assert taken == number
    assert Percent().parse(Percent().show(taken)) == number
    assert parsed(Path("f"), f"k = {Percent().toml(taken)}") == {"k": number}


# ---- the schema ----


def test_every_default_is_shown_as_it_is_written_and_every_row_says_what_it_does() -> None:
    for one in KEYS:
        assert one.words.endswith((".", "...", ";")), one.name
        assert one.group in GROUPS
        assert one.name in BY_NAME
        if one.default is not None:
            value = one.kind.parse(one.default)
            assert getattr(settings(), one.name) == value
            assert one.kind.parse(one.kind.show(value)) == value


def test_no_two_settings_come_from_the_same_java_key() -> None:
    java = [one.java.key for one in KEYS if one.java]
    assert len(java) == len(set(java))


def test_three_settings_must_be_given() -> None:
    assert [one.name for one in KEYS if one.required] == ["metadata", "listen", "data"]
    with pytest.raises(SettingsError, match=r"--listen \(HOST:PORT\) and --data"):
        read_settings({"metadata": "memory:"})


@pytest.mark.parametrize("name", ["bookie-1", "10.0.0.1:3181", "a_b.c"])
def test_names_of_bookies(name: str) -> None:
    assert re.fullmatch(BOOKIE_ID, name)


@pytest.mark.parametrize("name", ["readonly", "ReadOnly", "", "a/b", "a b", "ä", "a\n", "[x]"])
def test_what_bookkeeper_or_a_path_would_stumble_over_is_no_name_of_a_bookie(name: str) -> None:
    with pytest.raises(WrongValue):
        BY_NAME["bookie_id"].kind.parse(name)


def test_the_uri_of_the_metadata_has_a_scheme() -> None:
    with pytest.raises(WrongValue, match="sqlite:"):
        BY_NAME["metadata"].kind.parse("/var/lib/metadata.db")


# ---- identity (cluster rule 8: --listen is not an identity) ----


def test_cluster_rule_8_the_id_is_the_advertised_address_or_the_name_that_was_given() -> None:
    assert settings().identity(1) == "127.0.0.1:3181"
    assert settings(listen=Address("127.0.0.1", 0)).identity(4711) == "127.0.0.1:4711"
    shown = settings(listen=Address("0.0.0.0", 3181), advertise=Address("b1.example.org", 3181))
    assert shown.identity(3181) == "b1.example.org:3181"
    named = settings(bookie_id="b1", advertise=Address("b1.example.org", 0))
    assert named.identity(1) == "b1"
    assert named.advertised(4711) == Address("b1.example.org", 4711)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_cluster_rule_8_every_address_of_the_machine_is_nobodys_name(host: str) -> None:
    with pytest.raises(SettingsError, match="Set advertise"):
        settings(listen=Address(host, 3181))
    with pytest.raises(SettingsError, match="Set advertise"):
        settings(listen=Address(host, 3181), bookie_id="b1")
    with pytest.raises(SettingsError, match="advertise is"):
        settings(advertise=Address(host, 3181))


# ---- between settings ----


@pytest.mark.parametrize(
    ("low", "high", "small", "large"),
    [
        ("disk_read_only_free", "disk_writable_free", 2**30, 2**29),
        ("disk_read_only_percent", "disk_writable_percent", 10.0, 9.0),
        ("file_size_min", "file_size_max", 2**27, 2**26),
        ("minor_percent", "major_percent", 90, 80),
    ],
)
def test_what_must_not_be_below_the_other_is_refused_by_name(low: str, high: str, small: Any, large: Any) -> None:
    with pytest.raises(SettingsError, match=f"{high} must not be below {low}"):
        settings(**{low: small, high: large})


# ---- reload ----


def written(file: Path, **more: str) -> Path:
    lines = {"metadata": "memory:", "listen": "127.0.0.1:3181", "data": "/d", **more}
    file.write_text("".join(f'{name} = "{value}"\n' for name, value in lines.items()))
    return file


def test_a_reload_takes_what_can_change_and_names_what_cannot(tmp_path: Path) -> None:
    file = written(tmp_path / "bookie.toml")
    before = read_settings({}, file)
    written(file, gc_interval="1min", memtable="8MiB", http="127.0.0.1:8000", log_level="debug")
    after, refused = before.reloaded()
    assert (after.gc_interval, after.log_level) == (60.0, "debug")
    assert (after.memtable, after.http) == (before.memtable, None)
    assert refused == ["http", "memtable"]
    assert after.reloaded()[1] == refused


def test_a_reload_leaves_what_the_command_line_said(tmp_path: Path) -> None:
    file = written(tmp_path / "bookie.toml", gc_interval="5min")
    before = read_settings({"gc_interval": 7.0}, file)
    written(file, gc_interval="1min")
    assert before.reloaded() == (before, [])
    assert before.gc_interval == 7.0


def test_a_reload_of_a_broken_file_raises_and_changes_nothing(tmp_path: Path) -> None:
    before = read_settings({}, written(tmp_path / "bookie.toml"))
    (tmp_path / "bookie.toml").write_text("gc_interval = 5\n")
    with pytest.raises(SettingsError, match="gc_interval"):
        before.reloaded()


def test_without_a_file_a_reload_changes_nothing() -> None:
    before = read_settings(REQUIRED)
    assert before.reloaded() == (before, [])
