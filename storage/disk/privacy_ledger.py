"""The privacy spent by each model's rounds, in a file that restoring a backup leaves alone.

The database holds the same. A restored older database records less than was spent; readers take
the larger of both.
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path

from msgspec.structs import asdict, replace

from storage.database.codec import convert, dump, dump_time, load
from storage.disk.durable import file_faults, write_file
from storage.errors import StorageBroken
from storage.records.federation import PrivacySpent
from storage.records.models import Model

NAME = "privacy.json"


class PrivacyLedger:
    """The file of one data folder. A model is identified by its name and time of registration."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME

    def read(self, model: Model) -> PrivacySpent:
        """What a model's rounds have spent, zero for an unknown model.

        Raises StorageBroken if the file cannot be read: what was spent is then unknown.
        """
        return self._load().get(_key(model), PrivacySpent())

    def write(self, model: Model, spent: PrivacySpent) -> None:
        """Durable when it returns. Raises StorageBroken, StorageFull."""
        told = {**self._load(), _key(model): spent}
        with file_faults(f"cannot write {self._path}"):
            text = dump({key: asdict(entry) for key, entry in told.items()}, indent=1)
            write_file(self._path, text.encode())

    def _load(self) -> dict[str, PrivacySpent]:
        try:
            ledger = convert(load(self._path.read_text("utf-8")), dict[str, PrivacySpent])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise StorageBroken(
                f"cannot read {self._path}, which keeps what rounds have spent of the privacy "
                f"budgets ({error}); restore it from where a copy is, or remove it if the database "
                "was never restored from an older backup"
            ) from error
        return {key: _bounded(spent) for key, spent in ledger.items()}


def _bounded(spent: PrivacySpent) -> PrivacySpent:
    """A rho that is no number, which older versions wrote, is that of a round without noise."""
    if isfinite(spent.rho):
        return spent
    return replace(spent, rho=0.0, unnoised=max(1, spent.unnoised))


def _key(model: Model) -> str:
    return f"{model.name} {dump_time(model.created_at)}"
