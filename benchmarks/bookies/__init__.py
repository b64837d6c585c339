"""The bookie beside a bare loop and beside Java's: `python -m benchmarks.bookies`, or `make bench-bookie`."""
