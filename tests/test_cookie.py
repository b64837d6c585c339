"""Cookies: BookKeeper's text in both spellings, and what keeps a bookie from starting with another's directories."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from models.bookkeeper_formats import CookieFormat

from walkeeper.metadata import (
    Cookie,
    CookieMismatchError,
    CorruptMetadataError,
    InvalidBookieIdError,
    UnsupportedMetadataError,
    bookie_address,
    check_bookie_id,
)
from walkeeper.metadata._store import MetadataError

INSTANCE = "0b7d6f3e-3f0e-4c39-9d4f-5c6d7e8f9a0b"
EXAMPLE = (
    b'5\nbookieHost: "127.0.0.1:3181"\njournalDir: "/j1"\nledgerDirs: "1\\t/l1"\ninstanceId: "'
    + INSTANCE.encode()
    + b'"\n'
)
COOKIE = Cookie("127.0.0.1:3181", ("/j1",), ("/l1",), INSTANCE)

directories = st.text(st.characters(exclude_characters=",\t", exclude_categories=["Cs"]), min_size=1, max_size=12)
several = st.lists(directories, min_size=1, max_size=3).map(tuple)
cookies = st.builds(
    Cookie,
    st.from_regex(r"[a-z0-9.]{1,10}:[0-9]{1,5}", fullmatch=True),
    several,
    several,
    st.none() | st.uuids().map(str),
    st.none() | several,
)


def test_the_worked_bytes_of_a_cookie() -> None:
    assert COOKIE.serialise() == EXAMPLE
    assert Cookie.parse(EXAMPLE) == COOKIE


@pytest.mark.parametrize(
    "data",
    [
        EXAMPLE.replace(b"\\t", b"\\011"),
        EXAMPLE.replace(b"\\t", b"\t"),
        EXAMPLE.replace(b"5\n", b" 5 \r\n"),
        EXAMPLE.replace(b"5\n", b"4\n"),
        EXAMPLE.replace(b"\n", b" ").replace(b"5 ", b"5\n", 1),
        EXAMPLE + b'indexDirs: ""\n',
    ],
)
def test_other_spellings_of_the_same_cookie(data: bytes) -> None:
    assert Cookie.parse(data) == COOKIE


def test_the_cookie_of_layout_3_has_no_instance() -> None:
    assert Cookie.parse(b"3\na:1\n/j1,/j2\n2\t/l1\t/l2\n") == Cookie("a:1", ("/j1", "/j2"), ("/l1", "/l2"))


@given(cookies)
def test_what_is_written_is_read_again_and_by_googles_runtime(cookie: Cookie) -> None:
    data = cookie.serialise()
    assert Cookie.parse(data) == cookie
    google = text_format.Parse(data[2:], CookieFormat())
    assert google.ledgerDirs == "\t".join([str(len(cookie.ledger_dirs)), *cookie.ledger_dirs])
    for form in ({}, {"as_utf8": False}, {"as_one_line": True}):
        assert Cookie.parse(b"5\n" + text_format.MessageToString(google, **form).encode()) == cookie


@pytest.mark.parametrize(
    ("other", "field", "there"),
    [
        (Cookie("127.0.0.1:3182", ("/j1",), ("/l1",), INSTANCE), "bookie_id", "127.0.0.1:3182"),
        (Cookie("127.0.0.1:3181", ("/j2",), ("/l1",), INSTANCE), "journal_dirs", ("/j2",)),
        (Cookie("127.0.0.1:3181", ("/j1",), ("/l1", "/l2"), INSTANCE, ("/l1",)), "ledger_dirs", ("/l1", "/l2")),
        (Cookie("127.0.0.1:3181", ("/j1",), ("/l1",), INSTANCE, ("/i1",)), "index_dirs", ("/i1",)),
        (Cookie("127.0.0.1:3181", ("/j1",), ("/l1",), "another"), "instance_id", "another"),
        (Cookie("127.0.0.1:3181", ("/j1",), ("/l1",)), "instance_id", None),
    ],
)
def test_a_check_says_what_differs(other: Cookie, field: str, there: object) -> None:
    with pytest.raises(CookieMismatchError, match=field) as caught:
        COOKIE.check(other)
    [difference] = caught.value.differences
    assert (difference.field, difference.there) == (field, there)


def test_index_directories_that_are_not_named_are_the_ledger_directories() -> None:
    COOKIE.check(Cookie("127.0.0.1:3181", ("/j1",), ("/l1",), INSTANCE, ("/l1",)))


def test_directories_may_be_added_where_that_is_asked_for_and_none_may_go() -> None:
    grown = Cookie("127.0.0.1:3181", ("/j1",), ("/l2", "/l1"), INSTANCE)
    grown.check(COOKIE, expansion=True)
    with pytest.raises(CookieMismatchError):
        grown.check(COOKIE)
    with pytest.raises(CookieMismatchError):
        COOKIE.check(grown, expansion=True)
    with pytest.raises(CookieMismatchError, match="journal_dirs"):
        Cookie("127.0.0.1:3181", ("/j1", "/j2"), ("/l1",), INSTANCE).check(COOKIE, expansion=True)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "version of the layout"),
        (b"5", "version of the layout"),
        (b"\xff\n", "version of the layout"),
        (b"5\n", "had no bookieHost"),
        (b"3\na:1\n/j1\n", "list of directories"),
        (b"3\na:1\n", "three lines"),
        (EXAMPLE.replace(b'"1\\t', b'"2\\t'), "list of directories"),
        (EXAMPLE.replace(b"127.0.0.1:3181", b"readonly"), "another meaning"),
        (EXAMPLE.replace(b"/j1", b""), "journal directories"),
    ],
)
def test_a_cookie_that_is_refused_says_why(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptMetadataError, match=problem):
        Cookie.parse(data)


@pytest.mark.parametrize("layout", [b"1", b"2", b"6"])
def test_a_layout_that_is_too_old_or_too_new(layout: bytes) -> None:
    with pytest.raises(UnsupportedMetadataError, match="layouts 3 to 5"):
        Cookie.parse(layout + EXAMPLE[1:])


def test_every_truncation_and_every_changed_byte_is_another_cookie_or_a_metadata_error() -> None:
    for at in range(len(EXAMPLE)):
        for data in (EXAMPLE[:at], EXAMPLE[:at] + bytes([EXAMPLE[at] ^ 0x80]) + EXAMPLE[at + 1 :]):
            try:
                cookie = Cookie.parse(data)
            except MetadataError:
                continue
            assert cookie != COOKIE or data.strip() == EXAMPLE.strip()


@given(st.sampled_from([b"", b"3\n", b"4\n", b"5\n", EXAMPLE]), st.binary(max_size=100))
def test_whatever_the_bytes_only_metadata_errors_come_out(beginning: bytes, data: bytes) -> None:
    try:
        Cookie.parse(beginning + data)
    except MetadataError:
        pass


@pytest.mark.parametrize(
    "fields",
    [
        ("a", ("/j,k",), ("/l",)),
        ("a", ("/j",), ("/l\t",)),
        ("a", (), ("/l",)),
        ("a", ("/j",), ()),
        ("a", ("/j",), ("/l",), ""),
        ("a", ("/j",), ("/l",), None, ()),
        ("a/b", ("/j",), ("/l",)),
    ],
)
def test_a_cookie_that_could_not_be_read_again_is_not_made(
    fields: tuple[str, tuple[str, ...], tuple[str, ...]],
) -> None:
    with pytest.raises(ValueError, match=r"director|bookie|instance"):
        Cookie(*fields)


@pytest.mark.parametrize(
    "bookie_id", ["a", "127.0.0.1:3181", "host-1.example_x:1", "@=[^];<>?\\", "A" * 512, "-", "..."]
)
def test_what_may_be_a_bookie(bookie_id: str) -> None:
    assert check_bookie_id(bookie_id) == bookie_id


@pytest.mark.parametrize(
    "bookie_id", ["", "a/b", "a b", "a\n", "\xe9", "a,b", "readonly", "ReadOnly", ".", "..", "A" * 513, "`"]
)
def test_what_may_not(bookie_id: str) -> None:
    with pytest.raises(InvalidBookieIdError):
        check_bookie_id(bookie_id)


@pytest.mark.parametrize(
    ("bookie_id", "address"),
    [
        ("host:3181", ("host", 3181)),
        ("[::1]:3181", ("::1", 3181)),
        ("host", None),
        (":3181", None),
        ("host:", None),
        ("host:0", None),
        ("host:65536", None),
        ("host:31a", None),
        ("host:\u0663", None),
        ("host:000001", None),
    ],
)
def test_the_address_that_an_id_may_be(bookie_id: str, address: tuple[str, int] | None) -> None:
    assert bookie_address(bookie_id) == address
