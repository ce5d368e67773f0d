"""Small kernel files, read often: in one call, without a buffer."""

from __future__ import annotations

import os

MAX_BYTES = 65536


def read_bytes(path: str) -> bytes:
    """Content of a /sys or /proc file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        return os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)


def read_attribute(path: str) -> str | None:
    """A sysfs attribute without its newline, or None.

    A device may lack the attribute, be unplugged between two calls, or have no value at the moment
    (ENODATA, EAGAIN): in each case the value is unknown.
    """
    try:
        return read_bytes(path).decode("utf-8", "replace").strip()
    except OSError:
        return None


def read_int(path: str) -> int | None:
    """A sysfs attribute that holds an integer; None if it is absent or not an integer."""
    text = read_attribute(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def list_folder(path: str) -> list[str]:
    """Sorted names in a folder; empty if there is no such folder."""
    try:
        return sorted(os.listdir(path))  # noqa: PTH208 - plain names, many times a minute
    except OSError:
        return []


def reason(error: Exception, path: str) -> str:
    """Why a file gives no value, in a few words: it cannot be read, or has unexpected content."""
    if isinstance(error, OSError):
        return f"{error.filename or path}: {error.strerror or error}"
    return f"{path}: not of the form that the kernel documents"
