"""Metadata stores: the protocol, and what keeps it. Importing this opens nothing and imports no store's client."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from walkeeper.metadata._bookie_id import InvalidBookieIdError, bookie_address, check_bookie_id
from walkeeper.metadata._bookies import Bookies
from walkeeper.metadata._cluster import Cluster
from walkeeper.metadata._cluster_keys import ETCD_KEYS, ZOOKEEPER_KEYS, ClusterKeys
from walkeeper.metadata._cookie import Cookie, CookieMismatchError, Difference
from walkeeper.metadata._cookies import Cookies
from walkeeper.metadata._corrupt import CorruptMetadataError, MetadataFormatError, UnsupportedMetadataError
from walkeeper.metadata._keys import check_key, check_new, check_prefix, check_transaction, check_value
from walkeeper.metadata._layout import Layout, LedgerManager
from walkeeper.metadata._ledger_ids import LedgerIdOverflowError
from walkeeper.metadata._ledger_metadata import DigestType, LedgerMetadata, LedgerState
from walkeeper.metadata._ledgers import CreatedLedger, Ledgers, ListedLedger
from walkeeper.metadata._open import OpenedStore, open_store
from walkeeper.metadata._registration import Registration
from walkeeper.metadata._service_info import FREE_BYTES, Endpoint, ServiceInfo
from walkeeper.metadata._settle import Versioned
from walkeeper.metadata._starts import Starts
from walkeeper.metadata._store import (
    KEY_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
    VALUE_BYTES_MAX,
    ClosedError,
    ConflictError,
    ExistsError,
    InvalidKeyError,
    LimitError,
    MetadataError,
    MetadataStore,
    MissingError,
    NotEmptyError,
    Operation,
    UnavailableError,
    UnknownOutcomeError,
    Value,
    Watch,
)

if TYPE_CHECKING:
    from walkeeper.metadata._faults import Fault, FaultyStore
    from walkeeper.metadata._memory import MemoryStore, MemoryTree
    from walkeeper.metadata._sqlite import SqliteStore

__all__ = [
    # ---- stores ----
    "open_store",
    "OpenedStore",
    "MetadataStore",
    "Value",
    "Operation",
    "Watch",
    "MemoryStore",
    "MemoryTree",
    "SqliteStore",
    "Fault",
    "FaultyStore",
    "MetadataError",
    "ExistsError",
    "MissingError",
    "ConflictError",
    "NotEmptyError",
    "InvalidKeyError",
    "LimitError",
    "UnknownOutcomeError",
    "UnavailableError",
    "ClosedError",
    "KEY_BYTES_MAX",
    "VALUE_BYTES_MAX",
    "TRANSACTION_OPERATIONS_MAX",
    "TRANSACTION_BYTES_MAX",
    "check_key",
    "check_new",
    "check_prefix",
    "check_value",
    "check_transaction",
    # ---- formats ----
    "LedgerMetadata",
    "LedgerState",
    "DigestType",
    "Cookie",
    "Difference",
    "CookieMismatchError",
    "ServiceInfo",
    "Endpoint",
    "FREE_BYTES",
    "Layout",
    "LedgerManager",
    "check_bookie_id",
    "bookie_address",
    "InvalidBookieIdError",
    "MetadataFormatError",
    "CorruptMetadataError",
    "UnsupportedMetadataError",
    # ---- cluster ----
    "Cluster",
    "ClusterKeys",
    "ZOOKEEPER_KEYS",
    "ETCD_KEYS",
    "Cookies",
    "Bookies",
    "Starts",
    "Registration",
    "Ledgers",
    "CreatedLedger",
    "ListedLedger",
    "LedgerIdOverflowError",
    "Versioned",
]

# A process uses one store, and injects no faults.
_LATER = {
    "Fault": "walkeeper.metadata._faults",
    "FaultyStore": "walkeeper.metadata._faults",
    "MemoryStore": "walkeeper.metadata._memory",
    "MemoryTree": "walkeeper.metadata._memory",
    "SqliteStore": "walkeeper.metadata._sqlite",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
