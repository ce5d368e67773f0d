"""Checks the daemon's installation, read-only and in a separate process.

So the daemon does not keep the memory that this takes. Arguments: the data folder and the file of
the admin token. Prints versions and checks as JSON.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import asdict

from service.installation.checks import (
    Check,
    check_disk,
    check_permissions,
    check_token_file,
    packages,
)
from service.training.engines.packages import RECORDED, RUNTIMES, installed_version
from storage.database.codec import dump
from storage.database.connection import sqlite3


def look(data_dir: Path, token_file: Path) -> Iterator[Check]:
    """Every check that neither trains nor writes."""
    yield from packages()
    yield from check_disk(data_dir)
    yield check_permissions(data_dir)
    yield check_token_file(token_file)


def versions() -> dict[str, str]:
    """Versions of what the daemon runs on, by name."""
    shown = ("honed", *RUNTIMES, "onnx", "numpy", "fastapi")
    installed = {name: installed_version(name) for name in shown}
    return {
        **{name: version for name, version in installed.items() if version is not None},
        "engine": RECORDED["sessions"],
        "sqlite": sqlite3.sqlite_version,
        "python": platform.python_version(),
        "system": platform.platform(),
    }


if __name__ == "__main__":
    found = [asdict(check) for check in look(Path(sys.argv[1]), Path(sys.argv[2]))]
    sys.stdout.write(dump({"versions": versions(), "checks": found}, ensure_ascii=True))
