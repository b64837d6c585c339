"""A call that goes on while the test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

JOIN_SECONDS = 120.0


class Call(threading.Thread):
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.result: Any = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:
            self.error = error

    def outcome(self) -> Any:
        """What it returned, or the error it ended with."""
        self.join(JOIN_SECONDS)
        assert not self.is_alive()
        return self.error if self.error is not None else self.result
