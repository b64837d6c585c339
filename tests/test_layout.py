"""LAYOUT, and the keys of ledgers: BookKeeper's worked paths, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walkeeper.metadata import CorruptMetadataError, Layout, LedgerManager, UnsupportedMetadataError
from walkeeper.metadata._layout import LONG_LEVELS, NOT_LEDGERS, SHORT_LEVELS
from walkeeper.metadata._store import MetadataError

HYBRID, LONG = LedgerManager.HIERARCHICAL, LedgerManager.LONG_HIERARCHICAL
LEGACY, FLAT = LedgerManager.LEGACY_HIERARCHICAL, LedgerManager.FLAT
ETCD = LedgerManager.ETCD
ON_ZOOKEEPER = [manager for manager in LedgerManager if manager is not ETCD]
EXAMPLE = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"


def test_the_worked_bytes_of_the_default_layout() -> None:
    assert Layout().serialise() == EXAMPLE
    assert Layout.parse(EXAMPLE) == Layout()
    assert Layout().manager is HYBRID


@pytest.mark.parametrize("manager", LedgerManager)
def test_every_manager_has_a_layout(manager: LedgerManager) -> None:
    assert Layout.parse(Layout.of(manager).serialise()).manager is manager


def test_the_worked_bytes_of_etcds_layout() -> None:
    data = b"2\norg.apache.bookkeeper.metadata.etcd.EtcdLedgerManagerFactory:0"
    assert Layout.of(ETCD).serialise() == data
    assert Layout.parse(data).manager is ETCD


def test_the_older_version_is_read() -> None:
    assert Layout.parse(b"1" + EXAMPLE[1:] + b"\n") == Layout(format_version=1)


@pytest.mark.parametrize("data", [b"0\na:1", b"3\na:1"])
def test_an_unknown_version_is_not_called_corrupt(data: bytes) -> None:
    with pytest.raises(UnsupportedMetadataError, match="versions 1 and 2"):
        Layout.parse(data)


@pytest.mark.parametrize("factory", ["org.apache.bookkeeper.meta.MSLedgerManagerFactory:1", "com.example.Mine:1"])
def test_a_manager_that_is_not_known_here_is_named(factory: str) -> None:
    layout = Layout.parse(f"2\n{factory}".encode())
    with pytest.raises(UnsupportedMetadataError, match=factory.split(".")[-1].split(":")[0][:3]):
        _ = layout.manager


def test_another_version_of_a_manager_is_not_known() -> None:
    with pytest.raises(UnsupportedMetadataError):
        _ = Layout.parse(EXAMPLE[:-1] + b"2").manager


@pytest.mark.parametrize(
    "data",
    [b"", b"2", b"2\n", b"x\na:1", b"2\na", b"2\n:1", b"2\na:1:2", b"2\na:x", b"2\na:1\nb", b"2\n\xff:1", b" " * 5000],
)
def test_what_is_no_layout(data: bytes) -> None:
    with pytest.raises(CorruptMetadataError):
        Layout.parse(data)


@given(st.binary(max_size=60))
def test_whatever_the_bytes_only_metadata_errors_come_out(data: bytes) -> None:
    try:
        Layout.parse(data)
    except MetadataError:
        pass


@pytest.mark.parametrize(
    ("manager", "ledger_id", "path"),
    [
        (HYBRID, 0, "00/0000/L0000"),
        (HYBRID, 1, "00/0000/L0001"),
        (HYBRID, 2147483646, "21/4748/L3646"),
        (HYBRID, 2147483647, "000/0000/0021/4748/L3647"),
        (HYBRID, 1234567890123, "000/0001/2345/6789/L0123"),
        (HYBRID, 2**63 - 1, "922/3372/0368/5477/L5807"),
        (LONG, 1, "000/0000/0000/0000/L0001"),
        (LONG, 1234567890123, "000/0001/2345/6789/L0123"),
        (LEGACY, 1, "00/0000/L0001"),
        (FLAT, 1, "L0000000001"),
        (FLAT, 1234567890123, "L1234567890123"),
        (ETCD, 1, "ledgers/00000000-0000-0000-0000-000000000001"),
        (ETCD, 1234567890123, "ledgers/00000000-0000-0000-0000-011f71fb04cb"),
        (ETCD, 2**63 - 1, "ledgers/00000000-0000-0000-7fff-ffffffffffff"),
    ],
)
def test_the_worked_paths(manager: LedgerManager, ledger_id: int, path: str) -> None:
    assert manager.path(ledger_id) == path
    assert LedgerManager.ledger_id(path) == ledger_id


@pytest.mark.parametrize(("manager", "ledger_id"), [(HYBRID, -1), (HYBRID, 2**63), (LEGACY, 2147483647), (FLAT, -1)])
def test_an_id_without_a_path(manager: LedgerManager, ledger_id: int) -> None:
    with pytest.raises(ValueError, match="no key"):
        manager.path(ledger_id)


@given(st.sampled_from(LedgerManager), st.integers(0, 2**63 - 1) | st.integers(0, 2**31 - 2))
def test_a_path_leads_back_to_its_ledger(manager: LedgerManager, ledger_id: int) -> None:
    for path in manager.paths(ledger_id):
        assert manager.ledger_id(path) == ledger_id
        names = path.split("/")
        forms = [form for form in (SHORT_LEVELS, LONG_LEVELS) if len(form) == len(names)]
        if manager is ETCD:
            assert path == manager.path(ledger_id)
            continue
        assert len(names) == 1 or any(all(p.fullmatch(n) for p, n in zip(form, names, strict=True)) for form in forms)


@pytest.mark.parametrize("manager", ON_ZOOKEEPER)
@pytest.mark.parametrize("ledger_id", [0, 1, 2**31 - 2, 2**31 - 1, 2**31, 10**10, 2**63 - 1])
def test_the_paths_of_a_ledger_are_those_of_all_layouts_its_own_first(manager: LedgerManager, ledger_id: int) -> None:
    """A client need not go by LAYOUT."""
    paths = manager.paths(ledger_id)
    assert len(paths) == len(set(paths))
    assert set(paths) == {one.path(ledger_id) for one in ON_ZOOKEEPER if ledger_id <= one.id_max}
    if ledger_id <= manager.id_max:
        assert paths[0] == manager.path(ledger_id)


@pytest.mark.parametrize("ledger_id", [-1, 2**63])
def test_an_id_of_no_ledger_has_no_paths(ledger_id: int) -> None:
    for manager in LedgerManager:
        with pytest.raises(ValueError, match="no layout has a key"):
            manager.paths(ledger_id)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "available",
        "00/0000/0001",
        "00/0000/L001",
        "0/0000/L0001",
        "00/0000/L00001",
        "/00/0000/L0001",
        "00/0000/L0001/",
        "00/0000/L000x",
        "00/0000/L\u0660\u0660\u0660\u0661",
        "999/9999/9999/9999/L9999",
        "L001",
        "L00000000001",
        "ledgers/00000000-0000-0000-8000-000000000000",
        "ledgers/00000000-0000-0001-0000-000000000000",
        "ledgers/00000000-0000-0000-0000-00000000000A",
        "00000000-0000-0000-0000-000000000001",
    ],
)
def test_what_is_no_ledgers_path(path: str) -> None:
    assert [manager for manager in LedgerManager if manager.ledger_id(path) is not None] == []


def test_no_other_child_of_the_root_looks_like_a_ledgers() -> None:
    tops = [form[0] for form in (SHORT_LEVELS, LONG_LEVELS)]
    assert [name for name in NOT_LEDGERS if any(top.fullmatch(name) for top in tops)] == []
    assert [name for name in NOT_LEDGERS if LedgerManager.ledger_id(name) is not None] == []
