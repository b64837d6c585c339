"""FaultyStore: another store, with what can go wrong on the way to it. For tests: its users must bear all of this."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, TypeVar

from walkeeper.metadata._bucket_ids import count_up
from walkeeper.metadata._cluster_keys import ClusterKeys
from walkeeper.metadata._keys import check_key, check_page
from walkeeper.metadata._store import MetadataStore, Operation, UnavailableError, UnknownOutcomeError, Value, Watch

Result = TypeVar("Result")
Fault = Literal["none", "before", "after", "never", "slow", "lost"]
"""What happens to a call.

    "none"    nothing
    "before"  UnavailableError: nothing was done
    "after"   UnknownOutcomeError, though it was done
    "never"   UnknownOutcomeError, and it was not done
    "slow"    it takes its time
    "lost"    the session is lost, then the call is made

A read has no outcome to be unknown: "after" and "never" are "before" to it.
"""


class FaultyStore:
    """Wraps a store. `rates` says how likely each fault is; a seed and the order of the calls decide which comes when.

    "lost" calls `lose_session`. `script` puts faults before those of chance: the next calls get them, in order. `seen`
    counts what was injected.
    """

    def __init__(
        self,
        store: MetadataStore,
        seed: int = 0,
        rates: Mapping[Fault, float] | None = None,
        *,
        slow_seconds: float = 0.01,
        lose_session: Callable[[], None] | None = None,
    ) -> None:
        self.store = store
        self.uri = store.uri
        self.cluster_keys = ClusterKeys.of(store)
        self.seen: Counter[Fault] = Counter()
        self._random = random.Random(seed)
        self._rates = dict(rates or {})
        self._slow_seconds = slow_seconds
        self._lose_session = lose_session
        self._script: deque[Fault] = deque()
        self._lock = threading.Lock()

    def script(self, faults: Iterable[Fault]) -> None:
        """What happens to the next calls, one each."""
        with self._lock:
            self._script.extend(faults)

    def get(self, key: str, *, linearizable: bool = False) -> Value | None:
        return self._read(lambda: self.store.get(key, linearizable=linearizable), key)

    def create(self, key: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False) -> int:
        return self._write(lambda: self.store.create(key, data, ephemeral=ephemeral, parents=parents), key)

    def create_sequential(self, prefix: str, data: bytes = b"", *, ephemeral: bool = False) -> str:
        return self._write(lambda: self.store.create_sequential(prefix, data, ephemeral=ephemeral), prefix)

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        return self._write(lambda: self.store.put(key, data, version), key)

    def delete(self, key: str, version: int | None = None) -> None:
        self._write(lambda: self.store.delete(key, version), key)

    def transact(self, operations: Sequence[Operation]) -> list[int | None]:
        return self._write(lambda: self.store.transact(operations), None)

    def count_up(self, key: str) -> int:
        """MetadataError where the wrapped store does not count."""
        return self._write(lambda: count_up(self.store, key), key)

    def children(self, key: str) -> list[str]:
        return self._read(lambda: self.store.children(key), key)

    def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
        """Each page can fail: a listing that ends by an error is not a listing."""
        names = self.store.scan(check_key(key), page=check_page(key, page))
        while True:
            taken = self._read(lambda: list(islice(names, page)), key)
            yield from taken
            if len(taken) < page:
                return

    def watch(self, key: str, callback: Callable[[], None]) -> Watch:
        return self._read(lambda: self.store.watch(key, callback), key)

    def on_session(self, callback: Callable[[Literal["lost", "new"]], None]) -> Watch:
        return self.store.on_session(callback)

    def session(self) -> int:
        return self.store.session()

    def close(self) -> None:
        self.store.close()

    def _draw(self) -> Fault:
        with self._lock:
            fault: Fault = "none"
            if self._script:
                fault = self._script.popleft()
            elif self._rates:
                rates: dict[Fault, float] = {"none": max(0.0, 1.0 - sum(self._rates.values())), **self._rates}
                fault = self._random.choices(list(rates), list(rates.values()))[0]
            self.seen[fault] += 1
            return fault

    def _meanwhile(self, fault: Fault) -> None:
        if fault == "slow":
            time.sleep(self._slow_seconds)
        elif fault == "lost":
            if self._lose_session is None:
                raise ValueError("a store that is to lose its session must be told how: lose_session=")
            self._lose_session()

    def _read(self, call: Callable[[], Result], key: str) -> Result:
        fault = self._draw()
        if fault in ("before", "after", "never"):
            raise UnavailableError(f"injected: {key} was not read", key)
        self._meanwhile(fault)
        return call()

    def _write(self, call: Callable[[], Result], key: str | None) -> Result:
        fault = self._draw()
        if fault == "before":
            raise UnavailableError(f"injected: {key} was not written", key)
        if fault == "never":
            raise UnknownOutcomeError(f"injected: {key} may or may not be written", key)
        self._meanwhile(fault)
        result = call()
        if fault == "after":
            raise UnknownOutcomeError(f"injected: {key} may or may not be written", key)
        return result
