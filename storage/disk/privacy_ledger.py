"""The privacy spent by each model's rounds, in a file that restoring a backup leaves alone.

The database holds the same. A restored older database records less than was spent; readers take
the larger of both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from storage.database.codec import dump_time
from storage.disk.durable import file_faults, publish, sync_file
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
        return PrivacySpent(**self._load().get(_key(model), {}))

    def write(self, model: Model, spent: PrivacySpent) -> None:
        """Durable when it returns. Raises StorageBroken, StorageFull."""
        told = {**self._load(), _key(model): asdict(spent)}
        draft = self._path.with_suffix(".new")
        with file_faults(f"cannot write {self._path}"):
            with draft.open("w", encoding="utf-8") as file:
                json.dump(told, file, indent=1)
                file.flush()
                sync_file(file.fileno())
            draft.chmod(0o600)
            publish(draft, self._path)

    def _load(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_text("utf-8"))
            for each in found.values():
                PrivacySpent(**each)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise StorageBroken(
                f"cannot read {self._path}, which keeps what rounds have spent of the privacy "
                f"budgets ({error}); restore it from where a copy is, or remove it if the database "
                "was never restored from an older backup"
            ) from error
        return dict(found)


def _key(model: Model) -> str:
    return f"{model.name} {dump_time(model.created_at)}"
