"""What Python says twice it says as C does: a field that one side gains or loses is found here."""

from __future__ import annotations

import dataclasses
import itertools
import pickle

import pytest

import walkeeper
from walkeeper import _options
from walkeeper._native import ffi


def fields_of(struct: str) -> set[str]:
    return {name for name, _ in ffi.typeof(struct).fields}


@pytest.mark.parametrize(
    ("kind", "struct"),
    [
        (walkeeper.Stats, "wk_stats"),
        (walkeeper.RecoveryReport, "wk_recovery_report"),
        (walkeeper.Segment, "wk_segment_info"),
        (walkeeper.LogInfo, "wk_log_info"),
        (walkeeper.LogOptions, "wk_log_options"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_dataclass_has_the_fields_of_its_struct(kind: type, struct: str) -> None:
    assert {field.name for field in dataclasses.fields(kind)} == fields_of(struct)


def test_every_option_of_open_can_be_given() -> None:
    named = {_options._OPEN_TIMES.get(name, name) for name in walkeeper.OpenOptions.__annotations__}
    named |= {"create", "read_only", "on_damage"}
    of_ledger_stores = {
        "kind",
        "sort_memory",
        "sort_wait_ns",
        "sort_gain",
        "internal",
    }  # Python opens directories of logs
    assert named | of_ledger_stores == fields_of("wk_open_options")


def test_no_compaction_is_not_the_default() -> None:
    native = _options.open_options(True, False, "stop", {"minor_percent": 0, "major_percent": 0})
    assert native.minor_percent == native.major_percent == 2**32 - 1


def test_every_option_of_a_log_can_be_given() -> None:
    assert set(walkeeper.NewLogOptions.__annotations__) == fields_of("wk_log_options")


def test_options_reach_the_struct_in_their_units() -> None:
    native = _options.open_options(
        True, False, "skip", {"lock_timeout": 1.5, "commit_wait": 0, "backend": "psync", "cache_bytes": 7}
    )
    assert (native.on_damage, native.lock_timeout_ns, native.commit_wait_ns) == (2, 1_500_000_000, 0)
    assert (native.backend, native.cache_bytes, native.create) == (2, 7, True)


def test_no_time_for_the_lock_is_not_the_default_time() -> None:
    assert _options.open_options(True, False, "stop", {"lock_timeout": 0}).lock_timeout_ns == 1


# Positions and DLSNs

PLACES = [walkeeper.Position((*dlsn, 1, 2)) for dlsn in itertools.product((1, 2, 300), (0, 1, 256), (0, 5))]


def test_positions_are_ordered_as_their_dlsns_and_as_their_bytes() -> None:
    assert sorted(PLACES) == PLACES
    assert sorted(PLACES, key=lambda place: place.to_bytes()) == PLACES
    assert sorted(place.dlsn for place in PLACES) == [place.dlsn for place in PLACES]


def test_a_position_is_compared_with_a_dlsn() -> None:
    for left, right in itertools.product(PLACES, PLACES):
        assert (left < right.dlsn) == (left.dlsn < right) == (left.dlsn < right.dlsn)
        assert (left >= right.dlsn) == (left.dlsn >= right) == (left.dlsn >= right.dlsn)
        assert (left == right.dlsn) == (left.dlsn == right) == (left is right)


def test_a_position_is_not_compared_with_anything_else() -> None:
    assert PLACES[0] != 3
    with pytest.raises(TypeError):
        _ = PLACES[0] < 3  # type: ignore[operator]


def test_equal_places_have_equal_hashes() -> None:
    assert len({*PLACES, *(place.dlsn for place in PLACES)}) == len(PLACES)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_position_survives_bytes_and_pickle(place: walkeeper.Position) -> None:
    for again in (walkeeper.Position.from_bytes(place.to_bytes()), pickle.loads(pickle.dumps(place))):
        assert (again, again.sequence_id, again.txid) == (place, place.sequence_id, place.txid)
    bare = walkeeper.Position.from_bytes(place.dlsn.to_bytes())
    assert (bare, bare.sequence_id, bare.txid) == (place, -1, -1)


@pytest.mark.parametrize("data", [b"", b"\1" * 24, b"\2" + b"\0" * 24, b"\1" * 26, b"\1" * 42], ids=repr)
def test_bytes_that_are_no_position_are_refused(data: bytes) -> None:
    with pytest.raises(walkeeper.CorruptError):
        walkeeper.Position.from_bytes(data)
    with pytest.raises(walkeeper.CorruptError):
        walkeeper.DLSN.from_bytes(data)


def test_a_position_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        PLACES[0].sequence_id = 3  # type: ignore[misc]
