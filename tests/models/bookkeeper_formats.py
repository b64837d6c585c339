"""BookKeeper's metadata messages for Google's protobuf runtime: the independent reader and writer of the same bytes."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {"int32": 5, "int64": 3, "string": 9, "bytes": 12}
_LABELS = {"?": 1, "!": 2, "*": 3}
_PACKAGE = "bookkeeper_formats"


def _add(message: Any, prefix: str, fields: str) -> None:
    """Fields as "1 quorumSize int32!": ? optional, ! required, * repeated; a type in capitals is an enum or message."""
    for line in fields.strip().splitlines():
        number, name, kind = line.split()
        field = message.field.add(number=int(number), name=name, label=_LABELS[kind[-1]])
        kind = kind[:-1]
        if kind in _TYPES:
            field.type = _TYPES[kind]
        else:
            field.type_name = f".{prefix}.{kind}"


def _enum(message: Any, name: str, values: str) -> None:
    enum = message.enum_type.add(name=name)
    for number, value in enumerate(values.split(), 1):
        enum.value.add(name=value, number=number)


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="bookkeeper_formats.proto", package=_PACKAGE, syntax="proto2")
    ledger = file.message_type.add(name="LedgerMetadataFormat")
    prefix = f"{_PACKAGE}.LedgerMetadataFormat"
    _enum(ledger, "State", "OPEN IN_RECOVERY CLOSED")
    _enum(ledger, "DigestType", "CRC32 HMAC CRC32C DUMMY")
    _add(ledger.nested_type.add(name="Segment"), prefix, "1 ensembleMember string*\n2 firstEntryId int64!")
    _add(ledger.nested_type.add(name="Entry"), prefix, "1 key string?\n2 value bytes?")
    _add(
        ledger,
        prefix,
        """1 quorumSize int32!
        2 ensembleSize int32!
        3 length int64!
        4 lastEntryId int64?
        5 state State!
        6 segment Segment*
        7 digestType DigestType?
        8 password bytes?
        9 ackQuorumSize int32?
        10 ctime int64?
        11 customMetadata Entry*
        12 cToken int64?""",
    )
    _add(
        file.message_type.add(name="CookieFormat"),
        _PACKAGE,
        """1 bookieHost string!
        2 journalDir string!
        3 ledgerDirs string!
        4 instanceId string?
        5 indexDirs string?""",
    )
    info = file.message_type.add(name="BookieServiceInfoFormat")
    prefix = f"{_PACKAGE}.BookieServiceInfoFormat"
    endpoint = info.nested_type.add(name="Endpoint")
    _add(
        endpoint,
        prefix,
        """1 id string!
        2 port int32!
        3 host string!
        4 protocol string!
        5 auth string*
        6 extensions string*""",
    )
    entry = info.nested_type.add(name="PropertiesEntry")
    _add(entry, prefix, "1 key string?\n2 value string?")
    entry.options.map_entry = True
    _add(info, prefix, "6 endpoints Endpoint*\n7 properties PropertiesEntry*")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("LedgerMetadataFormat", "CookieFormat", "BookieServiceInfoFormat")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in names}


_CLASSES = _build()
LedgerMetadataFormat = _CLASSES["LedgerMetadataFormat"]
CookieFormat = _CLASSES["CookieFormat"]
BookieServiceInfoFormat = _CLASSES["BookieServiceInfoFormat"]
