"""What every store promises of transactions: all or nothing, in order, within limits."""

from __future__ import annotations

import pytest
from metadata.stores import Calls, settle, until

from walkeeper.metadata import (
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
    ConflictError,
    ExistsError,
    LimitError,
    MetadataError,
    MetadataStore,
    MissingError,
    NotEmptyError,
    Operation,
)


def contents(store: MetadataStore, key: str) -> dict[str, tuple[bytes, int]]:
    """Every key below, with value and version."""
    found: dict[str, tuple[bytes, int]] = {}
    for name in store.children(key):
        value = store.get(f"{key}/{name}")
        assert value is not None
        found[f"{key}/{name}"] = (value.data, value.version)
        found.update(contents(store, f"{key}/{name}"))
    return found


def test_a_transaction_does_all_of_it(store: MetadataStore, other: MetadataStore, root: str) -> None:
    checked, put = store.create(f"{root}/checked"), store.create(f"{root}/put", b"old")
    store.create(f"{root}/deleted")
    versions = store.transact(
        [
            Operation("check", f"{root}/checked", version=checked),
            Operation("create", f"{root}/created", b"new"),
            Operation("create", f"{root}/created/below", b"newer"),
            Operation("put", f"{root}/put", b"new", put),
            Operation("delete", f"{root}/deleted"),
        ]
    )
    now = contents(other, root)
    assert versions == [None, now[f"{root}/created"][1], now[f"{root}/created/below"][1], now[f"{root}/put"][1], None]
    assert {key[len(root) :]: data for key, (data, _) in now.items()} == {
        "/checked": b"",
        "/created": b"new",
        "/created/below": b"newer",
        "/put": b"new",
    }
    assert now[f"{root}/checked"][1] == checked
    assert now[f"{root}/put"][1] != put


def test_operations_see_those_before_them(store: MetadataStore, root: str) -> None:
    store.create(f"{root}/a/b", parents=True)
    store.transact([Operation("delete", f"{root}/a/b"), Operation("delete", f"{root}/a")])
    assert store.children(root) == []
    with pytest.raises(MissingError):
        store.transact([Operation("create", f"{root}/a/b"), Operation("create", f"{root}/a")])
    assert store.children(root) == []


def test_a_tree_is_deleted_from_its_leaves_up(store: MetadataStore, root: str) -> None:
    keys = [f"{root}/a", f"{root}/a/b", f"{root}/a/b/c", f"{root}/a/b/c/d", f"{root}/a/e"]
    store.transact([Operation("create", key) for key in keys])
    deletes = [Operation("delete", key) for key in reversed(keys)]
    with pytest.raises(NotEmptyError) as refused:
        store.transact([*deletes[:1], *deletes[2:]])
    assert refused.value.key == f"{root}/a/b/c"
    store.transact(deletes)
    assert store.children(root) == []


REFUSED = [
    ("check_version", lambda root, version: Operation("check", f"{root}/there", version=version + 1), ConflictError),
    ("check_missing", lambda root, version: Operation("check", f"{root}/missing"), MissingError),
    ("create", lambda root, version: Operation("create", f"{root}/there"), ExistsError),
    ("create_below", lambda root, version: Operation("create", f"{root}/missing/x"), MissingError),
    ("put_version", lambda root, version: Operation("put", f"{root}/there", b"x", version + 1), ConflictError),
    ("put_missing", lambda root, version: Operation("put", f"{root}/missing", b"x"), MissingError),
    ("delete_version", lambda root, version: Operation("delete", f"{root}/there", version=version + 1), ConflictError),
    ("delete_missing", lambda root, version: Operation("delete", f"{root}/missing"), MissingError),
    ("delete_full", lambda root, version: Operation("delete", f"{root}/full"), NotEmptyError),
]


@pytest.mark.parametrize(("make", "error"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_refused_operation_refuses_all(store, other, root, make, error, at) -> None:  # type: ignore[no-untyped-def]
    version = store.create(f"{root}/there", b"x")
    for key in ("full", "full/child", "put", "gone"):
        store.create(f"{root}/{key}", b"x")
    before = contents(store, root)
    operations = [
        Operation("create", f"{root}/created", b"x", ephemeral=True),
        Operation("put", f"{root}/put", b"y"),
        Operation("delete", f"{root}/gone"),
        Operation("create", f"{root}/full/more"),
    ]
    operations.insert(at, make(root, version))
    hints = Calls()
    watches = [store.watch(key, hints) for key in (root, f"{root}/put", f"{root}/gone")]
    with pytest.raises(error) as refused:
        store.transact(operations)
    assert type(refused.value) is error
    assert refused.value.key == operations[at].key
    assert contents(store, root) == contents(other, root) == before
    for watch in watches:
        watch.close()


def test_the_first_refusal_is_raised(store: MetadataStore, root: str) -> None:
    store.create(f"{root}/there")
    operations = [Operation("create", f"{root}/there"), Operation("put", f"{root}/missing", b"")]
    with pytest.raises(ExistsError):
        store.transact(operations)
    with pytest.raises(MissingError):
        store.transact(operations[::-1])


def test_an_empty_transaction_does_nothing(store: MetadataStore) -> None:
    assert store.transact([]) == []


def test_a_transaction_may_have_so_many_operations_and_no_more(store: MetadataStore, root: str) -> None:
    operations = [Operation("create", f"{root}/{number:03}") for number in range(TRANSACTION_OPERATIONS_MAX + 1)]
    with pytest.raises(LimitError, match="TRANSACTION_OPERATIONS_MAX"):
        store.transact(operations)
    assert store.children(root) == []
    assert len(store.transact(operations[:-1])) == TRANSACTION_OPERATIONS_MAX
    assert len(store.children(root)) == TRANSACTION_OPERATIONS_MAX


def test_a_transaction_may_have_so_many_bytes_and_no_more(store: MetadataStore, root: str) -> None:
    keys = [f"{root}/{number}" for number in range(8)]
    size = TRANSACTION_BYTES_MAX // 8
    fits = [Operation("create", key, b"x" * (size - len(key))) for key in keys]
    with pytest.raises(LimitError, match="TRANSACTION_BYTES_MAX"):
        store.transact([*fits[:-1], Operation("create", keys[-1], fits[-1].data + b"x")])
    assert store.children(root) == []
    store.transact(fits)
    assert len(store.children(root)) == 8


def test_a_key_is_written_once_in_a_transaction_and_may_be_checked_before(store: MetadataStore, root: str) -> None:
    with pytest.raises(MetadataError, match="twice"):
        store.transact([Operation("create", f"{root}/a"), Operation("put", f"{root}/a", b"x")])
    assert store.get(f"{root}/a") is None
    version = store.create(f"{root}/a")
    check = Operation("check", f"{root}/a", version=version)
    store.transact([check, Operation("put", f"{root}/a", b"x")])
    with pytest.raises(ConflictError):
        store.transact([check, Operation("put", f"{root}/a", b"y")])


def test_an_unknown_operation_is_refused(store: MetadataStore, root: str) -> None:
    with pytest.raises(MetadataError, match="increment"):
        store.transact([Operation("increment", f"{root}/a")])  # type: ignore[arg-type]


def test_who_watches_a_key_that_a_transaction_writes_is_told(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    store.create(f"{root}/a")
    settle(other, root)
    on_key, on_parent = Calls(), Calls()
    watches = [other.watch(f"{root}/a", on_key), other.watch(root, on_parent)]
    store.transact([Operation("put", f"{root}/a", b"x"), Operation("create", f"{root}/b")])
    until(lambda: on_key.count and on_parent.count)
    for watch in watches:
        watch.close()
