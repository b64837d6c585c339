"""Every setting arrives: a bookie's process is given another value than the default for each, all at once, and tells
what C got of them, and what its own parts go by.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from bookie_runs import ROOT, Running, bookies_in

from walkeeper._native import ffi, lib
from walkeeper_bookie._kinds import Address
from walkeeper_bookie._native_options import directory_options, server_options
from walkeeper_bookie._settings import BY_NAME, KEYS, Settings, parse_value

MIB = 2**20
NS_PER_S = 10**9
NEVER = 2**64 - 1

# "open.x" is wk_open_options.x as wk_open got it, "server.x" wk_server_options.x as wk_server_start did; the rest is
# told by TELLS below.
ARRIVES: dict[str, tuple[str, dict[str, object]]] = {
    "log_level": ("debug", {"log.level": "debug"}),
    "session_timeout": ("11s", {"metadata.session_timeout": 11.0, "registrar.session_timeout": 11.0}),
    "start_timeout": ("59s", {"start_timeout": 59.0}),
    "gc_interval": ("13min", {"worker.collector": 780.0}),
    "gc_hold_time": ("14h", {"collector.hold_time": 50400.0}),
    "gc_tombstone_time": ("15h", {"tombstones.keep": 54000.0}),
    "backend": ("psync", {"open.backend": lib.WK_BACKEND_PSYNC, "server.backend": lib.WK_BACKEND_PSYNC}),
    "reader_threads": ("5", {"server.reader_threads": 5}),
    "connections_max": ("211", {"server.connections_max": 211}),
    "connections_per_address_max": ("197", {"server.connections_per_address_max": 197}),
    "frame_size_max": ("3MiB", {"server.frame_size_max": 3 * MIB}),
    "batch_bytes_max": ("2MiB", {"server.batch_bytes_max": 2 * MIB}),
    "reads_max": ("9001", {"server.reads_max": 9001}),
    "frame_timeout": ("21s", {"server.frame_timeout_ns": 21 * NS_PER_S}),
    "peer_timeout": ("22s", {"server.peer_timeout_ns": 22 * NS_PER_S}),
    "poll_timeout_max": ("23s", {"server.poll_timeout_max_ns": 23 * NS_PER_S}),
    "verify_digest": ("off", {"server.verify_digest": lib.WK_VERIFY_DIGEST_OFF}),
    "memtable": ("17MiB", {"open.memtable_bytes": 17 * MIB}),
    "cache": ("18MiB", {"open.cache_bytes": 18 * MIB}),
    "range": ("19MiB", {"open.range_bytes": 19 * MIB}),
    "sort_memory": ("20MiB", {"open.sort_memory": 20 * MIB}),
    "in_flight": ("21MiB", {"open.in_flight_bytes": 21 * MIB}),
    "receive_bytes": ("22MiB", {"server.receive_bytes": 22 * MIB}),
    "reply_bytes": ("23MiB", {"server.reply_bytes": 23 * MIB}),
    "disk_read_only_free": ("24MiB", {"thresholds.read_only_free": 24 * MIB}),
    "disk_read_only_percent": ("2", {"thresholds.read_only_part": 0.02}),
    "disk_writable_free": ("25MiB", {"thresholds.writable_free": 25 * MIB}),
    "disk_writable_percent": ("3", {"thresholds.writable_part": 0.03}),
    "disk_recovery_free": ("26MiB", {"thresholds.recovery_free": 26 * MIB}),
    "disk_check_interval": ("27s", {"worker.disk watch": 27.0}),
    "file_size_min": ("7MiB", {"open.file_size_min": 7 * MIB}),
    "file_size_max": ("28MiB", {"open.file_size_max": 28 * MIB}),
    "block_size_max": ("1MiB", {"open.block_size_max": MIB}),
    "deferred_max_delay": ("29ms", {"open.deferred_delay_ns": 29 * 10**6}),
    "lock_timeout": ("30s", {"directory.lock_timeout": 30.0}),
    "compact_rate": ("31MiB/s", {"open.compact_rate": 31 * MIB}),
    "minor_percent": ("32", {"open.minor_percent": 32}),
    "minor_interval": ("33min", {"open.minor_interval_ns": 33 * 60 * NS_PER_S}),
    "major_percent": ("74", {"open.major_percent": 74}),
    "major_interval": ("35h", {"open.major_interval_ns": 35 * 3600 * NS_PER_S}),
    "sort_wait": ("36s", {"open.sort_wait_ns": 36 * NS_PER_S}),
    "scrub_rate": ("37MiB/s", {"open.scrub_rate": 37 * MIB}),
}

# Settings that have a test of their own, in a file beside this one.
ELSEWHERE = {
    "metadata": "test_process.py::test_another_cluster_is_refused",
    "listen": "test_process.py::test_one_line_says_ready_and_sigterm_ends_it",
    "data": "test_process.py::test_one_line_says_ready_and_sigterm_ends_it",
    "journal": "test_journal_directory.py::test_it_serves_what_it_had_after_a_kill_and_its_cookie_names_both",
    "advertise": "test_process_settings.py::test_cluster_rule_8_what_is_advertised_is_where_clients_come",
    "bookie_id": "test_process.py::test_port_0_is_no_identity",
    "http": "test_process.py::test_health_and_readiness",
    "on_damage": "test_damaged_journal.py::"
    "test_cluster_rule_2_a_bookie_that_goes_on_behind_damage_says_of_nothing_that_it_is_absent",
    "drain_timeout": "test_process_reload.py::test_the_drain_lasts_as_long_as_the_settings_say_by_now",
}

# What no setting says: the value, and why.
FIXED: dict[str, tuple[object, str]] = {
    "open.create": (1, "that no store was lost is found out before"),
    "open.read_only": (0, "a bookie writes"),
    "open.unsafe_fs": (0, "what was acknowledged must survive, and a network file system promises too little"),
    "open.internal": (0, "of tests"),
    "open.ignore_footers": (0, "of verification"),
    "open.on_damage": (lib.WK_ON_DAMAGE_STOP, "of the first try: skipped is what was noted as damage"),
    "open.check_all": (0, "goes with another on_damage"),
    "open.kind": (lib.WK_KIND_LEDGERS, "a bookie keeps ledgers"),
    "open.sync_method": (lib.WK_SYNC_PROBE, "the device is measured"),
    "open.blocks_in_flight": (0, "the device is measured"),
    "open.lock_timeout_ns": (200_000_000, "it waits in slices, between which Python's signal handlers run"),
    "open.read_bytes": (256 * MIB, "of readers of logs, which a bookie does not have"),
    "open.confirm_delay_ns": (100_000_000, "of who follows the files from another process, as nobody does a bookie's"),
    "open.commit_wait_ns": (0, "a lone add waits for nobody"),
    "open.sort_gain": (4, "of tests"),
    "open.journal": (None, "a path: ELSEWHERE"),
    "server.host": ("127.0.0.1", "the default: it listens at a socket that is bound already"),
    "server.port": (0, "the default: it listens at a socket that is bound already"),
    "server.listen_later": (1, "it listens when it is told what holds"),
    "server.read_only": (1, "until it is told what holds"),
    "server.limbo_all": (1, "until it is told what holds"),
}

TELLS = """
import dataclasses, json
from walkeeper._native import ffi, lib
from walkeeper_bookie import _bookie, _directory, _process, _server

told = {}

def value_of(options, name):
    value = getattr(options, name)
    if isinstance(value, ffi.CData):
        return ffi.string(value).decode() if value != ffi.NULL else None
    return int(value)

class Library:
    '''C, of which one call is looked at.'''

    def __init__(self, name, prefix, struct):
        self.name, self.prefix, self.fields = name, prefix, ffi.typeof(struct).fields

    def __getattr__(self, name):
        real = getattr(lib, name)
        if name != self.name:
            return real

        def call(first, options, *more):
            told.update({f"{self.prefix}.{field}": value_of(options, field) for field, _ in self.fields})
            return real(first, options, *more)

        return call

_directory.lib = Library("wk_open", "open", "wk_open_options")
_server.lib = Library("wk_server_start", "server", "wk_server_options")
open_directory, open_metadata, say_ready = _bookie.Directory.open, _bookie.open_metadata, _process.Process._say_ready

def opens(*given, lock_timeout, **more):
    told["directory.lock_timeout"] = lock_timeout
    return open_directory(*given, lock_timeout=lock_timeout, **more)

def asks(uri, session_timeout, **more):
    told["metadata.session_timeout"] = session_timeout
    return open_metadata(uri, session_timeout, **more)

def tells(process, bookie):
    told["log.level"] = process.log.level
    told["start_timeout"] = bookie._metadata_retry()._seconds
    told["registrar.session_timeout"] = bookie.registrar._session_timeout
    told["collector.hold_time"] = bookie.collector.hold_time
    told["tombstones.keep"] = bookie._tombs.keep
    told.update({f"worker.{name}": worker._interval() for name, worker in bookie._workers.items()})
    told.update({f"thresholds.{name}": it for name, it in dataclasses.asdict(bookie._watch.thresholds).items()})
    with open(PATH, "w") as file:
        json.dump(told, file)
    say_ready(process, bookie)

_bookie.Directory.open, _bookie.open_metadata, _process.Process._say_ready = opens, asks, tells
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Running, dict[str, object]]:
    """A bookie that was given every setting, and what it told."""
    place = tmp_path_factory.mktemp("arrive")
    options = [word for name, (text, _) in ARRIVES.items() for word in (BY_NAME[name].option, text)]
    with bookies_in(place) as bookies:
        bookie = bookies.start("--init", *options, before=f"PATH = {str(place / 'told')!r}\n{TELLS}")
        bookie.ready()
        assert bookie.stop() == 0
    return bookie, json.loads((place / "told").read_text())


@pytest.fixture
def told(run: tuple[Running, dict[str, object]]) -> dict[str, object]:
    return run[1]


def fields_of(prefix: str, struct: str) -> set[str]:
    return {f"{prefix}.{name}" for name, _ in ffi.typeof(struct).fields}


@pytest.mark.parametrize("name", ARRIVES)
def test_a_setting_arrives_where_it_belongs(told: dict[str, object], name: str) -> None:
    expected = ARRIVES[name][1]
    assert {place: told.get(place) for place in expected} == expected


@pytest.mark.parametrize("field", FIXED)
def test_what_no_setting_says_is_what_it_must_be(run: tuple[Running, dict[str, object]], field: str) -> None:
    _, told = run
    assert told[field] == FIXED[field][0]


def test_no_setting_and_no_field_of_the_options_is_forgotten() -> None:
    assert ARRIVES.keys() | ELSEWHERE.keys() == {one.name for one in KEYS}
    assert ARRIVES.keys() & ELSEWHERE.keys() == set()
    native = fields_of("open", "wk_open_options") | fields_of("server", "wk_server_options")
    given = {place for _, places in ARRIVES.values() for place in places if place.startswith(("open.", "server."))}
    assert given | FIXED.keys() == native
    assert given & FIXED.keys() == set()


def test_no_two_values_are_alike_and_none_is_the_default() -> None:
    """So that one in another's place, or left out, is seen."""
    defaults: dict[str, Any] = {"open": ffi.new("wk_open_options *"), "server": ffi.new("wk_server_options *")}
    lib.wk_open_options_init(defaults["open"])
    lib.wk_server_options_init(defaults["server"])
    seen: list[object] = []
    for name, (text, places) in ARRIVES.items():
        one = BY_NAME[name]
        assert one.default is not None
        assert parse_value(one, text) != one.kind.parse(one.default), name
        seen.extend({value for value in places.values() if isinstance(value, float) or value not in (0, 1, 2)})
        for place, value in places.items():
            prefix, field = place.split(".", 1) if "." in place else (place, "")
            if prefix in defaults:
                assert getattr(defaults[prefix], field) != value, place
    assert len(seen) == len(set(seen))


def test_no_compaction_is_not_the_default() -> None:
    given = Settings(metadata="memory:", listen=Address("::1", 1), data="/d", minor_percent=0, major_percent=0)
    options = directory_options(given)
    assert options["minor_percent"] == options["major_percent"] == 2**32 - 1


def test_settings_that_are_tested_elsewhere_are() -> None:
    for name, where in ELSEWHERE.items():
        path, test = where.split("::")
        text = (ROOT / "tests/bookie" / path).read_text()
        assert re.search(rf"^def {test}\(", text, re.MULTILINE), (name, where)


def settings(**more: Any) -> Settings:
    given = {"metadata": "memory:", "listen": "127.0.0.1:3181", "data": "/d", **more}
    return Settings(**{name: parse_value(BY_NAME[name], text) for name, text in given.items()})


@pytest.mark.parametrize(
    ("word", "number"),
    [("auto", lib.WK_BACKEND_AUTO), ("io_uring", lib.WK_BACKEND_URING), ("psync", lib.WK_BACKEND_PSYNC)],
)
def test_each_word_for_a_backend(word: str, number: int) -> None:
    assert directory_options(settings(backend=word))["backend"] == number
    assert server_options(settings(backend=word))["backend"] == number


@pytest.mark.parametrize(
    ("word", "number"), [("off", lib.WK_VERIFY_DIGEST_OFF), ("learned", lib.WK_VERIFY_DIGEST_LEARNED)]
)
def test_each_word_for_the_verification_of_digests(word: str, number: int) -> None:
    assert server_options(settings(verify_digest=word))["verify_digest"] == number


def test_no_memory_to_sort_in_is_never_and_not_the_default() -> None:
    """0 would be the default for C."""
    assert directory_options(settings(sort_memory="0"))["sort_memory"] == NEVER
    assert directory_options(settings(scrub_rate="0"))["scrub_rate"] == 0
