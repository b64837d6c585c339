"""Ledgers of a cluster: written to several bookies, read from any of them, and closed for ever.

    with walkeeper.LedgerClient("zk://host:2181/ledgers") as client:
        with client.create(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            at = writer.add(b"paid 42")              # two bookies have it durable when this returns
        with client.open(writer.ledger_id) as reader:    # fences a writer that is still there, and finds the end
            for entry in reader.read():
                apply(entry.payload)

A ledger has one writer, the handle that created it. `open` ends a ledger whose writer is gone: from then on the writer
is fenced, and the ledger has an end that everybody agrees on.
"""

from __future__ import annotations

from walkeeper.ledgers._client import BookieInfo, LedgerClient
from walkeeper.ledgers._entry import LedgerEntry
from walkeeper.ledgers._reader import LedgerReader
from walkeeper.ledgers._spec import Digest
from walkeeper.ledgers._writer import LedgerWriter

__all__ = ["BookieInfo", "Digest", "LedgerClient", "LedgerEntry", "LedgerReader", "LedgerWriter"]
