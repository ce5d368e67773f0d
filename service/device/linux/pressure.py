"""Pressure: the share of the last ten seconds in which something waited for a resource.

`some avg10` of /proc/pressure, see Documentation/accounting/psi.rst of the kernel.
"""

from __future__ import annotations

from pathlib import Path

from service.device.linux.files import read_bytes, reason
from service.device.reading import Moment, Reading

SIGNALS = {f"{resource}_pressure_percent": resource for resource in ("cpu", "memory", "io")}


def some_avg10(content: bytes) -> float:
    """The figure in `some avg10=1.34 avg60=…`. Raises ValueError."""
    for line in content.splitlines():
        if line.startswith(b"some avg10="):
            return float(line.split()[1].partition(b"=")[2])
    raise ValueError("there is no line of `some`")


class LinuxPressure:
    """cpu_pressure_percent, memory_pressure_percent and io_pressure_percent."""

    def __init__(self, procfs: Path) -> None:
        self._folder = str(procfs / "pressure")

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """One reading per resource."""
        return tuple(self._read(name, resource, now) for name, resource in SIGNALS.items())

    def _read(self, name: str, resource: str, now: Moment) -> Reading:
        path = f"{self._folder}/{resource}"
        percent, detail = None, ""
        try:
            percent = some_avg10(read_bytes(path))
        except OSError as error:
            why = reason(error, path)
            detail = f"the kernel measures no pressure ({why}); psi=1 may switch it on"
        except ValueError as error:
            detail = reason(error, path)
        return Reading(name, percent, "%", path, now, detail)
