"""IdempotentWriter: appends of applications to a log, each once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from walkeeper._record import Gap
from walkeeper.errors import ClosedError, Error, InvalidError, LogNotFoundError, TruncatedError, UnavailableError
from walkeeper.idempotent._intent import (
    Done,
    Intent,
    Staged,
    Versions,
    check_intent,
    decode,
    encode,
    versions_records,
)
from walkeeper.idempotent._staging import collect_all_staging_logs, collect_staging_logs

if TYPE_CHECKING:
    from typing_extensions import Self

    from walkeeper import Log, Namespace, Writer

__all__ = ["IdempotentWriter"]

INLINE_BYTES_MAX = 768 * 1024
"""Payloads that an intent holds; more are staged."""
INTENT_BYTES_MAX = 1000 * 1024
"""What a record holds."""
ONE_WRITE = "write "
"""So begin the ids of applications that write once, under an id that nobody has again."""
ONE_WRITES_KEPT = 256
COPY_BYTES = 2 * 1024 * 1024
"""Of a staging log, read and appended at once."""
REWRITE_RECORDS = 1024
"""With so many records the transaction log is written anew."""
PATIENCE_S = 5.0
"""For records that a writer was told are durable. Readers of bookies may know it later than that writer."""
ABANDONED_MS = 7 * 24 * 3600 * 1000
"""A staging log that nobody appended to for so long is of a batch that nobody makes any more."""


class IdempotentWriter:
    """Appends batches of applications to a log, each once, whoever repeats them.

    An application numbers its batches: `append_once(app_id, version, …)` appends nothing where it appended that
    version, or a later one. So whoever does not know what became of a batch appends it again, also in another process:
    the later IdempotentWriter of a log fences the earlier one.

    What is about to be appended is durable in a log beside it, `transactions/ID`, before the first record of it is in
    the log. A writer that finds a batch half appended appends the rest, before anything else. So records of a batch
    follow each other without those of another one between, and a reader may see the first of them before the last.

    Whoever else appends to the log (with a Writer of its own) fences this writer, and is fenced by the next one. Its
    records may then stand within a batch. Methods may be called by any thread; a context manager: leaving it closes
    the writer.
    """

    def __init__(self, namespace: Namespace, log: Log | str, *, writer: Writer | None = None) -> None:
        """`writer` is the one of the log, where the caller has it; it stays the caller's. Opens nothing yet."""
        self._namespace = namespace
        self._log = namespace.log(log) if isinstance(log, str) else log
        self._given = writer
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._closed = False

    @property
    def log(self) -> Log:
        """The log it appends to."""
        return self._log

    def append_once(
        self, app_id: str, version: int, payloads: Sequence[bytes] = (), staged: Sequence[Staged] = ()
    ) -> bool:
        """Appends the payloads, then the staged records. True: they are durable; False: a version as high was there.

        `version` is from 0 to 2**63 - 1. The payloads are at most 768 KiB together; more are staged: written to a log
        of the namespace, of a name that `staging_log` makes, which is deleted when they are appended.

        InvalidError, TooLargeError: nothing was changed. Behind any other error the outcome is unknown: the same call,
        here or in another process, finishes it. Raises what Writer.append raises; FencedError: another writer has the
        log. LogNotFoundError: a staging log is not there.
        """
        check_intent(app_id, version, staged)
        inline = tuple(payloads)
        size = sum(map(len, inline)) + 4 * len(inline)
        if size > INLINE_BYTES_MAX:
            raise InvalidError(
                f"{size} bytes of payloads are more than {INLINE_BYTES_MAX}: stage them", outcome="not_written"
            )
        with self._lock:
            opened = self._open()
            try:
                return opened.append_once(app_id, version, inline, tuple(staged))
            except BaseException:
                self._drop()
                raise

    def last_version(self, app_id: str) -> int | None:
        """The last version that the application appended; None: it never did. Takes the log over, as append_once."""
        with self._lock:
            return self._open().versions.get(app_id)

    def close(self) -> None:
        """Closes it; closing twice is fine. What append_once returned is durable."""
        with self._lock:
            self._closed = True
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> _Opened:
        if self._closed:
            raise ClosedError("this idempotent writer was closed", log=self._log.name, outcome="not_written")
        if self._opened is None:
            self._opened = _Opened(self._namespace, self._log, self._given)
        return self._opened

    def _drop(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


class _Opened:
    """Both logs, taken over and read; of no use behind an error."""

    def __init__(self, namespace: Namespace, log: Log, writer: Writer | None) -> None:
        self._namespace = namespace
        self._log = log
        info = log.info()
        if info.txid_source == "application":
            raise InvalidError(
                "the application numbers the records of this log by txids", log=log.name, outcome="not_written"
            )
        self._log_id = info.log_id
        self.versions: dict[str, int] = {}
        self._last: Intent | None = None
        """The last intent; None: it was carried out."""
        self._records = 0
        with ExitStack() as writers:
            self._own_log = namespace.log(f"transactions/{self._log_id}")
            # This one first: whoever is fenced here writes no more intents, and what it appended by them is there.
            self._own = writers.enter_context(_closing(self._own_log.writer()))
            self._writer = writer if writer is not None else writers.enter_context(_closing(log.writer()))
            self._replay()
            if self._last is not None:
                with _of_unknown_outcome():
                    self._settle(self._last)
            self._writers = writers.pop_all()

    def close(self) -> None:
        self._writers.close()

    def append_once(self, app_id: str, version: int, payloads: tuple[bytes, ...], staged: tuple[Staged, ...]) -> bool:
        known = self.versions.get(app_id)
        if known is not None and version <= known:
            if staged:
                collect_staging_logs(self._namespace, self._log_id, app_id, version)
            return False
        for part in staged:
            self._check_staged(part)
        self._carry_out(Intent(app_id, version, self._writer.next_sequence_id, 0, payloads, staged))
        return True

    # ---- intents ----

    def _replay(self) -> None:
        with self._own_log.reader() as reader:
            while records := reader.read():
                for found in records:
                    self._learn(decode(bytes(found.payload)))
                self._records += len(records)

    def _learn(self, record: Intent | Done | Versions) -> None:
        if isinstance(record, Intent):
            self.versions[record.app_id] = record.version
            self._last = record
        elif isinstance(record, Done):
            self._last = None
        else:
            self.versions.update(record.of)

    def _settle(self, intent: Intent) -> None:
        """Appends what of an earlier writer's intent is not in the log."""
        try:
            landed = self._landed(intent)
        except LogNotFoundError as gone:
            batch = f"batch {intent.version} of {intent.app_id!r} is half in the log {self._log.name!r}"
            raise LogNotFoundError(f"{batch}, and the rest cannot be appended: {gone}", log=self._log.name) from gone
        if landed == intent.count:
            self._finish(intent)
        elif intent.first + landed - intent.skip == self._writer.next_sequence_id:
            self._append_from(intent, landed)
        else:  # somebody else appended behind it, or in its place
            rest = (self._writer.next_sequence_id, landed)
            self._carry_out(Intent(intent.app_id, intent.version, *rest, intent.payloads, intent.staged))

    def _carry_out(self, intent: Intent) -> None:
        promise = encode(intent)
        if len(promise) > INTENT_BYTES_MAX:
            text = f"{len(intent.staged)} staging logs are more than one batch names: stage in fewer, larger ones"
            raise InvalidError(text, log=self._log.name, outcome="not_written")
        self._own.append(promise)
        self._records += 1
        with _of_unknown_outcome():
            self._append_from(intent, intent.skip)

    def _append_from(self, intent: Intent, number: int) -> None:
        """The payloads from this number on."""
        expected = intent.first + number - intent.skip
        if number < len(intent.payloads):
            inline = intent.payloads[number:]
            self._writer.append_many(inline, expected=expected, durability="deferred")
            expected += len(inline)
        behind = max(0, number - len(intent.payloads))
        for part in intent.staged:
            skipped = min(behind, part.count)
            behind -= skipped
            expected = self._copy(part, skipped, expected)
        self._writer.flush()
        self._finish(intent)

    def _copy(self, part: Staged, skipped: int, expected: int) -> int:
        left = part.count - skipped
        if not left:
            return expected
        with (
            self._staged_log(part).reader(sequence_id=part.first_sequence_id + skipped, follow=True) as reader,
            ThreadPoolExecutor(1, "walkeeper-staged") as ahead,  # reads the next batch while one is appended
        ):
            coming = ahead.submit(reader.read_arrow, left, COPY_BYTES, PATIENCE_S)
            while left:
                batch = coming.result()
                if batch is None:
                    raise _not_readable(part.log, left)
                left -= batch.num_rows
                if left:
                    coming = ahead.submit(reader.read_arrow, left, COPY_BYTES, PATIENCE_S)
                self._writer.append_many(batch["payload"], expected=expected, durability="deferred")
                expected += batch.num_rows
        return expected

    def _finish(self, intent: Intent) -> None:
        """The log has it all, durable. That this is noted is not waited for: another writer would find it out."""
        self.versions[intent.app_id] = intent.version
        self._last = None
        self._own.append(encode(Done()), durability="deferred")
        self._records += 1
        if intent.staged:
            collect_staging_logs(self._namespace, self._log_id, intent.app_id, intent.version)
        if self._records >= REWRITE_RECORDS:
            self._rewrite()

    def _rewrite(self) -> None:
        """Only the last version of each application is needed of the transaction log.

        It is also the time to collect what applications staged that never came back."""
        for app_id in [name for name in self.versions if name.startswith(ONE_WRITE)][:-ONE_WRITES_KEPT]:
            del self.versions[app_id]
        parts = [self._own.append(encode(part)) for part in versions_records(self.versions)]
        self._own_log.truncate(parts[0])
        self._records = len(parts)
        abandoned_ms = time.time_ns() // 1_000_000 - ABANDONED_MS
        collect_all_staging_logs(self._namespace, self._log_id, self.versions, abandoned_ms)

    # ---- what is there already ----

    def _landed(self, intent: Intent) -> int:
        """The number of the first payload that is not in the log where the intent says."""
        behind = intent.first + intent.count - intent.skip
        end = min(self._writer.next_sequence_id, behind)
        start = max(intent.first, self._log.info().first.sequence_id)  # what was truncated had been there
        if start >= end:
            return intent.skip + min(start, behind) - intent.first
        try:
            wanted = self._payloads(intent, intent.skip + start - intent.first)
            return intent.skip + self._first_difference(start, end, wanted) - intent.first
        except LogNotFoundError:
            if end < behind:
                raise
            return intent.count  # a staging log is deleted when all of it was appended

    def _first_difference(self, start: int, end: int, wanted: Iterator[bytes]) -> int:
        """The sequence id of the first record from `start` on that is not the payload wanted there; or `end`."""
        at = start
        with self._log.reader(sequence_id=start, follow=True, timeout=PATIENCE_S, gaps="yield") as reader:
            for record in reader:
                if isinstance(record, Gap):  # they were there, and were lost
                    for _ in range(record.count):
                        next(wanted, None)
                elif bytes(record.payload) != next(wanted):
                    return record.sequence_id
                at = record.next.sequence_id
                if at >= end:
                    return end
        raise _not_readable(self._log.name, end - at)

    def _payloads(self, intent: Intent, number: int) -> Iterator[bytes]:
        """Those of an intent from this number on."""
        yield from intent.payloads[number:]
        behind = max(0, number - len(intent.payloads))
        for part in intent.staged:
            skipped = min(behind, part.count)
            behind -= skipped
            if skipped == part.count:
                continue
            left = part.count - skipped
            with self._staged_log(part).reader(sequence_id=part.first_sequence_id + skipped, follow=True) as reader:
                while left:
                    records = reader.read(left, timeout=PATIENCE_S)
                    if not records:
                        raise _not_readable(part.log, left)
                    for record in records:
                        yield bytes(record.payload)
                    left -= len(records)

    def _check_staged(self, part: Staged) -> None:
        """Before anything is promised of it: LogNotFoundError, TruncatedError, InvalidError."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            info = self._staged_log(part).info()
            if part.first_sequence_id < info.first.sequence_id:
                raise TruncatedError(f"records of the staging log {part.log!r} were truncated", outcome="not_written")
            if part.first_sequence_id + part.count <= info.next.sequence_id:
                return
            if time.monotonic() >= deadline:
                raise InvalidError(f"{part} names records that are not there", outcome="not_written")
            time.sleep(0.01)  # bookies may know a little later what their writer was told

    def _staged_log(self, part: Staged) -> Log:
        return self._namespace.log(part.log, create=False)


def _not_readable(log: str, count: int) -> UnavailableError:
    return UnavailableError(f"{count} records of {log!r} were not readable for {PATIENCE_S:g} s", log=log)


@contextmanager
def _of_unknown_outcome() -> Iterator[None]:
    """Whatever fails in here, whoever appends next finishes what was promised."""
    try:
        yield
    except Error as error:
        error.outcome = "unknown"
        raise


class _closing:
    """A writer that is closed on leaving; what it says then was said where it was appended."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __enter__(self) -> Writer:
        return self._writer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
        except Error:
            pass
