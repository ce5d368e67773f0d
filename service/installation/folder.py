"""Checks the data folder: free space, file system, and who may read it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from service.access.token_secrets import is_secret, read_secret
from service.installation.checks import Check
from service.policy.checks import size
from storage.disk.permissions import open_to_others

LOW_SPACE_BYTES = 2**30
NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs")
"""File systems, or prefixes, whose locks and shared memory SQLite cannot rely on."""


def check_disk(folder: Path) -> Iterator[Check]:
    """It must be on a local disk with enough free space. folder: exists."""
    free_bytes = shutil.disk_usage(folder).free
    yield Check(
        "disk space",
        "ok" if free_bytes >= LOW_SPACE_BYTES else "warn",
        f"{size(free_bytes)} free",
        None if free_bytes >= LOW_SPACE_BYTES else "free some, or set HONED_DATA_DIR elsewhere",
    )
    kind = filesystem(folder)
    if kind.startswith(NETWORK_FILESYSTEMS):
        yield Check(
            "filesystem",
            "fail",
            f"{kind}: SQLite's locks do not hold over a network",
            "set HONED_DATA_DIR to a folder on a disk of this machine",
        )
    else:
        yield Check("filesystem", "ok", kind)


def check_permissions(folder: Path) -> Check:
    """Only its owner may read the contents of the data folder."""
    try:
        first = next(open_to_others(folder), None)
    except OSError as error:
        remedy = "run as the daemon's user, or set HONED_DATA_DIR"
        return Check("permissions", "fail", f"{error.filename}: {error.strerror}", remedy)
    if first is not None:
        remedy = f"restart the daemon, which closes them, or: chmod -R go= {folder}"
        return Check("permissions", "fail", f"others may read {first}", remedy)
    return Check("permissions", "ok", "nobody else may read the data folder")


def check_token_file(path: Path) -> Check:
    """It holds the admin token, and only its owner may read it."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        is_whole = is_secret(read_secret(path))
    except FileNotFoundError:
        return Check("token", "ok", f"{path} is made at the first start")
    except OSError as error:
        remedy = "run as the daemon's user, or set HONED_DATA_DIR"
        return Check("token", "fail", f"cannot look at {path}: {error.strerror}", remedy)
    if os.name == "posix" and mode & 0o077:
        return Check(
            "token", "fail", f"{path} has mode {mode:04o}: others can read it", f"chmod 600 {path}"
        )
    if not is_whole:
        remedy = "remove it: the next start makes a new token"
        return Check("token", "fail", f"{path} is empty or damaged", remedy)
    return Check("token", "ok", str(path))


def filesystem(path: Path) -> str:
    """The type of the file system that holds path, such as `ext4`; `unknown` if no mount has it."""
    import psutil

    real = path.resolve()
    mounts = [
        mount for mount in psutil.disk_partitions(all=True) if real.is_relative_to(mount.mountpoint)
    ]
    longest = max(mounts, key=lambda mount: len(mount.mountpoint), default=None)
    return longest.fstype if longest is not None and longest.fstype else "unknown"
