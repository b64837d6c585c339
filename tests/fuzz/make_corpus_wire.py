"""Write the corpora of the wire protocol: python tests/fuzz/make_corpus_wire.py

Each function returns the inputs of one fuzzer by file name, from docs/protocol.md alone: payloads, without the prefix
of their frames. The inputs are a first step into each branch of a decoder. Files already in a corpus under other names
(saved findings) are left alone. The output never changes from run to run.
"""

import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent

KEY = bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")
ENTRY = struct.pack(">qqqq", 1, 0, -1, 5) + bytes.fromhex("e3a5f74d") + b"hello"
LAC_PACKET = struct.pack(">qq", 1, 0) + bytes.fromhex("b64e4ca2")
PLUGIN = b"AuthDisabledPlugin"


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    data = b""
    while number >= 0x80:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """The fields, each a number and what it holds."""
    data = b""
    for field, value in fields:
        if isinstance(value, int):
            data += varint(field << 3) + varint(value)
        else:
            data += varint(field << 3 | 2) + varint(len(value)) + value
    return data


def header(operation: int, *more: tuple[int, int], version: int = 3) -> tuple[int, bytes]:
    return 1, message((1, version), (2, operation), (3, 7), *more)


def v2(opcode: int, body: bytes, flags: int = 0, version: int = 2) -> bytes:
    return struct.pack(">BBH", version, opcode, flags) + body


AUTH = message((1, b"plain"), (2, b"secret"))
AUTHENTICATED = message((1, PLUGIN), (2, b""))


def fuzz_wire_request_v2() -> dict[str, bytes]:
    """Requests of v2."""
    read = struct.pack(">qq", 1, -1)
    batch = struct.pack(">qqqiq", 1, 0, 9, 100, 1 << 20)
    return {
        "add": v2(1, KEY + ENTRY),
        "recovery_add": v2(1, KEY + ENTRY, flags=6),
        "add_short": v2(1, KEY + ENTRY[:15]),
        "read": v2(2, read),
        "read_fence": v2(2, read + KEY, flags=1),
        "read_half_a_key": v2(2, read + KEY[:10], flags=1),
        "read_oldest": struct.pack(">i", 2) + read,
        "read_of_the_future": v2(2, read, version=9),
        "batch": v2(7, batch),
        "batch_fence": v2(7, batch + KEY, flags=1),
        "auth": v2(3, AUTH),
        "unknown": v2(4, read),
        "nothing": b"",
    }


def fuzz_wire_request_v3() -> dict[str, bytes]:
    """Requests of v3."""
    add = (101, message((1, 1), (2, 0), (3, KEY), (4, ENTRY)))
    force = message(header(10), (107, message((1, 1))))
    return {
        "add": message(header(2), add),
        "add_flags": message(header(2, (4, 100)), (101, add[1] + message((5, 1), (100, 1)))),
        "read_last": message(header(1), (100, message((1, 1), (2, -1)))),
        "read_fence": message(header(1), (100, message((1, 1), (2, -1), (3, KEY), (100, 1)))),
        "long_poll": message(header(1), (100, message((1, 1), (2, -1), (4, 5), (5, 1000), (100, 2)))),
        "auth": message(header(5), (102, AUTH)),
        "write_lac": message(header(6), (103, message((1, 1), (2, 0), (3, KEY), (4, LAC_PACKET)))),
        "read_lac": message(header(7), (104, message((1, 1)))),
        "info": message(header(8), (105, message((1, 3)))),
        "start_tls": message(header(9), (106, b"")),
        "force": force,
        "list": message(header(11), (108, message((1, 1)))),
        "batch": message(header(12)),
        "context": message(header(7), (104, message((1, 1))), (200, message((1, b"k"), (2, b"v")))),
        "context_without_value": message(header(7), (200, message((1, b"k")))),
        "version_one": message(header(7, version=1), (104, message((1, 1)))),
        "version_four": message(header(7, version=4)),
        "twice": message(header(7), (104, message((1, 1))), (104, message((1, 2)))),
        "fixed": force + b"\x1d\1\2\3\4\x21" + bytes(8),
        "group": force + b"\x1b\x1c",
        "long_varint": force + b"\x18" + b"\x80" * 10 + b"\0",
        "long_size": force + b"\x12\xff\xff\xff\xff\x07",
        "empty_entry": message(header(2), (101, message((1, 1), (2, 0), (3, b""), (4, b"")))),
        "nothing": b"",
    }


def fuzz_wire_reply_v2() -> dict[str, bytes]:
    """Replies of v2."""
    ids = struct.pack(">qq", 1, -1)
    ok, no_entry = struct.pack(">i", 0), struct.pack(">i", 2)
    return {
        "add": v2(1, ok + ids),
        "read": v2(2, ok + ids + ENTRY),
        "read_no_entry": v2(2, no_entry + ids),
        "unknown_code": v2(2, struct.pack(">i", 108) + ids),
        "batch": v2(7, ok + ids + bytes(8) + struct.pack(">i", len(ENTRY)) + ENTRY + bytes(4)),
        "batch_cut": v2(7, ok + ids + bytes(8) + struct.pack(">i", len(ENTRY)) + ENTRY[:-1]),
        "batch_no_entry": v2(7, no_entry + ids + bytes(8)),
        "auth": v2(3, AUTHENTICATED),
        "nothing": b"",
    }


def fuzz_wire_reply_v3() -> dict[str, bytes]:
    """Replies of v3."""
    found = message((1, 0), (2, 1), (3, -1))
    return {
        "add": message(header(2), (2, 0), (101, found)),
        "add_fenced": message(header(2), (2, 504), (101, message((1, 504), (2, 1), (3, 0)))),
        "read": message(header(1), (2, 0), (100, found + message((5, -1), (6, 1790000000000), (4, ENTRY)))),
        "read_no_entry": message(header(1), (2, 403), (100, message((1, 403), (2, 1), (3, -1)))),
        "auth": message(header(5), (2, 0), (102, AUTHENTICATED)),
        "write_lac": message(header(6), (2, 505), (103, message((1, 505), (2, 1)))),
        "read_lac": message(header(7), (2, 0), (104, message((1, 0), (2, 1), (3, LAC_PACKET), (4, ENTRY)))),
        "info": message(header(8), (2, 0), (105, message((1, 0), (2, 1000), (3, 5)))),
        "start_tls": message(header(9), (2, 0), (106, b"")),
        "force": message(header(10), (2, 0), (107, message((1, 0), (2, 1)))),
        "list": message(header(11), (2, 0), (108, message((1, 0), (2, 1), (3, bytes(64))))),
        "bare": message(header(3), (2, 404)),
        "statuses_differ": message(header(2), (2, 0), (101, message((1, 501), (2, 1), (3, 0)))),
        "unknown_status": message(header(2), (2, 1)),
        "no_status": message(header(2)),
        "nothing": b"",
    }


CORPORA = [fuzz_wire_request_v2, fuzz_wire_request_v3, fuzz_wire_reply_v2, fuzz_wire_reply_v3]


def main() -> None:
    """Write all corpora."""
    for corpus in CORPORA:
        folder = HERE / "corpus" / corpus.__name__
        folder.mkdir(parents=True, exist_ok=True)
        inputs = corpus()
        for file_name, data in inputs.items():
            (folder / file_name).write_bytes(data)
        print(f"{corpus.__name__}: {len(inputs)} files")


if __name__ == "__main__":
    main()
