"""BookkeeperProtocol.proto as docs/protocol.md tells it, for Google's protobuf: the model of the v3 messages.

The descriptor is built here, from a table of fields for each message, so nobody needs protoc.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

VERSIONS = {"VERSION_ONE": 1, "VERSION_TWO": 2, "VERSION_THREE": 3}
OPERATIONS = {
    "READ_ENTRY": 1,
    "ADD_ENTRY": 2,
    "RANGE_READ_ENTRY": 3,
    "RANGE_ADD_ENTRY": 4,
    "AUTH": 5,
    "WRITE_LAC": 6,
    "READ_LAC": 7,
    "GET_BOOKIE_INFO": 8,
    "START_TLS": 9,
    "FORCE_LEDGER": 10,
    "GET_LIST_OF_ENTRIES_OF_LEDGER": 11,
    "BATCH_READ_ENTRY": 12,
}
STATUSES = {
    "EOK": 0,
    "ENOLEDGER": 402,
    "ENOENTRY": 403,
    "EBADREQ": 404,
    "EIO": 501,
    "EUA": 502,
    "EBADVERSION": 503,
    "EFENCED": 504,
    "EREADONLY": 505,
    "ETOOMANYREQUESTS": 506,
    "EUNKNOWNLEDGERSTATE": 507,
}
ENUMS = {
    "ProtocolVersion": VERSIONS,
    "OperationType": OPERATIONS,
    "StatusCode": STATUSES,
    "ReadFlag": {"FENCE_LEDGER": 1, "ENTRY_PIGGYBACK": 2},
    "AddFlag": {"RECOVERY_ADD": 1},
}

# Of each message its fields: number, name, type, and whether it is required (r), optional (o) or repeated (*).
MESSAGES = {
    "BKPacketHeader": "1 version ProtocolVersion r, 2 operation OperationType r, 3 txnId uint64 r, 4 priority uint32 o",
    "ContextPair": "1 key string r, 2 value string r",
    "AuthMessage": "1 authPluginName string r, 2 payload bytes r",
    "ReadRequest": "1 ledgerId int64 r, 2 entryId int64 r, 3 masterKey bytes o, 4 previousLAC int64 o, "
    "5 timeOut int64 o, 100 flag ReadFlag o",
    "AddRequest": "1 ledgerId int64 r, 2 entryId int64 r, 3 masterKey bytes r, 4 body bytes r, 5 writeFlags int32 o, "
    "100 flag AddFlag o",
    "WriteLacRequest": "1 ledgerId int64 r, 2 lac int64 r, 3 masterKey bytes r, 4 body bytes r",
    "ReadLacRequest": "1 ledgerId int64 r",
    "GetBookieInfoRequest": "1 requested int64 o",
    "StartTLSRequest": "",
    "ForceLedgerRequest": "1 ledgerId int64 r",
    "GetListOfEntriesOfLedgerRequest": "1 ledgerId int64 r",
    "Request": "1 header BKPacketHeader r, 100 readRequest ReadRequest o, 101 addRequest AddRequest o, "
    "102 authRequest AuthMessage o, 103 writeLacRequest WriteLacRequest o, 104 readLacRequest ReadLacRequest o, "
    "105 getBookieInfoRequest GetBookieInfoRequest o, 106 startTLSRequest StartTLSRequest o, "
    "107 forceLedgerRequest ForceLedgerRequest o, "
    "108 getListOfEntriesOfLedgerRequest GetListOfEntriesOfLedgerRequest o, 200 requestContext ContextPair *",
    "ReadResponse": "1 status StatusCode r, 2 ledgerId int64 r, 3 entryId int64 r, 4 body bytes o, 5 maxLAC int64 o, "
    "6 lacUpdateTimestamp int64 o",
    "AddResponse": "1 status StatusCode r, 2 ledgerId int64 r, 3 entryId int64 r",
    "WriteLacResponse": "1 status StatusCode r, 2 ledgerId int64 r",
    "ReadLacResponse": "1 status StatusCode r, 2 ledgerId int64 r, 3 lacBody bytes o, 4 lastEntryBody bytes o",
    "GetBookieInfoResponse": "1 status StatusCode r, 2 totalDiskCapacity int64 o, 3 freeDiskSpace int64 o",
    "StartTLSResponse": "",
    "ForceLedgerResponse": "1 status StatusCode r, 2 ledgerId int64 r",
    "GetListOfEntriesOfLedgerResponse": "1 status StatusCode r, 2 ledgerId int64 r, "
    "3 availabilityOfEntriesOfLedger bytes o",
    "Response": "1 header BKPacketHeader r, 2 status StatusCode r, 100 readResponse ReadResponse o, "
    "101 addResponse AddResponse o, 102 authResponse AuthMessage o, 103 writeLacResponse WriteLacResponse o, "
    "104 readLacResponse ReadLacResponse o, 105 getBookieInfoResponse GetBookieInfoResponse o, "
    "106 startTLSResponse StartTLSResponse o, 107 forceLedgerResponse ForceLedgerResponse o, "
    "108 getListOfEntriesOfLedgerResponse GetListOfEntriesOfLedgerResponse o",
}

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
    "int32": _FIELD.TYPE_INT32,
    "uint32": _FIELD.TYPE_UINT32,
    "bytes": _FIELD.TYPE_BYTES,
    "string": _FIELD.TYPE_STRING,
}
_LABELS = {"r": _FIELD.LABEL_REQUIRED, "o": _FIELD.LABEL_OPTIONAL, "*": _FIELD.LABEL_REPEATED}


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="BookkeeperProtocol.proto", package="bookkeeper", syntax="proto2")
    for enum_name, numbers in ENUMS.items():
        enum = file.enum_type.add(name=enum_name)
        for name, number in numbers.items():
            enum.value.add(name=name, number=number)
    for message_name, fields in MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for text in filter(None, fields.split(", ")):
            number_text, name, kind, label = text.split()
            field = message.field.add(name=name, number=int(number_text), label=_LABELS[label])
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type = _FIELD.TYPE_ENUM if kind in ENUMS else _FIELD.TYPE_MESSAGE
                field.type_name = f".bookkeeper.{kind}"
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"bookkeeper.{name}"))


Request: Any = _class("Request")
Response: Any = _class("Response")

# The message of an operation, as a field of Request and of Response.
REQUEST_OF = {
    1: "readRequest",
    2: "addRequest",
    5: "authRequest",
    6: "writeLacRequest",
    7: "readLacRequest",
    8: "getBookieInfoRequest",
    9: "startTLSRequest",
    10: "forceLedgerRequest",
    11: "getListOfEntriesOfLedgerRequest",
}
RESPONSE_OF = {operation: name.replace("Request", "Response") for operation, name in REQUEST_OF.items()}


def parsed(kind: Any, payload: bytes) -> Any:
    """The whole message of these bytes; None: protobuf does not take them, or something required is missing."""
    message = kind()
    try:
        message.ParseFromString(payload)
    except Exception:  # each implementation of protobuf raises an error of its own
        return None
    return message if message.IsInitialized() else None
