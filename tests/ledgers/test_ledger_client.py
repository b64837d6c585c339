"""LedgerClient: what it refuses, lists and deletes; passwords; children after a fork; faults of the store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_runs import contents, faulty

import walkeeper
from walkeeper import ledgers
from walkeeper.metadata import Cluster, DigestType, LedgerMetadata, ServiceInfo, open_store
from walkeeper.metadata._settle import TRIES_MAX
from walkeeper_bookie.cluster import LocalCluster


def test_it_is_a_name_of_the_package() -> None:
    for name in ("LedgerClient", "LedgerWriter", "LedgerReader", "LedgerEntry"):
        assert getattr(walkeeper, name) is getattr(ledgers, name)


@pytest.mark.parametrize(
    "options",
    [
        {"ensemble_size": 0},
        {"ensemble_size": 2, "write_quorum": 3},
        {"write_quorum": 1, "ack_quorum": 2},
        {"ack_quorum": 0},
        {"ensemble_size": 65},
        {"ensemble_size": 1.5},
        {"ack_quorum": True},
        {"digest": "md5"},
        {"password": "text"},
        {"custom_metadata": {"owner": "text"}},
        {"custom_metadata": {b"owner": b"x"}},
        {"ledger_id": -1},
        {"ledger_id": 2**63},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    client: walkeeper.LedgerClient, options: dict[str, Any]
) -> None:
    before = list(client.list())
    with pytest.raises(walkeeper.InvalidError):
        client.create(**options)
    assert list(client.list()) == before


@pytest.mark.parametrize("options", [{"connect_timeout": -1}, {"link_bytes": -1}, {"backend": "x"}, {"create": "no"}])
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(walkeeper.InvalidError, match=f"^{next(iter(options))}="):
        walkeeper.LedgerClient("memory:refused", **options)


def test_a_uri_that_names_no_store_is_refused(tmp_path: Path) -> None:
    for uri in ("mysql://host/ledgers", "nothing", "s3:bucket"):
        with pytest.raises(walkeeper.UnsupportedError, match=uri):
            walkeeper.LedgerClient(uri)
    with pytest.raises(walkeeper.InvalidError):
        walkeeper.LedgerClient(tmp_path)  # type: ignore[arg-type]


def test_where_there_is_no_cluster_none_is_made(tmp_path: Path) -> None:
    uri = f"sqlite:{tmp_path}/metadata.db"
    with pytest.raises(walkeeper.NotFoundError):
        walkeeper.LedgerClient(uri)
    assert list(tmp_path.iterdir()) == []
    open_store(uri).store.close()
    with pytest.raises(walkeeper.NotFoundError, match="no cluster"):
        walkeeper.LedgerClient(uri)


def test_a_cluster_is_made_where_that_is_asked_for(tmp_path: Path) -> None:
    with walkeeper.LedgerClient(f"sqlite:{tmp_path}/metadata.db", create=True) as client:
        assert (list(client.list()), client.bookies()) == ([], ())
        with pytest.raises(walkeeper.NotEnoughBookiesError, match="there are 0"):
            client.create()


def test_bookies_are_what_the_metadata_say_of_them() -> None:
    opened = open_store("memory:bookies")
    with walkeeper.LedgerClient(opened, create=True) as client:
        assert client.uri == "memory:bookies"
        service = ServiceInfo.of_bookie("10.0.0.7", 3181).serialise()
        opened.store.create("/ledgers/available/named", service)
        opened.store.create("/ledgers/available/nameless")  # up, and nobody knows where
        opened.store.create("/ledgers/available/readonly/10.0.0.8:3181")
        opened.store.create("/ledgers/cookies/[::1]:3181", parents=True)
        assert [(each.bookie_id, each.state, each.address) for each in client.bookies()] == [
            ("10.0.0.8:3181", "read-only", "10.0.0.8:3181"),
            ("[::1]:3181", "down", "[::1]:3181"),
            ("named", "writable", "10.0.0.7:3181"),
            ("nameless", "writable", None),
        ]
        writer = client.create(ensemble_size=1, write_quorum=1, ack_quorum=1)
        assert writer.metadata.segments == {0: ("named",)}
        with pytest.raises(walkeeper.NotEnoughBookiesError, match="there are 1"):
            client.create(ensemble_size=2, write_quorum=2)


def test_an_id_may_be_chosen_once(client: walkeeper.LedgerClient) -> None:
    chosen = 7_000_000_000 + os.getpid()
    with client.create(ledger_id=chosen) as writer:
        assert writer.ledger_id == chosen
    with pytest.raises(walkeeper.ExistsError) as caught:
        client.create(ledger_id=chosen)
    assert (caught.value.outcome, caught.value.ledger_id) == ("not_written", chosen)
    client.delete(chosen)


def test_ledgers_are_listed_and_deleted(client: walkeeper.LedgerClient) -> None:
    made = [client.create() for _ in range(3)]
    ids = [writer.ledger_id for writer in made]
    assert sorted(ids) == ids
    assert [ledger_id for ledger_id in client.list() if ledger_id in ids] == ids
    made[0].add(b"paid 42")
    client.delete(ids[0])
    client.delete(ids[0])
    assert [ledger_id for ledger_id in client.list() if ledger_id in ids] == ids[1:]
    for call in (client.open, client.open_no_recovery, client.metadata):
        with pytest.raises(walkeeper.LedgerNotFoundError, match=f"no ledger {ids[0]}") as caught:
            call(ids[0])
        assert caught.value.ledger_id == ids[0]
    with pytest.raises(walkeeper.LedgerNotFoundError):
        made[0].close()
    assert made[0].closed


def test_a_reader_of_a_ledger_that_is_deleted_learns_of_it(client: walkeeper.LedgerClient) -> None:
    writer = client.create()
    writer.add(b"paid 42")
    with client.open_no_recovery(writer.ledger_id) as reader:
        client.delete(writer.ledger_id)
        with pytest.raises(walkeeper.LedgerNotFoundError):
            reader.read_last_confirmed()


@pytest.mark.parametrize("digest", ["crc32c", "hmac"])
def test_another_password_opens_nothing(client: walkeeper.LedgerClient, digest: Any) -> None:
    writer = client.create(password=b"secret", digest=digest)
    writer.add(b"paid 42")
    for call in (client.open, client.open_no_recovery):
        for wrong in (b"", b"Secret"):
            with pytest.raises(walkeeper.UnauthorizedError) as caught:
                call(writer.ledger_id, password=wrong)
            assert (caught.value.ledger_id, caught.value.hint is not None) == (writer.ledger_id, True)
    writer.add(b"paid 43")  # nobody fenced it
    writer.close()
    assert contents(client, writer.ledger_id, password=b"secret") == [b"paid 42", b"paid 43"]


def rewritten(shared_cluster: LocalCluster, ledger_id: int, **fields: Any) -> None:
    """The ledger's metadata as another version of BookKeeper's client would have written them."""
    opened = open_store(shared_cluster.metadata)
    kept = Cluster(opened.store, opened.root).ledgers
    found = kept.read(ledger_id)
    assert found is not None
    metadata: LedgerMetadata = replace(found.value, **fields)
    kept.write(ledger_id, metadata, found.version)
    opened.store.close()


def test_of_old_metadata_the_caller_says_the_digest_and_bookies_check_the_password(
    client: walkeeper.LedgerClient, shared_cluster: LocalCluster
) -> None:
    writer = client.create(password=b"secret", digest="crc32", ack_quorum=3)
    writer.add(b"paid 42")
    rewritten(shared_cluster, writer.ledger_id, password=None, digest_type=None, format_version=1, ctime=None)
    with pytest.raises(walkeeper.UnauthorizedError):
        client.open(writer.ledger_id, password=b"wrong")
    assert contents(client, writer.ledger_id, password=b"secret") == [b"paid 42"]
    assert client.metadata(writer.ledger_id).format_version == 1


def test_a_bookie_whose_address_nobody_knows_counts_as_one_that_is_down(
    client: walkeeper.LedgerClient, shared_cluster: LocalCluster
) -> None:
    with client.create() as writer:
        writer.add_many([b"0", b"1", b"2"])
    first, second, _ = client.metadata(writer.ledger_id).segments[0]
    rewritten(shared_cluster, writer.ledger_id, segments={0: (first, second, "gone")})
    assert contents(client, writer.ledger_id) == [b"0", b"1", b"2"]
    client.delete(writer.ledger_id)


def test_a_reader_goes_on_with_the_bookies_that_the_metadata_name_now(
    client: walkeeper.LedgerClient, other: walkeeper.LedgerClient, shared_cluster: LocalCluster
) -> None:
    with client.create(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer:
        writer.add(b"paid 42")
    right = client.metadata(writer.ledger_id).segments
    rewritten(shared_cluster, writer.ledger_id, segments={0: ("gone",)})
    with other.open(writer.ledger_id) as reader:
        with pytest.raises(walkeeper.UnavailableError):
            list(reader.read())
        rewritten(shared_cluster, writer.ledger_id, segments=right)
        assert [entry.payload for entry in reader.read()] == [b"paid 42"]
        assert reader.metadata.segments == right


def test_what_is_on_no_bookie_any_more_is_damage(client: walkeeper.LedgerClient, shared_cluster: LocalCluster) -> None:
    with client.create() as writer:
        writer.add(b"paid 42")
    rewritten(shared_cluster, writer.ledger_id, last_entry_id=1, length=8)
    with client.open(writer.ledger_id) as reader:
        entries = reader.read()
        assert next(entries).payload == b"paid 42"
        with pytest.raises(walkeeper.DamagedError) as caught:
            next(entries)
        assert (caught.value.entry_id, caught.value.hint) == (1, None)


def test_another_digest_than_that_of_the_entries_is_damage(
    client: walkeeper.LedgerClient, shared_cluster: LocalCluster
) -> None:
    with client.create(digest="crc32c") as writer:
        writer.add(b"paid 42")
    rewritten(shared_cluster, writer.ledger_id, digest_type=DigestType.MAC)
    with client.open(writer.ledger_id) as reader, pytest.raises(walkeeper.DamagedError):
        list(reader.read())


def test_a_closed_client_says_so(shared_cluster: LocalCluster) -> None:
    with walkeeper.LedgerClient(shared_cluster.metadata) as client:
        writer = client.create()
        writer.add(b"paid 42")
        reader = client.open_no_recovery(writer.ledger_id)
    assert client.closed
    client.close()
    for call in (
        client.create,
        client.list,
        client.bookies,
        lambda: client.open(0),
        lambda: client.open_no_recovery(0),
        lambda: client.delete(0),
        lambda: client.metadata(0),
        lambda: writer.add(b"x"),
        lambda: writer.submit(b"x"),
        lambda: list(reader.read_unconfirmed(0)),
        reader.read_last_confirmed,
    ):
        with pytest.raises(walkeeper.ClosedError):
            call()
    assert writer.lac == 0


OUTLIVING = """
import sys, threading, walkeeper
for _ in range(20):
    client = walkeeper.LedgerClient(sys.argv[1])
    writers = [client.create()]
    writers[0].add(b"paid 42")
    client.close()
    del client
    thread = threading.Thread(target=writers.clear)
    thread.start()
    thread.join()
"""


def test_the_last_handle_of_a_closed_client_may_go_in_any_thread(shared_cluster: LocalCluster) -> None:
    """Also in a new one, to which the C library gives the id that the client's own thread had."""
    command = [sys.executable, "-c", OUTLIVING, shared_cluster.metadata]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# ---- fork ----


def in_child(check: Callable[[], None], seconds: int = 20) -> None:
    """Runs `check` in a forked child; fails where it raises or hangs."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(seconds)
            check()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_child_may_not_use_what_the_parent_made_and_does_not_harm_it(client: walkeeper.LedgerClient) -> None:
    writer = client.create()
    writer.submit(b"paid 42").result(60)
    reader = client.open_no_recovery(writer.ledger_id)

    def check() -> None:
        for call in (
            client.create,
            client.list,
            lambda: client.open(writer.ledger_id),
            lambda: client.delete(writer.ledger_id),
            lambda: writer.add(b"x"),
            lambda: writer.add_many([b"x"]),
            lambda: writer.submit(b"x"),
            writer.flush,
            lambda: list(reader.read_unconfirmed(0)),
            reader.read_last_confirmed,
        ):
            try:
                call()
            except walkeeper.ForkedError:
                continue
            raise AssertionError(call)
        writer.close()
        reader.close()
        client.close()
        assert writer.closed
        assert client.closed

    in_child(check)
    assert writer.add(b"paid 43") == 1
    writer.close()
    assert contents(client, writer.ledger_id) == [b"paid 42", b"paid 43"]


# ---- faults of the store ----


@pytest.mark.parametrize("fault", ["after", "never"])
def test_writes_of_unknown_outcome_are_found_out_at_each_step(shared_cluster: LocalCluster, fault: Any) -> None:
    store, opened = faulty(shared_cluster.metadata)
    with walkeeper.LedgerClient(opened) as client:
        before = set(client.list())
        store.next_writes = [fault]
        writer = client.create()
        writer.add(b"paid 42")
        assert set(client.list()) - before == {writer.ledger_id}
        store.next_writes = [fault]
        writer.close()
        left = client.create()
        left.add(b"paid 43")
        store.next_writes = [fault, "none", fault]  # in recovery; once more; closed
        assert contents(client, left.ledger_id) == [b"paid 43"]
        store.next_writes = [fault]
        client.delete(left.ledger_id)
        assert store.next_writes == []
        assert store.seen[fault] == 5
        assert set(client.list()) - before == {writer.ledger_id}
        assert contents(client, writer.ledger_id) == [b"paid 42"]


def test_a_store_that_is_away_is_said_to_be(shared_cluster: LocalCluster) -> None:
    store, opened = faulty(shared_cluster.metadata)
    with walkeeper.LedgerClient(opened) as client:
        before = list(client.list())
        for call in (client.create, lambda: client.open(0), lambda: client.metadata(0), client.bookies):
            store.script(["before"])
            with pytest.raises(walkeeper.UnavailableError, match="injected") as caught:
                call()
            assert caught.value.__cause__ is not None
        store.next_writes = ["before"]
        with pytest.raises(walkeeper.UnavailableError) as caught:
            client.create()
        assert caught.value.outcome == "not_written"
        assert list(client.list()) == before


def test_a_writer_whose_store_is_away_can_close_later(shared_cluster: LocalCluster) -> None:
    store, opened = faulty(shared_cluster.metadata)
    with walkeeper.LedgerClient(opened) as client:
        writer = client.create()
        writer.add(b"paid 42")
        for faults, outcome in ((["before"], "not_written"), (["never"] * TRIES_MAX, "unknown")):
            store.next_writes = list(faults)
            with pytest.raises(walkeeper.UnavailableError) as caught:
                writer.close()
            assert (caught.value.outcome, caught.value.ledger_id, writer.closed) == (outcome, writer.ledger_id, False)
            with pytest.raises(walkeeper.ClosedError):
                writer.add(b"x")
            store.next_writes = []
        writer.close()
        assert client.metadata(writer.ledger_id).last_entry_id == 0
