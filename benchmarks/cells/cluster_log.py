"""
One cell: a log on a cluster, in the situations that an operator asks about. --dir is the URI of its metadata.

--mode arrow     how fast read_arrow reads a log of --megabytes, which it writes first; --dir may be a directory
--mode tail      from the return of an append to the record's arrival at a follower in another process
--mode pause     the longest of appends one after the other; in the middle the process --bookie gets --signal
--mode takeover  a writer is killed with --records that are submitted and not closed: from open to the first append
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from typing import Any

from common import need, payload_of

walkeeper = need("walkeeper")

FOLLOWER = """
import sys, time, walkeeper
with walkeeper.open(sys.argv[1]) as ns, ns.log("tail").reader(follow=True, timeout=30) as reader:
    print("ready", flush=True)
    for record in reader:
        print(time.monotonic_ns(), flush=True)
"""
VICTIM = """
import sys, time, walkeeper
ns = walkeeper.open(sys.argv[1])
writer = ns.log("takeover").writer()
writer.append(b"x" * 1024)
futures = [writer.submit(b"x" * 1024) for _ in range(int(sys.argv[2]))]
futures[-1].result()
print("written", flush=True)
time.sleep(60)
"""


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--bookie", type=int, default=0)
    parser.add_argument("--signal", default="KILL")
    parser.add_argument("--seconds", type=float, default=3.0)
    return parser.parse_args()


def arrow(arguments: argparse.Namespace) -> dict[str, Any]:
    name, records = f"arrow-{os.getpid()}", [payload_of(1024)] * 1024
    with walkeeper.open(arguments.dir) as ns:
        log = ns.log(name)
        with log.writer() as writer:
            for _ in range(arguments.megabytes):
                writer.append_many(records)
        began, count = time.perf_counter(), 0
        with log.reader() as reader:
            while (batch := reader.read_arrow()) is not None:
                count += batch.num_rows
        seconds = time.perf_counter() - began
        assert count == arguments.megabytes * 1024
    return {"mb_per_s": count * 1024 / seconds / 1e6}


def tail(arguments: argparse.Namespace) -> dict[str, Any]:
    samples = []
    with walkeeper.open(arguments.dir) as ns, ns.log("tail").writer() as writer:
        writer.append(b"the first")
        command = [sys.executable, "-c", FOLLOWER, arguments.dir]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
            assert follower.stdout is not None
            follower.stdout.readline()
            follower.stdout.readline()  # the first record
            until = time.monotonic() + arguments.seconds
            while time.monotonic() < until:
                writer.append(b"x" * 1024)
                acknowledged = time.monotonic_ns()
                samples.append(int(follower.stdout.readline()) - acknowledged)
                time.sleep(0.005)
            follower.kill()
    return {"p50_ns": statistics.median(samples)}


def pause(arguments: argparse.Namespace) -> dict[str, Any]:
    longest, sent = 0, False
    with walkeeper.open(arguments.dir) as ns, ns.log(f"pause-{os.getpid()}").writer() as writer:
        payload = payload_of(1024)
        began = before = time.monotonic_ns()
        while before - began < arguments.seconds * 1e9:
            if not sent and before - began > arguments.seconds * 0.3e9:
                os.kill(arguments.bookie, getattr(signal, f"SIG{arguments.signal}"))
                sent = True
            writer.append(payload)
            now = time.monotonic_ns()
            longest, before = max(longest, now - before), now
    return {"longest_ns": longest}


def takeover(arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-c", VICTIM, arguments.dir, str(arguments.records)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        victim.stdout.readline()
        victim.kill()
    os.kill(arguments.bookie, signal.SIGKILL)
    began = time.monotonic()
    with walkeeper.open(arguments.dir) as ns, ns.log("takeover").writer() as writer:
        at = writer.append(b"the next writer's first")
        seconds = time.monotonic() - began
        assert at.sequence_id == arguments.records + 1
    return {"seconds": seconds}


if __name__ == "__main__":
    given = parsed()
    print(json.dumps({"arrow": arrow, "tail": tail, "pause": pause, "takeover": takeover}[given.mode](given)))
