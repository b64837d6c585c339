"""Kinds of values that a setting may have: from text, from TOML, and back to text.

A kind refuses what it does not know with `WrongValue`, whose text says what to write instead. Where a number without
a unit could mean two things it is refused: Java's times are milliseconds in one key and seconds in the next.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

INT64_MAX = 2**63 - 1

SIZE_UNITS = {
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
TIME_UNITS = {
    "us": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}


class WrongValue(ValueError):
    """A value that its setting cannot have; the text says what to write."""


class Address(NamedTuple):
    """A host, or its number, and a port; as text HOST:PORT, an IPv6 number in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it is every address of the machine, however that is written, and so nobody's name."""
        if is_ipv6(self.host):
            return ipaddress.IPv6Address(self.host).is_unspecified
        try:
            return socket.inet_aton(self.host) == bytes(4)
        except (OSError, ValueError):
            return False


def is_ipv6(host: str) -> bool:
    """Whether it is a number of IPv6."""
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


class Kind:
    """One kind: `parse` for text, `take` for a value of TOML, `show` for text that parses to the same value."""

    name: str
    example: str

    @property
    def metavar(self) -> str:
        """What stands for a value in the help."""
        return self.name.upper()

    def parse(self, text: str) -> Any:
        raise NotImplementedError

    def take(self, value: object) -> Any:
        """TOML's own value. All kinds take what the command line takes, as a string."""
        if isinstance(value, str):
            return self.parse(value)
        raise WrongValue(f"write {self.example}, as a string")

    def show(self, value: Any) -> str:
        return str(value)

    def toml(self, value: Any) -> str:
        """The value as it stands in a file."""
        return quoted(self.show(value))


def quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'


def decimal(value: float) -> str:
    """The shortest decimal number that is read as this one again; without an exponent, which kinds do not read."""
    return f"{Decimal(repr(value)).normalize():f}"


@dataclass(frozen=True)
class Text(Kind):
    """Anything but nothing, perhaps of a pattern."""

    name: str
    example: str
    pattern: str = r".+"

    def parse(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text, re.DOTALL) or "\0" in text:
            raise WrongValue(f"write {self.example}")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise WrongValue(f"write {self.example}, all of it UTF-8")
        return text


@dataclass(frozen=True)
class Choice(Kind):
    """One of some words."""

    words: tuple[str, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        return " or ".join(self.words)

    @property
    def metavar(self) -> str:
        return "|".join(self.words)

    @property
    def example(self) -> str:  # type: ignore[override]
        return f"one of {', '.join(self.words)}"

    def parse(self, text: str) -> str:
        if text not in self.words:
            raise WrongValue(f"write {self.example}")
        return text

    def take(self, value: object) -> str:
        if isinstance(value, bool) and "off" in self.words:
            raise WrongValue(f"write {self.example}, as a string: TOML's true and false are none of them")
        return str(super().take(value))


@dataclass(frozen=True)
class Count(Kind):
    """A whole number."""

    least: int = 0
    most: int = INT64_MAX
    name = "number"

    @property
    def example(self) -> str:  # type: ignore[override]
        most = "" if self.most == INT64_MAX else f" to {self.most}"
        return f"a whole number, {self.least}{most or ' or more'}"

    def checked(self, number: int) -> int:
        if not self.least <= number <= self.most:
            raise WrongValue(f"write {self.example}")
        return number

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", text):
            raise WrongValue(f"write {self.example}")
        return self.checked(int(text))

    def take(self, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return self.checked(value)
        return int(super().take(value))

    def toml(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class Percent(Kind):
    """0 to 100, with or without the sign; `whole`: an int."""

    whole: bool = False
    name = "percent"

    @property
    def example(self) -> str:  # type: ignore[override]
        return f"a{' whole' if self.whole else ''} percentage from 0 to 100, such as 5"

    def checked(self, number: float) -> float:
        if not 0 <= number <= 100 or (self.whole and number != int(number)):
            raise WrongValue(f"write {self.example}")
        return int(number) if self.whole else abs(float(number))  # -0.0 is 0

    def parse(self, text: str) -> float:
        if not (found := re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]+)?) ?%?", text)):
            raise WrongValue(f"write {self.example}")
        return self.checked(float(found[1]))

    def take(self, value: object) -> float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.checked(value)
        return self.checked(super().take(value))

    def show(self, value: Any) -> str:
        return decimal(value)

    def toml(self, value: Any) -> str:
        return self.show(value)


@dataclass(frozen=True)
class Size(Kind):
    """Bytes: "64MiB", or a number of bytes; `suffix` is "/s" of a rate."""

    least: int = 0
    most: int = INT64_MAX
    multiple: int = 1
    suffix: str = ""

    @property
    def name(self) -> str:  # type: ignore[override]
        return "bytes a second" if self.suffix else "size"

    @property
    def metavar(self) -> str:
        return f"SIZE{self.suffix}"

    @property
    def example(self) -> str:  # type: ignore[override]
        return f"a size with its unit, such as 64MiB{self.suffix}"

    def checked(self, number: int) -> int:
        if number > self.most:
            raise WrongValue(f"write at most {self.show(self.most)}")
        if number < self.least:
            raise WrongValue(f"write at least {self.show(self.least)}")
        if number % self.multiple:
            raise WrongValue(f"write a multiple of {self.multiple} bytes")
        return number

    def parse(self, text: str) -> int:
        plain = text.removesuffix(self.suffix) if self.suffix else text
        found = re.fullmatch(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)", plain)
        if not found or (found[2] or "B") not in SIZE_UNITS:
            raise WrongValue(f"write {self.example} (units: {', '.join(SIZE_UNITS)})")
        if self.suffix and found[2] and plain == text:
            raise WrongValue(f"write {self.example}: a rate ends with {self.suffix}")
        exact = Decimal(found[1]) * SIZE_UNITS[found[2] or "B"]
        if exact != int(exact):
            raise WrongValue(f"write {self.example}: this is no whole number of bytes")
        return self.checked(int(exact))

    def take(self, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return self.checked(value)
        return int(super().take(value))

    def show(self, value: Any) -> str:
        for unit in ("TiB", "GiB", "MiB", "KiB"):
            if value and value % SIZE_UNITS[unit] == 0:
                return f"{value // SIZE_UNITS[unit]}{unit}{self.suffix}"
        return f"{value}B{self.suffix}"


@dataclass(frozen=True)
class Time(Kind):
    """A length of time with its unit; in Settings it is seconds, a float."""

    least: float = 0.0
    most: float = 1e9
    name = "time"
    example = "a time with its unit, such as 10s"

    def parse(self, text: str) -> float:
        found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]+)?) ?([a-z]+)", text)
        if not found or found[2] not in TIME_UNITS:
            raise WrongValue(f"write {self.example} (units: {', '.join(TIME_UNITS)})")
        seconds = float(Decimal(found[1]) * TIME_UNITS[found[2]])
        if seconds < self.least:
            raise WrongValue(f"write at least {self.show(self.least)}")
        if seconds > self.most:
            raise WrongValue(f"write at most {self.show(self.most)}")
        return seconds

    def show(self, value: Any) -> str:
        exact = Decimal(repr(float(value)))
        for unit in ("d", "h", "min", "s", "ms", "us"):
            if exact and exact % TIME_UNITS[unit] == 0:
                return f"{int(exact / TIME_UNITS[unit])}{unit}"
        return f"{decimal(value)}s"


@dataclass(frozen=True)
class HostPort(Kind):
    """HOST:PORT. `none` is a word that stands for no address at all."""

    none: str = ""

    @property
    def name(self) -> str:  # type: ignore[override]
        return "HOST:PORT" + (f" or {self.none}" if self.none else "")

    @property
    def metavar(self) -> str:
        return "HOST:PORT" + (f"|{self.none}" if self.none else "")

    @property
    def example(self) -> str:  # type: ignore[override]
        return "HOST:PORT, such as 127.0.0.1:3181" + (f", or {self.none}" if self.none else "")

    def parse(self, text: str) -> Address | None:
        if self.none and text == self.none:
            return None
        found = re.fullmatch(
            r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)):([0-9]{1,5})", text
        )
        if not found or int(found[3]) > 65535 or (found[1] and not is_ipv6(found[1])):
            raise WrongValue(f"write {self.example}; the number of an IPv6 address in brackets")
        return Address(found[1] or found[2], int(found[3]))

    def show(self, value: Any) -> str:
        return self.none if value is None else str(value)
