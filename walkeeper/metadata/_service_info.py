"""What a bookie publishes of itself where it registers: the endpoints at which it answers, and its free space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from walkeeper.metadata._bookie_id import bookie_address
from walkeeper.metadata._corrupt import corrupt
from walkeeper.metadata._protobuf import Field, Message, decode, encode

BOOKIE_PROTOCOL = "bookie-rpc"
FREE_BYTES = "walkeeper.free_bytes"
"""The property that holds the free space of a bookie's disk, as a decimal number. Java's readers take any property."""
_FREE_DIGITS_MAX = 19
_PORT_MAX = 65535

_ENDPOINT = Message(
    "Endpoint",
    (
        Field(1, "id", "string", "required"),
        Field(2, "port", "int32", "required"),
        Field(3, "host", "string", "required"),
        Field(4, "protocol", "string", "required"),
        Field(5, "auth", "string", "repeated"),
        Field(6, "extensions", "string", "repeated"),
    ),
)
_PROPERTY = Message("PropertiesEntry", (Field(1, "key", "string"), Field(2, "value", "string")))
SERVICE_INFO_FORMAT = Message(
    "BookieServiceInfoFormat",
    (
        Field(6, "endpoints", "message", "repeated", message=_ENDPOINT),
        Field(7, "properties", "message", "repeated", message=_PROPERTY),
    ),
)


@dataclass(frozen=True)
class Endpoint:
    """Where a bookie answers one protocol."""

    id: str
    host: str
    port: int
    protocol: str
    auth: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= _PORT_MAX:
            raise ValueError(f"there is no port {self.port}")


@dataclass(frozen=True)
class ServiceInfo:
    """The endpoints of a bookie, and what else it says of itself."""

    endpoints: tuple[Endpoint, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_bookie(cls, host: str, port: int, *, tls: bool = False) -> ServiceInfo:
        """What a bookie with one endpoint publishes."""
        return cls((Endpoint("bookie", host, port, BOOKIE_PROTOCOL, extensions=("tls",) if tls else ()),))

    @classmethod
    def of_bookie_id(cls, bookie_id: str) -> ServiceInfo:
        """What is concluded of a bookie that published nothing: its id is its address, or nobody knows."""
        address = bookie_address(bookie_id)
        return cls((Endpoint(bookie_id, *address, BOOKIE_PROTOCOL),)) if address else cls()

    @property
    def bookie(self) -> Endpoint | None:
        """Where entries are added and read."""
        return next((endpoint for endpoint in self.endpoints if endpoint.protocol == BOOKIE_PROTOCOL), None)

    @property
    def free_bytes(self) -> int | None:
        """Its free space; None where it published none, or what is no number."""
        text = self.properties.get(FREE_BYTES, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= _FREE_DIGITS_MAX else None

    def with_free_bytes(self, free_bytes: int) -> ServiceInfo:
        """The same with this free space."""
        return replace(self, properties={**self.properties, FREE_BYTES: str(free_bytes)})

    @classmethod
    def parse(cls, data: bytes, bookie_id: str | None = None, what: str = "bookie service info") -> ServiceInfo:
        """What the bytes say; of no bytes, what `bookie_id` says. CorruptMetadataError."""
        data = bytes(data)
        if not data and bookie_id is not None:
            return cls.of_bookie_id(bookie_id)
        values = decode(SERVICE_INFO_FORMAT, data, what)
        try:
            endpoints = tuple(
                Endpoint(
                    e["id"],
                    e["host"],
                    e["port"],
                    e["protocol"],
                    tuple(e.get("auth", ())),
                    tuple(e.get("extensions", ())),
                )
                for e in values.get("endpoints", ())
            )
        except ValueError as error:
            corrupt(what, 0, str(error), data)
        return cls(endpoints, {p.get("key", ""): p.get("value", "") for p in values.get("properties", ())})

    def serialise(self) -> bytes:
        """The bytes."""
        endpoints = [
            {
                "id": e.id,
                "port": e.port,
                "host": e.host,
                "protocol": e.protocol,
                "auth": e.auth,
                "extensions": e.extensions,
            }
            for e in self.endpoints
        ]
        properties = [{"key": key, "value": value} for key, value in self.properties.items()]
        return encode(SERVICE_INFO_FORMAT, {"endpoints": endpoints, "properties": properties})
