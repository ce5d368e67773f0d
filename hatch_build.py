"""Lays down what stands elsewhere in the repository than in the wheel's one folder."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DIGITS = ("SOURCE.md", "base.onnx", "device.npz", "kept_back.npz")
"""What `honed demo` needs."""

UNITS = ("honed.service", "honed.socket", "honed.sysusers.conf", "tcp.conf", "user.service")
"""What `honed service` installs."""


class OneFolder(BuildHookInterface):  # type: ignore[type-arg]
    """Not for an editable installation, which runs the repository itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, from the repository's root to the wheel."""
        if version == "editable":
            return
        build_data["force_include"] |= {
            "honed.py": "honed/__init__.py",
            "cli/__main__.py": "honed/__main__.py",
            **{f"systemd/{name}": f"honed/systemd/{name}" for name in UNITS},
            **{f"examples/digits/{name}": f"honed/cli/demo_data/{name}" for name in DIGITS},
        }
