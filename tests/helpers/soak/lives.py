"""Lives of a store that end badly: `lives.py FOLDER SEED SECONDS`, with recorder.c preloaded.

Each is a fork of this process, which has no threads: the store lives in one, and is looked at in
another. Kills and faults strike the n-th call within an operation that was chosen, or within the
opening after another; power cuts a moment of a recorded life.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import pickle
import random
import shutil
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

from comparing import archive, data_dir, find
from operations import AT_ONCE, LABELS, VERSIONS, Life, choose
from power_cut import Disk, read_recording
from stored import adopt, new_model, publish, start_job
from truth import MODEL, Truth, possible

from storage.errors import HoneError
from storage.store import Store

CUTS, STRIKES, OPERATIONS_BEFORE_A_CUT, MOST_OPERATIONS = 12, 30, 12, 5
OPENING_IS_STRUCK, OPENING_IS_CUT = 0.5, 0.02
"""How often after another strike."""
MOST_ARCHIVES, MOST_GONE = 3, 300
LEFT = ("broken", "replaced-*")
"""What a person removes from a data folder after a restore."""
KILLS = (0,) * 7
FAULTS = (errno.EIO, errno.ENOSPC, errno.EMFILE)
ENDS = {137: "kills", 2: "faults", 3: "faults that ended it", 0: "not struck"}
recorder: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def make(device: Path) -> None:
    """A store with a model of three versions, which aliases may name."""
    store = Store.open(data_dir(device))
    new = new_model(MODEL, classes=LABELS, files={"training_model": adopt(store, b"training")})
    model = store.models.add(new, adopt(store, b"base"))
    for _ in range(VERSIONS - 1):
        publish(store, start_job(store, model.id))
    store.close()


def live(
    root: Path, chance: random.Random, truth: Truth, operations: int, strike: Callable[[str], None]
) -> None:
    """Open a store, do and tell. strike: called before the last operation with its kind."""
    told = os.open(root / "truth", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def tell(said: dict[str, Any]) -> None:
        os.write(told, json.dumps(said).encode() + b"\n")

    if operations == 0:
        strike("open")
    life = Life(root / "device")
    for left in range(operations, 0, -1):
        asked = choose(chance, truth)
        tell(asked)
        if left == 1:
            strike(asked["do"])
        each = asked.get("each", [asked])
        if (done := attempt(life, each, tell)) is None:
            return
        for place in done:
            truth.apply(each[place])
    life.close()


def attempt(
    life: Life, each: list[dict[str, Any]], tell: Callable[[dict[str, Any]], None]
) -> list[int] | None:
    """Try operations at once, and tell; the places of those done, None if nobody knows of one."""
    is_unknown = threading.Event()

    def try_it(place: int) -> bool:
        if is_unknown.is_set():
            return False
        tell({"begun": place})
        if (said := life.attempt(each[place])) is None:
            is_unknown.set()
            return False
        tell({"of": place, **said})
        return bool(said["done"])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = [*pool.map(try_it, range(len(each)))]
    return None if is_unknown.is_set() else [place for place, is_done in enumerate(done) if is_done]


def forked(work: Callable[[], object], log: Path) -> int:
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
    """One device, the truths that its store may hold, and what has been done to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.root, self.log = folder / "root", folder / "log"
        self.device, self.answer = self.root / "device", folder / "answer"
        self.counts: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.may_be = [Truth()]
        self.device.mkdir(mode=0o700, parents=True)
        assert forked(lambda: make(self.device), self.log) == 0, self.log.read_text()

    def strike(self) -> None:
        """A life that is killed, or one of whose calls fails; and so may the openings after it."""
        ends = [self._live(self.chance.randrange(1, MOST_OPERATIONS + 1), strikes=True)]
        while self.chance.random() < OPENING_IS_STRUCK:
            ends.append(self._live(0, strikes=True))
        is_strict = not any(end.startswith("faults") for end in ends)
        if self.chance.random() < OPENING_IS_CUT:
            self.record(0, is_strict=is_strict)
        self._settle(ends, is_strict=is_strict)

    def cut(self) -> None:
        """A recorded life, and what power cuts at several moments of it leave."""
        self.record(OPERATIONS_BEFORE_A_CUT)
        self._settle(["a recorded life"], is_strict=True)

    def record(self, operations: int, *, is_strict: bool = True) -> None:
        """Cut a life of so many operations at moments of it, and at its end."""
        before, recording = self.folder / "before", self.folder / "recording"
        shutil.copytree(self.root, before)
        may_be = deepcopy(self.may_be)
        self._live(operations, recording=recording)
        recorded, disk, told, at = [*read_recording(recording)], Disk(before, self.root), b"", 0
        moments = sorted(self.chance.randrange(len(recorded)) for _ in range(CUTS - 1))
        for moment in (*moments, len(recorded)):
            for each in recorded[at:moment]:
                if each.path == str(self.root / "truth"):
                    told += each.data
                else:
                    disk.replay(each)
            at = moment
            these = possible(may_be, told.decode().splitlines())
            self._cut(disk, these, moment, is_strict=is_strict)
        shutil.rmtree(before)

    def _cut(self, disk: Disk, may_be: list[Truth], moment: int, *, is_strict: bool) -> None:
        """In a fork, so that the replay can go on; in the same place, which a restore has noted."""
        alive, seed = self.folder / "alive", self.chance.getrandbits(32)

        def lose_and_look() -> None:
            disk.cut(random.Random(seed), self.root)
            found = find(self.device, may_be, is_strict=is_strict)
            if found.backups:
                (data_dir(self.device) / "hone.db").unlink()
                found.apply({"do": "damage"})
                find(self.device, [found], is_strict=True)

        self.root.rename(alive)
        how = forked(lose_and_look, self.log)
        assert how == 0, f"after a cut at {moment}:\n{self.log.read_text()}"
        self.counts["power cuts"] += 1
        shutil.rmtree(self.root)
        alive.rename(self.root)

    def _live(
        self, operations: int, *, strikes: bool = False, recording: Path | None = None
    ) -> str:
        """How it ended. Then several truths may be."""
        error, seed = self.chance.choice((*KILLS, *FAULTS)), self.chance.getrandbits(32)
        struck: list[str] = []

        def strike(kind: str) -> None:
            struck.append(kind)
            n = chance.randrange(1, max(self.calls[kind], 8) + 1)
            recorder.soak_strike(ctypes.c_long(n if strikes else 0), error)

        def work() -> None:
            recorder.soak_begin(str(self.root).encode(), str(recording or "").encode())
            code = 0
            try:
                live(self.root, chance, deepcopy(self.may_be[0]), operations, strike)
            except (HoneError, OSError):
                traceback.print_exc()
                code = 3 if recorder.soak_fired() else 1
            self.answer.write_bytes(pickle.dumps((struck, recorder.soak_counted())))
            os._exit(code or 2 * recorder.soak_fired())

        chance = random.Random(seed)
        self.answer.unlink(missing_ok=True)
        how = forked(work, self.log)
        assert how in ENDS, f"{how}, with {error}:\n{self.log.read_text()}"
        self._learn()
        told = (self.root / "truth").read_text().splitlines()
        self.may_be = possible(self.may_be, told)
        of = [said["do"] for said in map(json.loads, told) if "do" in said][-1] if told else "open"
        if recording:
            self.counts["recorded lives"] += 1
        else:
            self.counts.update((ENDS[how], f"{ENDS[how]} in {of}"))
        return f"{ENDS[how]}, with {error}, in {of}"

    def _learn(self) -> None:
        """How many calls an operation makes; the first opening after a kill makes many more."""
        if self.answer.exists():
            struck, counted = pickle.loads(self.answer.read_bytes())
            for kind in struck:
                self.calls[kind] = max(self.calls[kind] * 3 // 4, counted)

    def _settle(self, ends: list[str], *, is_strict: bool) -> None:
        """Look which truth it is, and put away what only a person would."""

        def look() -> None:
            found = find(self.device, self.may_be, is_strict=is_strict)
            self.answer.write_bytes(pickle.dumps(found))

        how = forked(look, self.log)
        assert how == 0, f"after {ends}:\n{self.log.read_text()}"
        truth: Truth = pickle.loads(self.answer.read_bytes())
        truth.replaced, truth.is_repaired = {}, False
        watched = min(len(truth.gone), MOST_GONE)
        truth.gone = set(self.chance.sample(sorted(truth.gone), watched))
        truth.archives = {hour: truth.archives[hour] for hour in [*truth.archives][-MOST_ARCHIVES:]}
        kept = {data_dir(self.device), *(archive(self.device, hour) for hour in truth.archives)}
        within = (path for name in LEFT for path in data_dir(self.device).glob(name))
        for path in (*self.device.iterdir(), *within):
            if path not in kept and path.is_dir():
                shutil.rmtree(path)
            elif path not in kept:
                path.unlink()
        self.may_be = [truth]


def main() -> None:
    """Until the seconds are over, or something is lost; what was done as JSON on the last line."""
    folder, seed, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    until = time.monotonic() + seconds
    soak = Soak(folder, seed)
    try:
        while time.monotonic() < until:
            soak.cut()
            for _ in range(STRIKES):
                soak.strike()
    finally:
        sys.stdout.write(json.dumps(soak.counts, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
