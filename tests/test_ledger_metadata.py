"""Ledger metadata: BookKeeper's bytes of all three versions, and agreement with Google's protobuf runtime."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from models.bookkeeper_formats import LedgerMetadataFormat

from walkeeper.metadata import (
    CorruptMetadataError,
    DigestType,
    LedgerMetadata,
    LedgerState,
    UnsupportedMetadataError,
)
from walkeeper.metadata._protobuf import GROUPS_MAX, SIZE_MAX
from walkeeper.metadata._store import MetadataError

PREFIX = b"BookieMetadataFormatVersion\t"
TWO = ("127.0.0.1:3181", "127.0.0.1:3182")
OPEN_EXAMPLE = (
    PREFIX
    + b"3\n"
    + bytes.fromhex(
        "3d 0802 1002 1800 20ffffffffffffffffff01 2801"
        "3222 0a0e 3132372e302e302e313a33313831 0a0e 3132372e302e302e313a33313832 1000 3803 4200 4802"
    )
)
VERSION_1 = PREFIX + b"1\n2\n3\n0\n0\ta:1\tb:1\tc:1\n7\ta:1\tb:1\td:1\n"
VERSION_2 = PREFIX + (
    b"2\nquorumSize: 2\nensembleSize: 3\nlength: 4096\nlastEntryId: 9\nstate: CLOSED\nsegment {\n"
    b'  ensembleMember: "a:1"\n  ensembleMember: "b:1"\n  ensembleMember: "c:1"\n  firstEntryId: 0\n}\n'
    b'digestType: CRC32\npassword: "pass\\001\\t\\"\\\'\\377"\nackQuorumSize: 2\nctime: 1500000000000\n'
)

names = st.from_regex(r"[a-zA-Z0-9:-_.\-]{1,20}", fullmatch=True).filter(
    lambda s: s != "CLOSED" and s.lower() not in ("readonly", ".", "..")
)
int64s = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def ledgers(draw: st.DrawFn, versions: tuple[int, ...] = (1, 2, 3)) -> LedgerMetadata:
    """Any metadata that a store may hold."""
    version = draw(st.sampled_from(versions))
    sizes = sorted(draw(st.lists(st.integers(1, 7), min_size=3, max_size=3)))
    ack, write, ensemble = sizes if version > 1 else (sizes[1], sizes[1], sizes[2])
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 2**63 - 1), max_size=3)))]
    segments = {first: tuple(draw(st.lists(names, min_size=ensemble, max_size=ensemble))) for first in firsts}
    state = draw(st.sampled_from(LedgerState))
    closed = state is LedgerState.CLOSED
    known = version > 1
    return LedgerMetadata(
        ensemble,
        write,
        ack,
        segments,
        state,
        draw(st.integers(0, 2**63 - 1)) if closed else 0,
        draw(st.integers(-1, 2**63 - 1)) if closed else -1,
        draw(st.sampled_from(DigestType)) if known else None,
        draw(st.binary(max_size=30)) if known else None,
        draw(st.none() | int64s) if known else None,
        draw(st.dictionaries(texts, st.binary(max_size=30), max_size=4)) if known else {},
        draw(st.none() | int64s) if version == 3 else None,
        version,
    )


def as_google(metadata: LedgerMetadata) -> Any:
    """The same, as Google's message."""
    made = LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length,
        lastEntryId=metadata.last_entry_id,
        state=metadata.state.value,
        digestType=None if metadata.digest_type is None else metadata.digest_type.value,
        password=metadata.password,
        ackQuorumSize=metadata.ack_quorum,
        ctime=metadata.ctime,
        cToken=metadata.ctoken,
    )
    for first, ensemble in metadata.segments.items():
        made.segment.add(firstEntryId=first, ensembleMember=ensemble)
    for key, value in metadata.custom_metadata.items():
        made.customMetadata.add(key=key, value=value)
    return made


def delimited(body: bytes) -> bytes:
    """A message of less than 16 KiB as version 3 has it."""
    size = bytes([len(body)]) if len(body) < 128 else bytes([len(body) & 0x7F | 0x80, len(body) >> 7])
    return PREFIX + b"3\n" + size + body


def test_the_worked_bytes_of_an_open_ledger() -> None:
    metadata = LedgerMetadata(2, 2, 2, {0: TWO})
    assert metadata.serialise() == OPEN_EXAMPLE
    assert LedgerMetadata.parse(OPEN_EXAMPLE) == metadata


def test_version_1_knows_no_digest_and_no_password() -> None:
    metadata = LedgerMetadata.parse(VERSION_1)
    assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (3, 2, 2)
    assert metadata.segments == {0: ("a:1", "b:1", "c:1"), 7: ("a:1", "b:1", "d:1")}
    assert metadata.state is LedgerState.OPEN
    assert (metadata.digest_type, metadata.password, metadata.format_version) == (None, None, 1)
    assert metadata.serialise(1) == VERSION_1


@pytest.mark.parametrize(
    ("line", "state", "length", "last"),
    [("9\tCLOSED", LedgerState.CLOSED, 77, 9), ("-102\tCLOSED", LedgerState.IN_RECOVERY, 0, -1)],
)
def test_the_last_line_of_version_1_says_how_the_ledger_ended(
    line: str, state: LedgerState, length: int, last: int
) -> None:
    metadata = LedgerMetadata.parse(PREFIX + f"1\n1\n1\n77\n0\ta:1\n{line}".encode())
    assert (metadata.state, metadata.length, metadata.last_entry_id) == (state, length, last)


def test_version_2_is_text_with_escapes() -> None:
    metadata = LedgerMetadata.parse(VERSION_2)
    assert metadata.password == b"pass\x01\t\"'\xff"
    assert (metadata.is_closed, metadata.length, metadata.last_entry_id) == (True, 4096, 9)
    assert metadata.ctime == 1_500_000_000_000
    assert metadata.serialise(2) == VERSION_2


def test_version_3_written_is_readable_from_version_1() -> None:
    """Nobody knows the password: then none is written, and none is known again."""
    old = LedgerMetadata.parse(VERSION_1)
    new = LedgerMetadata.parse(old.serialise())
    assert (new.segments, new.password, new.format_version) == (old.segments, None, 3)


def test_version_1_refuses_an_ack_quorum_it_cannot_say() -> None:
    with pytest.raises(ValueError, match="no ack quorum"):
        LedgerMetadata(3, 3, 2, {0: ("a", "b", "c")}).serialise(1)


def test_the_token_of_a_creator_is_written_in_version_3_alone() -> None:
    metadata = LedgerMetadata(1, 1, 1, {0: ("a",)}, ctoken=-5)
    assert LedgerMetadata.parse(metadata.serialise()).ctoken == -5
    assert LedgerMetadata.parse(metadata.serialise(2)).ctoken is None


def test_an_absent_ack_quorum_is_the_write_quorum_and_an_absent_digest_crc32() -> None:
    google = LedgerMetadataFormat(quorumSize=2, ensembleSize=2, length=5, lastEntryId=5, state=1, password=b"")
    google.segment.add(firstEntryId=0, ensembleMember=TWO)
    metadata = LedgerMetadata.parse(delimited(google.SerializeToString()))
    assert (metadata.ack_quorum, metadata.digest_type) == (2, DigestType.CRC32)
    assert (metadata.length, metadata.last_entry_id) == (0, -1), "it is open: what stands there means nothing"


def test_a_digest_without_a_password_is_not_known() -> None:
    google = LedgerMetadataFormat(quorumSize=2, ensembleSize=2, length=0, state=1, digestType=3)
    google.segment.add(firstEntryId=0, ensembleMember=TWO)
    metadata = LedgerMetadata.parse(delimited(google.SerializeToString()))
    assert (metadata.digest_type, metadata.password) == (None, None)


def test_the_ensemble_of_an_entry_is_the_last_segments_that_begins_before() -> None:
    metadata = LedgerMetadata(1, 1, 1, {0: ("a",), 5: ("b",), 9: ("c",)})
    assert [metadata.ensemble_at(e)[0] for e in (0, 4, 5, 8, 9, 2**62)] == ["a", "a", "b", "b", "c", "c"]
    with pytest.raises(ValueError, match="no entry"):
        metadata.ensemble_at(-1)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(LedgerMetadata(1, 1, 1, {0: ("a",)}, password=b"secret"))


def test_version_1_has_no_bookie_that_is_called_as_its_end() -> None:
    metadata = LedgerMetadata(1, 1, 1, {0: ("a",), 7: ("CLOSED",)}, digest_type=None, password=None, format_version=1)
    with pytest.raises(ValueError, match="called CLOSED"):
        metadata.serialise(1)
    assert LedgerMetadata.parse(metadata.serialise(2)).segments == metadata.segments


@given(ledgers())
def test_what_is_written_is_read_again(metadata: LedgerMetadata) -> None:
    assert LedgerMetadata.parse(metadata.serialise(metadata.format_version)) == metadata


@given(ledgers((3,)))
def test_googles_runtime_reads_and_writes_the_same_binary(metadata: LedgerMetadata) -> None:
    google = as_google(metadata)
    body = google.SerializeToString()
    prefix, size = metadata.serialise()[:30], len(body)
    assert prefix == PREFIX + b"3\n"
    written = metadata.serialise()[30 + (1 if size < 128 else 2) :]
    assert written == body
    assert LedgerMetadataFormat.FromString(written) == google
    assert LedgerMetadata.parse(delimited(body)) == metadata


@given(ledgers((2,)))
def test_googles_runtime_reads_and_writes_the_same_text(metadata: LedgerMetadata) -> None:
    google = as_google(metadata)
    written = metadata.serialise(2)[30:]
    assert text_format.Parse(written, LedgerMetadataFormat()) == google
    assert written.decode() == text_format.MessageToString(google, as_utf8=False)
    for form in (
        {"as_one_line": True},
        {"pointy_brackets": True},
        {"as_utf8": False},
        {"use_short_repeated_primitives": True},
    ):
        assert LedgerMetadata.parse(PREFIX + b"2\n" + text_format.MessageToString(google, **form).encode()) == metadata


# Other spellings of the text, and what is no spelling.

BODY = b'quorumSize: 1 ensembleSize: 1 length: 0 state: OPEN segment { ensembleMember: "a" firstEntryId: 0 }'


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        b"# by hand\n" + BODY.replace(b"segment {", b"segment: <").replace(b"}", b">") + b" # end",
        BODY.replace(b'"a"', b"'\\x61'"),
        BODY.replace(b'"a"', b"'\\141'"),
        BODY.replace(b'"a"', b"'\\u0061'"),
        BODY.replace(b'"a"', b"'\\U00000061'"),
        BODY.replace(b'ensembleMember: "a"', b'ensembleMember: [ "" # nothing\n "a" ]'),
        BODY.replace(b"OPEN", b"1"),
        BODY.replace(b"length: 0", b"length: 0x0, "),
        BODY.replace(b"length: 0", b"length: 00;"),
        BODY.replace(b"length: 0", b"length: - 0"),
        BODY.replace(b"length: 0", b"length: 5 length: 0"),
        BODY.replace(b"segment { ", b"segment [ { ").replace(b"}", b"} ]"),
    ],
)
def test_spellings_of_the_text_that_mean_the_same(text: bytes) -> None:
    assert LedgerMetadata.parse(PREFIX + b"2\n" + text).segments == {0: ("a",)}


def test_letters_that_escape_a_byte() -> None:
    text = BODY + rb' password: "\a\b\f\n\r\t\v\\\'\"\?\0\377"'
    assert LedgerMetadata.parse(PREFIX + b"2\n" + text).password == b"\a\b\f\n\r\t\v\\'\"?\0\xff"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BODY + b" colour: 3", "no such field"),
        (BODY.replace(b"OPEN", b"AJAR"), "no such value"),
        (BODY.replace(b"OPEN", b"4"), "means nothing"),
        (BODY.replace(b"length: 0", b""), "had no length"),
        (BODY.replace(b"length: 0", b"length 0"), "a colon"),
        (BODY.replace(b"length: 0", b"length: 1.5"), "whole number"),
        (BODY.replace(b"length: 0", b"length: 08"), "whole number"),
        (BODY.replace(b"length: 0", b"length: 9223372036854775808"), "64 bits"),
        (BODY.replace(b"quorumSize: 1", b"quorumSize: 2147483648"), "32 bits"),
        (BODY.replace(b'"a"', b'"a'), "without an end"),
        (BODY.replace(b'"a"', b'"\\9"'), "escape"),
        (BODY.replace(b'"a"', b'"\\400"'), "escape"),
        (BODY.replace(b'"a"', b'"\\ud800"'), "escape"),
        (BODY.replace(b'"a"', b'"\\xff"'), "not UTF-8"),
        (BODY.replace(b'"a"', b"a"), "a string"),
        (BODY.replace(b"}", b">"), "name of a field"),
        (BODY.replace(b"}", b""), "not the end"),
        (BODY + b" }", "name of a field"),
        (BODY + b" $", "nothing begins so"),
        (BODY.replace(b"{", b"7"), "a message"),
        (BODY.replace(b'"a"', b'["a" "b" 3]'), "a comma"),
    ],
)
def test_text_that_is_refused_says_why(text: bytes, problem: str) -> None:
    with pytest.raises(CorruptMetadataError, match=problem):
        LedgerMetadata.parse(PREFIX + b"2\n" + text)


def test_an_error_says_what_where_and_what_was_found() -> None:
    text = PREFIX + b"2\n" + BODY + b" $oops"
    with pytest.raises(CorruptMetadataError) as caught:
        LedgerMetadata.parse(text, "ledger 7")
    assert (caught.value.what, caught.value.offset, caught.value.found) == ("ledger 7", text.index(b"$"), b"$oops")
    assert "ledger 7" in str(caught.value)


def test_a_comment_goes_to_the_end_of_its_line() -> None:
    """What stands in it is never text, also where what follows it is refused."""
    assert LedgerMetadata.parse(PREFIX + b"2\n# length: 7 $ }\n" + BODY + b"#").segments == {0: ("a",)}
    with pytest.raises(CorruptMetadataError, match="nothing begins so"):
        LedgerMetadata.parse(PREFIX + b"2\n" + BODY + b"#" * 25 + b"\n$")


@pytest.mark.parametrize(
    "body", [b"#" * 100_000 + b"\n$", b'"' * 99_999, b" \t" * 50_000 + b"$", b'"' + b"\\" * 100_001]
)
def test_hostile_text_costs_no_more_time_than_its_length(body: bytes) -> None:
    """By the test's own time-out: time that doubles with each byte would never end."""
    with pytest.raises(CorruptMetadataError):
        LedgerMetadata.parse(PREFIX + b"2\n" + body)


# Binary.


def test_fields_that_newer_writers_know_are_skipped() -> None:
    unknown = bytes.fromhex(
        "f801 ffffffffffffffffff01  f901 0000000000000000  fa01 03 616263  fd01 00000000  fb01 0801 fc01"
    )
    assert LedgerMetadata.parse(delimited(OPEN_EXAMPLE[31:] + unknown)) == LedgerMetadata.parse(OPEN_EXAMPLE)


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        ("00", "no field's number"),
        ("0700", "no field's number"),
        ("ffffffff7f00", "no field's number"),
        ("fe01", "no wire type 6"),
        ("fc01", "did not begin"),
        ("fb01 8402", "did not begin"),
        ("fb01", "cut off"),
        ("f801 ffffffffffffffffff02", "64 bits"),
        ("f801 ffffffffffffffffffff01", "64 bits"),
        ("fa01 7f00", "of which 1 are there"),
        ("f901 00", "of which 1 are there"),
        ("2804", "means nothing"),
        ("3805", "means nothing"),
        ("2a00", "wire type"),
        ("4000", "wire type"),
        ("4205 61", "of which 1 are there"),
        ("5a03 0a01ff", "not UTF-8"),
        ("3200", "had no firstEntryId"),
        ("fb01" * (GROUPS_MAX + 1), "groups in each other"),
    ],
)
def test_binary_that_is_refused_says_why(tail: str, problem: str) -> None:
    with pytest.raises(CorruptMetadataError, match=problem):
        LedgerMetadata.parse(delimited(OPEN_EXAMPLE[31:] + bytes.fromhex(tail)))


def test_groups_may_nest_to_their_limit() -> None:
    tail = bytes.fromhex("fb01" * GROUPS_MAX + "fc01" * GROUPS_MAX)
    assert LedgerMetadata.parse(delimited(OPEN_EXAMPLE[31:] + tail)).segments == {0: TWO}


def test_bytes_behind_the_message_are_refused() -> None:
    with pytest.raises(CorruptMetadataError, match="1 bytes stand behind"):
        LedgerMetadata.parse(OPEN_EXAMPLE + b"\0")


def test_more_bytes_than_any_store_takes_are_not_looked_at() -> None:
    with pytest.raises(CorruptMetadataError, match="at most"):
        LedgerMetadata.parse(OPEN_EXAMPLE + bytes(SIZE_MAX))


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 30, b"BookieMetadata", PREFIX, PREFIX + b"3", PREFIX + b"x\n", PREFIX + b"9" * 20 + b"\n"]
)
def test_what_is_no_metadata_at_all(data: bytes) -> None:
    with pytest.raises(CorruptMetadataError):
        LedgerMetadata.parse(data)


@pytest.mark.parametrize("version", [b"0", b"4", b"123456789"])
def test_an_unknown_version_is_not_called_corrupt(version: bytes) -> None:
    with pytest.raises(UnsupportedMetadataError, match="versions 1 to 3"):
        LedgerMetadata.parse(PREFIX + version + b"\n")


@given(ledgers((3,)), st.data())
def test_no_beginning_of_version_3_is_valid(metadata: LedgerMetadata, data: st.DataObject) -> None:
    whole = metadata.serialise()
    size = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptMetadataError):
        LedgerMetadata.parse(whole[:size])


@pytest.mark.parametrize("whole", [OPEN_EXAMPLE, VERSION_1, VERSION_2])
def test_every_truncation_and_every_changed_byte_is_metadata_or_a_metadata_error(whole: bytes) -> None:
    for at in range(len(whole)):
        for data in (
            whole[:at],
            whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :],
            whole[:at] + whole[at + 1 :],
        ):
            with contextlib.suppress(MetadataError):
                assert LedgerMetadata.parse(data).segments


@given(st.sampled_from([b"1\n", b"2\n", b"3\n", b""]), st.binary(max_size=200))
def test_whatever_the_bytes_only_metadata_errors_come_out(version: bytes, data: bytes) -> None:
    try:
        LedgerMetadata.parse(PREFIX + version + data)
    except MetadataError:
        pass


# Version 1, and what metadata cannot be.


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2\n3\n", "a number was expected"),
        ("2\n3\n4", "segments begin"),
        ("2\nx\n0\n", "a number was expected"),
        ("1\n1\n0\n0\ta\n9\tCLOSED\nmore", "ended above"),
        ("1\n1\n0\n0\n", "bookies from there on"),
        ("1\n1\n0\n\n0\ta", "bookies from there on"),
        ("1\n1\n0\n0\ta\n0\ta", "another segment"),
        ("1\n1\n0\n0\tready/only", "no bookie id"),
        ("1\n2\n0\n0\ta", "1 bookies, not 2"),
        ("3\n2\n0\n0\ta\tb", "at most the one before"),
        ("1\n1\n0\n1\ta", "first begins at 0"),
        ("1\n1\n0\n0\ta\n5\ta\n4\ta", "behind the one before"),
        ("1\n1\n0\n0\ta\n-5\tCLOSED", "cannot be"),
    ],
)
def test_version_1_that_is_refused_says_why(text: str, problem: str) -> None:
    with pytest.raises(CorruptMetadataError, match=problem):
        LedgerMetadata.parse(PREFIX + b"1\n" + text.encode())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ack_quorum": 0}, "at least 1"),
        ({"write_quorum": 3}, "at most the one before"),
        ({"segments": {}}, "begins at 0"),
        ({"segments": {0: ("a",)}}, "not 2"),
        ({"segments": {0: ("a", "READONLY")}}, "another meaning"),
        ({"segments": {0: ("a", "x/y")}}, "no bookie id"),
        ({"length": 3}, "closed ledger alone"),
        ({"state": LedgerState.CLOSED, "length": -3}, "cannot be"),
        ({"password": None}, "together or not at all"),
        ({"format_version": 4}, "no format version"),
        ({"ctime": 2**63}, "64 bits"),
    ],
)
def test_metadata_that_cannot_be_is_refused_where_it_is_made(change: dict[str, Any], problem: str) -> None:
    fields: dict[str, Any] = {"ensemble_size": 2, "write_quorum": 2, "ack_quorum": 1, "segments": {0: TWO}}
    with pytest.raises(ValueError, match=problem):
        LedgerMetadata(**(fields | change))


def test_there_is_no_version_4_to_write() -> None:
    with pytest.raises(ValueError, match="no format version 4"):
        LedgerMetadata(1, 1, 1, {0: ("a",)}).serialise(4)
