from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import DEADLINE_S, Served

from service.preprocess.image import Image
from storage.records.signatures import TensorSpec


@pytest.fixture
def folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = root / "examples" / "photo_tagging"
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_labels_that_come_late_teach_the_model_to_tag_photos(
    folder: Path, serve: Callable[..., Served]
) -> None:
    served = serve()
    told = subprocess.run(
        [sys.executable, folder / "tag.py"],
        env={**os.environ, "HONED_URL": served.url, "HONED_TOKEN": served.token},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    before, after = map(int, re.findall(r"(\d+)% (?:before|after)", told.stdout))
    assert after >= 85
    assert after > before + 20
    counts = served.http.get("/v1/models/photo-tags").json()["samples"]
    assert counts["unlabelled"] == 0


def test_ten_labelled_photos_teach_a_camera_a_new_fruit_and_it_forgets_none(
    folder: Path, serve: Callable[..., Served]
) -> None:
    served = serve()
    told = subprocess.run(
        [sys.executable, folder / "new_fruit.py"],
        env={**os.environ, "HONED_URL": served.url, "HONED_TOKEN": served.token},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    before, after, learned = map(int, re.findall(r"(\d+)%", told.stdout))
    assert learned >= 80, told.stdout
    assert after >= before - 10, told.stdout
    assert served.http.get("/v1/models/photo-tags").json()["target"]["classes"][-1] == "plum"


def test_the_app_prepares_photos_as_the_daemon_does(folder: Path) -> None:
    from model import PREPROCESS, SIDE
    from photos import take
    from prepare import prepare

    image = Image.parse(PREPROCESS, TensorSpec("image", "float32", (3, SIDE, SIDE)))
    for photo in take(12, seed=5):
        ours, theirs = image.decode(photo.content), prepare(photo.content, image.describe())[0]
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
