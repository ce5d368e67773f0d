"""Lives of a store on Windows, killed at random moments: `windows_lives.py FOLDER SEED KILLS`.

Windows has neither forks nor a library that goes before others: the moment is one of time, and each
life and each look at what it has left is a program of its own.
"""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from comparing import find
from lives import MOST_OPERATIONS, live, make
from truth import Truth, possible

LONGEST_S = 1.5
"""Of the time until a kill: an interpreter starts in a third of it."""
KILLED = 77


def run(what: str, root: Path, *arguments: object) -> subprocess.Popen[bytes]:
    """A program that does one of TASKS."""
    command = [sys.executable, __file__, what, root, *arguments]
    return subprocess.Popen([*map(str, command)])


def begin_life(root: Path, seed: str, operations: str) -> None:
    """Open the store, and do and tell until the end or a kill."""
    may_be: list[Truth] = pickle.loads((root / "may_be").read_bytes())
    live(root, random.Random(int(seed)), may_be[0], int(operations), strike=lambda _: None)


def look(root: Path) -> None:
    """Which truth it is; only that may be from now on."""
    may_be: list[Truth] = pickle.loads((root / "may_be").read_bytes())
    if (root / "truth").exists():
        may_be = possible(may_be, (root / "truth").read_text().splitlines())
    found = find(root / "device", may_be, is_strict=True)
    found.replaced, found.is_repaired = {}, False
    (root / "may_be").write_bytes(pickle.dumps([found]))


def begin(root: Path) -> None:
    """A device with an empty store."""
    (root / "device").mkdir(parents=True)
    make(root / "device")
    (root / "may_be").write_bytes(pickle.dumps([Truth()]))


TASKS = {"begin": begin, "live": begin_life, "look": look}


def main(root: Path, seed: int, kills: int) -> None:
    """Kill so many lives, and look after each; what came of them as JSON on the last line."""
    chance, counts = random.Random(seed), Counter[str]()
    assert run("begin", root).wait() == 0
    while counts["kills"] < kills:
        (root / "truth").unlink(missing_ok=True)
        operations = chance.randrange(1, MOST_OPERATIONS + 1)
        life = run("live", root, chance.getrandbits(32), operations)
        time.sleep(chance.uniform(0, LONGEST_S))
        is_over = life.poll() is not None
        life.kill()
        assert life.wait() == 0 or not is_over
        counts["ended before" if is_over else "kills"] += 1
        assert run("look", root).wait() == 0, f"lost after {counts}, seed {seed}"
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    if sys.argv[1] in TASKS:
        TASKS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
