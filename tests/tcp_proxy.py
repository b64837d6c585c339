"""A TCP proxy for tests, which does to connections what networks do: cut, refuse, hold back, and swallow.

A swallowed byte is lost while the connection stays open: what a half-open connection looks like from both ends.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Literal

Mode = Literal["pass", "hold", "swallow"]


class _Pair:
    """One connection of a client and the one to the server behind it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.lost_bytes = False
        self.half_open = False

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class TcpProxy:
    """Listens at `port` of loopback and passes on to `target_port`. Every call may be made from any thread."""

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._changed = threading.Condition()
        self._to_server: Mode = "pass"
        self._to_client: Mode = "pass"
        self._refusing = False
        self._closed = False
        self._pairs: list[_Pair] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._half_open_next = 0
        self.accepted = 0  # connections so far
        self.swallowed = 0  # pieces so far
        self.swallowed_bytes = b""  # what they were
        self._spawn(self._accept)

    @property
    def hosts(self) -> str:
        """What a client is told."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Closes the connections there are; new ones are taken."""
        with self._changed:
            pairs, self._pairs = self._pairs, []
            self._changed.notify_all()
        for pair in pairs:
            pair.close()

    def refuse(self) -> None:
        """Closes the connections there are, and new ones as soon as they come."""
        with self._changed:
            self._refusing = True
        self.cut()

    def hold(self) -> None:
        """Bytes wait here, in both directions, until `heal` or `cut`."""
        self._set("hold", "hold")

    def swallow(self) -> None:
        """Bytes vanish, in both directions."""
        self._set("swallow", "swallow")

    def swallow_answers(self) -> None:
        """What clients send arrives; what the server says vanishes: a write is done, and nobody is told."""
        self._set("pass", "swallow")

    def swallow_requests(self) -> None:
        """What clients send vanishes: a write is not done, and nobody is told."""
        self._set("swallow", "pass")

    def leave_half_open(self) -> None:
        """The connections there are stay open and carry nothing any more; new ones are as they should be."""
        with self._changed:
            for pair in self._pairs:
                pair.half_open = True

    def leave_next_half_open(self, count: int = 1) -> None:
        """So many of the next connections are taken and carry nothing; those behind them are as they should be."""
        with self._changed:
            self._half_open_next = count

    def say(self, data: bytes) -> None:
        """Clients receive it, as if the server had sent it."""
        with self._changed:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.client.sendall(data)

    def heal(self) -> None:
        """Everything passes again. Held bytes arrive; connections that lost bytes are closed: no peer could read on."""
        with self._changed:
            broken = [pair for pair in self._pairs if pair.lost_bytes]
            self._pairs = [pair for pair in self._pairs if not pair.lost_bytes]
            self._refusing = False
        for pair in broken:
            pair.close()
        self._set("pass", "pass")

    def close(self) -> None:
        """The end of the proxy and of every connection through it."""
        with self._changed:
            self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(30)

    def _set(self, to_server: Mode, to_client: Mode) -> None:
        with self._changed:
            self._to_server, self._to_client = to_server, to_client
            self._changed.notify_all()

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self.accepted += 1
                refused = self._refusing or self._closed
            try:
                if refused:
                    client.close()
                    continue
                server = socket.create_connection(self._target, timeout=30)
            except OSError:  # the server is down
                client.close()
                continue
            server.settimeout(None)
            pair = _Pair(client, server)
            with self._changed:
                refused = self._refusing or self._closed
                if not refused:
                    self._pairs.append(pair)
                    pair.half_open = self._half_open_next > 0
                    self._half_open_next -= pair.half_open
            if refused:
                pair.close()
                continue
            self._spawn(self._pump, pair, client, server, True)
            self._spawn(self._pump, pair, server, client, False)

    def _mode(self, to_server: bool) -> Mode:
        return self._to_server if to_server else self._to_client

    def _pump(self, pair: _Pair, source: socket.socket, sink: socket.socket, to_server: bool) -> None:
        try:
            while data := source.recv(65536):
                with self._changed:
                    while self._mode(to_server) == "hold" and pair in self._pairs:
                        self._changed.wait()
                    if pair.half_open or self._mode(to_server) == "swallow":
                        pair.lost_bytes = True
                        self.swallowed += 1
                        self.swallowed_bytes += data
                        continue
                sink.sendall(data)
        except OSError:
            pass
        with self._changed:
            if pair in self._pairs:
                self._pairs.remove(pair)
        pair.close()


@contextlib.contextmanager
def proxy_to(target_port: int) -> Iterator[TcpProxy]:
    """A proxy that is closed at the end."""
    proxy = TcpProxy(target_port)
    try:
        yield proxy
    finally:
        proxy.close()
