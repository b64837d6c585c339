"""One cell: replays the log "bench" of a directory as Arrow record batches and counts its payload bytes."""

from __future__ import annotations

import argparse
import json
import time

from common import need

walkeeper = need("walkeeper")
need("pyarrow")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--max-bytes", type=int, default=4 << 20)
    arguments = parser.parse_args()
    with walkeeper.open(arguments.dir) as ns:
        log = ns.log("bench")
        records = size = 0
        start = time.perf_counter_ns()
        with log.reader() as reader:
            while (batch := reader.read_arrow(max_bytes=arguments.max_bytes)) is not None and batch.num_rows:
                payload = batch.column("payload")
                records += batch.num_rows
                offsets = payload.buffers()[1]
                first, last = payload.offset * 8, (payload.offset + len(payload)) * 8
                view = memoryview(offsets)
                size += int.from_bytes(view[last : last + 8], "little") - int.from_bytes(
                    view[first : first + 8], "little"
                )
        seconds = (time.perf_counter_ns() - start) / 1e9
        if records != log.count():
            raise SystemExit(f"{records} records were read of {log.count()}")
    print(json.dumps({"records": records, "payload_bytes": size, "payload_rate": size / seconds, "seconds": seconds}))


if __name__ == "__main__":
    main()
