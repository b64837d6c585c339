"""The process walkeeper-bookie, as whoever starts it sees it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import (
    FENCE,
    FENCED,
    HIGH_PRIORITY,
    IO_ERROR,
    NO_ENTRY,
    NO_LEDGER,
    OK,
    PATIENCE_S,
    READ_ONLY,
    ROOT,
    Bookies,
    Client,
    bookies_in,
    free_port,
    until,
)
from click.testing import CliRunner

from walkeeper.metadata import DigestType, LedgerMetadata, MetadataStore, ServiceInfo, open_store
from walkeeper_bookie import commands
from walkeeper_bookie._state_files import LimboFile, LimboState


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


@pytest.fixture
def store(bookies: Bookies) -> Iterator[MetadataStore]:
    """The cluster's metadata, beside the bookies. Only for tests in which a bookie made the cluster."""
    opened = open_store(bookies.metadata).store
    yield opened
    opened.close()


def make_ledger(store: MetadataStore, ledger_id: int, *members: str) -> None:
    """Metadata as a client writes it, before it adds the first entry."""
    metadata = LedgerMetadata(1, 1, 1, {0: members}, digest_type=DigestType.CRC32)
    digits = f"{ledger_id:010d}"
    store.create(f"/ledgers/{digits[:2]}/{digits[2:6]}/L{digits[6:]}", metadata.serialise(), parents=True)


def delete_ledger(store: MetadataStore, ledger_id: int) -> None:
    digits = f"{ledger_id:010d}"
    store.delete(f"/ledgers/{digits[:2]}/{digits[2:6]}/L{digits[6:]}")


def ask(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return str(answer.read().decode())


SIGNALS = """
import signal
from types import SimpleNamespace
from walkeeper_bookie._log import Log
from walkeeper_bookie._process import Process

process = Process(SimpleNamespace(log_level="error"), Log())
process._read_settings_again = lambda bookie: None
left = 3000


def come(number, frame):
    global left
    left -= 1
    process._on_reload(number, frame)
    if left == 0:
        signal.setitimer(signal.ITIMER_REAL, 0)
        process._on_stop(number, frame)


signal.signal(signal.SIGALRM, come)
signal.setitimer(signal.ITIMER_REAL, 3e-4, 3e-4)
print(int(process._serve(SimpleNamespace(journal_failed=lambda: False, crashed=None))))
"""


# ---- start and stop ----


NEEDLESS = (
    "email", "zipfile", "importlib.metadata", "importlib.resources", "random", "hashlib", "secrets", "tempfile",
    "http.server", "urllib.request", "difflib", "tomllib", "kazoo", "walkeeper._log", "walkeeper._namespace",
    "walkeeper.metadata._faults", "walkeeper.metadata._memory", "walkeeper_bookie._http", "walkeeper_bookie._metrics",
    "walkeeper_bookie._migration",
)  # fmt: skip


def test_what_a_bookie_does_not_need_is_not_loaded() -> None:
    """It would take time at each start, and memory for ever."""
    # What an editable installation loads by itself is not counted.
    code = (
        "import sys\nbefore = set(sys.modules)\n"
        "import walkeeper_bookie._main, walkeeper_bookie._process, walkeeper.metadata._sqlite\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert "walkeeper_bookie._bookie" in done.stdout.split()
    assert set(done.stdout.split()) & set(NEEDLESS) == set()


def test_a_signal_may_come_at_any_moment_of_the_waiting() -> None:
    """Its handler runs in the thread that waits, in the middle of whatever that does: it takes no lock."""
    path = os.pathsep.join([str(ROOT / "bookie"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", SIGNALS],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout == "0\n", done.stderr[-500:]


def test_one_line_says_ready_and_sigterm_ends_it(bookies: Bookies) -> None:
    bookie = bookies.start("--init")
    line = bookie.ready()
    assert line == (
        f"walkeeper-bookie {bookie.bookie_id} ready on 127.0.0.1:{bookie.port}, "
        f"data {bookie.data}, metadata {bookies.metadata}\n"
    )
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
        assert client.read(7, 0)[1][-5:] == b"hello"
    assert bookie.stop() == 0
    assert bookie.process.stdout is not None
    assert bookie.process.stdout.closed or bookie.process.stdout.read() == ""


def test_clients_find_it_while_it_runs_and_no_longer(bookies: Bookies, store: MetadataStore) -> None:
    bookie = bookies.start("--init", "--http", f"127.0.0.1:{free_port()}")
    bookie.ready()
    assert set(store.children("/ledgers/available")) == {"readonly", bookie.bookie_id}
    value = store.get(f"/ledgers/available/{bookie.bookie_id}")
    assert value is not None
    info = ServiceInfo.parse(value.data)
    assert info.bookie is not None
    assert (info.bookie.id, info.bookie.host, info.bookie.port) == ("bookie", "127.0.0.1", bookie.port)
    assert [endpoint.id for endpoint in info.endpoints] == ["bookie", "httpserver"]
    assert bookie.stop() == 0
    assert store.children("/ledgers/available") == ["readonly"]


def test_the_second_signal_ends_it_at_once(bookies: Bookies) -> None:
    bookie = bookies.start("--init", "--drain-timeout", "60s")
    bookie.ready()
    bookie.send(signal.SIGSTOP)  # both come before it looks
    bookie.send(signal.SIGTERM)
    bookie.send(signal.SIGINT)
    bookie.send(signal.SIGCONT)
    assert bookie.ended() == 8


def test_it_tells_systemd(bookies: Bookies, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(60)
        manager.bind(str(tmp_path / "notify"))
        bookie = bookies.start("--init", env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        bookie.ready()
        assert manager.recv(100) == b"READY=1"
        bookie.send(signal.SIGTERM)
        assert manager.recv(100) == b"STOPPING=1"
        assert bookie.ended() == 0


def test_nobody_else_may_enter_its_directory(bookies: Bookies) -> None:
    bookie = bookies.start("--init")
    bookie.ready()
    for place in [bookie.data, *bookie.data.rglob("*")]:
        assert place.stat().st_mode & 0o077 == 0, place


def test_a_directory_that_others_may_write_is_refused(bookies: Bookies, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o770)
    bookie = bookies.start("--init")
    assert bookie.ended() == 2
    assert "chmod go-w" in bookie.said()


# ---- SIGKILL ----


def test_after_sigkill_it_takes_its_registration_over_and_has_everything(
    bookies: Bookies, store: MetadataStore
) -> None:
    first = bookies.start("--init", "--session-timeout", "300s")
    first.ready()
    with Client(first.port) as client:
        for entry_id in range(50):
            assert client.add(7, entry_id, b"%d" % entry_id) == OK
    before = store.get(f"/ledgers/available/{first.bookie_id}")
    first.kill()
    second = bookies.start(port=first.port)
    second.ready()
    after = store.get(f"/ledgers/available/{first.bookie_id}")
    assert before is not None
    assert after is not None
    assert after.version != before.version
    assert "limbo" not in second.said()  # what was acknowledged is there
    with Client(second.port) as client:
        for entry_id in range(50):
            assert client.read(7, entry_id)[1].endswith(b"%d" % entry_id)
        assert client.read(7, 50)[0] == NO_ENTRY
        assert client.read(8, 0)[0] == NO_LEDGER
    assert second.stop() == 0


# ---- what it refuses ----


def test_without_a_cluster_it_asks_for_init(bookies: Bookies) -> None:
    bookie = bookies.start()
    assert bookie.ended() == 4
    assert "--init" in bookie.said()
    assert not bookie.data.exists()


def test_a_new_directory_wants_init_too(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    second = bookies.start(data=bookies.place / "second")
    assert second.ended() == 4
    assert "--init" in second.said()
    assert not (bookies.place / "second").exists()


def test_init_does_not_overwrite_a_cluster(bookies: Bookies, store: MetadataStore) -> None:
    first = bookies.start("--init")
    first.ready()
    instance = store.get("/ledgers/INSTANCEID")
    assert first.stop() == 0
    second = bookies.start("--init", port=first.port)
    second.ready()
    assert store.get("/ledgers/INSTANCEID") == instance


def test_a_lost_disk_is_not_a_new_bookie(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    assert first.stop() == 0
    shutil.rmtree(first.data)
    second = bookies.start("--init", port=first.port)
    assert second.ended() == 4
    assert "not mounted" in second.said()
    third = bookies.start("--init", port=first.port)  # what the second one left makes no difference
    assert third.ended() == 4


def test_lost_ledgers_beside_a_cookie_are_no_empty_store(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    assert first.stop() == 0
    shutil.rmtree(first.data / "ledgers")
    second = bookies.start(port=first.port)
    assert second.ended() == 4
    assert "gone" in second.said()


def test_the_directory_of_another_bookie_is_refused(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    assert first.stop() == 0
    second = bookies.start()  # another port, so another id
    assert second.ended() == 4
    assert first.bookie_id in second.said()


def test_another_cluster_is_refused(bookies: Bookies, tmp_path: Path) -> None:
    first = bookies.start("--init")
    first.ready()
    assert first.stop() == 0
    second = bookies.start("--init", port=first.port, metadata=f"sqlite:{tmp_path / 'other.db'}")
    assert second.ended() == 4
    assert "another cluster" in second.said()


def test_a_directory_in_use_is_refused(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    second = bookies.start("--lock-timeout", "100ms", port=first.port)
    assert second.ended() == 6
    assert str(first.process.pid) in second.said()
    assert "--lock-timeout" in second.said()
    assert "read_only=" not in second.said()


def test_an_address_in_use_is_refused(bookies: Bookies) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        bookie = bookies.start("--init", port=held.getsockname()[1])
        assert bookie.ended() == 7


def test_an_http_address_in_use_is_refused_and_nobody_had_found_it(bookies: Bookies, store: MetadataStore) -> None:
    first = bookies.start("--init")
    first.ready()
    assert first.stop() == 0
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        bookie = bookies.start("--http", f"127.0.0.1:{held.getsockname()[1]}", port=first.port)
        assert bookie.ended() == 7
    assert store.children("/ledgers/available") == ["readonly"]


def test_port_0_is_no_identity(bookies: Bookies) -> None:
    bookie = bookies.start("--init", "--listen", "127.0.0.1:0")
    assert bookie.ended() == 2
    assert "--bookie-id" in bookie.said()
    named = bookies.start("--init", "--listen", "127.0.0.1:0", "--bookie-id", "storage-1")
    assert named.ready().startswith("walkeeper-bookie storage-1 ready on 127.0.0.1:")


def test_metadata_that_do_not_answer_are_waited_for_and_then_given_up(bookies: Bookies) -> None:
    bookie = bookies.start("--init", "--start-timeout", "300ms", metadata=f"zk://127.0.0.1:{free_port()}/ledgers")
    assert bookie.ended() == 3


def test_a_uri_that_names_no_store_is_wrong_use(bookies: Bookies) -> None:
    bookie = bookies.start("--init", metadata="nothing:at-all")
    assert bookie.ended() == 2


# ---- while it runs ----


def test_sighup_reads_the_settings_again(bookies: Bookies, tmp_path: Path) -> None:
    file = tmp_path / "bookie.toml"
    file.write_text('disk_check_interval = "1h"\n')
    http = free_port()
    bookie = bookies.start("--init", "--config", str(file), "--http", f"127.0.0.1:{http}")
    bookie.ready()
    assert "bookie_SERVER_STATUS 1\n" in ask(http, "/metrics")

    file.write_text('disk_check_interval = "soon"\n')
    bookie.send(signal.SIGHUP)
    until(lambda: "the settings stay as they were" in bookie.said(), "the wrong value is reported")
    assert "bookie_SERVER_STATUS 1\n" in ask(http, "/metrics")

    file.write_text(
        'disk_check_interval = "1h"\ndisk_read_only_percent = 100\ndisk_writable_percent = 100\ncache = "2MiB"\n'
    )
    bookie.send(signal.SIGHUP)
    until(lambda: "bookie_SERVER_STATUS 0\n" in ask(http, "/metrics"), "no disk has 100 % free")
    until(lambda: "settings=cache" in bookie.said(), "what needs a restart is named")
    assert bookie.stop() == 0


WISHED_EARLY = """
import sys, urllib.request
from walkeeper_bookie._registration import Registrar
start = Registrar.start

def wished(registrar, read_only, free):
    start(registrar, read_only, free)
    url = "http://127.0.0.1:{}/api/v1/bookie/state/readonly"
    wish = urllib.request.Request(url, data=b'{{"readOnly": true}}', method="PUT")
    print(urllib.request.urlopen(wish, timeout=30).read().decode(), file=sys.stderr)

Registrar.start = wished
"""


def test_an_operators_wish_while_it_registers_holds(bookies: Bookies, store: MetadataStore) -> None:
    http = free_port()
    options = ("--init", "--http", f"127.0.0.1:{http}", "--disk-check-interval", "1h")
    bookie = bookies.start(*options, before=WISHED_EARLY.format(http))
    bookie.ready()
    assert '{"readOnly": true}' in bookie.said()
    until(lambda: store.children("/ledgers/available/readonly") == [bookie.bookie_id], "it is registered as that")


def test_an_operator_makes_it_read_only(bookies: Bookies, store: MetadataStore) -> None:
    http = free_port()
    bookie = bookies.start("--init", "--http", f"127.0.0.1:{http}", "--disk-check-interval", "50ms")
    bookie.ready()
    path = f"http://127.0.0.1:{http}/api/v1/bookie/state/readonly"
    wish = urllib.request.Request(path, data=b'{"readOnly": true}', method="PUT")
    with urllib.request.urlopen(wish, timeout=30) as answer:
        assert json.load(answer) == {"readOnly": True}
    with Client(bookie.port) as client:
        assert client.add(7, 0) == READ_ONLY
        assert client.add(7, 0, flags=HIGH_PRIORITY) == OK
        assert client.read(7, 0)[0] == OK
    until(
        lambda: (
            store.children("/ledgers/available/readonly") == [bookie.bookie_id]
            and store.children("/ledgers/available") == ["readonly"]
        ),
        "the registration moved",
    )
    assert bookie.stop() == 0

    again = bookies.start("--disk-check-interval", "50ms", port=bookie.port)
    again.ready()  # the wish outlives the process
    assert store.children("/ledgers/available/readonly") == [bookie.bookie_id]
    (bookie.data / "read-only").unlink()
    until(lambda: bookie.bookie_id in store.children("/ledgers/available"), "it is writable again")
    with Client(bookie.port) as client:
        assert client.add(7, 1) == OK


def test_deleted_ledgers_go_and_their_ids_stay_refused(bookies: Bookies, store: MetadataStore) -> None:
    bookie = bookies.start("--init", "--gc-interval", "50ms")
    bookie.ready()
    make_ledger(store, 7, bookie.bookie_id)
    make_ledger(store, 8, bookie.bookie_id)
    with Client(bookie.port) as client:
        assert client.add(7, 0) == client.add(8, 0) == OK
        delete_ledger(store, 7)
        until(lambda: client.read(7, 0)[0] == NO_LEDGER, "the ledger is let go of")
        assert client.add(7, 1) == FENCED
        assert client.read(8, 0)[0] == OK
    bookie.kill()
    again = bookies.start(port=bookie.port)
    again.ready()
    with Client(bookie.port) as client:
        assert client.add(7, 1) == FENCED
        assert client.read(7, 0, flags=FENCE)[0] == NO_LEDGER
        assert client.add(8, 1) == OK


def test_a_deleted_ledger_is_forgotten_by_limbo_too(bookies: Bookies, store: MetadataStore) -> None:
    bookie = bookies.start("--init", "--gc-interval", "50ms")
    bookie.ready()
    make_ledger(store, 7, bookie.bookie_id)
    bookie.kill()
    limbo = LimboFile(bookie.data / "limbo")
    limbo.save(LimboState(ledger_ids=array("q", [7])))
    again = bookies.start("--gc-interval", "50ms", port=bookie.port)
    again.ready()
    delete_ledger(store, 7)
    until(lambda: not limbo.load(), "limbo forgets it")
    again.kill()
    limbo.save(LimboState(ledger_ids=array("q", [7])))  # as if the kill had come before
    last = bookies.start(port=bookie.port)
    last.ready()
    assert not limbo.load()


def test_rule_2_in_limbo_nothing_is_absent(bookies: Bookies, store: MetadataStore) -> None:
    """A new directory under an id whose ledgers the cluster knows: what was there before was lost."""
    bookie = bookies.start("--init")
    bookie.ready()
    make_ledger(store, 7, bookie.bookie_id)
    make_ledger(store, 8, "127.0.0.1:1")
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
    assert bookie.stop() == 0
    shutil.rmtree(bookie.data)
    store.delete(f"/ledgers/cookies/{bookie.bookie_id}")  # the operator's word

    again = bookies.start("--init", port=bookie.port)
    again.ready()
    with Client(bookie.port) as client:
        assert client.read(7, 0)[0] == IO_ERROR
        until(lambda: client.read(8, 0)[0] == NO_LEDGER, "the other ledger is not concerned")
        assert client.read(7, 0)[0] == IO_ERROR
    again.kill()
    third = bookies.start(port=bookie.port)
    third.ready()
    with Client(bookie.port) as client:
        assert client.read(7, 0)[0] == IO_ERROR
        assert client.read(8, 0)[0] == NO_LEDGER


def test_limbo_is_changed_while_the_bookie_runs(bookies: Bookies) -> None:
    http = f"127.0.0.1:{free_port()}"
    bookie = bookies.start("--init", "--http", http)
    bookie.ready()

    def limbo(*words: object) -> str:
        result = CliRunner().invoke(commands.bookie, ["limbo", *map(str, words)])
        assert result.exit_code == 0, result.output
        return result.stdout

    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
        until(lambda: client.read(7, 1)[0] == NO_ENTRY, "nothing is in limbo")
        limbo("add", "--http", http, 7, 8)
        assert client.read(7, 1)[0] == IO_ERROR
        assert client.read(8, 0)[0] == IO_ERROR
        assert limbo("list", "--http", http) == limbo("list", bookie.data) == "7\n8\n"
        limbo("clear", 7, "--http", http)
        assert client.read(7, 1)[0] == NO_ENTRY
        assert client.read(8, 0)[0] == IO_ERROR
    bookie.kill()
    again = bookies.start(port=bookie.port)
    again.ready()
    with Client(again.port) as client:
        assert client.read(7, 1)[0] == NO_ENTRY
        assert client.read(8, 0)[0] == IO_ERROR


def test_a_new_bookie_of_a_cluster_without_its_ledgers_is_not_in_limbo_for_long(
    bookies: Bookies, store: MetadataStore
) -> None:
    first = bookies.start("--init")
    first.ready()
    make_ledger(store, 7, first.bookie_id)
    second = bookies.start("--init", data=bookies.place / "second")
    second.ready()
    with Client(second.port) as client:
        until(lambda: client.read(7, 0)[0] == NO_LEDGER, "its limbo is over")
    until(lambda: not (second.data / "limbo").exists(), "and nothing of it is left")


def test_a_lost_session_does_not_end_it(bookies: Bookies, store: MetadataStore) -> None:
    """Its registration is removed under it, as the end of a session does."""
    bookie = bookies.start("--init")
    bookie.ready()
    store.delete(f"/ledgers/available/{bookie.bookie_id}")
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
    until(lambda: bookie.bookie_id in store.children("/ledgers/available"), "it registers anew")
    assert bookie.process.poll() is None


def test_a_failed_journal_ends_it_and_clients_find_it_no_more(
    bookies: Bookies, store: MetadataStore, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    bookie = bookies.start(
        "--init",
        before="import os, walkeeper_bookie._bookie as b\n"
        f"b.Bookie.journal_failed = lambda self: os.path.exists({str(broken)!r})",
    )
    bookie.ready()
    broken.touch()
    assert bookie.ended() == 5
    assert "the journal failed" in bookie.said()
    assert store.children("/ledgers/available") == ["readonly"]


@pytest.mark.parametrize("thread", ["_collector.Collector.run", "_bookie.Bookie.look_at_disk"])
def test_it_does_not_live_on_without_a_thread(bookies: Bookies, thread: str) -> None:
    module, owner, name = thread.split(".")
    bookie = bookies.start(
        "--init", "--gc-interval", "50ms", "--disk-check-interval", "50ms",
        before=f"import threading, walkeeper_bookie.{module} as m\n"
        f"sound = m.{owner}.{name}\n"
        "def broken(self, *given, **named):\n"
        "    if threading.current_thread() is threading.main_thread(): return sound(self, *given, **named)\n"
        "    raise RuntimeError('a defect')\n"
        f"m.{owner}.{name} = broken",
    )  # fmt: skip
    bookie.ready()
    assert bookie.ended() == 1
    assert "a defect" in bookie.said()


def test_a_defect_at_the_start_says_so(bookies: Bookies) -> None:
    bookie = bookies.start("--init", before="import walkeeper_bookie._bookie as b\nb.Bookie._serve = None")
    assert bookie.ended() == 1
    assert "a defect" in bookie.said()


def test_health_and_readiness(bookies: Bookies) -> None:
    http = free_port()
    bookie = bookies.start("--init", "--http", f"127.0.0.1:{http}")
    bookie.ready()
    assert ask(http, "/health") == "OK\n"
    assert ask(http, "/ready") == "ready\n"
    bookie.send(signal.SIGTERM)
    assert bookie.ended() == 0
    with pytest.raises(urllib.error.URLError):
        ask(http, "/health")
