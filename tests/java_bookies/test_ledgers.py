"""Ledgers of our client and of Java's on Java's bookies, and on mixed ones: written, read, recovered by either."""

from __future__ import annotations

from dataclasses import replace

import pytest
from java_bookies.clusters import LARGEST, Cluster, Shape
from java_bookies.jvm import Failed, payload, sums
from ledger_runs import contents, writer_process
from ledger_runs import payload as numbered
from metadata.stores import until

import walkeeper
from walkeeper.metadata import LedgerState

DIGESTS = [("crc32c", "CRC32C"), ("crc32", "CRC32"), ("hmac", "MAC"), ("none", "DUMMY")]
"""Our name, and Java's."""
SIZES = [0, 1, 1024, LARGEST, 7]
PAYLOADS = [payload(entry_id, size) for entry_id, size in enumerate(SIZES)]
PASSWORD = b"orders"


def read(reader: walkeeper.LedgerReader) -> list[bytes]:
    return [entry.payload for entry in reader.read()]


@pytest.mark.parametrize(("ours", "javas"), DIGESTS)
def test_what_we_write_both_clients_read(shape: Shape, ours: str, javas: str) -> None:
    java = shape.cluster.client
    with shape.client() as client:
        with client.create(digest=ours, password=PASSWORD) as writer:  # type: ignore[arg-type]
            assert [writer.add(each) for each in PAYLOADS[:3]] == [0, 1, 2]
            futures = [writer.submit(each) for each in PAYLOADS[3:]]
            assert [future.result(60) for future in futures] == [3, 4]
            assert read(writer) == PAYLOADS  # type: ignore[arg-type]
        assert contents(client, writer.ledger_id, password=PASSWORD) == PAYLOADS
    handle, lac, length = java.open(writer.ledger_id, javas, PASSWORD)
    assert (lac, length) == (4, sum(SIZES))
    assert java.read(handle, 0, lac) == sums(PAYLOADS)


@pytest.mark.parametrize("javas", [javas for _, javas in DIGESTS])
def test_what_javas_client_writes_we_read(shape: Shape, javas: str) -> None:
    java = shape.cluster.client
    handle, ledger_id = java.create(shape.bookies, javas, PASSWORD)
    assert java.add(handle, *SIZES) == 4
    java.close(handle)
    with shape.client() as client:
        assert contents(client, ledger_id, password=PASSWORD) == PAYLOADS


def test_an_entry_that_fills_no_frame_is_refused_before_it_is_sent(shape: Shape) -> None:
    with shape.client() as client, client.create() as writer:
        with pytest.raises(walkeeper.TooLargeError):
            writer.add(bytes(LARGEST + 1))
        assert writer.add(b"small") == 0


# ---- one client recovers what another one writes ----


@pytest.mark.parametrize("javas", [javas for _, javas in DIGESTS])
def test_we_recover_what_javas_client_left_open(shape: Shape, javas: str) -> None:
    """Its entries are written again with our digest; its writer is fenced."""
    java = shape.cluster.client
    writer, ledger_id = java.create(shape.bookies, javas, PASSWORD)
    assert java.add(writer, *SIZES) == 4
    with shape.client() as client:
        assert client.metadata(ledger_id).state is LedgerState.OPEN
        assert contents(client, ledger_id, password=PASSWORD) == PAYLOADS
        assert client.metadata(ledger_id).is_closed
    with pytest.raises(Failed, match="BKLedgerFencedException"):
        java.add(writer, 1)
    reader, lac, length = java.open(ledger_id, javas, PASSWORD)
    assert (lac, length) == (4, sum(SIZES))
    assert java.read(reader, 0, lac) == sums(PAYLOADS)


@pytest.mark.parametrize(("ours", "javas"), DIGESTS)
def test_javas_client_recovers_what_we_left_open(shape: Shape, ours: str, javas: str) -> None:
    java = shape.cluster.client
    with shape.client() as client:
        writer = client.create(digest=ours, password=PASSWORD)  # type: ignore[arg-type]
        writer.add_many(PAYLOADS)
        reader, lac, length = java.open(writer.ledger_id, javas, PASSWORD)
        assert (lac, length) == (4, sum(SIZES))
        assert java.read(reader, 0, lac) == sums(PAYLOADS)
        with pytest.raises(walkeeper.FencedError) as caught:
            writer.add(b"late")
        assert caught.value.outcome in ("unknown", "not_written")
        writer.close()  # the recovery found the same end
        assert contents(client, writer.ledger_id, password=PASSWORD) == PAYLOADS


def test_we_recover_what_our_writer_is_writing(shape: Shape) -> None:
    with shape.client() as client, shape.client() as other:
        writer = client.create()
        futures = [writer.submit(payload(number, 100)) for number in range(2000)]
        futures[200].result(60)
        found = contents(other, writer.ledger_id)
        acknowledged = sum(future.exception(60) is None for future in futures)
        assert 200 < acknowledged <= len(found)
        assert found == [payload(number, 100) for number in range(len(found))]
        with pytest.raises(walkeeper.FencedError):
            writer.add(b"late")
        assert contents(client, writer.ledger_id) == found


@pytest.mark.parametrize("count", [0, 1, 100])
def test_what_a_killed_writer_was_told_is_there(cluster: Cluster, count: int) -> None:
    """On whatever three of the five bookies the placement policy chose."""
    with writer_process(cluster.metadata) as writer:
        writer.wait(count)
        writer.kill()
    handle, lac, _ = cluster.client.open(writer.ledger_id)
    assert lac + 1 >= writer.acknowledged >= count
    entries = [numbered(number) for number in range(lac + 1)]
    if entries:
        assert cluster.client.read(handle, 0, lac) == sums(entries)
    with walkeeper.LedgerClient(cluster.metadata) as client:
        assert contents(client, writer.ledger_id) == entries


def test_both_clients_recover_at_once_and_agree(shape: Shape) -> None:
    java = shape.cluster.client
    with shape.client() as client, shape.client() as other:
        for _ in range(5):
            writer = client.create()
            futures = [writer.submit(payload(number, 100)) for number in range(300)]
            java.say("open", writer.ledger_id, "CRC32C", "-", "true")
            found = contents(other, writer.ledger_id)
            _, lac, length = map(int, java.line())
            assert (lac, length) == (len(found) - 1, sum(map(len, found)))
            assert sum(future.exception(60) is None for future in futures) <= len(found)


# ---- the last add confirmed ----


def test_a_reader_beside_our_writer_sees_what_is_confirmed(shape: Shape) -> None:
    """No entry carries its own confirmation: Java's bookies take a WRITE_LAC, and answer READ_LAC with it."""
    java = shape.cluster.client
    with shape.client() as client, shape.client() as other, client.create() as writer:
        reader = other.open_no_recovery(writer.ledger_id)
        assert reader.lac == -1
        javas, lac, _ = java.open(writer.ledger_id, recovers=False)
        assert lac == -1
        for number in range(3):
            writer.add(payload(number, 100))
            until(lambda number=number: reader.read_last_confirmed() == number)  # type: ignore[misc]
            until(lambda number=number: java.lac(javas) == number)  # type: ignore[misc]
            assert read(reader) == [payload(each, 100) for each in range(number + 1)]
            assert java.read(javas, 0, number) == sums(read(reader))
        assert other.metadata(writer.ledger_id).state is LedgerState.OPEN


@pytest.mark.parametrize("tells", [False, True])
def test_a_reader_beside_javas_writer(shape: Shape, tells: bool) -> None:
    """By default Java's client tells the LAC with its next entry alone. The last one can be read unconfirmed."""
    java = shape.cluster.client
    writer, ledger_id = java.create(shape.bookies, tells_lacs=tells)
    with shape.client() as client, client.open_no_recovery(ledger_id) as reader:
        for number in range(3):
            java.add(writer, 100)
            known = number if tells else number - 1
            until(lambda known=known: reader.read_last_confirmed() == known)  # type: ignore[misc]
        assert [entry.payload for entry in reader.read_unconfirmed(0, 2)] == [payload(each, 100) for each in range(3)]
        if not tells:
            with pytest.raises(walkeeper.InvalidError):
                list(reader.read(0, 2))
        java.close(writer)
        assert contents(client, ledger_id) == [payload(each, 100) for each in range(3)]


def test_what_is_not_there_is_not_there(shape: Shape) -> None:
    with shape.client() as client, client.create() as writer:
        writer.add(b"one")
        with client.open_no_recovery(writer.ledger_id) as reader:
            with pytest.raises(walkeeper.NotFoundError):
                list(reader.read_unconfirmed(1, 1))
            writer.add(b"two")
            assert [entry.payload for entry in reader.read_unconfirmed(0, 1)] == [b"one", b"two"]


# ---- passwords, and the metadata ----


def test_another_password_is_refused(shape: Shape) -> None:
    java = shape.cluster.client
    _, javas = java.create(shape.bookies, "CRC32C", PASSWORD)
    with shape.client() as client, client.create(password=PASSWORD) as writer:
        writer.add(b"paid 42")
        for ledger_id in (writer.ledger_id, javas):
            for open_it in (client.open, client.open_no_recovery):
                with pytest.raises(walkeeper.UnauthorizedError):
                    open_it(ledger_id, password=b"wrong")
        with pytest.raises(Failed, match="BKUnauthorizedAccessException"):
            java.open(writer.ledger_id, "CRC32C", b"wrong")
        assert writer.add(b"paid 43") == 1  # nobody was fenced


def test_where_the_metadata_have_no_password_a_bookie_refuses_another_one(shape: Shape) -> None:
    """As of a ledger that BookKeeper before 4.2 wrote."""
    with shape.client() as client:
        writer = client.create(password=PASSWORD)
        writer.add(b"paid 42")
        ledgers = client._cluster.ledgers
        found = ledgers.read(writer.ledger_id)
        assert found is not None
        ledgers.write(writer.ledger_id, replace(found.value, password=None, digest_type=None), found.version)
        with pytest.raises(walkeeper.UnauthorizedError):
            client.open(writer.ledger_id, password=b"wrong", digest="crc32c")
        assert writer.add(b"paid 43") == 1  # nobody was fenced
        with client.open(writer.ledger_id, password=PASSWORD, digest="crc32c") as reader:
            assert read(reader) == [b"paid 42", b"paid 43"]


def test_bookies_are_listed_and_ledgers_deleted(cluster: Cluster) -> None:
    with cluster.shape("java").client() as client:
        names = sorted([*(bookie.bookie_id for bookie in cluster.java), *cluster.ours])
        assert [(each.bookie_id, each.state, each.address) for each in client.bookies()] == [
            (name, "writable", name) for name in names
        ]
        with client.create(custom_metadata={"of": b"orders"}) as writer:
            writer.add(b"paid 42")
        assert client.metadata(writer.ledger_id).custom_metadata == {"of": b"orders"}
        assert writer.ledger_id in list(client.list())
        client.delete(writer.ledger_id)
        assert writer.ledger_id not in list(client.list())
        with pytest.raises(walkeeper.LedgerNotFoundError):
            client.open(writer.ledger_id)
        with pytest.raises(Failed, match="NoSuchLedgerExists"):
            cluster.client.open(writer.ledger_id)
