"""Who may import whom: read from the sources, so that the layer table in docs/architecture.md stays true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from walkeeper.cli._floor import READ_SIZE

ROOT = Path(__file__).resolve().parents[1]
OURS = {"walkeeper", "walkeeper_bookie", "walkeeper_sqlite", "walkeeper_spark_checkpoint", "pyspark_walkeeper"}

PACKAGES = {
    "walkeeper": {"walkeeper"},
    "bookie/walkeeper_bookie": {"walkeeper_bookie", "walkeeper"},
    "adapters/sqlite/walkeeper_sqlite": {"walkeeper_sqlite", "walkeeper"},
    "adapters/spark_checkpoint/walkeeper_spark_checkpoint": {"walkeeper_spark_checkpoint", "walkeeper"},
    "adapters/spark_checkpoint/pyspark_walkeeper": {"pyspark_walkeeper", "walkeeper"},
}
PRESENT = [package for package in PACKAGES if (ROOT / package).is_dir()]

# Clients of metadata stores, and the beginning of the only files that import them at once.
LAZY = {"sqlite3": "sqlite", "kazoo": "zookeeper", "etcd3": "etcd", "pyetcd": "etcd", "grpc": "etcd"}

# A bookie must run with the client deleted.
BOOKIE_MAY_USE = ("walkeeper._low_descriptors", "walkeeper._native", "walkeeper.errors", "walkeeper.metadata")

FREESTANDING = {"limits.h", "stdalign.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h"}
INTRINSICS = {"arm_acle.h", "arm_neon.h", "immintrin.h", "nmmintrin.h", "smmintrin.h", "wmmintrin.h"}
HOSTED = {"assert.h", "errno.h", "inttypes.h", "stdatomic.h", "stdio.h", "stdlib.h", "string.h", "time.h"}

# Folder: what it may include in quotes (beginnings), and in angle brackets (None: whatever is not forbidden).
INCLUDES: dict[str, tuple[tuple[str, ...], set[str] | None]] = {
    "native/include/walkeeper": (("walkeeper/",), {"stdbool.h", "stddef.h", "stdint.h"}),
    "native/core": (("walkeeper/", "core/"), FREESTANDING | INTRINSICS | {"assert.h", "string.h"}),
    "native/records": (
        ("walkeeper/", "core/", "records/"),
        FREESTANDING | HOSTED | {"pthread.h", "lz4.h", "zstd.h", "zstd_errors.h"},
    ),
    "native/engine": (
        ("walkeeper/", "core/", "records/", "engine/", "io/io.h", "io/event.h"),
        FREESTANDING | HOSTED | {"pthread.h"},
    ),
    "native/server": (
        ("walkeeper/", "core/", "engine/committer.h", "server/", "io/io.h", "io/event.h", "io/clock.h", "io/net.h"),
        FREESTANDING | HOSTED | {"pthread.h"},
    ),
    "native/client": (
        ("walkeeper/", "core/", "records/", "client/", "io/io.h", "io/clock.h", "io/net.h"),
        FREESTANDING | HOSTED | {"pthread.h"},
    ),
    "native/sim": (
        ("walkeeper/", "core/", "io/io.h", "io/event.h", "io/net.h", "sim/"),
        FREESTANDING | HOSTED | {"pthread.h"},
    ),
    "native/io": (("walkeeper/", "core/", "io/"), None),
}
NEVER = {"Python.h", "sqlite3.h"}


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The modules a file imports, and whether it does so at once (not inside a function, nor for type checkers)."""
    tree = ast.parse(path.read_text())
    later = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            yield name, id(node) not in later


def includes(path: Path) -> Iterator[tuple[str, str]]:
    """The #include lines of a C file: the quote or bracket, and the name."""
    yield from re.findall(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', path.read_text(), re.MULTILINE)


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def top(module: str) -> str:
    return module.split(".")[0]


@pytest.mark.parametrize("package", PRESENT)
def test_a_package_imports_only_what_lies_below(package: str) -> None:
    for path in python_files(package):
        used = {top(module) for module, _ in imports(path)} & OURS
        assert used <= PACKAGES[package], path


def test_walkeeper_knows_no_spark_and_touches_sqlite_only_in_metadata() -> None:
    for path in python_files("walkeeper"):
        for module, at_once in imports(path):
            assert top(module) != "pyspark", path
            if top(module) in LAZY:
                assert "metadata" in path.parts, path
                assert not at_once or path.name.startswith(f"_{LAZY[top(module)]}"), path


def test_the_file_of_a_metadata_client_is_imported_where_a_store_is_opened() -> None:
    for path in python_files("walkeeper"):
        for module, at_once in imports(path):
            for client in ("_zookeeper", "_etcd"):
                if module.split(".")[-1].startswith(client) and not path.name.startswith(client):
                    assert not at_once, path


def test_only_the_command_line_knows_click_and_rich_and_only_aio_and_gateway_know_asyncio() -> None:
    for path in python_files("walkeeper"):
        for module, _ in imports(path):
            if top(module) in {"click", "rich"}:
                assert "cli" in path.parts, path
            if top(module) == "asyncio":
                assert {"aio", "gateway"} & set(path.parts), path


def test_a_gateway_uses_public_names_alone() -> None:
    """But for the files that hand columns to C, and take them from it, which only pyarrow does elsewhere."""
    for path in python_files("walkeeper/gateway"):
        if path.name in {"_columns.py", "_read_columns.py"}:
            continue
        for module, _ in imports(path):
            parts = module.split(".")
            ours = parts[0] == "walkeeper" and parts[1:2] != ["gateway"]
            assert not ours or not any(part.startswith("_") for part in parts), (path, module)


def test_pyarrow_is_imported_on_first_use() -> None:
    for path in python_files("walkeeper"):
        assert not [module for module, at_once in imports(path) if at_once and top(module) == "pyarrow"], path


def test_a_placement_policy_has_no_clock_no_threads_and_does_no_io() -> None:
    allowed = {"__future__", "collections", "dataclasses", "hashlib", "math", "random", "statistics", "typing"}
    files = python_files("walkeeper/ledgers/placement")
    assert files
    for path in files:
        for module, at_once in imports(path):
            own = module.startswith(("walkeeper.errors", "walkeeper.ledgers.placement"))
            assert not at_once or own or top(module) in allowed, (path, module)


def test_a_directory_and_a_cluster_know_nothing_of_each_other() -> None:
    for path in python_files("walkeeper/directory"):
        assert not [
            module for module, _ in imports(path) if module.startswith(("walkeeper.cluster", "walkeeper.ledgers"))
        ]
    for path in python_files("walkeeper/cluster"):
        for module, _ in imports(path):
            assert not module.startswith("walkeeper.directory") or module.startswith("walkeeper.directory._paths"), path


@pytest.mark.skipif("bookie/walkeeper_bookie" not in PRESENT, reason="there is no bookie yet")
def test_the_bookie_runs_without_the_client() -> None:
    for path in python_files("bookie/walkeeper_bookie"):
        for module, _ in imports(path):
            assert top(module) != "walkeeper" or module == "walkeeper" or module.startswith(BOOKIE_MAY_USE), path


@pytest.mark.parametrize("folder", [p for p in PRESENT if p.startswith("adapters")] + ["benchmarks", "examples"])
def test_public_names_are_enough_for(folder: str) -> None:
    for path in python_files(folder):
        assert not [module for module, _ in imports(path) if module.startswith("walkeeper._")], path


def test_the_conformance_suite_uses_public_names_only() -> None:
    for path in python_files("tests/conformance"):
        assert not [module for module, _ in imports(path) if module.startswith("walkeeper._")], path
        accesses = [node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        assert not [name for name in accesses if name.startswith("_") and not name.startswith("__")], path


@pytest.mark.parametrize("folder", INCLUDES)
def test_c_includes_only_what_lies_below(folder: str) -> None:
    quoted, bracketed = INCLUDES[folder]
    files = sorted((ROOT / folder).rglob("*.[ch]"))
    assert files, folder
    for path in files:
        for mark, name in includes(path):
            if mark == '"':
                assert name.startswith(quoted), f"{path} includes {name}"
            else:
                assert name not in NEVER, f"{path} includes <{name}>"
                assert bracketed is None or name in bracketed, f"{path} includes <{name}>"


ENGINE = ROOT / "native/engine"
ROOMS = sorted(path.name for path in ENGINE.iterdir() if path.is_dir())
FOR_ALL_ROOMS = {"engine/engine.h", "engine/committer.h", "engine/manual.h"}  # shared struct; of a server; of tests


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_of_the_engine_is_entered_by_its_door(room: str) -> None:
    """A file of one room includes engine/OTHER.h, and nothing else of OTHER. The room `base` is open to all."""
    for path in sorted((ENGINE / room).glob("*.[ch]")):
        for _, name in includes(path):
            if name.startswith("engine/") and name not in FOR_ALL_ROOMS:
                own_or_base = name.startswith((f"engine/{room}/", "engine/base/"))
                assert own_or_base or name.count("/") == 1, f"{path} includes {name}"
                assert name != f"engine/{room}.h", f"{path} includes the door of its own room"


def test_a_door_lists_headers_of_its_room_alone() -> None:
    for room in ROOMS:
        door = ENGINE / f"{room}.h"
        if door.exists():
            assert {name.rpartition("/")[0] for _, name in includes(door)} == {f"engine/{room}"}, door


PUBLIC = {"client", "cluster", "core", "entry", "histogram", "inspect", "ledger", "log", "record", "server"}


def test_the_public_headers_are_what_a_user_of_the_library_calls() -> None:
    """Machines and layouts have private headers beside their code, and no symbol outside of the library."""
    assert {path.stem for path in (ROOT / "native/include/walkeeper").glob("*.h")} == PUBLIC
    for folder in ("core", "records", "engine", "server", "client", "io", "sim"):
        for path in (ROOT / "native" / folder).rglob("*.h"):
            assert "WK_API" not in path.read_text(), path


def test_what_simulates_is_not_in_the_library() -> None:
    """Only tests use native/sim: no other layer includes it, and CMake builds it for tests alone."""
    for path in sorted((ROOT / "native").rglob("*.[ch]")):
        if path.parent != ROOT / "native/sim":
            assert not [name for _, name in includes(path) if name.startswith("sim/")], path
    shared = re.search(r"add_library\(wk_shared[^)]*\)", (ROOT / "native/CMakeLists.txt").read_text())
    assert shared is not None
    assert "sim" not in shared.group()


def test_only_io_knows_liburing() -> None:
    for path in sorted((ROOT / "native").rglob("*.[ch]")):
        if "liburing.h" in {name for _, name in includes(path)}:
            assert path.parent == ROOT / "native/io", path


MAKES_A_DESCRIPTOR = re.compile(
    r"(?<![\w>.])(?:open|openat|openat2|creat|accept4?|socket|socketpair|dup[23]?|pipe2?|eventfd|memfd_create|"
    r"epoll_create1?|timerfd_create|signalfd|inotify_init1?|fanotify_init|pidfd_open|userfaultfd|opendir|scandir|"
    r"scandirat|n?ftw|mkostemps?|mkstemps?|tmpfile|fopen|freopen|popen)\s*\(|F_DUPFD\w*|SYS_io_uring_setup|"
    r"\bio_uring_(?:queue_init\w*|prep_(?:multishot_)?(?:accept|open|socket)\w*)"
)
"""A call that makes a descriptor, or hands one out that the library opened; not a member of a structure."""


def descriptors_made(path: Path) -> list[str]:
    """The calls of a C file that make a descriptor, and do not pass it through wk_descriptor_take() at once."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)
    code = re.sub(r"^static [^;{=]*[;{]", "", code, flags=re.MULTILINE)  # functions of those names, and not calls
    return [
        found[0].rstrip("( ")
        for found in MAKES_A_DESCRIPTOR.finditer(code)
        if not code[: found.start()].endswith("wk_descriptor_take(")
    ]


# What is left, and how it comes to pass through descriptor.c all the same.
MADE_ELSEWHERE = {
    "descriptor.c": ["open", "F_DUPFD_CLOEXEC"],
    "posix_file.c": ["openat"],  # handed over below, where EINTR and the file's making have been noted
    "uring.c": ["io_uring_queue_init_params"],  # wk_descriptor_take_ring()
    "net_uring.c": ["io_uring_queue_init_params"],
}


def test_every_descriptor_passes_through_one_function() -> None:
    made = {path.name: descriptors_made(path) for path in sorted((ROOT / "native/io").rglob("*.[ch]"))}
    assert {name: calls for name, calls in made.items() if calls} == MADE_ELSEWHERE
    for name in ("uring.c", "net_uring.c"):
        assert "wk_descriptor_take_ring(ring)" in (ROOT / "native/io" / name).read_text()


def test_only_io_makes_descriptors() -> None:
    """The headers of the other calls are not for the other layers: test_c_includes_only_what_lies_below."""
    for path in sorted((ROOT / "native").rglob("*.[ch]")):
        if path.parent != ROOT / "native/io":
            assert not {"fopen", "freopen", "tmpfile", "popen"} & set(descriptors_made(path)), path


# The readers above must see what they are to forbid.


def test_an_import_in_a_function_or_for_type_checkers_is_not_at_once(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text("import a\nfrom b import c\nif TYPE_CHECKING:\n    import d\ndef f():\n    import e\n")
    assert set(imports(source)) == {("a", True), ("b", True), ("b.c", True), ("d", False), ("e", False)}


def test_include_lines_are_seen_with_odd_spacing(tmp_path: Path) -> None:
    source = tmp_path / "file.c"
    source.write_text('#include "a.h"\n  #  include <b.h>\n// #include <c.h>\n')
    assert list(includes(source)) == [('"', "a.h"), ("<", "b.h")]


def test_calls_that_make_descriptors_are_seen(tmp_path: Path) -> None:
    source = tmp_path / "file.c"
    source.write_text(
        "int fd = wk_descriptor_take(open(path, 0)); /* open(path) */\n"
        "int other = open(path, 0);\nio->open(io, path, 0, &file);\nreopen(path);\n"
        "static int socket(int a) {\nreturn eventfd (0, 0);\n}\n"
        "copy = fcntl(fd, F_DUPFD, 3);\nio_uring_prep_multishot_accept_direct(entry, fd);\n"
    )
    assert descriptors_made(source) == ["open", "eventfd", "F_DUPFD", "io_uring_prep_multishot_accept_direct"]


def test_the_bare_reads_beside_a_replay_are_as_large_as_the_engines() -> None:
    source = (ROOT / "native/engine/log/reader_entries.c").read_text()
    assert f"READ_BYTES = 1 << {READ_SIZE.bit_length() - 1} " in source
