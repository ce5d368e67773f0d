"""Lives of a store that end badly: `lives.py FOLDER SEED SECONDS`, with recorder.c preloaded.

Each is a fork of this process, which has no threads: the store lives in one, and is looked at in
another. Kills and faults strike the n-th call within an operation that was chosen; power cuts a
moment of a recorded life.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

from power_cut import Disk, read_recording
from stored import adopt, new_model, publish, start_job
from truth import MODEL, RECORD_BYTES, Truth, complaint, content, possible

from storage.errors import HoneError, StorageBroken
from storage.samples.filter import SampleFilter
from storage.store import Store

KINDS = (
    "add",
    "at once",
    "at once",
    "delete",
    "delete label",
    "label",
    "alias",
    "backup",
    "compact",
)
LABELS, VERSIONS, MOST_SAMPLES, CUTS, MOST_AT_ONCE = 5, 3, 150, 12, 4
FAULTS = (errno.EIO, errno.ENOSPC, errno.EMFILE)
recorder: Any = ctypes.CDLL(None)


def make(folder: Path) -> None:
    """A store with a model of three versions, which aliases may name."""
    store = Store.open(folder / "data")
    new = new_model(MODEL, classes=LABELS, files={"training_model": adopt(store, b"training")})
    model = store.models.add(new, adopt(store, b"base"))
    for _ in range(VERSIONS - 1):
        publish(store, start_job(store, model.id))
    store.close()


def live(folder: Path, chance: random.Random, truth: Truth, *, operations: int, aim: bool) -> None:
    """Do and tell; the last operation is the one that is aimed at."""
    told = os.open(folder / "truth", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def tell(said: dict[str, Any]) -> None:
        os.write(told, json.dumps(said).encode() + b"\n")

    store = Store.open(folder / "data")
    model = store.models.get(MODEL)
    ids = {}
    for row in store.samples.list(model.id, limit=10_000):
        ids[store.samples.content(model.id, row.id)] = row.id

    def try_it(place: int, asked: dict[str, Any]) -> dict[str, Any] | None:
        if (said := attempt(store, model.id, asked, ids)) is not None:
            tell({"of": place, **said})
        return said

    for left in range(operations, 0, -1):
        asked = choose(chance, truth)
        tell({**asked, "aim": True} if aim and left == 1 else asked)
        each = asked.get("each", [asked])
        with ThreadPoolExecutor(len(each)) as pool:
            ended = [*pool.map(try_it, range(len(each)), each)]
        if None in ended:
            break  # nobody knows whether it was done
        for one, said in zip(each, ended, strict=True):
            if said and said["done"]:
                truth.apply(one)
    store.close()


def attempt(
    store: Store, model_id: int, asked: dict[str, Any], ids: dict[bytes, int]
) -> dict[str, Any] | None:
    """What came of an operation; None if nobody knows."""
    try:
        carry_out(store, model_id, asked, ids)
    except StorageBroken:
        return None
    except HoneError as error:
        return {"done": False, "error": error.code}
    return {"done": True}


def choose(chance: random.Random, truth: Truth) -> dict[str, Any]:
    """An operation that the store can carry out."""
    kind = chance.choice(KINDS)
    if len(truth.samples) > MOST_SAMPLES:
        kind = "delete label"
    if kind in ("delete", "label") and not truth.samples:
        kind = "add"
    label = chance.randrange(LABELS)
    match kind:
        case "add":
            return an_upload(chance)
        case "at once":
            uploads = [an_upload(chance) for _ in range(chance.randrange(2, MOST_AT_ONCE + 1))]
            return {"do": kind, "each": uploads}
        case "delete" | "label":
            return {"do": kind, "number": chance.choice(sorted(truth.samples)), "label": label}
        case "alias":
            return {"do": kind, "alias": f"a{label}", "version": 1 + chance.randrange(VERSIONS)}
    return {"do": kind, "label": label}


def an_upload(chance: random.Random) -> dict[str, Any]:
    """Of one, few or some samples of one label."""
    numbers = [chance.getrandbits(60) for _ in range(chance.choice((1, 3, 20)))]
    return {"do": "add", "numbers": numbers, "labels": [chance.randrange(LABELS)] * len(numbers)}


def carry_out(store: Store, model_id: int, asked: dict[str, Any], ids: dict[bytes, int]) -> None:
    """ids: of samples by their bytes."""
    match asked["do"]:
        case "add":
            records = [*map(content, asked["numbers"])]
            with store.samples.stage(model_id, RECORD_BYTES) as staging:
                staging.add(b"".join(records), asked["labels"])
                first = staging.commit().first_id
            assert first is not None
            ids.update(zip(records, range(first, first + len(records)), strict=True))
        case "delete":
            store.samples.delete(model_id, ids[content(asked["number"])])
        case "delete label":
            store.samples.delete_where(model_id, SampleFilter(label=asked["label"]))
        case "label":
            store.samples.update(model_id, ids[content(asked["number"])], label=asked["label"])
        case "alias":
            store.aliases.set(model_id, asked["alias"], asked["version"])
        case "backup":
            made = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=time.monotonic())
            store.backups.make(made)
        case "compact":
            store.eraser.erase_at_rest(model_id)


def look(folder: Path, may_be: list[Truth]) -> None:
    """Open the store as a daemon would. Raises AssertionError."""
    store = Store.open(folder / "data")
    try:
        found = complaint(store, may_be)
        assert found is None, found
        assert store.restoration is None, store.restoration
        assert [*store.tmp_dir.iterdir()] == []
    finally:
        store.close()


def forked(work: Callable[[], None], log: Path) -> int:
    """How the work ended in a process of its own: 0, 1 after an exception, or 128 + signal."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 2)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the fork's door
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitpid(process, 0)[1]
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class Soak:
    """One folder, the truth about it, and what has been done to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.root, self.log = folder / "root", folder / "log"
        self.counts: Counter[str] = Counter()
        self.truth = Truth()
        self.root.mkdir(mode=0o700)
        assert forked(lambda: make(self.root), self.log) == 0, self.log.read_text()

    def strike(self) -> None:
        """A life that is killed, or one of whose calls fails."""
        error = self.chance.choice((0, 0, *FAULTS))
        n = self.chance.randrange(1, 40)
        self._live(n=n, error=error, recording="", operations=self.chance.randrange(1, 6))

    def cut(self) -> None:
        """A recorded life, and what power cuts at several moments of it leave."""
        copy, recording = self.folder / "before", self.folder / "recording"
        shutil.copytree(self.root, copy)
        before = deepcopy(self.truth)
        self._live(n=0, error=0, recording=str(recording), operations=12)
        operations = [*read_recording(recording)]
        for _ in range(CUTS):
            self._cut(copy, operations[: self.chance.randrange(len(operations))], before)
        shutil.rmtree(copy)

    def _cut(self, before: Path, operations: list[Any], truth: Truth) -> None:
        root = self.folder / "cut"
        disk, told = Disk(before), b""
        for each in operations:
            if each.path == str(self.root / "truth"):
                told += each.data
            else:
                disk.replay(_moved(each, self.root, before))
        root.mkdir(mode=0o700)
        disk.cut(self.chance, root, source=before)
        self._look(root, possible(truth, told.decode().splitlines()), f"cut at {len(operations)}")
        self.counts["power cuts"] += 1
        shutil.rmtree(root)

    def _live(self, *, n: int, error: int, recording: str, operations: int) -> None:
        seed = self.chance.getrandbits(32)

        def work() -> None:
            paths = str(self.root).encode(), recording.encode()
            recorder.soak_begin(*paths, ctypes.c_long(n), error)
            chance = random.Random(seed)
            live(self.root, chance, deepcopy(self.truth), operations=operations, aim=n > 0)
            struck = recorder.soak_fired()
            os._exit(2 if struck else 0)

        how = forked(work, self.log)
        end = {137: "kills", 2: "faults", 1: "faults that ended it", 0: "not struck"}[how]
        assert how != 1 or error, self.log.read_text()
        told = (self.root / "truth").read_text().splitlines()
        may_be = possible(self.truth, told)
        asked = json.loads(told[-1]).get("do", "-") if told else "-"
        self.counts[end if recording == "" else "recorded lives"] += 1
        self._look(self.root, may_be, f"{end} {n}, {error}, in {asked}")
        self.truth = next(each for each in may_be if self._is(each))

    def _is(self, truth: Truth) -> bool:
        return forked(partial(look, self.root, [truth]), self.log) == 0

    def _look(self, root: Path, may_be: list[Truth], after: str) -> None:
        how = forked(partial(look, root, may_be), self.log)
        assert how == 0, f"after {after}:\n{self.log.read_text()}"


def _moved(operation: Any, old: Path, new: Path) -> Any:
    """The operation in a copy of its folder."""
    there = str(new) + operation.path.removeprefix(str(old))
    data = operation.data
    if operation.kind == "R":
        data = (str(new) + data.decode().removeprefix(str(old))).encode()
    return type(operation)(operation.kind, there, operation.inode, operation.offset, data)


def main() -> None:
    """Until the seconds are over; what was done as JSON on the last line."""
    folder, seed, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    until = time.monotonic() + seconds
    soak = Soak(folder, seed)
    while time.monotonic() < until:
        soak.cut()
        for _ in range(CUTS):
            soak.strike()
    sys.stdout.write(json.dumps(soak.counts) + "\n")


if __name__ == "__main__":
    main()
