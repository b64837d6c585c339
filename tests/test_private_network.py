"""The private network of other tests: who hears whom, and where it cannot be had."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from private_network import PrivateNetwork, private_network


@pytest.fixture
def network() -> Iterator[PrivateNetwork]:
    with private_network("a", "b", "c") as made:
        yield made


class Post:
    """A UDP socket on a host."""

    def __init__(self, network: PrivateNetwork, host: str) -> None:
        with network.inside(host):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((network.address(host), 0))
        self.socket.settimeout(10)

    def hears(self, other: Post) -> bool:
        """Whether what `other` sends arrives."""
        other.socket.sendto(b"x", self.socket.getsockname())
        self.socket.settimeout(0.2)
        try:
            return self.socket.recv(10) == b"x"
        except TimeoutError:
            return False


@pytest.fixture
def posts(network: PrivateNetwork) -> Iterator[dict[str, Post]]:
    made = {host: Post(network, host) for host in ("a", "b", "c")}
    yield made
    for post in made.values():
        post.socket.close()


def test_what_is_cut_in_one_direction_arrives_in_the_other(network: PrivateNetwork, posts: dict[str, Post]) -> None:
    a, b, c = posts.values()
    assert all(one.hears(other) for one in (a, b, c) for other in (a, b, c) if one is not other)
    network.cut("a", "b")
    network.cut("a", "b")
    assert not b.hears(a)
    assert a.hears(b)
    assert c.hears(a)
    network.heal()
    assert b.hears(a)


def test_its_hosts_are_not_this_one(network: PrivateNetwork) -> None:
    here = os.stat("/proc/thread-self/ns/net").st_ino
    with network.inside("a"):
        assert os.stat("/proc/thread-self/ns/net").st_ino != here
    assert os.stat("/proc/thread-self/ns/net").st_ino == here


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_root_its_tests_are_skipped_and_in_ci_they_fail(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with (
        pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="needs root") as ended,
        private_network("a"),
    ):
        pass
    assert ended.type is outcome
