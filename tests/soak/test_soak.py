"""A store that is killed, refused calls or cut from power keeps what it has acknowledged.

SOAK_MINUTES says how long; `make soak` asks for an hour. A failure names the seed, and the moment.
"""

import json
import os
import random
import shutil
import subprocess
import sys

import pytest
from power_cut import Disk, Operation
from support import DEADLINE_S, HELPERS

SOAK = HELPERS / "soak"
ROOT = HELPERS.parent.parent


@pytest.fixture
def recorder(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("this needs a C compiler and Linux")
    library = tmp_path / "recorder.so"
    source = SOAK / "recorder.c"
    build = [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"]
    subprocess.run(build, check=True, timeout=DEADLINE_S)
    return library


def preloaded(recorder, arguments, *, timeout_s):
    """How a program of the soak ended; its output says more than its exit code."""
    paths = os.pathsep.join(map(str, (ROOT, HELPERS, SOAK)))
    environment = {**os.environ, "LD_PRELOAD": str(recorder), "PYTHONPATH": paths}
    return subprocess.run(
        arguments, check=False, env=environment, capture_output=True, text=True, timeout=timeout_s
    )


def test_nothing_acknowledged_is_lost_and_nothing_deleted_comes_back(tmp_path, recorder):
    asked = os.environ.get("SOAK_MINUTES")
    if not asked:
        pytest.skip("make soak runs it: moments differ from run to run, whatever the seed")
    seconds = float(asked) * 60
    seed = int(os.environ.get("SOAK_SEED", random.SystemRandom().getrandbits(31)))
    sys.stdout.write(f"SOAK_SEED={seed}\n")
    folder = tmp_path / "soak"
    folder.mkdir()
    arguments = [sys.executable, SOAK / "lives.py", folder, str(seed), str(seconds)]
    done = preloaded(recorder, arguments, timeout_s=seconds + DEADLINE_S)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["power cuts"] > 0
    assert counts["kills"] + counts["faults"] > 0


CUT = """
import json, sys
from pathlib import Path
import lives

asked = json.loads(sys.argv[2])
lives.choose, lives.CUTS = lambda *_: asked.pop(0), 20
soak = lives.Soak(Path(sys.argv[1]), 1)
soak.record(len(asked))
"""
TWENTY = {"do": "add", "numbers": [*range(20)], "labels": [0] * 20}
TEN = {"do": "add", "numbers": [*range(20, 30)], "labels": [1] * 10}
LIVES = {
    "deletion in a backup": [
        *(TWENTY, TEN, {"do": "backup", "hour": 1}),
        {"do": "delete label", "label": 0, "later": False},
    ],
    "restore": [
        *(TWENTY, {"do": "archive", "hour": 1}, TEN),
        {"do": "restore", "archive": 1, "hour": 2},
    ],
}


@pytest.mark.parametrize("life", LIVES)
def test_power_cuts_in_a_life_lose_nothing(tmp_path, recorder, life):
    """Each is opened twice: again without its database, if an own backup is to replace it."""
    arguments = [sys.executable, "-c", CUT, tmp_path, json.dumps(LIVES[life])]
    done = preloaded(recorder, arguments, timeout_s=DEADLINE_S)
    assert done.returncode == 0, done.stderr


def test_a_power_cut_keeps_what_was_flushed_under_a_name_that_was(tmp_path):
    left = [left_by_cut(tmp_path / str(seed), seed) for seed in range(20)]
    assert {each["kept"] for each in left} >= {b"whole", b"whole and more"}
    assert {each.get("nameless") for each in left} == {None, b"whole"}


def left_by_cut(folder, seed):
    """What stays of a flushed file with a write behind, and of one whose name was not flushed."""
    source, target = folder / "recorded", folder / "left"
    source.mkdir(parents=True)
    disk = Disk(source)
    for inode, name in ((1, "kept"), (2, "nameless")):
        path = f"{source}/{name}"
        disk.replay(Operation("O", path, inode, 1, b""))
        disk.replay(Operation("W", path, inode, 0, b"whole"))
        disk.replay(Operation("F", path, inode, 0, b""))
        if name == "kept":
            disk.replay(Operation("F", str(source), 9, 0, b""))
    disk.replay(Operation("W", f"{source}/kept", 1, 5, b" and more"))
    disk.cut(random.Random(seed), target)
    return {path.name: path.read_bytes() for path in target.iterdir()}
