"""Adds files to the wheel's one folder that are elsewhere in the repository."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DIGITS = ("SOURCE.md", "base.onnx", "device.npz", "kept_back.npz")
"""Files for `honed demo`."""

CLIENTS = ("clients/python", "clients/flower")
"""What `honed federate join` installs into an environment of its own."""

UNITS = ("honed.service", "honed.socket", "honed.sysusers.conf", "tcp.conf", "user.service")
"""Files that `honed service` installs."""


class OneFolder(BuildHookInterface):  # type: ignore[type-arg]
    """Does nothing for an editable installation, which runs the repository itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Map the files from the repository to the wheel."""
        if version == "editable":
            return
        build_data["force_include"] |= {
            "honed.py": "honed/__init__.py",
            "cli/__main__.py": "honed/__main__.py",
            **{folder: f"honed/{folder}" for folder in CLIENTS},
            **{f"systemd/{name}": f"honed/systemd/{name}" for name in UNITS},
            **{f"examples/digits/{name}": f"honed/cli/demo_data/{name}" for name in DIGITS},
        }
