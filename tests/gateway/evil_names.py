"""Names that somebody gives a file in order to reach others: paths that are refused, and names that stay names.

A name is a part of a path. Names that are kept are no special names here, whatever a file system, a shell, a browser or
a decoder elsewhere makes of them.
"""

from __future__ import annotations

from itertools import product

__all__ = ["KEPT", "MARK", "REFUSED"]

MARK = "evil-mark"
"""The last name of paths that go up. No other file is called so."""

# fmt: off

# ---- paths ----

UP = [
    before + step * times + MARK
    for before, step, times in product(("/", "/app/", "/app/q/"), ("../", "./../", ".././", "..//"), (1, 2, 12))
]
DOTS = ["/.", "/..", "/app/.", "/app/..", "/./app", "/../app", "/app/./q", "/app/../q", "/.././..", f"/..{MARK}/.."]
EMPTY = ["", "//", "///", "//app", "/app/", "/app//q", "/app/q//", "//host/share", "/ /", "/app/\n/"]
NUL = ["/\0", "/app/\0", "/app/a\0", "/app/\0a", "/app/..\0", "/app/\0..", "/app/a\0.txt", "/\0/q", "/app/q\0/../a"]
RELATIVE = [
    "a", "app/q", "..", "../evil", "./app", "~", "~/evil", "~root/evil", "-rf", "$HOME/evil", "C:", "C:\\evil",
    "C:/evil", "\\evil", "\\\\host\\share\\evil", "\\\\?\\C:\\evil", "\\\\.\\pipe\\evil", "..\\evil", ".\\evil",
    "file:///etc/evil", "file:/etc/evil", "walkeeper:///app/evil", "http://host/evil", "s3a://bucket/evil", "|evil",
    "%2fevil", "%2Fapp%2Fevil", "&#47;evil", "\u2215evil", "\u2044evil", "\uff0fevil", "\u29f8evil", " /app/evil",
    "\t/app/evil", "\ufeff/app/evil", "\u200b/app/evil", "\0/app/evil",
]
LONG = [
    "/" + "n" * 256, "/app/" + "n" * 256, "/app/" + "é" * 128, "/app/" + "\U0001f600" * 64, f"/app/{'n' * 256}/q",
    "/app" * 1025, "/app/" + "é/" * 1364 + "é", "/" + "é" * 34, "/" + "%" * 67,
]
"""The first name is a log's, too: it has 200 characters there at most, and each byte of é or % takes three of them."""
NO_UTF_8 = [
    b"\xc0\xae\xc0\xae", b"\xc0\xaf", b"\xe0\x80\xae", b"\xe0\x80\xaf", b"\xf0\x80\x80\xae", b"\xc0\x80",  # overlong
    b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xed\xa0\xbd\xed\xb8\x80",  # surrogates, alone and in a pair
    b"\x80", b"\xbf", b"\xc3", b"\xe2\x80", b"\xf0\x9f\x98", b"\xc3(", b"a\xe9", b"\xff", b"\xfe\xff\0.",
    b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80",  # above U+10FFFF
]
REFUSED = [
    *(path.encode() for path in (*UP, *DOTS, *EMPTY, *NUL, *RELATIVE, *LONG)),
    *(b"/app/" + name for name in NO_UTF_8),
]
"""Paths, none of which is a path of a gateway."""

# ---- names ----

OF_DOTS = [
    "...", "....", ". .", ".. ", " ..", "..;", "..a", "a..", ".a", "..~", "..\t", "..\n", "..\u200b", "\u200b..",
    "..\u00a0",
]
ENCODED = [
    "%2e", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "%252e%252e", "%25252e%25252e", "%u002e%u002e", "%c0%ae%c0%ae",
    "%e0%80%ae", "%uff0e%uff0e", "%2f", "%2F", "%252f", "..%2fevil", "..%252fevil", "..%5cevil", "..%255cevil",
    "..%c0%afevil", "..%c1%9cevil", "%2e%2e%2fevil", "%2e%2e%5cevil", "..%00", "%00", "%2500", "a%00.txt", "%0a",
    "%0d%0a", "%", "%%", "%2", "%zz", "%ff", "&#46;&#46;", "&#x2e;&#x2e;", "&period;&period;", "&sol;", "\\x2e\\x2e",
    "\\056\\056", "\\u002e\\u002e", "..\\u2215evil", "=2E=2E", "+ADs-", "Li4v", "xn--evil", "..+evil",
]
LOOK_ALIKE = [
    "\u2024\u2024", "\uff0e\uff0e", "\u3002\u3002", "\uff61\uff61", "\u2025", "\u2026", "\ufe52\ufe52", "\ufe30",
    "\u00b7\u00b7", "\u0660\u0660", "\u0701\u0702", "\ua4f8\ua4f8",
    *(f"..{slash}evil" for slash in "\u2215\u2044\uff0f\u29f8\u2571\u2afd\u3033\u27cb\u1735"),
    *(f"..{backslash}evil" for backslash in "\\\uff3c\u2216\u29f5\u29f9\ufe68\u2572"),
]
SAME_BY_SIGHT = [
    "\u00e9", "e\u0301", "\u00c5", "A\u030a", "\u212b", "K", "\u212a", "fi", "\ufb01", "ss", "\u00df", "\u1e9e", "SS",
    "q", "Q", "\u0430", "\u03bf", "I", "i", "\u0131", "\u0130", "\u017f", "\u01c6", "\u1100\u1161", "\uac00", "\u2126",
    "\u03c3", "\u03c2", "q\u00ad", "q\u200c", "q\u200d", "q\ufe0f", "q\u034f", "q\u2060", "\u0345", "\U000e0041",
    "\U0001d41a",
]
"""A normal form, a case rule or an eye takes several of them for the same."""
DIRECTIONS = [
    "\u202etxt.exe", "\u202d", "\u202b", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c", "\u2028", "\u2029", "\ufeff",
]
UNASSIGNED = [
    "\ufffd", "\ufffe", "\uffff", "\ufdd0", "\ue000", "\ud7ff", "\U0001ffff", "\U0010ffff", "\U000f0000", "\u0378",
]
CONTROL = [f"a{chr(code)}b" for code in (*range(1, 32), *range(127, 160))]
RESERVED = [
    "CON", "con", "PRN", "AUX", "NUL", "nul.", "NUL.txt", "CON .txt", "CLOCK$", "CONIN$", "CONOUT$", "C:", "C:evil",
    *(f"{device}{number}" for device, number in product(("COM", "LPT"), "0123456789\u00b9\u00b2\u00b3")),
    "a:b", "a::$DATA", "a::$INDEX_ALLOCATION", "$MFT", "$Recycle.Bin", "desktop.ini", "PROGRA~1", "a.lnk",
    "\\\\?\\C:\\evil", "lost+found", ".git", ".ssh", ".bashrc", ".snapshot", ".DS_Store", "._a", ".Trash", ".nfs0001",
    ".fuse_hidden1", ".wh.a", ".crc", ".a.crc", "_SUCCESS", "_temporary", "_spark_metadata", "metadata.part",
    ".metadata.tmp", "superblock", "lock", "shared", "journal", "entries", "index", "files", "files-data", "staging",
    "transactions", "logs", "cursors", "ledgers", "cookies", "bookies", "__proto__", "null", "None", "0", "-1",
    "9" * 40,
]
BLANK = [
    " ", "  ", "\t", "\n", "\r", "\r\n", "a.", "a ", "a. ", "a .", " a", "\ta", "a\n", "\u3000", "\u00a0", "\u2003a",
    "\u180e",
]
SPOKEN = [
    "-", "--", "-rf", "--help", "-o evil", "@evil", "~", "~root", "$HOME", "${HOME}", "$(id)", "`id`", ";id", "|id",
    "&id", "a&&id", ">evil", "<evil", "*", "?", "[a-z]", "{a,b}", "!id", "#a", "a#b", "'", '"', "'\"", "\\", "\\\\",
    "\\n", "\\0", "a?b=c", "user:word@host", "host:80", "javascript:evil", "data:,evil", "file:", "http:", "<b>",
    "<!--", "]]>", "<?evil?>", "' OR 1=1--", "'; DROP TABLE logs;--", "%s%n", "%1$s", "{0}", "{0.__class__}",
    "${jndi:ldap:evil}", "{{7*7}}", "=1+1", "\x1b[2J", "\x1b]0;evil\x07", "a\r\nSet-Cookie: evil", "a\nb ERROR forged",
    "\x08\x08", "\U0001f600", "Z\u0335\u0321" * 20,
]
"""A shell, a query, a template, a terminal or a log would take them for more than names."""
AS_LONG_AS_CAN_BE = [
    "n" * 255, "." * 255, " " * 255, "é" * 127 + "n", "\u20ac" * 85, "\U0001f600" * 63 + "abc", "." + "n" * 254,
]
KEPT = [
    *OF_DOTS, *ENCODED, *LOOK_ALIKE, *SAME_BY_SIGHT, *DIRECTIONS, *UNASSIGNED, *CONTROL, *RESERVED, *BLANK, *SPOKEN,
    *AS_LONG_AS_CAN_BE,
]
"""Names, each of which is another file's."""
