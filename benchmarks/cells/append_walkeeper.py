"""
One cell: appends through walkeeper's Python API.

--mode lone      one blocking append after another
--mode many      append_many of --batch records, each call waited for
--mode asyncio   one `await append` after another
--mode submit    --window futures in flight
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import time
from typing import Any

from common import WARM_BYTES, Trimmer, cpu_seconds, need, payload_of, report

walkeeper = need("walkeeper")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--mode", default="lone")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--trim", type=int, default=64 << 20)
    return parser.parse_args()


def warm(log: Any, writer: Any, trim: int) -> Trimmer:
    """Appends until files are being recycled."""
    trimmer = Trimmer(log, trim)
    if trim:
        records = [payload_of(1024)] * 256
        for _ in range(WARM_BYTES // (256 * 1024)):
            trimmer.accepted(256 * 1024, writer.append_many(records).last)
    return trimmer


def lone(arguments: argparse.Namespace, log: Any, writer: Any) -> None:
    trimmer = warm(log, writer, arguments.trim)
    payload, samples = payload_of(arguments.size), []
    append, now = writer.append, time.perf_counter_ns
    cpu, start = cpu_seconds(), now()
    end = start + int(arguments.seconds * 1e9)
    before = start
    while before < end:
        at = append(payload)
        after = now()
        samples.append(after - before)
        trimmer.accepted(arguments.size, at)
        before = now()
    report(samples, len(samples), start, cpu, arguments.size)


def many(arguments: argparse.Namespace, log: Any, writer: Any) -> None:
    trimmer = warm(log, writer, arguments.trim)
    records, samples, count = [payload_of(arguments.size)] * arguments.batch, [], 0
    now = time.perf_counter_ns
    cpu, start = cpu_seconds(), now()
    end = start + int(arguments.seconds * 1e9)
    before = start
    while before < end:
        at = writer.append_many(records).last
        samples.append(now() - before)
        count += arguments.batch
        trimmer.accepted(arguments.batch * arguments.size, at)
        before = now()
    report(samples, count, start, cpu, arguments.size)


def submit(arguments: argparse.Namespace, log: Any, writer: Any) -> None:
    trimmer = warm(log, writer, arguments.trim)
    payload, samples = payload_of(arguments.size), []
    in_flight: collections.deque[tuple[int, Any]] = collections.deque()
    now = time.perf_counter_ns
    cpu, start = cpu_seconds(), now()
    end = start + int(arguments.seconds * 1e9)
    while now() < end or in_flight:
        while len(in_flight) < arguments.window and now() < end:
            in_flight.append((now(), writer.submit(payload)))
        if in_flight:
            before, future = in_flight.popleft()
            at = future.result()
            samples.append(now() - before)
            trimmer.accepted(arguments.size, at)
    report(samples, len(samples), start, cpu, arguments.size)


async def with_asyncio(arguments: argparse.Namespace) -> None:
    aio = need("walkeeper.aio")
    async with aio.open(arguments.dir) as ns:
        log = await ns.log("bench")
        async with log.writer() as writer:
            payload, samples = payload_of(arguments.size), []
            # The same trimming as the other modes, so that the journal is in the same state.
            since, mark = 0, None
            if arguments.trim:
                records = [payload_of(1024)] * 256
                for _ in range(WARM_BYTES // (256 * 1024)):
                    last = (await writer.append_many(records)).last
                    since += 256 * 1024
                    if since >= arguments.trim:
                        if mark is not None:
                            await log.truncate(mark)
                        since, mark = 0, last
            now = time.perf_counter_ns
            cpu, start = cpu_seconds(), now()
            end = start + int(arguments.seconds * 1e9)
            before = start
            while before < end:
                at = await writer.append(payload)
                samples.append(now() - before)
                since += arguments.size
                if arguments.trim and since >= arguments.trim:
                    if mark is not None:
                        await log.truncate(mark)
                    since, mark = 0, at
                before = now()
            report(samples, len(samples), start, cpu, arguments.size)


def main() -> None:
    arguments = parsed()
    if arguments.mode == "asyncio":
        asyncio.run(with_asyncio(arguments))
        return
    with walkeeper.open(arguments.dir) as ns:
        log = ns.log("bench")
        with log.writer() as writer:
            {"lone": lone, "many": many, "submit": submit}[arguments.mode](arguments, log, writer)


if __name__ == "__main__":
    main()
