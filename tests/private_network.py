"""Hosts of a private network on this machine, and who hears whom: each host is a network namespace behind a router.

A packet that is cut off vanishes at the router, without a word to either end. It takes root, a kernel with network
namespaces, and iproute2. Where it cannot be had a test is skipped; in CI (`CI=true`) that is an error.

The namespaces have no names: the descriptors and processes that hold them are all that is left of them, and nothing is
when the test's process is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

__all__ = ["PrivateNetwork", "private_network"]

CLONE_NEWNET = 0x40000000
NAMESPACE = "/proc/thread-self/ns/net"
PREFIX = "10.99"


class PrivateNetwork:
    """Hosts, by name. `cut` and `heal` may be called by any thread."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._cut: set[tuple[str, str]] = set()
        self._open: list[int] = []
        self._hosts: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        try:
            self._router = self._new()
            with _entered(self._router):
                Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            for number, host in enumerate(hosts, 1):
                self._numbers[host], self._hosts[host] = number, self._new()
                self._connect(number, self._hosts[host])
        except BaseException:
            self.close()
            raise

    def address(self, host: str) -> str:
        return f"{PREFIX}.{self._numbers[host]}.2"

    @contextlib.contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """This thread, and whatever it starts meanwhile, is on that host: a process, a thread, a socket stays there."""
        with _entered(self._hosts[host]):
            yield

    def cut(self, source: str, sink: str) -> None:
        """What `source` sends does not arrive at `sink` any more. What comes the other way does."""
        with self._lock:
            if (source, sink) not in self._cut:
                self._rule("add", source, sink)
                self._cut.add((source, sink))

    def heal(self) -> None:
        """Everything arrives again."""
        with self._lock:
            for source, sink in self._cut:
                self._rule("del", source, sink)
            self._cut.clear()

    def close(self) -> None:
        """Processes that are still on its hosts hear nobody any more."""
        for namespace in self._open:
            os.close(namespace)
        self._open.clear()

    def _rule(self, verb: str, source: str, sink: str) -> None:
        with _entered(self._router):
            _ip(f"rule {verb} pref 10 from {self.address(source)} to {self.address(sink)} blackhole")

    def _new(self) -> int:
        namespace = _new_namespace()
        self._open.append(namespace)
        with _entered(namespace):
            _ip("link set lo up")
        return namespace

    def _connect(self, number: int, host: int) -> None:
        with _entered(self._router):
            _ip(f"link add host{number} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{host}")
            _ip(f"address add {PREFIX}.{number}.1/30 dev host{number}")
            _ip(f"link set host{number} up")
        with _entered(host):
            _ip(f"address add {PREFIX}.{number}.2/30 dev eth0")
            _ip("link set eth0 up")
            _ip(f"route add default via {PREFIX}.{number}.1")


def _ip(arguments: str) -> None:
    done = subprocess.run([_program(), *arguments.split()], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {arguments}: {done.stderr.strip()}")


def _program() -> str:
    return shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin") or "ip"


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


@contextlib.contextmanager
def _returning() -> Iterator[None]:
    """This thread is where it was, at the end."""
    before = os.open(NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        try:
            _call("setns", before, CLONE_NEWNET)
        finally:
            os.close(before)


def _new_namespace() -> int:
    """A descriptor of it."""
    with _returning():
        _call("unshare", CLONE_NEWNET)
        return os.open(NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def _entered(namespace: int) -> Iterator[None]:
    with _returning():
        _call("setns", namespace, CLONE_NEWNET)
        yield


def _cannot(why: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


@contextlib.contextmanager
def private_network(*hosts: str) -> Iterator[PrivateNetwork]:
    """A network of these hosts, all of which hear each other."""
    if os.geteuid() != 0:
        _cannot("a private network needs root")
    try:
        made = PrivateNetwork(hosts)
    except OSError as error:
        _cannot(f"no private network can be had here: {error}")
    try:
        yield made
    finally:
        made.close()
