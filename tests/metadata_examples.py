"""The worked examples of docs/formats/metadata.md and log_document.md; `format_examples.py` puts them there."""

from __future__ import annotations

from collections.abc import Callable

from walkeeper import LogOptions, Position
from walkeeper.cluster._document import LogDocument, StoredSegment
from walkeeper.metadata import Cookie, Layout, LedgerMetadata, LedgerState, ServiceInfo

BOOKIES = ("127.0.0.1:3181", "127.0.0.1:3182")
INSTANCE = "0b7d6f3e-3f0e-4c39-9d4f-5c6d7e8f9a0b"


def examples(show: Callable[[bytes, list[tuple[int, str]]], str]) -> dict[str, Callable[[], str]]:
    """The examples by name; `show` writes bytes as lines of fields."""

    def ledger_metadata() -> str:
        fields = [
            (30, '"BookieMetadataFormatVersion\\t3\\n"'),
            (1, "61 bytes follow"),
            (2, "field 1: write quorum 2"),
            (2, "field 2: ensemble size 2"),
            (2, "field 3: length 0, as it is open"),
            (11, "field 4: last entry -1"),
            (2, "field 5: state 1, OPEN"),
            (2, "field 6: a segment of 34 bytes"),
            (16, 'its field 1: "127.0.0.1:3181"'),
            (16, 'its field 1: "127.0.0.1:3182"'),
            (2, "its field 2: from entry 0 on"),
            (2, "field 7: digest 3, CRC32C"),
            (2, "field 8: the password, empty"),
            (2, "field 9: ack quorum 2"),
        ]
        return show(LedgerMetadata(2, 2, 2, {0: BOOKIES}).serialise(), fields)

    def ledger_metadata_text() -> str:
        closed = LedgerMetadata(
            2, 2, 2, {0: BOOKIES}, LedgerState.CLOSED, length=4096, last_entry_id=7, password=b"a\tb"
        )
        return closed.serialise(2).decode()

    def ledger_metadata_lines() -> str:
        recovering = LedgerMetadata(2, 2, 2, {0: BOOKIES}, LedgerState.IN_RECOVERY, digest_type=None, password=None)
        return recovering.serialise(1).decode() + "\n"

    def cookie() -> str:
        return Cookie(BOOKIES[0], ("/j1",), ("/l1", "/l2"), INSTANCE).serialise().decode()

    def service_info() -> str:
        fields = [
            (2, "field 6: an endpoint of 34 bytes"),
            (8, 'its field 1: id "bookie"'),
            (3, "its field 2: port 3181"),
            (11, 'its field 3: host "127.0.0.1"'),
            (12, 'its field 4: protocol "bookie-rpc"'),
        ]
        return show(ServiceInfo.of_bookie("127.0.0.1", 3181).serialise(), fields)

    def layout() -> str:
        return Layout().serialise().decode() + "\n"

    def log_document() -> str:
        last = Position((1, 0, 0, 0, 1_790_000_000_000))
        segment = StoredSegment(1, 5, 0, 1_790_000_000_000, True, 0, last, 1, 7)
        document = LogDocument(
            "orders",
            LogOptions(2**28, 7200, 0, "none"),
            txid_source="clock",
            writer=1,
            owner="process 4711 on a, since 2026-11-27",
            next_segment=2,
            segments=(segment,),
            last=last,
            change="0123456789abcdef",
        )
        return document.serialise().decode() + "\n"

    made = (ledger_metadata, ledger_metadata_text, ledger_metadata_lines, cookie, service_info, layout, log_document)
    return {function.__name__: function for function in made}
