"""A bookie: a ledger store behind a socket that speaks BookKeeper's protocol. The process is `walkeeper-bookie`."""

from __future__ import annotations
