"""From a Java bookie's bk_server.conf to a configuration of ours: what can be carried over, and why the rest cannot."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from walkeeper_bookie._kinds import Address, WrongValue, quoted
from walkeeper_bookie._migration_reasons import reason_for
from walkeeper_bookie._printable import printable
from walkeeper_bookie._properties import parse_properties
from walkeeper_bookie._settings import BY_NAME, KEYS, ORDERED, Java, Key, SettingsError

__all__ = ["Migrated", "migrated"]

BOOKIE_PORT = "3181"
ZOOKEEPER_PORT = 2181
ON, OFF = {"true", "yes", "on", "y", "t", "1"}, {"", "false", "no", "off", "n", "f", "0"}
INCLUDES = {"include", "includeoptional"}
DIGITS = 18  # of a number, before its point and behind it

HEAD = """\
# Made from a Java bookie's bk_server.conf. What is not here has its default; `walkeeper-bookie --help` lists all.
# The Java bookie's ledgers stay in its directories: this bookie needs one of its own, and makes it at its start.
# With the Java bookie's id it can only start once that one is decommissioned, and its cookie deleted.
"""


@dataclass
class Migrated:
    """The text of a configuration file, and what a person has to look at."""

    toml: str = ""
    warnings: list[str] = field(default_factory=list)


class Unusable(Exception):
    """A value that cannot be carried over, and why."""


def migrated(text: str) -> Migrated:
    """The configuration that bk_server.conf stands for. Raises SettingsError where the file is malformed."""
    try:
        pairs = parse_properties(text)
    except ValueError as wrong:
        raise SettingsError(f"this is no properties file: {wrong}") from None
    migration = Migration({})
    for name, value in pairs:
        migration.read(name, value.strip())
    migration.run()
    return migration.result()


class Migration:
    """Takes keys out of `java` one after the other; what is left at the end is refused with a reason."""

    def __init__(self, java: dict[str, str]) -> None:
        self.java = java
        self.ours: dict[str, str] = {}  # as TOML
        self.refused: list[tuple[str, str, str]] = []
        self.warnings: list[str] = []

    def read(self, name: str, value: str) -> None:
        """A pair of the file."""
        if name in self.java:
            self.refuse(name, value, "it stands here twice; as in Java the first one counts")
        elif name.lower() in INCLUDES:
            self.refuse_for_now(name, value, "another file is not read: write its lines in its place")
        elif "${" in value:
            self.refuse_for_now(name, value, "Java puts another value in place of ${...}: write it out")
        else:
            self.java[name] = value
            if not value.isascii():
                self.warnings.append(f"{name} = {value}: Java reads ISO-8859-1, and so was this: see that it is meant")

    def refuse(self, name: str, value: str, reason: str) -> None:
        self.refused.append((name, value, reason))

    def refuse_for_now(self, name: str, value: str, reason: str) -> None:
        """A key that has its like here, and a value that has not: somebody must choose one."""
        self.refuse(name, value, reason)
        self.warnings.append(f"{name} = {value} was not carried over: {reason}")

    def take(self, name: str) -> str | None:
        """A key's value, which is dealt with now; None: not given, or empty, as in Java's template."""
        return self.java.pop(name, "") or None

    def put(self, name: str, text: str) -> None:
        """A setting, as the command line has it. Unusable, where it cannot be."""
        one = BY_NAME[name]
        try:
            self.ours[name] = one.kind.toml(one.kind.parse(text))
        except WrongValue as wrong:
            raise Unusable(f"{text} cannot be {name} here: {wrong}; {instead(one)}") from None

    def put_or_refuse(self, name: str, text: str, key: str, value: str) -> bool:
        """The same, of a key of Java's; where it cannot be, somebody must choose. Whether it could."""
        try:
            self.put(name, text)
        except Unusable as why:
            self.refuse_for_now(key, value, str(why))
            return False
        return True

    def run(self) -> None:
        for part in (self.metadata, self.address, self.data, self.journal, self.http, self.compaction, self.disk):
            part()
        for one in KEYS:
            if one.java is not None and one.java.key in self.java:
                self.simple(one, one.java)
        self.order()
        for name, value in self.java.items():
            if value:
                self.refuse(name, value, reason_for(name))

    def simple(self, one: Key, java: Java) -> None:
        """A key that has its like here, perhaps in another unit."""
        value = self.take(java.key)
        if value is None:
            return
        try:
            text = converted(value, java.unit)
        except Unusable as why:
            self.refuse_for_now(java.key, value, f"{why}; {instead(one)}")
            return
        self.put_or_refuse(one.name, text, java.key, value)

    def metadata(self) -> None:
        key, value = "metadataServiceUri", self.take("metadataServiceUri")
        servers, root = self.take("zkServers"), self.take("zkLedgersRootPath") or "/ledgers"
        uri = value
        if value is None and servers is not None:
            key, value, uri = "zkServers", servers, zookeeper_uri(servers, root)
        if uri is None:
            self.warnings.append("there is neither metadataServiceUri nor zkServers: write metadata")
        elif not uri.startswith(("zk:", "zk+")):
            self.refuse("metadataServiceUri", uri, "only ZooKeeper is known here of BookKeeper's metadata stores")
            self.warnings.append("metadataServiceUri is no ZooKeeper's: write metadata")
        else:
            self.put_or_refuse("metadata", uri, key, value or uri)

    def address(self) -> None:
        port, host = self.take("bookiePort") or BOOKIE_PORT, self.take("advertisedAddress")
        bookie_id = self.java.get("bookieId")
        interface = self.take("listeningInterface")
        if interface is not None:
            self.refuse("listeningInterface", interface, "write the address of this interface into listen")
        if not self.put_or_refuse("listen", f"0.0.0.0:{port}", "bookiePort", port):
            port = "PORT"
        if host is None or port == "PORT":
            missing = "there is no advertisedAddress" if host is None else f"advertisedAddress = {host} needs a port"
            self.warnings.append(
                f'{missing}: write advertise = "{host or "HOST"}:{port}" as clients see this machine'
                + ("" if bookie_id else "; it is also the bookie's id")
            )
            return
        if Address(host, int(port)).is_wildcard:
            self.refuse_for_now("advertisedAddress", host, "no client can connect to that: write advertise")
        else:
            self.put_or_refuse("advertise", str(Address(host, int(port))), "advertisedAddress", host)

    def data(self) -> None:
        places = listed(self.take("ledgerDirectories") or self.take("ledgerDirectory") or "")
        if not places:
            self.warnings.append("there are no ledgerDirectories: write data")
            return
        first, *others = places
        self.put_or_refuse("data", first.rstrip("/") + "/walkeeper", "ledgerDirectories", first)
        if others:
            self.refuse("ledgerDirectories", ",".join(others), "a bookie has one data directory: run one for each disk")

    def journal(self) -> None:
        places = listed(self.take("journalDirectories") or self.take("journalDirectory") or "")
        if len(places) > 1:
            raise SettingsError(
                f"journalDirectories = {','.join(places)}: a bookie has one journal directory here, and one journal. "
                "Choose one of them and leave the others out of the file, or run a bookie for each"
            )
        for place in places:
            text = place.rstrip("/") + "/walkeeper"
            if self.ours.get("data") == quoted(text):
                self.refuse(
                    "journalDirectories", place, "it is the data directory, which has the journal without being told"
                )
            else:
                self.put_or_refuse("journal", text, "journalDirectories", place)

    def http(self) -> None:
        enabled = (self.take("httpServerEnabled") or "").lower()
        port, host = self.take("httpServerPort"), self.take("httpServerHost")
        prometheus = self.take("prometheusStatsHttpPort")
        if enabled not in ON | OFF:
            self.refuse_for_now("httpServerEnabled", enabled, "it is neither true nor false; there is no http now")
        if enabled not in ON:
            for name, value in (("httpServerPort", port), ("httpServerHost", host)):
                if value is not None:
                    self.refuse(name, value, "it did not count there: httpServerEnabled is not true")
            if prometheus is not None:
                self.refuse("prometheusStatsHttpPort", prometheus, "set http: metrics are served there, off by default")
            return
        try:
            self.put("http", str(Address(host or "0.0.0.0", port_of(port or "8080"))))
        except Unusable as why:
            self.refuse_for_now("httpServerPort", port or "8080", str(why))
            return
        if (host or "0.0.0.0") == "0.0.0.0":
            self.warnings.append(
                "http is every address of this machine, as it was; it has no login: 127.0.0.1 is meant"
            )
        if prometheus is not None and prometheus != port:
            self.refuse("prometheusStatsHttpPort", prometheus, "metrics are served on http")

    def compaction(self) -> None:
        rate, by_bytes = self.take("compactionRateByBytes"), self.take("isThrottleByBytes")
        if rate is not None and (by_bytes or "").lower() in ON:
            self.java["compactionRateByBytes"] = rate
        elif rate is not None:
            self.refuse("compactionRateByBytes", rate, "it did not count there: isThrottleByBytes is not true")
        for kind in ("minor", "major"):
            interval, threshold = self.take(f"{kind}CompactionInterval"), self.take(f"{kind}CompactionThreshold")
            if any(number(value) is not None and number(value) <= 0 for value in (interval, threshold) if value):  # type: ignore[operator]
                self.ours[f"{kind}_percent"] = "0"  # no file has less alive than that: off, as it was there
                continue
            for name, value in ((f"{kind}CompactionInterval", interval), (f"{kind}CompactionThreshold", threshold)):
                if value is not None:
                    self.java[name] = value

    def disk(self) -> None:
        full = self.java.get("diskUsageThreshold")
        if full and not self.java.get("diskUsageLwmThreshold") and number(full) is not None:
            self.java["diskUsageLwmThreshold"] = full  # as there

    def order(self) -> None:
        """What must not be below the other here is raised to it."""
        for low, high in ORDERED:
            kind = BY_NAME[low].kind
            small, large = (
                kind.parse(self.ours[name].strip('"') if name in self.ours else BY_NAME[name].default or "")
                for name in (low, high)
            )
            if small > large:
                self.ours[high] = kind.toml(small)
                self.warnings.append(f"{high} was raised to {kind.show(small)}: it must not be below {low} here")

    def result(self) -> Migrated:
        lines = [HEAD]
        lines += [f"{one.name} = {self.ours[one.name]}" for one in KEYS if one.name in self.ours]
        if self.refused:
            lines += ["", "# Not carried over:"]
            lines += [
                f"# {printable(name)} = {printable(value)}\n#     {printable(why)}" for name, value, why in self.refused
            ]
        if self.warnings:
            lines += ["", "# To be done by you:"] + [f"# {printable(warning)}" for warning in self.warnings]
        return Migrated("\n".join(lines) + "\n", list(self.warnings))


def zookeeper_uri(servers: str, root: str) -> str | None:
    """The URI of what Java is told as zkServers and zkLedgersRootPath. None: there is no server."""
    ensemble, _, chroot = servers.partition("/")
    hosts = [host if ":" in host else f"{host}:{ZOOKEEPER_PORT}" for host in listed(ensemble)]
    path = "/".join(part.strip("/") for part in (chroot, root) if part.strip("/"))
    return f"zk+null://{';'.join(hosts)}/{path}" if hosts else None


def listed(text: str) -> list[str]:
    """What stands between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def number(text: str | None) -> Decimal | None:
    """A number of Java's; None where it is none, or none that could stand here."""
    found = decimal(text)
    return None if found is None or excess(found) else found


def decimal(text: str | None) -> Decimal | None:
    """A finite number of any size: nothing may be computed with it, its like may have a million digits."""
    try:
        found = Decimal((text or "").strip())
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def excess(found: Decimal) -> str:
    """What is too much about a number, "" where nothing is."""
    exponent = found.as_tuple().exponent
    assert isinstance(exponent, int), "asked about a finite number alone"
    if found and found.adjusted() >= DIGITS:
        return "it is larger than anything here"
    return "it has more digits than anything here" if abs(exponent) > DIGITS else ""


def instead(one: Key) -> str:
    """What counts where a setting's value could not be carried over."""
    if one.name == "bookie_id":
        return "the advertised address would be its id, which is another bookie"
    if one.required:
        return "it must be written, there is no default"
    if one.default is None:
        return "there is none now"
    return f"the default counts, {one.default}"


def port_of(text: str) -> int:
    """A port in decimal digits. Raises Unusable."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise Unusable("it is no port: write it in decimal digits; there is no http now")
    return int(text)


def converted(value: str, unit: str) -> str:
    """A value of Java's as our command line has it. Raises Unusable."""
    if not unit:
        return value
    found = number(value)
    if found is None:
        huge = decimal(value)
        raise Unusable("it is no number" if huge is None else excess(huge))
    if unit == "fraction":
        return f"{(found * 100).normalize():f}"
    if unit == "free":
        return f"{((1 - found) * 100).normalize():f}"
    return f"{found:f}{unit}"
