"""Run tests/spec/*.txt: each block is a command, '----', and what the core must answer; '#' says why."""

import pathlib
import re
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from tests.core_lib import ffi, lib
from tests.hosted import DIGESTS, Polls, Table
from tests.journals import BLOCK_SIZE, recover, seal

SPECS = sorted((pathlib.Path(__file__).parent / "spec").glob("*.txt"))


def status_name(status: int) -> str:
    return str(ffi.typeof("wk_status").elements[status])


class Machine:
    """What a spec drives: its commands are the methods that carry their names."""

    def run(self, command: str) -> str:
        verb, *words = command.split()
        answer: Callable[..., Iterator[str]] = getattr(self, f"do_{verb.replace('-', '').rstrip(':')}")
        return "\n".join(answer(*words))


class BlockWindow(Machine):
    """window K=2 | submit sync plain… | written 1 2… | sync begin | sync done | fail"""

    def __init__(self) -> None:
        self.window = ffi.new("wk_block_window *")

    def do_window(self, in_flight_max: str) -> Iterator[str]:
        status = lib.wk_block_window_init(self.window, 1, int(in_flight_max.removeprefix("K=")))
        yield self.state() if status == lib.WK_OK else status_name(status)

    def do_submit(self, *kinds: str) -> Iterator[str]:
        sequence = ffi.new("uint64_t *")
        for kind in kinds:
            status = lib.wk_block_window_submit(self.window, {"sync": True, "plain": False}[kind], sequence)
            yield f"block {sequence[0]}" if status == lib.WK_OK else status_name(status)
        yield self.state()

    def do_written(self, *sequences: str) -> Iterator[str]:
        for sequence in sequences:
            status = lib.wk_block_window_written(self.window, int(sequence))
            if status != lib.WK_OK:
                yield f"{sequence} {status_name(status)}"
        yield self.state()

    def do_sync(self, what: str) -> Iterator[str]:
        call = {"begin": lib.wk_block_window_sync_begin, "done": lib.wk_block_window_sync_done}[what]
        status = call(self.window)
        if status != lib.WK_OK:
            yield status_name(status)
        yield self.state()

    def do_fail(self) -> Iterator[str]:
        lib.wk_block_window_fail(self.window)
        yield self.state()

    def state(self) -> str:
        wants_sync = " wants sync" if lib.wk_block_window_wants_sync(self.window) else ""
        return f"durable={self.window.durable_through}{wants_sync}"


class Budgets(Machine):
    """limits reads=64 replies=1000000 frame=1000 | load waiting=3 readers=1… | own reads=1…, unsent=5 |
    ask turn, turn lac, turn fence, hold…, force, passes, anything, read, read large | parts. The rest stays."""

    LIMITS: ClassVar = {"reads": "reads_max", "replies": "reply_bytes", "frame": "frame_size_max"}
    VERDICTS: ClassVar = {
        lib.WK_BUDGET_REFUSED: "refused",
        lib.WK_BUDGET_ADMITTED: "waits",
        lib.WK_BUDGET_SPARED: "waits, spared",
    }
    EXCESS: ClassVar = {
        lib.WK_EXCESS_NONE: "is looked at",
        lib.WK_EXCESS_UNSENT: "stalls: answers unsent",
        lib.WK_EXCESS_READS: "stalls: reads under way",
    }

    def __init__(self) -> None:
        self.limits, self.load = ffi.new("wk_budget_limits *"), ffi.new("wk_budget_load *")
        self.own, self.unsent = ffi.new("wk_budget_own *"), 0

    def do_limits(self, *words: str) -> Iterator[str]:
        for name, value in self.numbers(words):
            setattr(self.limits, self.LIMITS[name], value)
        yield from self.do_parts()

    def do_parts(self) -> Iterator[str]:
        yield (
            f"recoveries {lib.wk_budget_for_recoveries(self.limits)}, share {lib.wk_budget_share(self.limits)}, "
            f"common {lib.wk_budget_common(self.limits)}"
        )

    def do_load(self, *words: str) -> Iterator[str]:
        for name, value in self.numbers(words):
            setattr(self.load, {"replies": "reply_bytes"}.get(name, name), value)
        yield "ok"

    def do_own(self, *words: str) -> Iterator[str]:
        for name, value in self.numbers(words):
            if name == "unsent":
                self.unsent = value
            else:
                setattr(self.own, name, value)
        yield "ok"

    def do_ask(self, *words: str) -> Iterator[str]:
        for asked in " ".join(words).split(", "):
            yield f"{asked}: {self.answer(*asked.split())}"

    def answer(self, what: str, more: str = "") -> str:
        common = (self.limits, self.load, self.own)
        if what in ("turn", "hold"):
            ask = {"turn": lib.wk_budget_turn, "hold": lib.wk_budget_hold}[what]
            return self.VERDICTS[ask(*common, {"": 0, "lac": lib.WK_NEED_LAC, "fence": lib.WK_NEED_FENCE}[more])]
        if what == "passes":
            return "writers come first" if not lib.wk_budget_recoveries_pass(self.load) else "before writers"
        if what == "force":
            return "stalls" if lib.wk_budget_stalls_force(self.load, self.own) else "waits"
        if what == "read":
            return "is read" if lib.wk_budget_may_read(*common, self.unsent, more == "large") else "waits for memory"
        assert what == "anything"
        return self.EXCESS[lib.wk_budget_excess_of(*common, self.unsent)]

    def numbers(self, words: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        for word in words:
            name, value = word.split("=")
            yield name, int(value)


class JournalScan(Machine):
    """journal K=2 | epoch 2 | incarnation 2 | write 1:0 2:1 confirm:2… | tear 2… | lose 2… | copy 1 over 2 |
    recycle 1 as 2 | recover. Every block has 4096 bytes; one that is written again takes its old place."""

    def do_journal(self, in_flight_max: str) -> Iterator[str]:
        self.in_flight_max = int(in_flight_max.removeprefix("K="))
        self.epoch, self.incarnation, self.last = 1, 1, 0
        self.files: dict[int, bytearray] = {1: bytearray()}
        self.places: dict[int, tuple[int, int]] = {}  # sequence: epoch and offset
        self.crcs = {0: 0}
        yield "ok"

    def do_epoch(self, epoch: str) -> Iterator[str]:
        self.epoch = int(epoch)
        self.files.setdefault(self.epoch, bytearray())
        yield "ok"

    def do_incarnation(self, incarnation: str) -> Iterator[str]:
        self.incarnation = int(incarnation)
        yield "ok"

    def do_write(self, *blocks: str) -> Iterator[str]:
        for block in blocks:
            what, durable_through = block.split(":")
            confirm = what == "confirm"
            sequence = self.last + 1 if confirm else int(what)
            epoch, offset = self.places.setdefault(sequence, (self.epoch, len(self.files[self.epoch])))
            data, self.crcs[sequence] = seal(
                sequence,
                epoch=epoch,
                offset=offset,
                previous_crc=self.crcs[sequence - 1],
                incarnation=self.incarnation,
                durable_through=int(durable_through),
                in_flight_max=self.in_flight_max,
                flags=lib.WK_BLOCK_CONFIRM if confirm else 0,
            )
            self.files[epoch][offset : offset + BLOCK_SIZE] = data
            self.last = sequence
        yield "ok"

    def do_tear(self, *sequences: str) -> Iterator[str]:
        for sequence in sequences:
            epoch, offset = self.places[int(sequence)]
            self.files[epoch][offset + 512 : offset + BLOCK_SIZE] = b"\xee" * (BLOCK_SIZE - 512)
        yield "ok"

    def do_lose(self, *sequences: str) -> Iterator[str]:
        for sequence in sequences:
            epoch, offset = self.places[int(sequence)]
            self.files[epoch][offset : offset + BLOCK_SIZE] = bytes(BLOCK_SIZE)
        yield "ok"

    def do_copy(self, source: str, _over: str, target: str) -> Iterator[str]:
        (epoch, offset), (other, place) = self.places[int(source)], self.places[int(target)]
        self.files[other][place : place + BLOCK_SIZE] = self.files[epoch][offset : offset + BLOCK_SIZE]
        yield "ok"

    def do_recycle(self, old: str, _as: str, new: str) -> Iterator[str]:
        self.epoch = int(new)
        self.files = {self.epoch: self.files[int(old)]}
        self.places = {self.last + 1: (self.epoch, 0)}
        yield "ok"

    def do_recover(self) -> Iterator[str]:
        files = {epoch: bytes(data) for epoch, data in self.files.items()}
        found = recover(files, anchored=1 in files)
        yield " ".join(["accepted", *map(str, found.accepted)])
        harmless = "end" if found.verdict == "absent" else "torn tail"
        end = f"damage, block {found.witness} proves it" if found.damaged else harmless
        yield f"then {found.verdict}: {end}"


class HostedLedgers(Machine):
    """table 16 | seed 5 | put 1 2… | show 1 2… | raise 1 to 5 at 1000 | verify 1 CRC32C damaged… | wait 1 | grow 32 |
    remove 1 2…"""

    def do_table(self, capacity: str) -> Iterator[str]:
        self.table = Table(int(capacity))
        yield self.state() if self.table.status == lib.WK_OK else status_name(self.table.status)

    def do_seed(self, seed: str) -> Iterator[str]:
        yield from self.refusal(self.table.seed(int(seed)))
        yield self.state()

    def do_put(self, *ids: str) -> Iterator[str]:
        for ledger_id in ids:
            yield from self.refusal(self.table.put(int(ledger_id)), f"{ledger_id} ")
        yield self.state()

    def do_show(self, *ids: str) -> Iterator[str]:
        for ledger_id in ids:
            yield self.known(ledger_id)
        yield self.state()

    def do_raise(self, ledger_id: str, _to: str, lac: str, _at: str, wall_ms: str) -> Iterator[str]:
        if not self.table.rise(int(ledger_id), int(lac), int(wall_ms)):
            yield "no"
        yield from self.do_show(ledger_id)

    def do_verify(self, ledger_id: str, *digests: str) -> Iterator[str]:
        for digest in digests:
            yield "accepted" if self.table.accepts(int(ledger_id), digest) else "mismatch"
        yield from self.do_show(ledger_id)

    def do_wait(self, ledger_id: str) -> Iterator[str]:
        self.table.find(int(ledger_id)).first_poll = 0
        yield self.state()

    def do_grow(self, capacity: str) -> Iterator[str]:
        yield from self.refusal(self.table.grow(int(capacity)))
        yield self.state()

    def do_remove(self, *ids: str) -> Iterator[str]:
        for ledger_id in ids:
            yield from self.refusal(self.table.remove(int(ledger_id)))
        yield self.state()

    def refusal(self, status: int, prefix: str = "") -> Iterator[str]:
        if status != lib.WK_OK:
            yield prefix + status_name(status)

    def known(self, ledger_id: str) -> str:
        ledger = self.table.find(int(ledger_id))
        if ledger is None:
            return f"{ledger_id}: nothing"
        return f"{ledger_id}: lac={ledger.lac} at {ledger.lac_ms}, digest {DIGESTS[ledger.digest]}"

    def state(self) -> str:
        return f"{self.table.table.count} of {self.table.table.capacity}"


class HostedRules(Machine):
    """rules | deleted 5 7… | read-only on [but for high priority] | read-only off | limbo 3… | limbo all but 4… |
    ask 5: add, fence keyless… (the operation; then high, recovery, keyless) | absent 5: ledger, entry"""

    OPERATIONS: ClassVar = {
        "add": (lib.WK_WIRE_ADD, 0),
        "read": (lib.WK_WIRE_READ, 0),
        "fence": (lib.WK_WIRE_READ, lib.WK_WIRE_FENCE),
        "batch": (lib.WK_WIRE_BATCH_READ, 0),
        "batch fence": (lib.WK_WIRE_BATCH_READ, lib.WK_WIRE_FENCE),
        "read LAC": (lib.WK_WIRE_READ_LAC, 0),
        "write LAC": (lib.WK_WIRE_WRITE_LAC, 0),
        "force": (lib.WK_WIRE_FORCE, 0),
        "list": (lib.WK_WIRE_LIST_ENTRIES, 0),
        "info": (lib.WK_WIRE_BOOKIE_INFO, 0),
    }
    FLAGS: ClassVar = {"high": lib.WK_WIRE_HIGH_PRIORITY, "recovery": lib.WK_WIRE_RECOVERY}
    KEY = ffi.new("uint8_t[]", 20)

    def do_rules(self) -> Iterator[str]:
        self.rules = ffi.new("wk_hosted_rules *")
        self.ids: dict[str, object] = {}  # the sets point into them
        yield self.state()

    def do_deleted(self, *ids: str) -> Iterator[str]:
        self.fill("deleted", ids)
        yield self.state()

    def do_limbo(self, *words: str) -> Iterator[str]:
        self.rules.limbo_all = words[0] == "all"
        self.fill("limbo", words[2:] if words[0] == "all" else words)
        yield self.state()

    def do_readonly(self, switch: str, *but: str) -> Iterator[str]:
        self.rules.read_only, self.rules.high_priority = switch == "on", bool(but)
        yield self.state()

    def do_ask(self, ledger_id: str, *words: str) -> Iterator[str]:
        for asked in " ".join(words).split(", "):
            name, flags, key = asked, 0, True
            while name not in self.OPERATIONS:
                name, _, more = name.rpartition(" ")
                flags, key = flags | self.FLAGS.get(more, 0), key and more != "keyless"
            operation, of_operation = self.OPERATIONS[name]
            given = {"operation": operation, "flags": flags | of_operation, "ledger_id": int(ledger_id.rstrip(":"))}
            if key:
                given.update(key=self.KEY, key_size=len(self.KEY))
            yield f"{asked}: {self.code(lib.wk_hosted_judge(self.rules, ffi.new('wk_wire_request *', given)))}"

    def do_absent(self, ledger_id: str, *words: str) -> Iterator[str]:
        for what in " ".join(words).split(", "):
            code = {"ledger": lib.WK_WIRE_NO_LEDGER, "entry": lib.WK_WIRE_NO_ENTRY}[what]
            found = lib.wk_hosted_negative(self.rules, int(ledger_id.rstrip(":")), code)
            yield f"{what}: {self.code(found)}"

    def fill(self, name: str, ids: tuple[str, ...]) -> None:
        self.ids[name] = ffi.new("int64_t[]", [int(ledger_id) for ledger_id in ids] or [0])
        lib.wk_id_set_init(ffi.addressof(self.rules, name), self.ids[name], len(ids))

    def code(self, code: int) -> str:
        return str(ffi.typeof("wk_wire_code").elements[code]).removeprefix("WK_WIRE_")

    def members(self, name: str) -> str:
        found = getattr(self.rules, name)
        return " ".join(str(found.ids[at]) for at in range(found.count))

    def state(self) -> str:
        said = []
        if self.rules.deleted.count:
            said.append(f"deleted {self.members('deleted')}")
        if self.rules.limbo_all:
            said.append("limbo all" + (f" but {self.members('limbo')}" if self.rules.limbo.count else ""))
        elif self.rules.limbo.count:
            said.append(f"limbo {self.members('limbo')}")
        if self.rules.read_only:
            said.append("read-only" + (" but for high priority" if self.rules.high_priority else ""))
        return ", ".join(said) or "all is well"


class LedgerRules(Machine):
    """ledger KEY | ledger without a key (then: fenced, deleting) |
    ask [of ID]: add KEY, recovery KEY, fence -, LAC 49 bytes…"""

    CHANGES: ClassVar = {
        "add": lib.WK_CHANGE_ADD,
        "recovery": lib.WK_CHANGE_RECOVERY_ADD,
        "fence": lib.WK_CHANGE_FENCE,
        "LAC": lib.WK_CHANGE_LAC,
    }

    def __init__(self) -> None:
        self.facts = ffi.NULL

    def do_ledger(self, *words: str) -> Iterator[str]:
        key = "" if words[0] == "without" else words[0]
        self.key = ffi.new("uint8_t[]", key.encode())  # the facts point to it
        given = {"key_size": len(key), "fenced": "fenced" in words, "deleting": "deleting" in words}
        self.facts = ffi.new("wk_ledger_facts *", given)
        if key:
            self.facts.key = self.key
        said = ["fenced" if self.facts.fenced else "open"]
        yield ", ".join([*said, *["being deleted"] * self.facts.deleting, *[f"key {key}"] * bool(key)])

    def do_ask(self, *words: str) -> Iterator[str]:
        ledger_id = 7
        if words[0] == "of":
            ledger_id, words = int(words[1].rstrip(":")), words[2:]
        for what in " ".join(words).split(", "):
            change, _, name = what.partition(" ")
            key = b"x" * int(name.split()[0]) if name.endswith(" bytes") else name.removeprefix("-").encode()
            status = lib.wk_ledger_judge(self.facts, ledger_id, self.CHANGES[change], key or ffi.NULL, len(key))
            yield f"{what}: {status_name(status).removeprefix('WK_')}"


class LongPolls(Machine):
    """polls room=4 | add a ledger=1 knows=5 until=100 by=x | raise 1 to 6 | ready 1 | fence 1 | clock 100 | drop x"""

    def do_polls(self, room: str) -> Iterator[str]:
        self.polls = Polls(int(room.removeprefix("room=")))
        yield self.state()

    def do_add(self, name: str, *words: str) -> Iterator[str]:
        given = dict(word.split("=") for word in words)
        status = self.polls.add(
            tag=ord(name),
            ledger_id=int(given["ledger"]),
            previous_lac=int(given["knows"]),
            deadline=int(given["until"]),
            owner=ord(given["by"]),
        )
        if status != lib.WK_OK:
            yield status_name(status)
        yield self.state()

    def do_raise(self, ledger_id: str, _to: str, lac: str) -> Iterator[str]:
        self.polls.rise(int(ledger_id), int(lac))
        return self.do_ready(ledger_id)

    def do_ready(self, ledger_id: str) -> Iterator[str]:
        return self.told("wake", self.polls.wake(int(ledger_id)))

    def do_fence(self, ledger_id: str) -> Iterator[str]:
        return self.told("wake", self.polls.wake(int(ledger_id), everyone=True))

    def do_clock(self, now: str) -> Iterator[str]:
        return self.told("expire", self.polls.expire(int(now)))

    def do_drop(self, owner: str) -> Iterator[str]:
        yield f"{len(self.polls.drop(ord(owner)))} dropped"
        yield self.state()

    def told(self, what: str, tags: list[int]) -> Iterator[str]:
        if tags:
            yield " ".join([what, *map(chr, tags)])
        yield self.state()

    def state(self) -> str:
        count = self.polls.polls.count
        return f"{count} wait{'s' * (count == 1)} until {self.polls.deadline()}" if count else "none wait"


def quorum_of(words: tuple[str, ...]) -> tuple[int, int, int]:
    """E=5 Qw=3 Qa=2"""
    given = dict(word.split("=") for word in words if "=" in word)
    return int(given["E"]), int(given["Qw"]), int(given["Qa"])


def bits(numbers: tuple[str, ...]) -> int:
    return sum(1 << int(number) for number in numbers)


def members(found: int) -> str:
    return " ".join(str(bit) for bit in range(64) if found >> bit & 1) or "none"


class Quorum(Machine):
    """quorum E=5 Qw=3 Qa=2 | write-set 0 7… | index of 7: 0 1… (slots) | indexes of 7: 0 1… (slots) | known 0 1…"""

    def do_quorum(self, *words: str) -> Iterator[str]:
        self.quorum = ffi.new("wk_quorum *", quorum_of(words))
        yield "valid" if lib.wk_quorum_is_valid(self.quorum) else "not valid"

    def do_writeset(self, *entries: str) -> Iterator[str]:
        for entry in entries:
            indexes = range(self.quorum.write_quorum)
            slots = [lib.wk_quorum_slot(self.quorum, int(entry), index) for index in indexes]
            yield f"{entry}: {' '.join(map(str, slots))}"

    def do_index(self, _of: str, entry: str, *slots: str) -> Iterator[str]:
        found = [lib.wk_quorum_index(self.quorum, int(entry.rstrip(":")), int(slot)) for slot in slots]
        yield " ".join("-" if index == lib.WK_NO_INDEX else str(index) for index in found)

    def do_indexes(self, _of: str, entry: str, *slots: str) -> Iterator[str]:
        yield members(lib.wk_quorum_indexes(self.quorum, int(entry.rstrip(":")), bits(slots)))

    def do_known(self, *slots: str) -> Iterator[str]:
        known = () if slots == ("none",) else slots
        yield "covered" if lib.wk_quorum_is_covered(self.quorum, bits(known)) else "not covered"


class LedgerWriter(Machine):
    """writer E=3 Qw=3 Qa=2 room=4 [patient] [behind 9 of 100 bytes] | push 10 20… (bytes) | ack 0: 0 2… (slots) |
    slot-failed 1 | fail FENCED | freeze | replace 0 2… (slots) | thaw"""

    def do_writer(self, *words: str) -> Iterator[str]:
        room = next(int(word.removeprefix("room=")) for word in words if word.startswith("room="))
        lac, length = (int(words[-4]), int(words[-2])) if "behind" in words else (-1, 0)
        self.pending = ffi.new("wk_pending_add[]", room)  # the writer points to it
        self.writer = ffi.new("wk_ledger_writer *")
        lib.wk_ledger_writer_init(
            self.writer, ffi.new("wk_quorum *", quorum_of(words)), lac, length, self.pending, room
        )
        self.writer.patient = "patient" in words
        yield self.state()

    def do_freeze(self) -> Iterator[str]:
        lib.wk_ledger_writer_freeze(self.writer)
        yield self.state()

    def do_replace(self, *slots: str) -> Iterator[str]:
        lib.wk_ledger_writer_replace(self.writer, bits(slots))
        yield self.state()

    def do_thaw(self) -> Iterator[str]:
        before = self.writer.lac
        assert lib.wk_ledger_writer_thaw(self.writer) == (self.writer.lac > before)
        yield self.state()

    def do_push(self, *sizes: str) -> Iterator[str]:
        for size in sizes:
            if not lib.wk_ledger_writer_has_room(self.writer):
                yield "no room"
                break
            lib.wk_ledger_writer_push(self.writer, self.writer.length + int(size))
        yield self.state()

    def do_ack(self, entry: str, *slots: str) -> Iterator[str]:
        for slot in slots:
            before = self.writer.lac
            moved = lib.wk_ledger_writer_ack(self.writer, int(entry.rstrip(":")), int(slot))
            assert moved == (self.writer.lac > before)
        yield self.state()

    def do_slotfailed(self, slot: str) -> Iterator[str]:
        lib.wk_ledger_writer_slot_failed(self.writer, int(slot))
        yield self.state()

    def do_fail(self, status: str) -> Iterator[str]:
        lib.wk_ledger_writer_fail(self.writer, getattr(lib, f"WK_{status}"))
        yield self.state()

    def state(self) -> str:
        writer = self.writer
        said = [f"LAC {writer.lac} of {writer.last_add_pushed}", f"{writer.lac_length} of {writer.length} bytes"]
        if writer.failed_slots:
            said.append(f"without {members(writer.failed_slots)}")
        if writer.stuck:
            said.append("stuck")
        if writer.frozen:
            said.append("frozen")
        if writer.status != lib.WK_OK:
            said.append(status_name(writer.status).removeprefix("WK_"))
        return ", ".join(said)


class LedgerRecovery(Machine):
    """recovery E=3 Qw=3 Qa=2 [from 10] | fenced: 0 entry 5, 1 absent, 2 none… (slot, answer, LAC of the entry) |
    read 6: 0 absent, 1 entry, 2 damaged… (index in the write set, answer)"""

    ANSWERS: ClassVar = {
        name: getattr(lib, f"WK_ANSWER_{name.upper()}")
        for name in ("entry", "absent", "none", "damaged", "unauthorized")
    }

    def do_recovery(self, *words: str) -> Iterator[str]:
        self.recovery = ffi.new("wk_ledger_recovery *")
        first = int(words[-1]) if "from" in words else 0
        lib.wk_ledger_recovery_init(self.recovery, ffi.new("wk_quorum *", quorum_of(words)), first)
        yield self.state()

    def do_fenced(self, *words: str) -> Iterator[str]:
        for said in " ".join(words).split(", "):
            slot, answer, *lac = said.split()
            moved = lib.wk_ledger_recovery_fenced(self.recovery, int(slot), self.ANSWERS[answer], int([*lac, "-1"][0]))
            yield f"{said}: {self.state() if moved else 'more'}"

    def do_read(self, entry: str, *words: str) -> Iterator[str]:
        for said in " ".join(words).split(", "):
            index, answer = said.split()
            moved = lib.wk_ledger_recovery_read(self.recovery, int(entry.rstrip(":")), int(index), self.ANSWERS[answer])
            yield f"{said}: {self.state() if moved else 'more'}"

    def state(self) -> str:
        recovery = self.recovery
        phase = str(ffi.typeof("wk_recovery_phase").elements[recovery.phase]).removeprefix("WK_RECOVERY_")
        if phase == "FENCE":
            return "FENCE"
        if phase == "FAILED":
            return f"FAILED, {status_name(recovery.status).removeprefix('WK_')}"
        return f"END, last entry {recovery.next - 1}" if phase == "END" else f"{phase} {recovery.next}"


MACHINES: dict[str, type[Machine]] = {
    "block_window": BlockWindow,
    "budgets": Budgets,
    "hosted_ledgers": HostedLedgers,
    "hosted_rules": HostedRules,
    "journal_scan": JournalScan,
    "ledger_recovery": LedgerRecovery,
    "ledger_rules": LedgerRules,
    "ledger_writer": LedgerWriter,
    "long_polls": LongPolls,
    "quorum": Quorum,
}


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_spec(spec: pathlib.Path) -> None:
    machine = MACHINES[spec.stem]()
    for block in re.split(r"\n{2,}", spec.read_text().strip()):
        command, ruler, *expected = [line for line in block.splitlines() if not line.startswith("#")]
        assert ruler == "----", f"{spec.name}: {command}"
        assert machine.run(command) == "\n".join(expected), f"{spec.name}: {command}"


def test_every_machine_has_a_spec() -> None:
    assert {spec.stem for spec in SPECS} == set(MACHINES)
