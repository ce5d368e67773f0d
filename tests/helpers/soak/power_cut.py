"""What a power cut leaves of recorded file operations: all that was flushed, some of the rest.

The rules are those of POSIX, harder than those of most file systems: a write is kept, torn at a
sector or lost unless its file was flushed since, and the name of a file or folder unless the folder
that holds it was. Of the writes to a file any may be lost; of a folder's names the last ones are.
"""

from __future__ import annotations

import os
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
        self.waiting.clear()  # a file may have two names

    def _apply(self, offset: int, data: bytes | None) -> None:
        end = offset + len(data or b"")
        self.flushed.extend(bytes(max(0, end - len(self.flushed))))
        if data is None:
            del self.flushed[offset:]
        else:
            self.flushed[offset:end] = data


@dataclass(eq=False)
class _Folder:
    """named: as the process sees it. kept: as it is on the disk. waiting: changes in between."""

    named: dict[str, _Node] = field(default_factory=dict)
    kept: dict[str, _Node] = field(default_factory=dict)
    waiting: list[list[_Change]] = field(default_factory=list)

    def flush(self) -> None:
        for changes in self.waiting:
            _keep(changes)
        self.waiting.clear()


_Node = _File | _Folder
_Change = tuple[_Folder, str, _Node, bool]
"""A folder, a name in it, what that names, and whether it does from now on, or no longer."""


class Disk:
    """What is below one folder while operations are replayed. `folder` is all flushed at first.

    recorded: the path that operations name in its place.
    """

    def __init__(self, folder: Path, recorded: Path | None = None) -> None:
        self._path = recorded or folder
        self._root = _read(folder)
        self._by_inode: dict[int, _File] = {}

    def replay(self, operation: Operation) -> None:
        """One more operation."""
        path, file = operation.path, self._by_inode.get(operation.inode)
        match operation.kind:
            case "O":
                self._open(path, operation.inode, operation.offset)
            case "W" | "T" if file is not None:
                file.waiting.append((operation.offset, operation.data or None))
            case "F":
                flushed = self._find(path)
                if isinstance(flushed, _Folder):
                    flushed.flush()
                elif file is not None:
                    file.flush()
            case "R":
                self._rename(path, operation.data.decode())
            case "U" | "D" if (gone := self._find(path)) is not None:
                self._change((*self._place(path), gone, False))
            case "M":
                self._change((*self._place(path), _Folder(), True))

    def cut(self, chance: random.Random, target: Path) -> None:
        """Write what is left into `target`, once."""
        for folder in _folders(self._root):
            for changes in folder.waiting[: chance.randrange(len(folder.waiting) + 1)]:
                _keep(changes)
        _write(self._root, chance, target)

    def _open(self, path: str, inode: int, how: int) -> None:
        file = self._find(path)
        if not isinstance(file, _File):
            file = _File()
            self._change((*self._place(path), file, True))
        self._by_inode[inode] = file
        if how & _TRUNCATED and not how & _CREATED:
            file.waiting.append((0, None))

    def _rename(self, old: str, new: str) -> None:
        if (node := self._find(old)) is not None:
            self._change((*self._place(old), node, False), (*self._place(new), node, True))

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in Path(path).relative_to(self._path).parts:
            node = node.named.get(name) if isinstance(node, _Folder) else None
        return node

    def _place(self, path: str) -> tuple[_Folder, str]:
        folder, name = os.path.split(path)
        found = self._find(folder)
        assert isinstance(found, _Folder), path
        return found, name

    @staticmethod
    def _change(*changes: _Change) -> None:
        """Made durable by the last one's folder."""
        for folder, *change in changes:
            _apply(folder.named, *change)
        changes[-1][0].waiting.append([*changes])


def _keep(changes: list[_Change]) -> None:
    for folder, *change in changes:
        _apply(folder.kept, *change)


def _apply(names: dict[str, _Node], name: str, node: _Node, is_there: bool) -> None:
    """What is there under the name meanwhile stays."""
    if is_there:
        names[name] = node
    elif names.get(name) is node:
        del names[name]


def _read(folder: Path) -> _Folder:
    found = _Folder()
    for path in folder.iterdir():
        found.kept[path.name] = (
            _read(path) if path.is_dir() else _File(bytearray(path.read_bytes()))
        )
    found.named.update(found.kept)
    return found


def _folders(folder: _Folder) -> Iterator[_Folder]:
    """It, and all below it, once each."""
    found, left = {id(folder)}, [folder]
    while left:
        yield (each := left.pop())
        for node in (*each.named.values(), *each.kept.values()):
            if isinstance(node, _Folder) and id(node) not in found:
                found.add(id(node))
                left.append(node)


def _write(folder: _Folder, chance: random.Random, target: Path) -> None:
    target.mkdir(mode=0o700)
    for name, node in folder.kept.items():
        if isinstance(node, _Folder):
            _write(node, chance, target / name)
        elif not name.endswith(_IS_NOT_KEPT):
            node.lose(chance)
            (target / name).write_bytes(node.flushed)
            (target / name).chmod(0o600)
