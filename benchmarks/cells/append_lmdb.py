"""One cell: one put a transaction into LMDB, synced. --tuned 1: written through the map (writemap)."""

from __future__ import annotations

import argparse
import time

from common import cpu_seconds, need, payload_of, report

lmdb = need("lmdb")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--tuned", type=int, default=0)
    arguments = parser.parse_args()
    environment = lmdb.open(arguments.dir, map_size=4 << 30, sync=True, metasync=True, writemap=bool(arguments.tuned))
    payload, samples = payload_of(arguments.size), []
    now = time.perf_counter_ns
    cpu, start = cpu_seconds(), now()
    end = start + int(arguments.seconds * 1e9)
    before = start
    number = 0
    while before < end:
        with environment.begin(write=True) as transaction:
            transaction.put(number.to_bytes(8, "big"), payload, append=True)
        number += 1
        after = now()
        samples.append(after - before)
        before = after
    report(samples, len(samples), start, cpu, arguments.size)
    environment.close()


if __name__ == "__main__":
    main()
