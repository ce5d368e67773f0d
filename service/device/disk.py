"""Free disk space where the data folder lies."""

from __future__ import annotations

import shutil
from pathlib import Path

from service.device.linux.files import reason
from service.device.reading import Moment, Reading

NAME = "free_disk_bytes"


class FreeDisk:
    """What an ordinary user may still write there."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """free_disk_bytes."""
        free, detail = None, ""
        try:
            free = shutil.disk_usage(self._data_dir).free
        except OSError as error:
            detail = reason(error, str(self._data_dir))
        return (Reading(NAME, free, "B", str(self._data_dir), now, detail),)
