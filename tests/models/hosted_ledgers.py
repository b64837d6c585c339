"""What is kept of hosted ledgers, the obvious way: the model of native/core/hosted_ledgers.c and hosted_digest.c."""

from dataclasses import dataclass


@dataclass
class Ledger:
    """One hosted ledger. `digest` is "unknown", "CRC32C", "CRC32" or "none"."""

    lac: int = -1
    lac_ms: int = 0
    digest: str = "unknown"
    waiting: int = 0

    def rise(self, lac: int, wall_ms: int) -> bool:
        if lac <= self.lac:
            return False
        self.lac, self.lac_ms = lac, wall_ms
        return True

    def accepts(self, digest: str) -> bool:
        """Whether an entry with this digest (another name: none that is known) is taken; the first is, and teaches."""
        if self.digest == "unknown":
            self.digest = digest if digest in ("CRC32C", "CRC32") else "none"
        return self.digest in ("none", digest)


class HostedLedgers:
    """A dictionary with a limit. Methods answer the names of statuses."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.ledgers: dict[int, Ledger] = {}

    def fits(self, count: int, capacity: int) -> bool:
        return count <= capacity * 4 // 5

    def put(self, ledger_id: int) -> str:
        if ledger_id < 0:
            return "WK_INVALID"
        if ledger_id not in self.ledgers:
            if not self.fits(len(self.ledgers) + 1, self.capacity):
                return "WK_FULL"
            self.ledgers[ledger_id] = Ledger()
        return "WK_OK"

    def grow(self, capacity: int) -> str:
        if capacity not in (1 << n for n in range(4, 32)) or not self.fits(len(self.ledgers), capacity):
            return "WK_INVALID"
        self.capacity = capacity
        return "WK_OK"

    def remove(self, ledger_id: int) -> str:
        if ledger_id not in self.ledgers:
            return "WK_NOT_FOUND"
        if self.ledgers[ledger_id].waiting:
            return "WK_INVALID"
        del self.ledgers[ledger_id]
        return "WK_OK"
