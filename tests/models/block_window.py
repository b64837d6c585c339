"""Which blocks are durable, the obvious way: the model of native/core/block_window.c."""


class BlockWindow:
    """Every block ever submitted, and what is known of it. Methods answer the names of statuses."""

    def __init__(self, first: int, in_flight_max: int) -> None:
        self.first, self.in_flight_max = first, in_flight_max
        self.with_sync: list[bool] = []  # of block first + index
        self.written: set[int] = set()
        self.safe: set[int] = set()
        self.covered: set[int] | None = None  # by the sync under way
        self.failed = False

    @property
    def durable_through(self) -> int:
        """The end of the safe prefix."""
        sequence = self.first - 1
        while sequence + 1 in self.safe:
            sequence += 1
        return sequence

    @property
    def next(self) -> int:
        return self.first + len(self.with_sync)

    @property
    def in_flight(self) -> int:
        return len(self.with_sync) - len(self.written)

    @property
    def waiting(self) -> set[int]:
        """Written, not safe, and no sync that covers them has begun."""
        return self.written - self.safe - (self.covered or set())

    def submit(self, sync: bool) -> str:
        if self.failed:
            return "WK_FAILED"
        if self.next - 1 - self.durable_through == self.in_flight_max:
            return "WK_FULL"
        self.with_sync.append(sync)
        return "WK_OK"

    def write(self, sequence: int) -> str:
        if not self.first <= sequence < self.next or sequence in self.written:
            return "WK_INVALID"
        self.written.add(sequence)
        if self.with_sync[sequence - self.first] and not self.failed:
            self.safe.add(sequence)
        return "WK_OK"

    def sync_begin(self) -> str:
        if self.failed:
            return "WK_FAILED"
        if self.covered is not None:
            return "WK_INVALID"
        if not self.waiting:
            return "WK_END"
        self.covered = self.waiting
        return "WK_OK"

    def sync_done(self) -> str:
        if self.covered is None:
            return "WK_INVALID"
        if not self.failed:
            self.safe |= self.covered
        self.covered = None
        return "WK_OK"

    def fail(self) -> None:
        self.failed = True

    def wants_sync(self) -> bool:
        return bool(self.waiting) and not self.failed
