"""Files stored as differences from another file, and assembled on demand.

The base and the differences stay as long as the file has a row. Assembled files are kept in a
separate folder, which the sweep at start-up empties.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from storage.blobs import recipes
from storage.database.connection import Readers
from storage.database.transaction import Transaction
from storage.disk.digest import sha256_of
from storage.disk.durable import file_faults, make_folder
from storage.errors import StorageBroken

KEPT, HELD_S = 4, 600.0
"""How many assembled files are kept, the last requested ones; and how long each stays at least.

A caller opens the file a little later, and models that predict in turn need theirs every time.
"""


class Parts(Struct, frozen=True):
    """The SHA-256 of the base, and of the steps from it to the file."""

    base: str
    recipe: str


class AssembledFiles:
    """Parts by the SHA-256 of the whole file. path_of: the path of a file stored as itself."""

    def __init__(
        self,
        folder: Path,
        *,
        path_of: Callable[[str], Path],
        readers: Readers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._path_of = path_of
        self._readers = readers
        self._lock = threading.Lock()
        self._clock = clock
        self._whole: dict[str, Path] = {}
        self._asked_at: dict[str, float] = {}

    def parts(self, sha256: str, within: Transaction | None = None) -> Parts | None:
        """None if the file is not stored as parts."""
        query = "SELECT base, recipe FROM assembled_files WHERE sha256 = ?"
        if within is not None:
            row = within.execute(query, (sha256,)).fetchone()
        else:
            row = self._readers.one(query, (sha256,))
        return None if row is None else Parts(row["base"], row["recipe"])

    def path(self, sha256: str, parts: Parts) -> Path:
        """The path of the whole file, assembled if necessary. Raises StorageBroken, StorageFull."""
        with self._lock:
            path = self._whole.pop(sha256, None)
            if path is None or not path.exists():
                path = self.make(sha256, parts)
            self._whole[sha256] = path
            now = self._asked_at[sha256] = self._clock()
            for other in list(self._whole)[:-KEPT]:
                if now - self._asked_at[other] > HELD_S:
                    self._let_go(other)
        return path

    def forget(self, sha256: str) -> None:
        """Remove the assembled file; the next request assembles it again."""
        with self._lock:
            if sha256 in self._whole:
                self._let_go(sha256)

    def _let_go(self, sha256: str) -> None:
        del self._asked_at[sha256]
        self._whole.pop(sha256).unlink(missing_ok=True)

    def make(self, sha256: str, parts: Parts) -> Path:
        """Assemble a new copy. Raises StorageBroken if its content differs, StorageFull."""
        path = self._folder / f"{sha256}-{secrets.token_hex(4)}"
        with file_faults("cannot put a file together"):
            make_folder(self._folder)
            steps = recipes.load(self._path_of(parts.recipe))
            recipes.put_together(steps, recipes.map_file(self._path_of(parts.base)), path)
            if sha256_of(path) == sha256:
                return path
            path.unlink()
        raise StorageBroken(f"the steps to file {sha256} lead to another one; restore a backup")

    def leads_to(self, sha256: str, parts: Parts) -> bool:
        """Whether the parts assemble to this content. Raises StorageFull."""
        try:
            self.make(sha256, parts).unlink()
        except StorageBroken:
            return False
        return True

    def add(self, transaction: Transaction, sha256: str, parts: Parts) -> None:
        """Write the row of a file that has one in `files`, as both parts must."""
        row = (sha256, parts.base, parts.recipe)
        transaction.execute("INSERT INTO assembled_files VALUES (?, ?, ?)", row)
