"""Every store against a dictionary: whatever is done to both, both say the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from metadata.stores import STORES, until

from walkeeper.metadata import (
    ConflictError,
    ExistsError,
    MetadataError,
    MissingError,
    NotEmptyError,
    Operation,
)

NAMES = ["a", "a-", "b", "é"]
KEYS = [*(f"/{x}" for x in NAMES), *(f"/{x}/{y}" for x in NAMES for y in NAMES), "/a/a/a", "/a/b/a-"]
keys = st.sampled_from(KEYS)
data = st.binary(max_size=4)
sessions = st.integers(0, 1)
versions = st.sampled_from(["none", "right", "wrong"])
operations = st.lists(
    st.tuples(st.sampled_from(["create", "put", "delete", "check"]), keys, data, versions, st.booleans()), max_size=4
)
Model = dict[str, tuple[bytes, int, int | None]]  # value, version, session


def above(key: str) -> str:
    return key.rpartition("/")[0]


class Refused(Exception):
    pass


def apply(model: Model, kind: str, key: str, value: bytes, version: int | None, owner: int | None) -> None:
    """What an operation does to the dictionary; a new value has version -1 until the store has given one."""
    if kind == "create":
        if key in model:
            raise Refused(ExistsError)
        if above(key) and above(key) not in model:
            raise Refused(MissingError)
        if above(key) and model[above(key)][2] is not None:
            raise Refused(MetadataError)
        model[key] = (value, -1, owner)
        return
    if key not in model:
        raise Refused(MissingError)
    if version is not None and version != model[key][1]:
        raise Refused(ConflictError)
    if kind == "put":
        model[key] = (value, -1, model[key][2])
    elif kind == "delete":
        if any(above(other) == key for other in model):
            raise Refused(NotEmptyError)
        del model[key]


class Stores(RuleBasedStateMachine):
    store_name = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.backing = STORES[self.store_name](Path(self.folder.name))
        self.root = self.backing.root
        self.stores = [self.backing.open(), self.backing.open()]
        self.model: Model = {}
        self.numbers: dict[str, int] = {}

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self.backing.close()
        self.folder.cleanup()

    def version(self, key: str, which: str) -> int | None:
        known = self.model[key][1] if key in self.model else 0
        return {"none": None, "right": known, "wrong": known + 1}[which]

    def both(self, kind: str, key: str, value: bytes, version: int | None, session: int, ephemeral: bool) -> None:
        self.transact([Operation(kind, key, value, version, ephemeral)], session, alone=True)  # type: ignore[arg-type]

    def transact(self, asked: list[Operation], session: int, alone: bool) -> None:
        after = dict(self.model)
        expected: type[MetadataError] | None = None
        try:
            for op in asked:
                apply(after, op.kind, op.key, op.data, op.version, session if op.ephemeral else None)
        except Refused as refused:
            expected = refused.args[0]
        store = self.stores[session]
        sent = [Operation(op.kind, self.root + op.key, op.data, op.version, op.ephemeral) for op in asked]
        got: list[int | None] = []
        try:
            if not alone:
                got = store.transact(sent)
            elif sent[0].kind == "create":
                got = [store.create(sent[0].key, sent[0].data, ephemeral=sent[0].ephemeral)]
            elif sent[0].kind == "put":
                got = [store.put(sent[0].key, sent[0].data, sent[0].version)]
            else:
                store.delete(sent[0].key, sent[0].version)
        except MetadataError as error:
            refused_by_store: type[MetadataError] | None = type(error)
        else:
            refused_by_store = None
        assert refused_by_store is expected, asked
        if expected is not None:
            return
        for op, version in zip(asked, got, strict=False):
            assert (version is None) == (op.kind in ("delete", "check"))
            if version is not None and op.key in after:
                after[op.key] = (after[op.key][0], version, after[op.key][2])
                assert op.key not in self.model or version != self.model[op.key][1]
        self.model = after

    @rule(key=keys, value=data, session=sessions, ephemeral=st.booleans())
    def create(self, key: str, value: bytes, session: int, ephemeral: bool) -> None:
        self.both("create", key, value, None, session, ephemeral)

    @rule(key=keys, value=data, session=sessions)
    def create_with_parents(self, key: str, value: bytes, session: int) -> None:
        missing = [key]
        while (parent := above(missing[-1])) and parent not in self.model:
            missing.append(parent)
        if key in self.model or (parent and self.model[parent][2] is not None):
            with pytest.raises(MetadataError):
                self.stores[session].create(self.root + key, value, parents=True)
            return
        version = self.stores[session].create(self.root + key, value, parents=True)
        for made in missing[1:]:
            found = self.stores[session].get(self.root + made)
            assert found is not None
            self.model[made] = (b"", found.version, None)
        self.model[key] = (value, version, None)

    @rule(parent=st.sampled_from(["", "/a", "/b", "/a/a"]), session=sessions)
    def create_sequential(self, parent: str, session: int) -> None:
        if (parent and parent not in self.model) or (parent and self.model[parent][2] is not None):
            with pytest.raises(MetadataError):
                self.stores[session].create_sequential(f"{self.root}{parent}/n-")
            return
        key = self.stores[session].create_sequential(f"{self.root}{parent}/n-")[len(self.root) :]
        assert key not in self.model
        assert above(key) == parent
        number = int(key.rpartition("n-")[2])
        siblings = [int(other.rpartition("n-")[2]) for other in self.model if above(other) == parent and "n-" in other]
        assert all(number > sibling for sibling in siblings)
        value = self.stores[session].get(self.root + key)
        assert value is not None
        self.model[key] = (b"", value.version, None)

    @rule(key=keys, value=data, version=versions, session=sessions)
    def put(self, key: str, value: bytes, version: str, session: int) -> None:
        self.both("put", key, value, self.version(key, version), session, False)

    @rule(key=keys, version=versions, session=sessions)
    def delete(self, key: str, version: str, session: int) -> None:
        self.both("delete", key, b"", self.version(key, version), session, False)

    @rule(asked=operations, session=sessions)
    def transaction(
        self, asked: list[tuple[str, str, bytes, str, bool]], session: int
    ) -> None:  # a key is written once, and one that was not there has no version to be right
        made: list[Operation] = []
        for kind, key, value, version, ephemeral in asked:
            if kind != "check" and key in {op.key for op in made}:
                continue
            if kind == "check" and key in {op.key for op in made if op.kind != "check"}:
                continue
            made.append(Operation(kind, key, value, self.version(key, version), ephemeral))  # type: ignore[arg-type]
        self.transact(made, session, alone=False)

    @rule(session=sessions)
    def end_session(self, session: int) -> None:
        self.stores[session].close()
        self.stores[session] = self.backing.open()
        self.model = {key: held for key, held in self.model.items() if held[2] != session}
        until(lambda: self.seen(1 - session, "") == self.expected(""))

    @rule(session=sessions)
    def lose_session(self, session: int) -> None:
        before = self.stores[session].session()
        self.backing.expire(self.stores[session])
        self.model = {key: held for key, held in self.model.items() if held[2] != session}
        if any(held[2] == session for held in self.model.values()):
            until(lambda: self.stores[session].session() != before)
        until(lambda: self.seen(1 - session, "") == self.expected(""))

    def expected(self, key: str) -> list[str]:
        return sorted(
            (other.rpartition("/")[2] for other in self.model if above(other) == key), key=lambda name: name.encode()
        )

    def seen(self, session: int, key: str) -> list[str]:
        return self.stores[session].children(self.root + key)

    @invariant()
    def both_say_the_same(self) -> None:
        for number, store in enumerate(self.stores):
            assert self.seen(number, "") == self.expected("")
            for key in KEYS:
                value = store.get(self.root + key)
                assert (value is None) == (key not in self.model), key
                if value is not None:
                    content, version, owner = self.model[key]
                    assert (value.data, value.version, value.ephemeral) == (content, version, owner is not None)
                    assert self.seen(number, key) == self.expected(key)
                    assert list(store.scan(self.root + key, page=2)) == self.expected(key)


@pytest.mark.parametrize("store_name", STORES)
def test_a_store_is_a_dictionary(store_name: str) -> None:
    machine = type("Stores", (Stores,), {"store_name": store_name})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60 if store_name == "memory" else 8,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
