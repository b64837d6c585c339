"""Gateway: a thread that serves logs, and files in logs, to programs without walkeeper's control plane."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import secrets
import socket
import ssl
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

import walkeeper.aio
from walkeeper.errors import InvalidError
from walkeeper.gateway._logs import Logs
from walkeeper.gateway._roots import Roots
from walkeeper.gateway._session import Session

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Gateway"]

log = logging.getLogger("walkeeper.gateway")

UNIX = "unix:"
CLOSE_SECONDS = 30.0
ANSWERS_SECONDS = 1.0
"""When it closes, clients have so long to read the answers that are on their way."""
THREADS = 64
"""For calls that wait: for a disk, for bookies, or for records. More than Logs holds for the latter."""
STREAM_BYTES = 1024 * 1024
"""Of one connection that are read before they are asked for."""


class Gateway:
    """Serves the logs of a namespace, and files in it, until it is closed. What was answered is durable, also where the
    process dies.

    `root` is what walkeeper.open takes, with `options`. `listen` are addresses: "HOST:PORT" (port 0: a free one; an
    IPv6 host in brackets), or "unix:PATH". Clients show `token`; None: one is made, see Gateway.token. An address that
    other machines reach wants `tls` (a server's SSLContext).

    Raises what walkeeper.open raises, InvalidError for an address that cannot be, and OSError where it cannot listen.
    A context manager: leaving it closes the gateway.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        listen: str | Sequence[str] = "127.0.0.1:0",
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        **options: Any,
    ) -> None:
        self.root = os.fspath(root)
        self.token = secrets.token_hex(16) if token is None else token
        """What clients show."""
        self.addresses: list[str] = []
        """Where it listens, with the ports that it has."""
        self._listen = [listen] if isinstance(listen, str) else list(listen)
        if not self._listen:
            raise InvalidError("a gateway listens on one address at least")
        for address in self._listen:
            _check_address(address, tls)
        self._tls = tls
        self._options = options
        self._sessions: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="walkeeper-gateway", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    @property
    def closed(self) -> bool:
        """Whether it serves nobody any more."""
        return not self._thread.is_alive()

    def close(self, timeout: float | None = CLOSE_SECONDS) -> None:
        """Ends connections, and closes the namespace. Clients ask another gateway, or this one when it is there again.

        TimeoutError: it was not done in `timeout` seconds.
        """
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None and self._thread.is_alive():
            try:
                loop.call_soon_threadsafe(stopping.set)
            except RuntimeError:  # it ends just now
                pass
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise walkeeper.errors.TimeoutError(f"the gateway of {self.root} did not close in {timeout} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<walkeeper.gateway.Gateway of {self.root!r} at {', '.join(self.addresses)}>"

    # ---- its thread ----

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error
            if self._started.is_set():
                log.exception("the gateway of %s ended", self.root)
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS, "walkeeper-gateway"))
        self._stopping = asyncio.Event()
        async with walkeeper.aio.open(self.root, **self._options) as namespace:
            roots, logs = Roots(namespace), Logs(namespace)
            servers: list[asyncio.Server] = []
            try:
                for address in self._listen:
                    servers += [await self._server(address, roots, logs)]
                self._started.set()
                await self._stopping.wait()
            finally:
                await self._stop_listening(servers)
                await roots.close()
                await logs.close()
                await self._end_sessions()
                for address in self.addresses:
                    if address.startswith(UNIX):
                        _unlink(address[len(UNIX) :])

    async def _server(self, address: str, roots: Roots, logs: Logs) -> asyncio.Server:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """A connection is known from here on, also where the gateway is closed before its task begins."""
            session = Session(roots, logs, self.root, self.token, reader, writer)
            task = asyncio.ensure_future(_run(session, writer))
            self._sessions[task] = writer
            task.add_done_callback(self._sessions.pop)

        if address.startswith(UNIX):
            path = address[len(UNIX) :]
            _unlink(path)
            made = await asyncio.start_unix_server(connected, path, limit=STREAM_BYTES)
            os.chmod(path, 0o600)
            self.addresses.append(address)
            return made
        host, port = _host_and_port(address)
        served = await asyncio.start_server(connected, host, port, ssl=self._tls, limit=STREAM_BYTES)
        for bound in served.sockets:
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = f"[{host}]" if ":" in host else host
        self.addresses.append(f"{name}:{served.sockets[0].getsockname()[1]}")
        return served

    async def _stop_listening(self, servers: Sequence[asyncio.Server]) -> None:
        """A socket that was just accepted has its connection first: a closed server would leave the socket open."""
        for server in servers:
            for listening in server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
        await asyncio.sleep(0)
        for server in servers:
            server.close()

    async def _end_sessions(self) -> None:
        """Closes each connection: those of clients that read no answers, too."""
        sessions = dict(self._sessions)
        for task in sessions:
            task.cancel()
        if sessions:
            await asyncio.wait(sessions, timeout=ANSWERS_SECONDS)
        for writer in sessions.values():
            writer.transport.abort()


async def _run(session: Session, writer: asyncio.StreamWriter) -> None:
    """Until the connection is closed."""
    try:
        await session.run()
    except Exception:
        log.exception("a session ended")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535 or not host:
        raise InvalidError(f"{address!r} is no address: HOST:PORT, or unix:PATH")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check_address(address: str, tls: ssl.SSLContext | None) -> None:
    if address.startswith(UNIX):
        if not address[len(UNIX) :]:
            raise InvalidError("unix: wants a path")
        return
    host, _ = _host_and_port(address)
    if tls is None and not _is_loopback(host):
        raise InvalidError(f"{address} is reached by other machines: give it tls, or listen on 127.0.0.1 or unix:PATH")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
