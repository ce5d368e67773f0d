"""Files that are kept as steps from another file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from storage.blobs import recipes
from storage.blobs.assembled import HELD_S, KEPT, AssembledFiles, Parts
from storage.blobs.recipes import Copy, Data, Step, Sum
from storage.errors import StorageBroken
from storage.store import Store


def content() -> tuple[bytes, list[Step], bytes]:
    """A base, steps, and the file that they make."""
    rng = np.random.default_rng(0)
    weight, left, right = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((6, 4), (6, 2), (2, 4))
    )
    base = b"head" + weight.tobytes() + b"tail"
    end = 4 + weight.nbytes
    steps: list[Step] = [Copy(0, 4), Sum(4, left, right, 0.5), Data(b"more"), Copy(end, end + 4)]
    summed = recipes.merge(weight, left, right, 0.5)
    assert np.allclose(summed, weight + 0.5 * left @ right, atol=1e-6)
    return base, steps, b"head" + summed.tobytes() + b"more" + b"tail"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    base, steps, _ = content()
    (tmp_path / "base").write_bytes(base)
    recipes.save(steps, tmp_path / "recipe")
    return tmp_path


def files(store: Store, folder: Path) -> AssembledFiles:
    return AssembledFiles(
        folder / "whole", path_of=lambda name: folder / name, readers=store._readers
    )


def test_steps_that_were_kept_make_the_same_bytes(store: Store, folder: Path) -> None:
    whole = content()[2]
    sha256 = hashlib.sha256(whole).hexdigest()
    made = files(store, folder)
    path = made.path(sha256, Parts("base", "recipe"))
    assert path.read_bytes() == whole
    assert made.path(sha256, Parts("base", "recipe")) == path
    made.forget(sha256)
    assert not path.exists()


def test_steps_to_another_content_are_told_and_leave_nothing(store: Store, folder: Path) -> None:
    made, parts = files(store, folder), Parts("base", "recipe")
    assert not made.leads_to("0" * 64, parts)
    with pytest.raises(StorageBroken, match="lead to another one"):
        made.path("0" * 64, parts)
    assert not list((folder / "whole").iterdir())


def test_few_files_stay_put_together_once_nobody_asks_for_them(store: Store, folder: Path) -> None:
    clock = [0.0]
    made = AssembledFiles(
        folder / "whole",
        path_of=lambda name: folder / name,
        readers=store._readers,
        clock=lambda: clock[0],
    )
    whole = [f"file {number}".encode() for number in range(KEPT + 2)]
    for number, text in enumerate(whole):
        recipes.save([Data(text)], folder / f"recipe{number}")

    def ask() -> list[Path]:
        return [
            made.path(hashlib.sha256(text).hexdigest(), Parts("base", f"recipe{number}"))
            for number, text in enumerate(whole)
        ]

    assert ask() == ask()  # models that take turns are not put together at each prediction
    clock[0] = HELD_S + 1
    last = ask()[-1]
    assert len(list((folder / "whole").iterdir())) == len(whole)
    clock[0] *= 3
    made.path(hashlib.sha256(whole[-1]).hexdigest(), Parts("base", f"recipe{KEPT + 1}"))
    assert len(list((folder / "whole").iterdir())) == KEPT
    assert last.exists()


def test_what_is_no_list_of_steps_is_refused(folder: Path) -> None:
    with pytest.raises(StorageBroken, match="restore a backup"):
        recipes.load(folder / "base")
