"""The machine: what it is, and what else ran on it while a cell was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip().splitlines()[0]
    except (OSError, IndexError):
        return "unknown"


def _cpuinfo(key: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


@dataclass(frozen=True)
class Mount:
    """Where the scratch files lie."""

    file_system: str
    options: str
    device: str


def mount_of(directory: Path) -> Mount:
    """The mount that holds `directory`; with its block device's name where it has one."""
    device = os.stat(directory).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[2] == number:
            kind, _, super_options = right.split()[:3]
            link = Path("/sys/dev/block") / number
            return Mount(kind, f"{left.split()[5]},{super_options}", link.resolve().name if link.exists() else "")
    return Mount("unknown", "", "")


def describe(directory: Path) -> dict[str, str]:
    """What a reader must know to judge the numbers. No host name and no path: they would not help him."""
    mount = mount_of(directory)
    queue = f"/sys/block/{mount.device}/queue"
    memory_kib = int(_first_line("/proc/meminfo").split()[1])
    return {
        "cpu": _cpuinfo("model name"),
        "cpus": str(os.cpu_count()),
        "hypervisor": "yes" if "hypervisor" in _cpuinfo("flags").split() else "no",
        "memory": f"{memory_kib / 1024 / 1024:.0f} GiB",
        "kernel": platform.release().split("-")[0],
        "architecture": platform.machine(),
        "file system": f"{mount.file_system} ({mount.options})",
        "disk write cache": _first_line(f"{queue}/write_cache"),
        "disk FUA": _first_line(f"{queue}/fua"),
        "disk scheduler": _first_line(f"{queue}/scheduler"),
        "disk block size, logical": _first_line(f"{queue}/logical_block_size"),
        "disk block size, physical": _first_line(f"{queue}/physical_block_size"),
        "fio": version("fio", "--version"),
        "python": platform.python_version(),
        "compiler": version("cc", "--version"),
    }


def version(*command: str) -> str:
    """The first line of what a program says of itself."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "absent"


def is_memory_file_system(directory: Path) -> bool:
    """True where a sync costs nothing because there is no disk below."""
    return mount_of(directory).file_system in {"tmpfs", "ramfs", "devtmpfs"}


def _ticks_by_process() -> dict[int, tuple[int, int, int]]:
    """pid -> (parent, own ticks, ticks of children it has waited for)."""
    found: dict[int, tuple[int, int, int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        found[int(entry)] = (int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14]))
    return found


def _is_ours_or_the_kernels(pid: int, processes: dict[int, tuple[int, int, int]]) -> bool:
    seen = 0
    while pid > 2 and pid in processes and seen < 64:
        if pid == os.getpid():
            return True
        pid = processes[pid][0]
        seen += 1
    return pid == 2  # kernel threads are children of 2; what they do is done for somebody, often for us


def others_cpu_seconds() -> float:
    """
    User and system seconds of all processes that are neither ours nor the kernel's. Of two readings the difference is
    meant.
    """
    processes = _ticks_by_process()
    ours = {os.getpid()}
    parent = os.getppid()
    while parent > 1 and parent in processes:  # those that started us count our own time as a child's
        ours.add(parent)
        parent = processes[parent][0]
    ticks = sum(
        own + (0 if pid in ours else waited)
        for pid, (_, own, waited) in processes.items()
        if pid not in ours and pid != 1 and not _is_ours_or_the_kernels(pid, processes)
    )
    return ticks * TICK_SECONDS


@dataclass(frozen=True)
class Disk:
    """/proc/diskstats of the device below the scratch directory: all of it, whoever wrote."""

    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    flushes: int


def disk_now(directory: Path) -> Disk | None:
    """None where the file system has no device of its own (overlayfs, btrfs)."""
    device = os.stat(directory).st_dev
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if (int(fields[0]), int(fields[1])) == (os.major(device), os.minor(device)):
            n = [int(field) for field in fields[3:]]
            return Disk(n[0], n[2] * 512, n[4], n[6] * 512, n[15] if len(n) > 15 else 0)
    return None


def machine_cpu_seconds() -> float:
    """User, nice, system, irq and softirq of all CPUs."""
    fields = [int(field) for field in _first_line("/proc/stat").split()[1:]]
    return (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) * TICK_SECONDS


@dataclass(frozen=True)
class Around:
    """What the machine did while a cell ran, its start and end included."""

    machine_cpu_seconds: float
    others_cpu_seconds: float
    disk_read_bytes: int
    disk_write_bytes: int
    disk_flushes: int


class Watch:
    """Reads the machine's counters when made and again at `stop`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._others = others_cpu_seconds()
        self._cpu = machine_cpu_seconds()
        self._disk = disk_now(directory)

    def stop(self) -> Around:
        disk = disk_now(self._directory)
        before, after = self._disk or Disk(0, 0, 0, 0, 0), disk or Disk(0, 0, 0, 0, 0)
        return Around(
            machine_cpu_seconds=machine_cpu_seconds() - self._cpu,
            others_cpu_seconds=max(0.0, others_cpu_seconds() - self._others),
            disk_read_bytes=after.read_bytes - before.read_bytes,
            disk_write_bytes=after.write_bytes - before.write_bytes,
            disk_flushes=after.flushes - before.flushes,
        )


def as_dict(around: Around) -> dict[str, float]:
    return asdict(around)
