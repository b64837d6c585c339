"""The metadata of a ledger: who stores which of its entries, and how far it goes. Bytes: docs/formats/metadata.md."""

from __future__ import annotations

import enum
import itertools
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from walkeeper.metadata._bookie_id import InvalidBookieIdError, check_bookie_id
from walkeeper.metadata._corrupt import corrupt, unsupported, utf8
from walkeeper.metadata._protobuf import SIZE_MAX, Field, Message, Values, decode, encode, read_varint, varint
from walkeeper.metadata._protobuf_text import decode_text, encode_text

FORMAT_VERSION = 3
_PREFIX = b"BookieMetadataFormatVersion\t"
_PREFIX_END = re.compile(rb"([0-9]{1,9})\n")
_CLOSED = "CLOSED"
_IN_RECOVERY_ENTRY = -102  # what stands in the place of the last entry in version 1
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


class LedgerState(enum.Enum):
    """OPEN: it has a writer. IN_RECOVERY: somebody looks for its end. CLOSED: its end is known, for ever."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


class DigestType(enum.Enum):
    """What stands in each entry to show that it is whole. MAC also shows that its writer knew the password."""

    CRC32 = 1
    MAC = 2
    CRC32C = 3
    DUMMY = 4


_SEGMENT = Message(
    "segment", (Field(1, "ensembleMember", "string", "repeated"), Field(2, "firstEntryId", "int64", "required"))
)
_CUSTOM = Message("customMetadata", (Field(1, "key", "string"), Field(2, "value", "bytes")))
LEDGER_METADATA_FORMAT = Message(
    "LedgerMetadataFormat",
    (
        Field(1, "quorumSize", "int32", "required"),
        Field(2, "ensembleSize", "int32", "required"),
        Field(3, "length", "int64", "required"),
        Field(4, "lastEntryId", "int64"),
        Field(5, "state", "enum", "required", {state.name: state.value for state in LedgerState}),
        Field(6, "segment", "message", "repeated", message=_SEGMENT),
        Field(7, "digestType", "enum", values={"CRC32": 1, "HMAC": 2, "CRC32C": 3, "DUMMY": 4}),
        Field(8, "password", "bytes"),
        Field(9, "ackQuorumSize", "int32"),
        Field(10, "ctime", "int64"),
        Field(11, "customMetadata", "message", "repeated", message=_CUSTOM),
        Field(12, "cToken", "int64"),
    ),
)


@dataclass(frozen=True)
class LedgerMetadata:
    """What a store knows of a ledger. Made wrong it is a ValueError.

    `segments` has the first entry of each segment and its ensemble, in the order of the entries. `length` and
    `last_entry_id` mean something where the ledger is closed; else they are 0 and -1. `password` None, and then
    `digest_type` None: written by a version that did not store them. `ctime` in ms, None where the store itself is to
    be asked. `ctoken` tells a creator its own node; later writes leave it out. `format_version` is that of the bytes it
    was read from.
    """

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: Mapping[int, tuple[str, ...]]
    state: LedgerState = LedgerState.OPEN
    length: int = 0
    last_entry_id: int = -1
    digest_type: DigestType | None = DigestType.CRC32C
    password: bytes | None = field(default=b"", repr=False)
    ctime: int | None = None
    custom_metadata: Mapping[str, bytes] = field(default_factory=dict)
    ctoken: int | None = None
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        if not 1 <= self.ack_quorum <= self.write_quorum <= self.ensemble_size <= _INT32_MAX:
            sizes = f"{self.ensemble_size}, {self.write_quorum}, {self.ack_quorum}"
            raise ValueError(
                f"ensemble, write quorum and ack quorum are {sizes}: each is at most the one before, all at least 1"
            )
        if (self.password is None) != (self.digest_type is None):
            raise ValueError("password and digest type are known together or not at all")
        if self.format_version not in (1, 2, 3):
            raise ValueError(f"there is no format version {self.format_version}")
        for number in (self.ctime, self.ctoken):
            if number is not None and not -_INT64_MAX - 1 <= number <= _INT64_MAX:
                raise ValueError(f"{number} does not fit 64 bits")
        self._check_end()
        self._check_segments()

    def _check_end(self) -> None:
        if self.state is not LedgerState.CLOSED and (self.length, self.last_entry_id) != (0, -1):
            raise ValueError("length and last entry are known of a closed ledger alone")
        if not (0 <= self.length <= _INT64_MAX and -1 <= self.last_entry_id <= _INT64_MAX):
            raise ValueError(f"length {self.length} and last entry {self.last_entry_id} cannot be")

    def _check_segments(self) -> None:
        firsts = list(self.segments)
        if not firsts or firsts[0] != 0 or firsts[-1] > _INT64_MAX:
            raise ValueError(f"segments begin at entries {firsts}: there is one, and the first begins at 0")
        if any(later <= earlier for earlier, later in itertools.pairwise(firsts)):
            raise ValueError(f"segments begin at entries {firsts}: each begins behind the one before")
        for first, ensemble in self.segments.items():
            if len(ensemble) != self.ensemble_size:
                raise ValueError(
                    f"the segment from entry {first} has {len(ensemble)} bookies, not {self.ensemble_size}"
                )
            for bookie_id in ensemble:
                check_bookie_id(bookie_id)

    @property
    def is_closed(self) -> bool:
        return self.state is LedgerState.CLOSED

    def ensemble_at(self, entry_id: int) -> tuple[str, ...]:
        """The bookies among which the entry is striped."""
        if entry_id < 0:
            raise ValueError(f"there is no entry {entry_id}")
        firsts = list(self.segments)
        return self.segments[firsts[bisect_right(firsts, entry_id) - 1]]

    @classmethod
    def parse(cls, data: bytes, what: str = "ledger metadata") -> LedgerMetadata:
        """The metadata that the bytes are, of any version. CorruptMetadataError, UnsupportedMetadataError."""
        data = bytes(data)
        if len(data) > SIZE_MAX:
            corrupt(what, 0, f"{len(data)} bytes: at most {SIZE_MAX} are read")
        if not data.startswith(_PREFIX):
            corrupt(what, 0, f"this does not begin with {_PREFIX!r}", data)
        version = _PREFIX_END.match(data, len(_PREFIX))
        if version is None:
            corrupt(what, len(_PREFIX), "this is no version of a format", data)
        if int(version[1]) not in (1, 2, 3):
            unsupported(what, len(_PREFIX), "versions 1 to 3 are known", data)
        parse = {1: _parse_1, 2: _parse_2, 3: _parse_3}[int(version[1])]
        try:
            return cls(**parse(data, version.end(), what), format_version=int(version[1]))
        except (ValueError, InvalidBookieIdError) as error:
            corrupt(what, version.end(), str(error), data)

    def serialise(self, format_version: int = FORMAT_VERSION) -> bytes:
        """The bytes. Whoever rewrites a node gives the `format_version` that it was read with.

        ValueError: version 1 has no room for an ack quorum of its own, nor for a bookie called CLOSED; what came later
        is left out.
        """
        prefix = _PREFIX + b"%d\n" % format_version
        if format_version == 1:
            return prefix + self._text_1()
        if format_version == 2:
            return prefix + encode_text(LEDGER_METADATA_FORMAT, self._values(2))
        if format_version == 3:
            body = encode(LEDGER_METADATA_FORMAT, self._values(3))
            return prefix + varint(len(body)) + body
        raise ValueError(f"there is no format version {format_version}")

    def _values(self, format_version: int) -> dict[str, Any]:
        values: dict[str, Any] = {
            "quorumSize": self.write_quorum,
            "ensembleSize": self.ensemble_size,
            "length": self.length,
            "lastEntryId": self.last_entry_id,
            "state": self.state.value,
            "segment": [{"ensembleMember": e, "firstEntryId": first} for first, e in self.segments.items()],
            "ackQuorumSize": self.ack_quorum,
            "customMetadata": [{"key": key, "value": self.custom_metadata[key]} for key in self.custom_metadata],
        }
        if self.digest_type is not None:
            values |= {"digestType": self.digest_type.value, "password": self.password}
        if self.ctime is not None:
            values["ctime"] = self.ctime
        if self.ctoken is not None and format_version == 3:
            values["cToken"] = self.ctoken
        return values

    def _text_1(self) -> bytes:
        if self.ack_quorum != self.write_quorum:
            raise ValueError(f"version 1 has no ack quorum: {self.ack_quorum} of {self.write_quorum} cannot be written")
        if any(ensemble[0] == _CLOSED for ensemble in self.segments.values()):
            raise ValueError(f"version 1 takes a bookie that is called {_CLOSED} for the end of its ledger")
        lines = [str(self.write_quorum), str(self.ensemble_size), str(self.length)]
        lines += ["\t".join([str(first), *ensemble]) for first, ensemble in self.segments.items()]
        end = {LedgerState.CLOSED: self.last_entry_id, LedgerState.IN_RECOVERY: _IN_RECOVERY_ENTRY}.get(self.state)
        return "\n".join([*lines, "" if end is None else f"{end}\t{_CLOSED}"]).encode()


def _parse_3(data: bytes, at: int, what: str) -> dict[str, Any]:
    size, begin = read_varint(data, at, len(data), what)
    if size > len(data) - begin:
        corrupt(what, at, f"the message has {size} bytes, of which {len(data) - begin} are there", data)
    if size < len(data) - begin:
        corrupt(what, begin + size, f"{len(data) - begin - size} bytes stand behind the message", data)
    return _from_values(decode(LEDGER_METADATA_FORMAT, data, what, begin))


def _parse_2(data: bytes, at: int, what: str) -> dict[str, Any]:
    return _from_values(decode_text(LEDGER_METADATA_FORMAT, data, what, at))


def _from_values(values: Values) -> dict[str, Any]:
    state = LedgerState(values["state"])
    closed = state is LedgerState.CLOSED
    segments: dict[int, tuple[str, ...]] = {}
    for segment in values.get("segment", ()):
        if segment["firstEntryId"] in segments:
            raise ValueError(f"two segments begin at entry {segment['firstEntryId']}")
        segments[segment["firstEntryId"]] = tuple(segment.get("ensembleMember", ()))
    if closed and "lastEntryId" not in values:
        raise ValueError("closed, and without a last entry")
    known = "password" in values
    return {
        "ensemble_size": values["ensembleSize"],
        "write_quorum": values["quorumSize"],
        "ack_quorum": values.get("ackQuorumSize", values["quorumSize"]),
        "segments": segments,
        "state": state,
        "length": values["length"] if closed else 0,
        "last_entry_id": values["lastEntryId"] if closed else -1,
        "digest_type": DigestType(values.get("digestType", DigestType.CRC32.value)) if known else None,
        "password": values["password"] if known else None,
        "ctime": values.get("ctime"),
        "custom_metadata": {c.get("key", ""): c.get("value", b"") for c in values.get("customMetadata", ())},
        "ctoken": values.get("cToken"),
    }


def _parse_1(data: bytes, at: int, what: str) -> dict[str, Any]:
    utf8(what, data)
    numbers: list[int] = []
    segments: dict[int, tuple[str, ...]] = {}
    state, last_entry = LedgerState.OPEN, -1
    for line in data[at:].split(b"\n"):
        parts = line.decode().removesuffix("\r").split("\t")
        number = re.fullmatch(r"-?[0-9]{1,19}", parts[0])
        if len(numbers) < 3:
            if number is None or len(parts) > 1:
                corrupt(what, at, "a number was expected: write quorum, ensemble size, length", data)
            numbers.append(int(parts[0]))
        elif state is not LedgerState.OPEN or (parts == [""] and at == len(data)):
            if parts != [""]:
                corrupt(what, at, "the ledger ended above", data)
        elif number is None or len(parts) < 2:
            corrupt(what, at, "an entry and the bookies from there on were expected", data)
        elif parts[1] == _CLOSED:
            last_entry = int(parts[0])
            state = LedgerState.IN_RECOVERY if last_entry == _IN_RECOVERY_ENTRY else LedgerState.CLOSED
        elif int(parts[0]) in segments:
            corrupt(what, at, "another segment begins at this entry", data)
        else:
            segments[int(parts[0])] = tuple(parts[1:])
        at += len(line) + 1
    if len(numbers) < 3:
        corrupt(what, len(data), "write quorum, ensemble size and length were expected")
    closed = state is LedgerState.CLOSED
    return {
        "ensemble_size": numbers[1],
        "write_quorum": numbers[0],
        "ack_quorum": numbers[0],
        "segments": segments,
        "state": state,
        "length": numbers[2] if closed else 0,
        "last_entry_id": last_entry if closed else -1,
        "digest_type": None,
        "password": None,
    }
