"""Who waits for a ledger's LAC, the obvious way: the model of native/core/long_polls.c."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Poll:
    tag: int  # rises with each arrival
    ledger: int
    previous_lac: int
    deadline: int
    owner: int


class LongPolls:
    """Everyone who waits, in order of arrival, and the LACs of the ledgers."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.waiting: list[Poll] = []
        self.lacs: dict[int, int] = {}

    def lac(self, ledger: int) -> int:
        return self.lacs.get(ledger, -1)

    def add(self, poll: Poll) -> str:
        if len(self.waiting) == self.capacity:
            return "WK_FULL"
        self.waiting.append(poll)
        return "WK_OK"

    def rise(self, ledger: int, lac: int) -> None:
        self.lacs[ledger] = max(self.lac(ledger), lac)

    def take(self, polls: list[Poll]) -> list[Poll]:
        """These wait no more."""
        self.waiting = [poll for poll in self.waiting if poll not in polls]
        return polls

    def wake(self, ledger: int, everyone: bool = False) -> list[Poll]:
        """Those whose LAC is passed, or all of the ledger's: who knows less first, of equals who came first."""
        ready = [p for p in self.waiting if p.ledger == ledger and (everyone or p.previous_lac < self.lac(ledger))]
        return self.take(sorted(ready, key=lambda poll: (poll.previous_lac, poll.tag)))

    def expire(self, now: int) -> list[Poll]:
        """Those whose time is over, the earliest first."""
        return self.take(sorted((p for p in self.waiting if p.deadline <= now), key=lambda poll: poll.deadline))

    def drop(self, owner: int) -> list[Poll]:
        return self.take([poll for poll in self.waiting if poll.owner == owner])

    def deadline(self) -> int | None:
        return min((poll.deadline for poll in self.waiting), default=None)
