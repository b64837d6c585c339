"""The log's lines reach whoever reads them, and nobody waits for that."""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import until

from walkeeper_bookie._line_writer import QUEUE_BYTES, LineWriter
from walkeeper_bookie._log import Log, dropped_note

PATIENCE_S = 60.0


class Pipe:
    """A pipe of one page; `writer` writes into it."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, 4096)
        self.writer = LineWriter(self.write_end, lambda count: f"{count} missing", retry=0.01)

    def block(self) -> None:
        """Fills the pipe: the thread waits in the write of a first line, and the queue is empty."""
        os.set_blocking(self.write_end, False)
        os.write(self.write_end, b"." * 4095 + b"\n")
        os.set_blocking(self.write_end, True)
        self.writer.put("first")
        until(lambda: self.writer._writing and not self.writer._queue, "it writes the first line")

    def read_until(self, last: str) -> list[str]:
        """Its lines, up to one."""
        text = b""
        while f"{last}\n".encode() not in text:
            some = os.read(self.read_end, 65536)
            assert some, text[-200:]
            text += some
        return text.decode().splitlines()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.read_end)
    assert pipe.writer.flush(PATIENCE_S)
    os.close(pipe.write_end)


def test_lines_come_in_their_order(pipe: Pipe) -> None:
    for number in range(100):
        pipe.writer.put(f"line {number}")
    assert pipe.read_until("line 99") == [f"line {number}" for number in range(100)]
    assert pipe.writer.flush(PATIENCE_S)
    assert pipe.writer.dropped == 0


def test_a_pipe_that_nobody_reads_blocks_nobody_and_drops_lines(pipe: Pipe) -> None:
    pipe.block()
    lines = 2 * QUEUE_BYTES // 100
    for number in range(lines):
        pipe.writer.put(f"{number:06d}".ljust(99, "."))
    assert not pipe.writer.flush(0.05)
    dropped = pipe.writer.dropped
    assert dropped == lines - QUEUE_BYTES // 100
    assert pipe.read_until(f"{dropped} missing")[-2][:6] == f"{lines - dropped - 1:06d}"
    pipe.writer.put("later")
    assert pipe.read_until("later") == ["later"]


def test_the_note_stands_where_the_lines_are_missing(pipe: Pipe) -> None:
    pipe.block()
    filler = "." * 99
    while pipe.writer.dropped == 0:
        pipe.writer.put(filler)
    pipe.writer.put(filler)
    os.read(pipe.read_end, 4096)
    dropped = pipe.writer.dropped
    until(lambda: pipe.writer._queued_bytes < QUEUE_BYTES - 1000, "there is room")
    pipe.writer.put("behind")
    assert pipe.read_until("behind")[-2:] == [f"{dropped} missing", "behind"]


def test_urgent_lines_have_room_of_their_own(pipe: Pipe) -> None:
    pipe.block()
    while pipe.writer.dropped == 0:
        pipe.writer.put("." * 999)
    pipe.writer.put("the end", urgent=True)
    assert pipe.writer.dropped == 1
    assert "the end" in pipe.read_until("the end")


def test_many_threads_lose_no_line_while_somebody_reads(pipe: Pipe) -> None:
    threads = [
        threading.Thread(target=lambda who=who: [pipe.writer.put(f"{who} {number}") for number in range(100)])
        for who in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.writer.put("end")
    lines = pipe.read_until("end")
    for who in "abcd":
        assert [line for line in lines if line.startswith(who)] == [f"{who} {number}" for number in range(100)]


def test_a_pipe_that_another_process_made_non_blocking_loses_nothing(pipe: Pipe) -> None:
    os.set_blocking(pipe.write_end, False)
    for number in range(200):
        pipe.writer.put(f"{number:06d}".ljust(99, "."))
    pipe.writer.put("end")
    assert len(pipe.read_until("end")) == 201
    assert pipe.writer.dropped == 0


def test_a_reader_that_is_gone_is_no_error_and_its_lines_are_counted() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    writer = LineWriter(write_end, dropped_note)
    log = Log(writer)
    for _ in range(3):
        log.warning("nobody hears it")
    assert log.flush(PATIENCE_S)
    assert log.dropped == 3
    os.close(write_end)


def test_a_disk_that_is_full_for_a_while_costs_lines_and_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, full, written = os.write, threading.Event(), threading.Event()

    def write(descriptor: int, data: bytes) -> int:
        if descriptor != file or not full.is_set():
            return real(descriptor, data)
        if len(data) > 5 and not written.is_set():
            written.set()
            return real(descriptor, data[:5])  # the last room
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    writer = LineWriter(file, lambda count: f"{count} missing", retry=0.01)
    writer.put("first line")
    assert writer.flush(PATIENCE_S)
    full.set()
    for number in range(4):
        writer.put(f"lost line {number}")
    assert writer.flush(PATIENCE_S)
    assert writer.dropped == 4
    full.clear()
    until(lambda: "missing" in (tmp_path / "log").read_text(), "it says so without another line")
    assert (tmp_path / "log").read_text() == "first line\nlost \n4 missing\n"
    os.close(file)


def test_the_log_says_how_many_lines_were_dropped() -> None:
    line = dropped_note(7)
    assert re.fullmatch(r'time=\S+ level=warning msg="7 lines were dropped" reason=".*"', line)
