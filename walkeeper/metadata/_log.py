"""What metadata stores log, by the logger `walkeeper.metadata`. Nothing is shown where the application set up none."""

from __future__ import annotations

import logging

log = logging.getLogger("walkeeper.metadata")
log.addHandler(logging.NullHandler())  # else Python writes warnings to stderr, bare


class _ForDebugging(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return log.isEnabledFor(logging.DEBUG)


kazoo_log = logging.getLogger("walkeeper.metadata.kazoo")
"""kazoo warns at every attempt to connect. What its lines come to, Connection says once."""
kazoo_log.addFilter(_ForDebugging())
