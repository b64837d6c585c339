"""Ledgers' metadata as walkeeper.metadata writes it, for Java to read.

ledger_metadata.py URI create           a closed ledger for each type of digest, without entries; prints its type and id
ledger_metadata.py URI rewrite ID ...   writes the metadata of ledgers once more, with one custom value more
"""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace

from walkeeper.metadata import Cluster, DigestType, LedgerMetadata, Ledgers, LedgerState, open_store


def create(ledgers: Ledgers) -> None:
    for digest_type in DigestType:
        metadata = LedgerMetadata(
            ensemble_size=3,
            write_quorum=3,
            ack_quorum=2,
            segments={0: ("one:3181", "two:3181", "127.0.0.1:3181"), 7: ("one:3181", "four", "127.0.0.1:3181")},
            state=LedgerState.CLOSED,
            length=5_000_000_000,
            last_entry_id=40,
            digest_type=digest_type,
            password=b"secret \x00\xff",
            ctime=1_700_000_000_123,
            custom_metadata={"text": "fünf".encode(), "bytes": bytes(range(256)), "": b"", "empty": b""},
        )
        print(digest_type.name, ledgers.create(metadata).ledger_id)


def rewrite(ledgers: Ledgers, ledger_id: int) -> None:
    found = ledgers.read(ledger_id)
    if found is None:
        raise SystemExit(f"there is no ledger {ledger_id}")
    custom = {**found.value.custom_metadata, "again": b"\x00\xff"}
    ledgers.write(ledger_id, replace(found.value, custom_metadata=custom), found.version)


def main(arguments: list[str]) -> None:
    match arguments:
        case [uri, ("create" | "rewrite") as what, *ids]:
            opened = open_store(uri)
            with closing(opened.store):
                ledgers = Cluster(opened.store, opened.root).ledgers
                if what == "create":
                    create(ledgers)
                for ledger_id in ids:
                    rewrite(ledgers, int(ledger_id))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
