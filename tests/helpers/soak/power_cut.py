"""What a power cut leaves of recorded file operations: all that was flushed, some of the rest.

The rules are those of POSIX, harder than those of most file systems: a write is kept, torn at a
sector or lost unless its file was flushed since, and a name unless its folder was. Of the writes to
a file any may be lost; of a folder's names the last ones are.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEADER = struct.Struct("=cIQqQ")
_SECTOR_BYTES = 512
_CREATED, _TRUNCATED = 1, 2
_IS_NOT_KEPT = "-shm"
"""SQLite's index of the log is made anew."""


@dataclass(frozen=True)
class Operation:
    """As recorder.c says."""

    kind: str
    path: str
    inode: int
    offset: int
    data: bytes


def read_recording(path: Path) -> Iterator[Operation]:
    """All whole operations."""
    recorded, at = path.read_bytes(), 0
    while at + _HEADER.size <= len(recorded):
        kind, path_bytes, inode, offset, data_bytes = _HEADER.unpack_from(recorded, at)
        at += _HEADER.size
        middle, end = at + path_bytes, at + path_bytes + data_bytes
        yield Operation(
            kind.decode(), recorded[at:middle].decode(), inode, offset, recorded[middle:end]
        )
        at = end


@dataclass(eq=False)
class _File:
    """waiting: (offset, data) of writes that are not flushed; data None: truncated to offset."""

    flushed: bytearray = field(default_factory=bytearray)
    waiting: list[tuple[int, bytes | None]] = field(default_factory=list)

    def flush(self) -> None:
        for offset, data in self.waiting:
            self._apply(offset, data)
        self.waiting.clear()

    def lose(self, chance: random.Random) -> None:
        """Keep some of what waits."""
        kept = chance.choice((0.0, 0.5, 0.9))
        for offset, data in self.waiting:
            if chance.random() < kept:
                self._apply(offset, data)
            elif data is not None and chance.random() < 0.3:
                sectors = chance.randrange(len(data) // _SECTOR_BYTES + 1)
                self._apply(offset, data[: sectors * _SECTOR_BYTES])

    def _apply(self, offset: int, data: bytes | None) -> None:
        end = offset + len(data or b"")
        self.flushed.extend(bytes(max(0, end - len(self.flushed))))
        if data is None:
            del self.flushed[offset:]
        else:
            self.flushed[offset:end] = data


_Change = tuple[str, "_File | None"]
"""A name, and the file that it names from now on: None for none, a folder is a file too."""


class Disk:
    """The files of one folder while operations are replayed. `folder` is all flushed at first."""

    def __init__(self, folder: Path) -> None:
        self._live: dict[str, _File] = {}
        self._kept: dict[str, _File] = {}
        self._changes: dict[str, list[list[_Change]]] = {}
        self._by_inode: dict[int, _File] = {}
        self._folders: set[str] = {str(folder)}
        for path in sorted(folder.rglob("*")):
            if path.is_dir():
                self._folders.add(str(path))
            else:
                self._live[str(path)] = _File(bytearray(path.read_bytes()))
        self._kept.update(self._live)

    def replay(self, operation: Operation) -> None:
        """One more operation."""
        path, file = operation.path, self._by_inode.get(operation.inode)
        match operation.kind:
            case "O":
                self._open(path, operation.inode, operation.offset)
            case "W" | "T" if file is not None:
                file.waiting.append((operation.offset, operation.data or None))
            case "F" if path in self._folders:
                for changes in self._changes.pop(path, []):
                    self._keep(changes)
            case "F" if file is not None:
                file.flush()
            case "R":
                self._rename(path, operation.data.decode())
            case "U" if path in self._live:
                del self._live[path]
                self._change(path, [(path, None)])
            case "M":
                self._folders.add(path)

    def cut(self, chance: random.Random, target: Path, *, source: Path) -> None:
        """Write what is left into `target`, once; the paths were below `source`."""
        for changes in self._changes.values():
            for each in changes[: chance.randrange(len(changes) + 1)]:
                self._keep(each)
        for folder in sorted(self._folders):
            (target / Path(folder).relative_to(source)).mkdir(mode=0o700, exist_ok=True)
        for path, file in self._kept.items():
            if not path.endswith(_IS_NOT_KEPT):
                file.lose(chance)
                place = target / Path(path).relative_to(source)
                place.write_bytes(file.flushed)
                place.chmod(0o600)

    def _open(self, path: str, inode: int, how: int) -> None:
        if path not in self._live:
            self._live[path] = _File()
            self._change(path, [(path, self._live[path])])
        self._by_inode[inode] = self._live[path]
        if how & _TRUNCATED and not how & _CREATED:
            self._live[path].waiting.append((0, None))

    def _rename(self, old: str, new: str) -> None:
        if old in self._live:
            file = self._live[new] = self._live.pop(old)
            self._change(new, [(old, None), (new, file)])

    def _change(self, path: str, changes: list[_Change]) -> None:
        self._changes.setdefault(str(Path(path).parent), []).append(changes)

    def _keep(self, changes: list[_Change]) -> None:
        for name, file in changes:
            if file is None:
                self._kept.pop(name, None)
            else:
                self._kept[name] = file
