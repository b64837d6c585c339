"""What a directory is on: its file system, and the device below that, as the kernel tells."""

from __future__ import annotations

import os
from pathlib import Path

FILE_SYSTEMS = {
    0xEF53: ("ext4", "supported"),  # ext2 and ext3 share the number
    0x58465342: ("xfs", "supported"),
    0x9123683E: ("btrfs", "works; copy on write makes durable writes dearer"),
    0xF2F52010: ("f2fs", "works; not tested"),
    0x2FC12FC1: ("zfs", "works; not tested"),
    0xCA451A4E: ("bcachefs", "works; not tested"),
    0x794C7630: ("overlayfs", "works; what is durable is up to the file system below"),
    0x01021994: ("tmpfs", "works, but nothing on it survives a power cut"),
    0x858458F6: ("ramfs", "works, but nothing on it survives a power cut"),
    0x6969: ("nfs", "refused without unsafe_fs"),
    0xFF534D42: ("cifs", "refused without unsafe_fs"),
    0xFE534D42: ("smb2", "refused without unsafe_fs"),
    0x65735546: ("fuse", "works as far as the file system behind it keeps its word"),
    0x01021997: ("9p", "refused without unsafe_fs"),
    0x00C36400: ("ceph", "refused without unsafe_fs"),
    0x5346414F: ("afs", "refused without unsafe_fs"),
}


def file_system(magic: int) -> tuple[str, str]:
    """Name and standing of a file system, from the f_type of statfs."""
    return FILE_SYSTEMS.get(magic, (f"unknown (0x{magic:X})", "not tested"))


def block_device(path: Path) -> dict[str, str] | None:
    """What /sys tells of the device under a directory; None where there is none (tmpfs, overlayfs, btrfs)."""
    number = os.stat(path).st_dev
    found = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not found.exists():
        return None
    device = found.resolve()
    whole = device if (device / "queue").is_dir() else device.parent  # a partition has no queue of its own
    read = {"name": device.name}
    for name, file in (("write_cache", "queue/write_cache"), ("fua", "queue/fua"), ("model", "device/model")):
        if said := first_line(whole / file):
            read[name] = said
    return read


def first_line(file: Path) -> str:
    """A line of /sys; empty where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def device_words(device: dict[str, str] | None) -> str:
    if device is None:
        return "not visible from here: its write cache cannot be told"
    cache = {
        "write back": "volatile write cache: a durable write makes it flush",
        "write through": "no volatile write cache, says the kernel",
    }.get(device.get("write_cache", ""), "write cache unknown")
    fua = "; writes single blocks through (FUA)" if device.get("fua") == "1" else ""
    model = f" ({device['model']})" if device.get("model") else ""
    return f"{device['name']}{model}: {cache}{fua}"
