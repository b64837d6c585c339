"""The LAYOUT of a cluster: which rule makes a ledger's key from its id, and back."""

from __future__ import annotations

import enum
import re
import uuid
from dataclasses import dataclass

from walkeeper.metadata._corrupt import corrupt, unsupported, utf8

LEDGER_ID_MAX = 2**63 - 1
SHORT_LEDGER_ID_MAX = 2**31 - 2  # 2147483647 has the long form already
LAYOUT_SIZE_MAX = 4096
_PACKAGE = "org.apache.bookkeeper.meta."
_ETCD_PACKAGE = "org.apache.bookkeeper.metadata.etcd."
_SHORT = re.compile(r"([0-9]{2})/([0-9]{4})/L([0-9]{4})")
_LONG = re.compile(r"([0-9]{3})/([0-9]{4})/([0-9]{4})/([0-9]{4})/L([0-9]{4})")
_FLAT = re.compile(r"L([0-9]{10,19})")
_UUID = re.compile(r"ledgers/00000000-0000-0000-([0-9a-f]{4})-([0-9a-f]{12})")

NOT_LEDGERS = frozenset(
    ("available", "cookies", "idgen", "idgen-long", "LAYOUT", "INSTANCEID", "underreplication", "disableHealthCheck")
)
"""Children of the root that hold no ledgers. Others are known by their form alone: see `SHORT_LEVELS`."""

SHORT_LEVELS = tuple(re.compile(name) for name in ("[0-9]{2}", "[0-9]{4}", "L[0-9]{4}"))
"""What the names of a short key look like, level by level below the root."""
LONG_LEVELS = tuple(re.compile(name) for name in ("[0-9]{3}", "[0-9]{4}", "[0-9]{4}", "[0-9]{4}", "L[0-9]{4}"))
"""The same of a long key."""


class LedgerManager(enum.Enum):
    """How ledgers are spread over keys. HIERARCHICAL is BookKeeper's default: short ids as LEGACY, others as LONG.
    ETCD is the only one on etcd: `ledgers/` and a UUID that has the id in its lower half."""

    HIERARCHICAL = "HierarchicalLedgerManagerFactory"
    LONG_HIERARCHICAL = "LongHierarchicalLedgerManagerFactory"
    LEGACY_HIERARCHICAL = "LegacyHierarchicalLedgerManagerFactory"
    FLAT = "FlatLedgerManagerFactory"
    ETCD = "EtcdLedgerManagerFactory"

    def path(self, ledger_id: int) -> str:
        """The key of the ledger's metadata, below the root. ValueError where the id has none."""
        if not 0 <= ledger_id <= (self.id_max):
            raise ValueError(f"{self.name} has no key for ledger {ledger_id}: from 0 to {self.id_max}")
        if self is LedgerManager.FLAT:
            return _flat_path(ledger_id)
        if self is LedgerManager.ETCD:
            return _uuid_path(ledger_id)
        if self is LedgerManager.LEGACY_HIERARCHICAL or (
            self is LedgerManager.HIERARCHICAL and ledger_id <= SHORT_LEDGER_ID_MAX
        ):
            return _short_path(ledger_id)
        return _long_path(ledger_id)

    def paths(self, ledger_id: int) -> list[str]:
        """Every key below the root under which a client may keep the ledger's metadata; that of this layout first. On
        etcd there is one.

        A client need not go by LAYOUT: Pulsar's writes the keys of HIERARCHICAL whatever LAYOUT says. Who asks whether
        a ledger exists asks under each of these keys. ValueError where no layout has a key for the id.
        """
        if not 0 <= ledger_id <= LEDGER_ID_MAX:
            raise ValueError(f"no layout has a key for ledger {ledger_id}: from 0 to {LEDGER_ID_MAX}")
        if self is LedgerManager.ETCD:
            return [_uuid_path(ledger_id)]
        own = [self.path(ledger_id)] if ledger_id <= self.id_max else []
        short = [_short_path(ledger_id)] if ledger_id <= SHORT_LEDGER_ID_MAX else []
        return list(dict.fromkeys([*own, *short, _long_path(ledger_id), _flat_path(ledger_id)]))

    @property
    def id_max(self) -> int:
        """The largest id that has a key."""
        return SHORT_LEDGER_ID_MAX if self is LedgerManager.LEGACY_HIERARCHICAL else LEDGER_ID_MAX

    @staticmethod
    def ledger_id(path: str) -> int | None:
        """The ledger whose key, below the root, this is; None where it is no ledger's.

        The keys of all layouts are known, whatever LAYOUT says: who asks which ledgers there are must not miss one. No
        two layouts have the same key for different ledgers.
        """
        for form in (_SHORT, _LONG, _FLAT):
            found = form.fullmatch(path)
            if found:
                ledger_id = int("".join(found.groups()))
                if ledger_id <= LEDGER_ID_MAX and (form is not _FLAT or _flat_path(ledger_id) == path):
                    return ledger_id
        found = _UUID.fullmatch(path)
        if found:
            ledger_id = int("".join(found.groups()), 16)
            return ledger_id if ledger_id <= LEDGER_ID_MAX else None
        return None


def _short_path(ledger_id: int) -> str:
    digits = f"{ledger_id:010d}"
    return f"{digits[:2]}/{digits[2:6]}/L{digits[6:]}"


def _long_path(ledger_id: int) -> str:
    digits = f"{ledger_id:019d}"
    return f"{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def _flat_path(ledger_id: int) -> str:
    return f"L{ledger_id:010d}"


def _uuid_path(ledger_id: int) -> str:
    return f"ledgers/{uuid.UUID(int=ledger_id)}"


@dataclass(frozen=True)
class Layout:
    """What stands in LAYOUT. A client that is configured for another one refuses to start."""

    factory: str = _PACKAGE + LedgerManager.HIERARCHICAL.value
    version: int = 1
    format_version: int = 2

    @classmethod
    def of(cls, manager: LedgerManager) -> Layout:
        """The layout of a new cluster with that manager."""
        if manager is LedgerManager.ETCD:
            return cls(_ETCD_PACKAGE + manager.value, 0)
        return cls(_PACKAGE + manager.value)

    @property
    def manager(self) -> LedgerManager:
        """How ledgers are spread over keys. UnsupportedMetadataError where the factory is an unknown one."""
        for manager in LedgerManager:
            known = Layout.of(manager)
            if (self.factory, self.version) == (known.factory, known.version):
                return manager
        return unsupported(
            "LAYOUT", 0, "no such ledger manager is known here", f"{self.factory}:{self.version}".encode()
        )

    @classmethod
    def parse(cls, data: bytes, what: str = "LAYOUT") -> Layout:
        """The layout that the bytes are. CorruptMetadataError, UnsupportedMetadataError."""
        data = bytes(data)
        if len(data) > LAYOUT_SIZE_MAX:
            corrupt(what, 0, f"{len(data)} bytes: at most {LAYOUT_SIZE_MAX} are read")
        lines = utf8(what, data).split("\n")
        if not re.fullmatch("[0-9]{1,9}", lines[0]):
            corrupt(what, 0, "a line with the version was expected", data)
        if int(lines[0]) not in (1, 2):
            unsupported(what, 0, "versions 1 and 2 are known", data)
        at = len(lines[0]) + 1
        parts = lines[1].split(":") if len(lines) > 1 else []
        if len(parts) != 2 or not parts[0] or not re.fullmatch("[0-9]{1,9}", parts[1]) or any(lines[2:]):
            corrupt(what, min(at, len(data)), "a factory, a colon and its version were expected", data)
        return cls(parts[0], int(parts[1]), int(lines[0]))

    def serialise(self) -> bytes:
        """The bytes: two lines, and nothing behind the second."""
        return f"{self.format_version}\n{self.factory}:{self.version}".encode()
