"""What every store promises of single keys: values, versions, refusals, listings, limits."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from walkeeper.metadata import (
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    ConflictError,
    ExistsError,
    InvalidKeyError,
    LimitError,
    MetadataError,
    MetadataStore,
    MissingError,
    NotEmptyError,
    Operation,
)


def data_of(store: MetadataStore, key: str) -> bytes:
    value = store.get(key)
    assert value is not None, key
    return value.data


def version_of(store: MetadataStore, key: str) -> int:
    value = store.get(key)
    assert value is not None, key
    return value.version


# ---- create and get ----


def test_what_was_created_is_read_by_everybody(store: MetadataStore, other: MetadataStore, root: str) -> None:
    version = store.create(f"{root}/a", b"one")
    for reader in (store, other):
        value = reader.get(f"{root}/a", linearizable=True)
        assert value is not None
        assert (value.data, value.version, value.ephemeral) == (b"one", version, False)


def test_a_value_may_be_empty_and_may_be_any_bytes(store: MetadataStore, root: str) -> None:
    store.create(f"{root}/empty")
    store.create(f"{root}/bytes", bytes(range(256)))
    assert data_of(store, f"{root}/empty") == b""
    assert data_of(store, f"{root}/bytes") == bytes(range(256))


def test_a_value_given_as_a_buffer_is_copied(store: MetadataStore, root: str) -> None:
    buffer = bytearray(b"one")
    store.create(f"{root}/a", buffer)
    buffer[:] = b"two"
    assert data_of(store, f"{root}/a") == b"one"


def test_a_missing_key_is_none(store: MetadataStore, root: str) -> None:
    assert store.get(f"{root}/a") is None
    assert store.get(f"{root}/a/b/c", linearizable=True) is None


def test_a_key_is_created_once(store: MetadataStore, other: MetadataStore, root: str) -> None:
    version = store.create(f"{root}/a", b"one")
    with pytest.raises(ExistsError) as refused:
        other.create(f"{root}/a", b"two")
    assert refused.value.key == f"{root}/a"
    assert (data_of(store, f"{root}/a"), version_of(store, f"{root}/a")) == (b"one", version)


def test_a_key_needs_its_parent(store: MetadataStore, root: str) -> None:
    with pytest.raises(MissingError) as refused:
        store.create(f"{root}/a/b")
    assert refused.value.key == f"{root}/a/b"
    assert store.children(root) == []


def test_parents_are_made_empty_where_they_are_missing(store: MetadataStore, root: str) -> None:
    store.create(f"{root}/a", b"kept")
    store.create(f"{root}/a/b/c/d", b"leaf", parents=True)
    store.create(f"{root}/a/b/c/e", b"leaf", parents=True)
    assert [data_of(store, f"{root}/a{below}") for below in ("", "/b", "/b/c", "/b/c/d")] == [
        b"kept",
        b"",
        b"",
        b"leaf",
    ]
    assert store.children(f"{root}/a/b/c") == ["d", "e"]
    with pytest.raises(ExistsError):
        store.create(f"{root}/a/b", parents=True)


def test_the_root_is_always_there(store: MetadataStore, root: str) -> None:
    assert store.get("/") is not None
    assert root.split("/")[1] in store.children("/")
    with pytest.raises(ExistsError):
        store.create("/")
    with pytest.raises(InvalidKeyError):
        store.delete("/")


# ---- put, delete and versions ----


def test_a_write_gives_another_version(store: MetadataStore, other: MetadataStore, root: str) -> None:
    versions = [store.create(f"{root}/a", b"0")]
    for number in range(1, 20):
        versions.append(store.put(f"{root}/a", b"%d" % number))
        assert version_of(other, f"{root}/a") == versions[-1]
        assert data_of(other, f"{root}/a") == b"%d" % number
    assert len(set(versions)) == len(versions)


def test_the_same_value_again_is_a_write(store: MetadataStore, root: str) -> None:
    version = store.create(f"{root}/a", b"same")
    assert store.put(f"{root}/a", b"same") != version


def test_a_write_of_one_key_leaves_the_versions_of_others(store: MetadataStore, root: str) -> None:
    version = store.create(f"{root}/a")
    store.create(f"{root}/b")
    store.create(f"{root}/a/below")
    store.put(f"{root}/b", b"x")
    store.put(f"{root}/a/below", b"x")
    store.delete(f"{root}/a/below")
    assert version_of(store, f"{root}/a") == version


def test_a_put_with_the_keys_version_is_done_and_with_another_refused(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    first = store.create(f"{root}/a", b"one")
    second = other.put(f"{root}/a", b"two", first)
    with pytest.raises(ConflictError) as refused:
        store.put(f"{root}/a", b"three", first)
    assert refused.value.key == f"{root}/a"
    assert (data_of(store, f"{root}/a"), version_of(store, f"{root}/a")) == (b"two", second)
    store.put(f"{root}/a", b"four", second)
    assert data_of(other, f"{root}/a") == b"four"


@pytest.mark.parametrize("version", [None, 5])
def test_a_missing_key_is_neither_put_nor_deleted(store: MetadataStore, root: str, version: int | None) -> None:
    with pytest.raises(MissingError):
        store.put(f"{root}/a", b"x", version)
    with pytest.raises(MissingError):
        store.delete(f"{root}/a", version)
    assert store.get(f"{root}/a") is None


def test_a_delete_with_another_version_is_refused(store: MetadataStore, root: str) -> None:
    first = store.create(f"{root}/a")
    second = store.put(f"{root}/a", b"x")
    with pytest.raises(ConflictError):
        store.delete(f"{root}/a", first)
    assert store.get(f"{root}/a") is not None
    store.delete(f"{root}/a", second)
    assert store.get(f"{root}/a") is None


def test_a_key_with_children_is_not_deleted(store: MetadataStore, root: str) -> None:
    store.create(f"{root}/a/b", parents=True)
    with pytest.raises(NotEmptyError) as refused:
        store.delete(f"{root}/a")
    assert refused.value.key == f"{root}/a"
    store.delete(f"{root}/a/b")
    store.delete(f"{root}/a")
    assert store.children(root) == []


def test_a_name_that_another_begins_with_is_not_its_parent(store: MetadataStore, root: str) -> None:
    for name in ("a", "a-b", "a.b", "a0", "ab"):
        store.create(f"{root}/{name}")
    store.delete(f"{root}/a")
    assert store.children(root) == ["a-b", "a.b", "a0", "ab"]


def test_of_many_that_compare_and_set_one_wins_each_round(
    store: MetadataStore, other: MetadataStore, root: str
) -> None:
    key = f"{root}/counter"
    store.create(key, b"0")
    done = []

    def count(through: MetadataStore) -> None:
        for _ in range(10):
            while True:
                value = through.get(key)
                assert value is not None
                try:
                    through.put(key, b"%d" % (int(value.data) + 1), value.version)
                except ConflictError:
                    continue
                break
        done.append(through)

    run([lambda through=through: count(through) for through in (store, other, store, other)])
    assert len(done) == 4
    assert data_of(store, key) == b"40"


def run(calls: list[Callable[[], None]]) -> None:
    """All at once, each on a thread."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


# ---- sequential keys ----


def test_sequential_names_rise_also_when_earlier_ones_went(store: MetadataStore, root: str) -> None:
    first = store.create_sequential(f"{root}/n-", b"one")
    assert data_of(store, first) == b"one"
    assert first.startswith(f"{root}/n-")
    assert len(first) == len(f"{root}/n-") + 10
    names = [first]
    for _ in range(5):
        store.delete(names[-1])
        names.append(store.create_sequential(f"{root}/n-"))
    assert names == sorted(set(names))


def test_prefixes_below_one_parent_share_the_count(store: MetadataStore, root: str) -> None:
    made = [store.create_sequential(f"{root}/{prefix}") for prefix in ("a-", "b-", "a-", "", "b-")]
    numbers = [key[-10:] for key in made]
    assert numbers == sorted(set(numbers))
    assert made[3] == f"{root}/{numbers[3]}"


def test_sequential_names_are_unique_under_contention(store: MetadataStore, other: MetadataStore, root: str) -> None:
    made: list[list[str]] = [[], [], [], []]

    def make(through: MetadataStore, names: list[str]) -> None:
        names.extend(through.create_sequential(f"{root}/n-") for _ in range(25))

    run([lambda names=names, n=n: make((store, other)[n % 2], names) for n, names in enumerate(made)])
    assert all(names == sorted(names) for names in made)
    assert sorted(name for names in made for name in names) == [f"{root}/{name}" for name in store.children(root)]
    assert len(store.children(root)) == 100


def test_a_sequential_key_needs_its_parent(store: MetadataStore, root: str) -> None:
    with pytest.raises(MissingError):
        store.create_sequential(f"{root}/missing/n-")
    with pytest.raises(InvalidKeyError):
        store.create_sequential("n-")


# ---- listings ----


def test_children_are_names_in_byte_order(store: MetadataStore, root: str) -> None:
    names = ["10.0.0.1:3181", "a", "B", "é", "z", "\uff5e", "-", "L0001", "00", "readonly", "ab", "a b"]
    for name in names:
        store.create(f"{root}/{name}")
    store.create(f"{root}/a/below")
    store.create(f"{root}/a/below/further")
    in_order = sorted(names, key=str.encode)
    assert store.children(root) == in_order
    for page in (1, 2, 5, 12, 13, 1000):
        assert list(store.scan(root, page=page)) == in_order
    assert store.children(f"{root}/a") == ["below"]
    assert store.children(f"{root}/B") == list(store.scan(f"{root}/B")) == []


def test_what_is_not_there_has_no_listing(store: MetadataStore, root: str) -> None:
    with pytest.raises(MissingError) as refused:
        store.children(f"{root}/a")
    assert refused.value.key == f"{root}/a"
    with pytest.raises(MissingError):
        list(store.scan(f"{root}/a"))


def test_a_scan_goes_on_while_keys_come_and_go(store: MetadataStore, root: str) -> None:
    names = [f"{number:03}" for number in range(100)]
    for name in names:
        store.create(f"{root}/{name}")
    seen = []
    for name in store.scan(root, page=10):
        seen.append(name)
        if int(name) % 2 == 0 and int(name) < 90:
            store.delete(f"{root}/{int(name) + 1:03}")
            store.create(f"{root}/{name}-new")
    assert seen == sorted(set(seen))
    assert set(names[::2]) <= set(seen)


def test_a_page_has_a_name_at_least(store: MetadataStore, root: str) -> None:
    with pytest.raises(ValueError, match="page"):
        list(store.scan(root, page=0))


# ---- what is refused before anything is sent ----

NO_KEYS = [
    "",
    "a",
    "a/b",
    "//",
    "/a/",
    "/a//b",
    "/.",
    "/a/..",
    "/a/./b",
    "/\0",
    "/a\nb",
    "/\x7f",
    "/\ue000",
    "/\U0001f600",
]


@pytest.mark.parametrize("key", NO_KEYS)
def test_what_is_no_key_is_refused_by_every_call(store: MetadataStore, key: str) -> None:
    for call in (
        lambda: store.get(key),
        lambda: store.create(key, parents=True),
        lambda: store.put(key, b""),
        lambda: store.delete(key),
        lambda: store.children(key),
        lambda: list(store.scan(key)),
        lambda: store.watch(key, lambda: None),
        lambda: store.transact([Operation("check", key)]),
    ):
        with pytest.raises(InvalidKeyError):
            call()


@pytest.mark.parametrize(
    "name", ["...", ".a", "a.", "a b", "~", "%2F", "é", "\ud7ff", "127.0.0.1:3181", "a\\b", "'\";--"]
)
def test_odd_names_are_names(store: MetadataStore, root: str, name: str) -> None:
    store.create(f"{root}/{name}", b"x")
    assert store.children(root) == [name]
    store.delete(f"{root}/{name}")
    assert store.children(root) == []


def test_a_value_has_a_limit_with_a_name(store: MetadataStore, root: str) -> None:
    largest = bytes(range(256)) * (VALUE_BYTES_MAX // 256)
    assert len(largest) == VALUE_BYTES_MAX
    store.create(f"{root}/a", largest)
    assert data_of(store, f"{root}/a") == largest
    for call in (
        lambda: store.put(f"{root}/a", largest + b"x"),
        lambda: store.create(f"{root}/b", largest + b"x"),
        lambda: store.create_sequential(f"{root}/b", largest + b"x"),
    ):
        with pytest.raises(LimitError, match="VALUE_BYTES_MAX"):
            call()
    assert data_of(store, f"{root}/a") == largest
    assert store.children(root) == ["a"]


def test_a_key_has_a_limit_with_a_name(store: MetadataStore, root: str) -> None:
    longest = f"{root}/" + "k" * (KEY_BYTES_MAX - len(root) - 1)
    store.create(longest, b"x")
    assert data_of(store, longest) == b"x"
    for key in (longest + "k", longest[:-1] + "é"):
        with pytest.raises(LimitError, match="KEY_BYTES_MAX"):
            store.create(key)


def test_a_value_is_bytes(store: MetadataStore, root: str) -> None:
    with pytest.raises(TypeError):
        store.create(f"{root}/a", "text")  # type: ignore[arg-type]
    assert store.children(root) == []


def test_every_refusal_is_a_metadata_error() -> None:
    for refusal in (ExistsError, MissingError, ConflictError, NotEmptyError, InvalidKeyError, LimitError):
        assert issubclass(refusal, MetadataError)
