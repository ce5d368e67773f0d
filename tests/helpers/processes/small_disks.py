"""Small file systems that a test fills or breaks. Mounting them needs root."""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FILLER = "filler"
CLONE_NEWNS = 0x20000


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """Mount a file system at a new or empty folder; options: of `mount`, without that folder."""
    if sys.platform != "linux":
        pytest.skip("mounts a file system")
    folder.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", *options, folder], capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    try:
        yield folder
    finally:
        # A daemon of a test that failed may still use it: it is gone when that ends.
        subprocess.run(["umount", "--lazy", folder], check=True)


def keep_mounts_private() -> None:
    """Give a process that may mount a namespace for it: however it ends, its mounts are gone too.

    Before it starts threads, which stay in the namespace that they began in.
    """
    if sys.platform == "linux" and not ctypes.CDLL(None).unshare(CLONE_NEWNS):
        # Where that is forbidden, so are mounts, and the tests that need one are skipped.
        subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, check=False)


def in_memory(folder: Path, *, size_mib: int) -> contextlib.AbstractContextManager[Path]:
    """An empty file system of that size."""
    return mounted(folder, "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs")


@contextmanager
def of_blocks(folder: Path, *, size_mib: int) -> Iterator[Path]:
    """An empty ext4 that becomes read-only at its first error; see `break_disk`."""
    image = folder.with_name(f"{folder.name}.img")
    with image.open("xb") as file:
        file.truncate(size_mib << 20)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("has no mkfs.ext4")
    with mounted(folder, "-o", "loop,errors=remount-ro", str(image)):
        (folder / "lost+found").rmdir()
        yield folder


def break_disk(folder: Path) -> None:
    """Let the kernel meet an error in this ext4: from now on every write to it is EROFS."""
    source = subprocess.check_output(["findmnt", "-n", "-o", "SOURCE", folder], text=True)
    device = Path(source.strip()).name
    Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("an error that a test wants")


def fill(disk: Path) -> None:
    """Write until not one byte more fits."""
    with (disk / FILLER).open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
