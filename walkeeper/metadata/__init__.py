"""Metadata stores: the protocol, and what keeps it. Importing this opens nothing and imports no store's client."""

from __future__ import annotations

# ---- formats ----
from walkeeper.metadata._bookie_id import InvalidBookieIdError, bookie_address, check_bookie_id
from walkeeper.metadata._cookie import Cookie, CookieMismatchError, Difference
from walkeeper.metadata._corrupt import CorruptMetadataError, MetadataFormatError, UnsupportedMetadataError
from walkeeper.metadata._layout import Layout, LedgerManager
from walkeeper.metadata._ledger_metadata import DigestType, LedgerMetadata, LedgerState
from walkeeper.metadata._service_info import Endpoint, ServiceInfo

__all__ = [
    # ---- formats ----
    "LedgerMetadata",
    "LedgerState",
    "DigestType",
    "Cookie",
    "Difference",
    "CookieMismatchError",
    "ServiceInfo",
    "Endpoint",
    "Layout",
    "LedgerManager",
    "check_bookie_id",
    "bookie_address",
    "InvalidBookieIdError",
    "MetadataFormatError",
    "CorruptMetadataError",
    "UnsupportedMetadataError",
]
