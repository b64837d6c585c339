"""What a bookie publishes of itself: agreement with Google's protobuf runtime, and hostile bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models.bookkeeper_formats import BookieServiceInfoFormat

from walkeeper.metadata import CorruptMetadataError, Endpoint, ServiceInfo
from walkeeper.metadata._store import MetadataError

# One endpoint: id "bookie", port 3181, host "127.0.0.1", protocol "bookie-rpc".
EXAMPLE = bytes.fromhex("3222 0a06 626f6f6b6965 10ed18 1a09 3132372e302e302e31 220a 626f6f6b69652d727063")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
endpoints = st.builds(
    Endpoint,
    texts,
    texts,
    st.integers(0, 65535),
    texts,
    st.lists(texts, max_size=2).map(tuple),
    st.just(("tls",)) | st.just(()),
)
infos = st.builds(ServiceInfo, st.lists(endpoints, max_size=3).map(tuple), st.dictionaries(texts, texts, max_size=3))


def test_the_worked_bytes_of_a_bookies_endpoint() -> None:
    info = ServiceInfo.of_bookie("127.0.0.1", 3181)
    assert info.serialise() == EXAMPLE
    assert ServiceInfo.parse(EXAMPLE) == info


def test_tls_is_an_extension_and_said_only_where_it_is_on() -> None:
    assert ServiceInfo.of_bookie("a", 1, tls=True).endpoints[0].extensions == ("tls",)
    assert ServiceInfo.of_bookie("a", 1).endpoints[0].extensions == ()


@given(infos)
def test_googles_runtime_reads_and_writes_the_same(info: ServiceInfo) -> None:
    google = BookieServiceInfoFormat()
    for e in info.endpoints:
        google.endpoints.add(
            id=e.id, port=e.port, host=e.host, protocol=e.protocol, auth=e.auth, extensions=e.extensions
        )
    google.properties.update(info.properties)
    assert ServiceInfo.parse(google.SerializeToString()) == info
    assert BookieServiceInfoFormat.FromString(info.serialise()) == google
    assert ServiceInfo.parse(info.serialise()) == info


def test_where_entries_are_added_is_found_by_its_protocol() -> None:
    http, rpc = Endpoint("http", "a", 8080, "http"), Endpoint("x", "a", 3181, "bookie-rpc")
    assert ServiceInfo((http, rpc)).bookie == rpc
    assert ServiceInfo((http,)).bookie is None


def test_a_bookie_that_published_nothing_is_where_its_id_says() -> None:
    assert ServiceInfo.parse(b"", "host:3181").bookie == Endpoint("host:3181", "host", 3181, "bookie-rpc")
    assert ServiceInfo.parse(b"", "a-name").bookie is None
    assert ServiceInfo.parse(b"") == ServiceInfo()


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_cannot_be(port: int) -> None:
    with pytest.raises(ValueError, match="no port"):
        Endpoint("a", "a", port, "bookie-rpc")
    google = BookieServiceInfoFormat()
    google.endpoints.add(id="a", port=port, host="a", protocol="bookie-rpc")
    with pytest.raises(CorruptMetadataError, match="no port"):
        ServiceInfo.parse(google.SerializeToString())


def test_every_truncation_is_refused() -> None:
    for size in range(1, len(EXAMPLE)):
        with pytest.raises(CorruptMetadataError):
            ServiceInfo.parse(EXAMPLE[:size])


@given(st.binary(max_size=100))
def test_whatever_the_bytes_only_metadata_errors_come_out(data: bytes) -> None:
    try:
        ServiceInfo.parse(data)
    except MetadataError:
        pass
