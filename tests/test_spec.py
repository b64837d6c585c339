"""Run tests/spec/*.txt: each block is a command, '----', and what the core must answer; '#' says why."""

import pathlib
import re
from collections.abc import Callable, Iterator

import pytest

from tests.journals import BLOCK_SIZE, recover, seal
from walkeeper._native import ffi, lib

SPECS = sorted((pathlib.Path(__file__).parent / "spec").glob("*.txt"))


def status_name(status: int) -> str:
    return str(ffi.typeof("wk_status").elements[status])


class Machine:
    """What a spec drives: its commands are the methods that carry their names."""

    def run(self, command: str) -> str:
        verb, *words = command.split()
        answer: Callable[..., Iterator[str]] = getattr(self, f"do_{verb}")
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


MACHINES: dict[str, type[Machine]] = {"block_window": BlockWindow, "journal_scan": JournalScan}


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_spec(spec: pathlib.Path) -> None:
    machine = MACHINES[spec.stem]()
    for block in re.split(r"\n{2,}", spec.read_text().strip()):
        command, ruler, *expected = [line for line in block.splitlines() if not line.startswith("#")]
        assert ruler == "----", f"{spec.name}: {command}"
        assert machine.run(command) == "\n".join(expected), f"{spec.name}: {command}"


def test_every_machine_has_a_spec() -> None:
    assert {spec.stem for spec in SPECS} == set(MACHINES)
