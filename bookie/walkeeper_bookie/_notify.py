"""What systemd is told: that the bookie is ready, and that it stops. Nothing, where systemd did not ask."""

from __future__ import annotations

import os
import socket

__all__ = ["notify"]


def notify(state: str) -> None:
    """Sends e.g. "READY=1" to $NOTIFY_SOCKET. A manager that does not listen is no error of the bookie."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path[0] == "@" else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(1)
            channel.sendto(state.encode(), address)
    except OSError:
        pass
