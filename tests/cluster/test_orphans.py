"""Rule 21: ledgers that were made for a log and that no log refers to are found, and deleted where that is certain."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from cluster.kills import Killed, each_step, ledgers_of, victim
from command_line import json_lines, run

import walkeeper
from walkeeper._options import LogOptions
from walkeeper.cluster._document import LogDocument, StoredSegment
from walkeeper.cluster._log_store import LogStore
from walkeeper.cluster._orphans import Orphan, Orphans
from walkeeper.metadata import Cluster, LedgerManager, ServiceInfo, open_store
from walkeeper_bookie.cluster import LocalCluster

RECORD = b"x" * 60


def found_in(uri: str, name: str) -> list[Orphan]:
    """The orphans of one namespace; other tests use the same bookies."""
    with walkeeper.LedgerClient(uri) as client:
        return [one for one in Orphans(client).find() if one.namespace == name]


# ---- a writer that is killed ----


def test_a_writer_that_is_killed_at_any_step_leaves_what_its_log_still_names(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    uri = shared_bookies.metadata

    def act(kill_at: int) -> bool:
        with victim(uri, name, kill_at) as other:
            with suppress(Killed), other.log(f"log-{kill_at}", segment_bytes=100).writer() as writer:
                for _ in range(3):
                    writer.append(RECORD)
            killed: bool = other.steps.dead
        if kill_at % 3 == 0:  # each look reads all ledgers of the cluster
            assert found_in(uri, name) == []
        return killed

    assert each_step(act) > 20
    assert found_in(uri, name) == []


def test_a_writer_that_was_overtaken_is_killed_at_any_step_around_its_ledger(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer writer deletes the intent before the older one makes the ledger. Killed behind that, the older one
    leaves a ledger that nothing names: an orphan, and the only one."""
    uri = shared_bookies.metadata
    left = []

    def act(kill_at: int) -> bool:
        log: Any = ns.log(f"log-{kill_at}")
        log.writer().close()
        with victim(uri, name, 10**9) as other:
            ledgers = other._ledgers
            create = ledgers.create

            def slow(*arguments: Any) -> Any:
                monkeypatch.setattr(ledgers, "create", create)
                with log.writer() as newer:
                    newer.append(RECORD)
                other.steps.kill_at = other.steps.calls + kill_at
                return create(*arguments)

            monkeypatch.setattr(ledgers, "create", slow)
            with suppress(Killed, walkeeper.FencedError), other.log(f"log-{kill_at}").writer() as old:
                old.append(RECORD)
            killed: bool = other.steps.dead
        now = ns._store.read(log._log_id)[0]  # type: ignore[attr-defined]
        named = {now.intent, *now.deleting, *(segment.ledger_id for segment in now.segments)}
        with walkeeper.LedgerClient(uri) as client:
            finder = Orphans(client)
            orphans = [one for one in finder.find() if one.namespace == name]
            assert {one.ledger_id for one in orphans} == ledgers_of(uri, log._log_id) - named
            assert all(one.certain and "overtaken" in one.reason for one in orphans)
            left.append(len(orphans))
            assert all(map(finder.delete, orphans))
            assert not any(map(finder.delete, orphans)), "they are gone"
        assert ledgers_of(uri, log._log_id) <= named
        assert [bytes(record.payload) for record in log.reader()] in ([RECORD], [RECORD] * 2)
        return killed

    each_step(act)
    assert left[:4] == [0, 1, 1, 0], "between making the ledger and deleting it"
    assert sum(left) == 2, "then it takes over itself, and a document names what it makes"


def test_a_ledger_that_is_just_being_made_is_no_orphan(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer stands still behind making it: the log's document has it as the intent."""
    log: Any = ns.log("orders")
    ledgers = ns._ledgers  # type: ignore[attr-defined]
    create = ledgers.create
    looked = []

    def slow(*arguments: Any) -> Any:
        made = create(*arguments)
        looked.append(found_in(shared_bookies.metadata, name))
        return made

    monkeypatch.setattr(ledgers, "create", slow)
    with log.writer() as writer:
        writer.append(RECORD)
    assert looked == [[]]


# ---- what is certain ----


class World:
    """A cluster in memory, whose bookies nobody asks."""

    def __init__(self) -> None:
        self.uri = f"memory:{uuid.uuid4().hex}"
        self.store = open_store(self.uri).store
        self.cluster = Cluster(self.store)
        self.instance_id = self.cluster.init(LedgerManager.HIERARCHICAL)
        for number in range(3):
            info = ServiceInfo.of_bookie("127.0.0.1", 3181 + number)
            self.store.create(f"/ledgers/available/127.0.0.1:{3181 + number}", info.serialise())
        self.client = walkeeper.LedgerClient(self.uri)
        self.orphans = Orphans(self.client)

    def close(self) -> None:
        self.client.close()
        self.store.close()

    def logs(self, namespace: str = "ns") -> LogStore:
        made = LogStore(self.store, namespace, instance_id=self.instance_id)
        made.prepare(create=True)
        return made

    def ledger(self, log_id: str, namespace: str = "ns", segment: str = "1", **more: bytes) -> int:
        custom = {"walkeeper.namespace": namespace, "walkeeper.log": log_id, "walkeeper.segment": segment}
        return self.made({**{name: value.encode() for name, value in custom.items()}, **more})

    def made(self, custom: dict[str, bytes]) -> int:
        return self.client.create(custom_metadata=custom).ledger_id

    def there(self) -> set[int]:
        return set(self.client.list())


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def document(**fields: Any) -> LogDocument:
    return LogDocument("orders", LogOptions(2**28, 7200, 0, "none"), **fields)


def test_what_a_document_names_is_no_orphan_in_whatever_way_it_does(world: World) -> None:
    logs = world.logs()
    log_id = logs.create(document())
    segment, intent, deleting, orphan = (world.ledger(log_id) for _ in range(4))
    stored = StoredSegment(1, segment, 0, 1)
    logs.change(log_id, lambda now: replace(now, segments=(stored,), intent=intent, deleting=(deleting,)))
    (found,) = world.orphans.find()
    assert (found.ledger_id, found.log_id, found.namespace, found.segment) == (orphan, log_id, "ns", 1)
    assert found.certain
    assert world.orphans.delete(found)
    assert world.there() == {segment, intent, deleting}


def test_a_ledger_that_another_logs_document_names_is_no_orphan(world: World) -> None:
    """Somebody copied a document by hand, or a namespace."""
    logs, others = world.logs(), world.logs("others")
    ledger_id = world.ledger(logs.create(document()))
    others.create(document(segments=(StoredSegment(1, ledger_id, 0, 1),)))
    assert world.orphans.find() == []


@pytest.mark.parametrize(
    "custom",
    [
        {},
        {"owner": b"pulsar"},
        {"walkeeper.log": b"00ff"},
        {"walkeeper.namespace": b"ns", "walkeeper.log": b"00ff"},
        {"walkeeper.namespace": b"ns", "walkeeper.log": b"orders", "walkeeper.segment": b"1"},
        {"walkeeper.namespace": b"ns", "walkeeper.log": b"00ff", "walkeeper.segment": b"first"},
        {"walkeeper.namespace": b"\xff", "walkeeper.log": b"00ff", "walkeeper.segment": b"1"},
    ],
)
def test_a_ledger_of_another_application_is_never_listed(world: World, custom: dict[str, bytes]) -> None:
    world.logs().create(document())
    world.made(custom)
    assert world.orphans.find() == []


def test_a_ledger_of_a_log_that_was_deleted(world: World) -> None:
    world.logs().create(document())
    ledger_id = world.ledger("00ff")
    (found,) = world.orphans.find()
    assert (found.certain, found.reason) == (True, "its log was deleted")
    assert world.orphans.delete(found)
    assert world.there() == set()
    assert not world.orphans.delete(found)
    assert ledger_id not in world.there()


def lose_the_namespace(world: World) -> str:
    return "there is no namespace"


def lose_the_documents(world: World) -> str:
    world.logs()
    return "has no log at all"


def break_a_document(world: World) -> str:
    log_id = world.logs().create(document())
    world.store.put(f"/walkeeper/ns/logs/{log_id}", b"{")
    return "cannot be read"


def break_a_document_of_another_namespace(world: World) -> str:
    world.logs().create(document())
    log_id = world.logs("others").create(document())
    world.store.put(f"/walkeeper/others/logs/{log_id}", b"{")
    return "cannot be read"


def belong_to_another_cluster(world: World) -> str:
    world.logs().create(document())
    world.store.put("/walkeeper/ns", b"walkeeper 1\nanother-cluster\n")
    return "belongs to another cluster"


@pytest.mark.parametrize(
    "happens",
    [
        lose_the_namespace,
        lose_the_documents,
        break_a_document,
        break_a_document_of_another_namespace,
        belong_to_another_cluster,
    ],
)
def test_where_documents_may_be_lost_nothing_is_certain_and_nothing_deleted(world: World, happens: Any) -> None:
    ledger_id = world.ledger("00ff")
    reason = happens(world)
    (found,) = world.orphans.find()
    assert (found.certain, reason in found.reason) == (False, True), found
    assert not world.orphans.delete(found)
    assert world.there() == {ledger_id}


def test_a_namespace_of_another_cluster_in_the_same_store_is_no_doubt(world: World) -> None:
    world.logs().create(document())
    world.logs("others").create(document())
    world.store.put("/walkeeper/others", b"walkeeper 1\nanother-cluster\n")
    ledger_id = world.ledger("00ff")
    assert [(one.ledger_id, one.certain) for one in world.orphans.find()] == [(ledger_id, True)]


# ---- what changes between finding and deleting ----


def test_rule_1_what_is_named_by_now_stays(world: World) -> None:
    """It cannot be, by the order of a writer's writes. It is looked at all the same."""
    logs = world.logs()
    log_id = logs.create(document())
    ledger_id = world.ledger(log_id)
    (found,) = world.orphans.find()
    logs.change(log_id, lambda now: replace(now, intent=ledger_id))
    assert not world.orphans.delete(found)
    assert world.there() == {ledger_id}


def test_rule_1_in_another_cluster_nothing_is_deleted(world: World) -> None:
    world.logs().create(document())
    ledger_id = world.ledger("00ff")
    (found,) = world.orphans.find()
    world.store.put("/ledgers/INSTANCEID", b"another")
    assert not world.orphans.delete(found)
    assert world.there() == {ledger_id}


def test_rule_1_in_another_session_nothing_is_deleted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session in which the cluster was looked at ends: what is read next may be of another server, or cluster."""
    world.logs().create(document())
    ledger_id = world.ledger("00ff")
    (found,) = world.orphans.find()
    store = world.client._cluster.store
    instance_id = world.client._cluster.instance_id

    def then_lost() -> str | None:
        known = instance_id()
        store.expire_session()  # type: ignore[attr-defined]
        return known

    monkeypatch.setattr(world.client._cluster, "instance_id", then_lost)
    assert not world.orphans.delete(found)
    assert world.there() == {ledger_id}


def test_rule_1_where_all_documents_went_meanwhile_nothing_is_deleted(world: World) -> None:
    log_id = world.logs().create(document())
    ledger_id = world.ledger(log_id)
    (found,) = world.orphans.find()
    world.store.delete(f"/walkeeper/ns/logs/{log_id}")
    assert not world.orphans.delete(found)
    assert world.there() == {ledger_id}


def test_a_ledger_that_was_made_anew_under_the_id_stays(world: World) -> None:
    world.logs().create(document())
    ledger_id = world.ledger("00ff")
    (found,) = world.orphans.find()
    world.client.delete(ledger_id)
    world.client.create(ledger_id=ledger_id, custom_metadata={"owner": b"pulsar"})
    assert not world.orphans.delete(found)
    assert world.there() == {ledger_id}


# ---- the command ----


def test_the_command_lists_and_deletes(world: World) -> None:
    logs = world.logs()
    logs.create(document())
    foreign, orphan, lost = world.made({}), world.ledger("00ff"), world.ledger("00fe", namespace="gone")
    listed = run("ledgers", world.uri, "--orphans")
    assert listed.exit_code == 0, listed.output
    lines = [line.split() for line in listed.stdout.splitlines()]
    assert {line[0]: line[6 if line[4] != "-" else 5] for line in lines if line and line[0].isdigit()} == {
        str(orphan): "yes",
        str(lost): "no",
    }
    (first, second) = json_lines(run("ledgers", world.uri, "--orphans", "--json"))
    assert (first["ledger_id"], first["certain"], first["deleted"]) == (orphan, True, False)
    assert (second["ledger_id"], second["certain"], second["reason"]) == (
        lost,
        False,
        "there is no namespace 'gone': its documents may be lost",
    )
    refused = run("ledgers", world.uri, "--orphans", "--delete", given=b"2\n")
    assert refused.exit_code == 2
    assert world.there() == {foreign, orphan, lost}
    done = run("ledgers", world.uri, "--orphans", "--delete", given=b"1\n")
    assert done.exit_code == 0, done.output
    assert "1 orphan deleted; 1 stay" in done.stderr
    assert world.there() == {foreign, lost}
    again = run("ledgers", world.uri, "--orphans", "--delete", "--yes", "--json")
    assert [json.loads(line)["deleted"] for line in again.stdout.splitlines()] == [False]
    assert world.there() == {foreign, lost}


def test_the_command_says_so_where_there_is_none(world: World) -> None:
    world.made({})
    result = run("ledgers", world.uri, "--orphans")
    assert (result.exit_code, result.stdout, "no orphans" in result.stderr) == (0, "", True)
    assert run("ledgers", world.uri, "--delete").exit_code == 2


def test_a_ledger_whose_metadata_are_damaged_is_told(world: World) -> None:
    world.logs().create(document())
    ledger_id = world.ledger("00ff")
    key = world.cluster.ledgers._key(ledger_id)
    world.store.put(key, b"\xff")
    result = run("ledgers", world.uri, "--orphans")
    assert result.exit_code == 1
    assert "no orphans" in result.stderr
