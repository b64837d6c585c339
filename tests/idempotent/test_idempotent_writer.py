"""IdempotentWriter: each batch is appended once, whoever repeats it, and whenever the process dies."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from killed_at_a_step import Killed, Steps

import walkeeper
from walkeeper.idempotent import IdempotentWriter, Staged, staging_log
from walkeeper.idempotent import _writer as module
from walkeeper.idempotent._intent import Intent, encode

Open = Callable[..., walkeeper.Namespace]


def contents(namespace: walkeeper.Namespace, name: str = "target") -> list[bytes]:
    with namespace.log(name, create=False).reader() as reader:
        return [bytes(record.payload) for record in reader]


def rows(batch: int, count: int = 5) -> list[bytes]:
    return [b"%d.%d" % (batch, number) for number in range(count)]


def stage(namespace: walkeeper.Namespace, batch: int, payloads: list[bytes], app: str = "app") -> Staged:
    log = namespace.log(staging_log(namespace.log("target").info().log_id, app, batch))
    with log.writer() as writer:
        writer.append_many(payloads)
    return Staged(log.name, 0, len(payloads))


def transactions_of(namespace: walkeeper.Namespace) -> walkeeper.Log:
    return namespace.log(f"transactions/{namespace.log('target').info().log_id}")


def test_a_batch_that_is_repeated_is_appended_once(namespace: walkeeper.Namespace) -> None:
    with IdempotentWriter(namespace, "target") as writer:
        assert writer.last_version("app") is None
        assert writer.append_once("app", 0, rows(0))
        assert not writer.append_once("app", 0, rows(0))
        assert writer.append_once("app", 1, rows(1))
        assert not writer.append_once("app", 0, rows(0))
        assert writer.append_once("other", 0, rows(2))
        assert writer.last_version("app") == 1
    with IdempotentWriter(namespace, "target") as again:
        assert not again.append_once("app", 1, rows(1))
        assert again.append_once("app", 7, [])
        assert not again.append_once("app", 6, rows(6))
        assert (again.last_version("app"), again.last_version("other")) == (7, 0)
    assert contents(namespace) == rows(0) + rows(1) + rows(2)


def test_staged_records_follow_the_payloads_and_their_logs_go(namespace: walkeeper.Namespace) -> None:
    with IdempotentWriter(namespace, "target") as writer:
        first, second = stage(namespace, 0, rows(1, 3000)), stage(namespace, 0, rows(2))
        left_over, next_batch = stage(namespace, 0, rows(8)), stage(namespace, 1, rows(9))
        assert writer.append_once("app", 0, rows(0), [first, Staged(second.log, 1, 3)])
        assert contents(namespace) == rows(0) + rows(1, 3000) + rows(2)[1:4]
        assert namespace.logs("staging/") == [next_batch.log]
        assert not writer.append_once("app", 0, [], [left_over])


def test_two_writers_take_turns(open_namespace: Open) -> None:
    namespace = open_namespace()
    first, second = IdempotentWriter(namespace, "target"), IdempotentWriter(namespace, "target")
    assert first.append_once("a", 0, rows(0))
    assert second.append_once("b", 0, rows(1))
    with pytest.raises(walkeeper.FencedError):
        first.append_once("a", 1, rows(2))
    assert first.append_once("a", 1, rows(2))
    with pytest.raises(walkeeper.FencedError):
        second.append_once("b", 1, rows(3))
    assert contents(namespace) == rows(0) + rows(1) + rows(2)
    first.close()
    second.close()


def test_a_log_that_is_made_again_knows_no_versions(namespace: walkeeper.Namespace) -> None:
    with IdempotentWriter(namespace, "target") as writer:
        writer.append_once("app", 5, rows(0))
    namespace.rename_log("target", "renamed")
    with IdempotentWriter(namespace, "renamed") as writer:
        assert not writer.append_once("app", 5, rows(0))
    with IdempotentWriter(namespace, "target") as writer:
        assert writer.append_once("app", 0, rows(1))
    assert contents(namespace) == rows(1)


@pytest.mark.parametrize("done", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
def test_wherever_the_process_dies_each_record_is_there_once(
    namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch, staged: bool, done: bool
) -> None:
    """At each step of a batch in turn; the next process repeats the batch, as Spark does."""
    monkeypatch.setattr(module, "COPY_BYTES", 20)
    monkeypatch.setattr(module, "REWRITE_RECORDS", 10)
    expected: list[bytes] = []
    batch, finished = 0, False
    while not finished:
        payloads = rows(batch, 7)
        parts = [stage(namespace, batch, payloads[3:])] if staged else []
        inline = payloads[:3] if staged else payloads
        steps = Steps(batch + 1, done=done)
        try:
            IdempotentWriter(steps.of(namespace), "target").append_once("app", batch, inline, parts)
            finished = True
        except Killed:
            pass
        expected += payloads
        repeated = [] if staged and not namespace.logs("staging/") else parts
        with IdempotentWriter(namespace, "target") as writer:
            appended = writer.append_once("app", batch, inline, repeated)
        assert not (finished and appended)
        assert contents(namespace) == expected, f"killed at step {steps.count}, {'behind' if done else 'before'} it"
        batch += 1
    assert batch > 6
    assert namespace.logs("staging/") == []


def test_a_batch_that_was_cut_by_another_writer_goes_on_behind_it(
    namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed with half of a batch in the log; then somebody appends with a writer of his own."""
    monkeypatch.setattr(module, "COPY_BYTES", 1)
    with IdempotentWriter(namespace, "target") as writer:
        writer.append_once("app", 0, rows(0))
    parts = [stage(namespace, 1, rows(1))]
    landed = 0
    for last in range(5, 20):
        steps = Steps(last, done=True)
        with pytest.raises(Killed):
            IdempotentWriter(steps.of(namespace), "target").append_once("app", 1, [b"begin"], parts)
        landed = len(contents(namespace)) - 5
        if landed >= 3:
            break
    assert 3 <= landed < 6
    with namespace.log("target").writer() as other:
        other.append(b"foreign")
    with IdempotentWriter(namespace, "target") as writer:
        assert not writer.append_once("app", 1, [b"begin"], parts)
    whole = [b"begin", *rows(1)]
    assert contents(namespace) == rows(0) + whole[:landed] + [b"foreign"] + whole[landed:]


def test_an_intent_of_which_nothing_landed_is_appended_at_the_end(namespace: walkeeper.Namespace) -> None:
    with IdempotentWriter(namespace, "target") as writer:
        writer.append_once("app", 0, rows(0))
    with transactions_of(namespace).writer() as zombie:
        zombie.append(encode(Intent("app", 1, 5, 0, tuple(rows(1)), ())))
    with namespace.log("target").writer() as other:
        other.append(b"foreign")
    with IdempotentWriter(namespace, "target") as writer:
        assert writer.last_version("app") == 1
    assert contents(namespace) == [*rows(0), b"foreign", *rows(1)]


def test_what_was_truncated_had_been_appended(namespace: walkeeper.Namespace) -> None:
    """The batch is whole, that it is was not noted, and the log is truncated within it, and behind it."""
    log = namespace.log("target")
    for batch, sequence_id in enumerate((3, 10)):
        steps = Steps(6, done=True)
        with pytest.raises(Killed):
            IdempotentWriter(steps.of(namespace), steps.of(log)).append_once("app", batch, rows(batch))
        assert [name for name, _ in steps.calls] == ["log", "writer", "writer", "append", "append_many", "flush"]
        log.truncate(log.find(sequence_id=sequence_id))
        with IdempotentWriter(namespace, log) as writer:
            assert not writer.append_once("app", batch, rows(batch))
        assert contents(namespace) == (rows(0) + rows(1))[sequence_id : 5 * batch + 5]


def test_a_batch_is_promised_before_it_is_begun(namespace: walkeeper.Namespace) -> None:
    steps = Steps(100, done=True)
    IdempotentWriter(steps.of(namespace), "target").append_once("app", 0, rows(0))
    calls = [(name, options.get("durability")) for name, options in steps.calls if name in ("append", "append_many")]
    assert calls == [("append", None), ("append_many", "deferred"), ("append", "deferred")]


def test_a_staging_log_that_somebody_deleted_is_told(
    namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COPY_BYTES", 1)
    part = stage(namespace, 0, rows(0))
    steps = Steps(8, done=True)
    with pytest.raises(Killed):
        IdempotentWriter(steps.of(namespace), "target").append_once("app", 0, [], [part])
    assert 0 < len(contents(namespace)) < 5
    namespace.delete_log(part.log)
    with IdempotentWriter(namespace, "target") as writer, pytest.raises(walkeeper.LogNotFoundError):
        writer.append_once("app", 1, rows(1))


def test_the_transaction_log_stays_short(namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REWRITE_RECORDS", 20)
    with IdempotentWriter(namespace, "target") as writer:
        for version in range(100):
            assert writer.append_once(f"app {version % 3}", version, rows(version, 1))
    own = transactions_of(namespace)
    assert own.count() <= 25
    with IdempotentWriter(namespace, "target") as writer:
        assert [writer.last_version(f"app {number}") for number in range(3)] == [99, 97, 98]
        assert not writer.append_once("app 1", 97, rows(97, 1))
    assert len(contents(namespace)) == 100


def test_what_fails_behind_its_promise_has_an_unknown_outcome(namespace: walkeeper.Namespace) -> None:
    """Whoever took it for not written, and wrote it as another version, had it twice."""
    with namespace.log("target").writer() as own, IdempotentWriter(namespace, "target", writer=own) as writer:
        assert writer.append_once("app", 0, rows(0))
        with namespace.log("target").writer():
            pass
        with pytest.raises(walkeeper.FencedError) as caught:
            writer.append_once("app", 1, rows(1))
        assert caught.value.outcome == "unknown"
    with IdempotentWriter(namespace, "target") as writer:
        assert writer.last_version("app") == 1
    assert contents(namespace) == rows(0) + rows(1)


def test_ids_of_one_write_are_not_kept_for_ever(
    namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REWRITE_RECORDS", 20)
    monkeypatch.setattr(module, "ONE_WRITES_KEPT", 3)
    with IdempotentWriter(namespace, "target") as writer:
        writer.append_once("app", 0, [])
        for number in range(40):
            writer.append_once(f"write {number}", 0, [])
        assert writer.last_version("app") == 0
        assert writer.last_version("write 5") is None
        assert not writer.append_once("write 39", 0, rows(0))


def test_left_overs_of_batches_that_were_made_are_collected(
    namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task failed behind its staging, and its batch was made by others, without any staging."""
    monkeypatch.setattr(module, "REWRITE_RECORDS", 6)
    stage(namespace, 0, rows(0))
    later = stage(namespace, 9, rows(9))
    empty = namespace.log(staging_log(namespace.log("target").info().log_id, "app", 1))
    with IdempotentWriter(namespace, "target") as writer:
        for version in range(4):
            writer.append_once("app", version, rows(version))
        assert empty.name not in namespace.logs("staging/")
        assert namespace.logs("staging/") == [later.log]


def test_a_batch_of_too_many_parts_is_refused_before_it_is_promised(
    namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INTENT_BYTES_MAX", 200)
    parts = [stage(namespace, 0, rows(0)) for _ in range(3)]
    with IdempotentWriter(namespace, "target") as writer:
        with pytest.raises(walkeeper.InvalidError, match="3 staging logs") as caught:
            writer.append_once("app", 0, [], parts)
        assert caught.value.outcome == "not_written"
        assert writer.last_version("app") is None


def test_what_was_staged_and_abandoned_is_collected(
    namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REWRITE_RECORDS", 4)
    abandoned = stage(namespace, 3, rows(3), app="dead")
    with IdempotentWriter(namespace, "target") as writer:
        for version in range(3):
            writer.append_once("app", version, rows(version))
        assert abandoned.log in namespace.logs("staging/")
        monkeypatch.setattr(module, "ABANDONED_MS", -60_000)
        for version in range(3, 6):
            writer.append_once("app", version, rows(version))
        assert namespace.logs("staging/") == []


def test_what_cannot_be_appended_is_refused_before_anything_is_promised(namespace: walkeeper.Namespace) -> None:
    staged = stage(namespace, 0, rows(0))
    refused: list[tuple[type[walkeeper.Error], dict[str, Any]]] = [
        (walkeeper.InvalidError, {"app_id": ""}),
        (walkeeper.InvalidError, {"app_id": "a" * 1025}),
        (walkeeper.InvalidError, {"version": -1}),
        (walkeeper.InvalidError, {"version": True}),
        (walkeeper.InvalidError, {"version": 2**63}),
        (walkeeper.InvalidError, {"payloads": [b"x" * 800_000]}),
        (walkeeper.InvalidError, {"staged": [Staged(staged.log, 0, 6)]}),
        (walkeeper.InvalidError, {"staged": [Staged(staged.log, -1, 2)]}),
        (walkeeper.LogNotFoundError, {"staged": [Staged("staging/none", 0, 1)]}),
    ]
    with IdempotentWriter(namespace, "target") as writer:
        for error, arguments in refused:
            with pytest.raises(error):
                writer.append_once(**{"app_id": "app", "version": 0, **arguments})
        assert writer.append_once("app", 0, rows(0))
    with pytest.raises(walkeeper.ClosedError):
        writer.append_once("app", 1, rows(1))
    assert contents(namespace) == rows(0)


def test_a_log_whose_records_the_application_numbers_is_refused(namespace: walkeeper.Namespace) -> None:
    with namespace.log("numbered").writer() as numbering:
        numbering.append(b"x", txid=7)
    with IdempotentWriter(namespace, "numbered") as writer, pytest.raises(walkeeper.InvalidError, match="txids"):
        writer.append_once("app", 0, rows(0))


def test_a_writer_that_the_caller_has_is_used_and_left_open(namespace: walkeeper.Namespace) -> None:
    with namespace.log("target").writer() as own:
        with IdempotentWriter(namespace, "target", writer=own) as writer:
            own.append(b"plain")
            assert writer.append_once("app", 0, rows(0))
        own.append(b"more")
    assert contents(namespace) == [b"plain", *rows(0), b"more"]


def test_random_kills_and_repeats(namespace: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    monkeypatch.setattr(module, "REWRITE_RECORDS", 7)
    monkeypatch.setattr(module, "COPY_BYTES", 30)
    expected: list[bytes] = []
    for batch in range(40):
        payloads = rows(batch, chance.randrange(9))
        parts = [stage(namespace, batch, payloads)] if payloads and chance.random() < 0.5 else []
        inline = [] if parts else payloads
        while chance.random() < 0.6:
            steps = Steps(chance.randrange(1, 14), done=chance.random() < 0.5)
            try:
                IdempotentWriter(steps.of(namespace), "target").append_once("app", batch, inline, parts)
            except Killed:
                pass
        with IdempotentWriter(namespace, "target") as writer:
            if writer.last_version("app") != batch:
                assert writer.append_once("app", batch, inline, parts)
        expected += payloads
        assert contents(namespace) == expected
