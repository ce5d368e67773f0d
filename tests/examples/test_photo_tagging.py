from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import Served

from service.preprocess.image import Image
from storage.records.signatures import TensorSpec


@pytest.fixture
def folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = root / "examples" / "photo_tagging"
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_labels_that_come_late_teach_the_model_to_tag_photos(
    serve: Callable[..., Served], run: Callable[..., str]
) -> None:
    served = serve()
    told = run("photo_tagging/tag.py", served=served)
    before, after = map(int, re.findall(r"(\d+)% (?:before|after)", told))
    assert after >= 85
    assert after > before + 20
    counts = served.http.get("/v1/models/photo-tags").json()["samples"]
    assert counts["unlabelled"] == 0


def test_ten_labelled_photos_teach_a_camera_a_new_fruit_and_it_forgets_none(
    serve: Callable[..., Served], run: Callable[..., str]
) -> None:
    served = serve()
    told = run("photo_tagging/new_fruit.py", served=served)
    before, after, learned = map(int, re.findall(r"(\d+)%", told))
    assert learned >= 80, told
    assert after >= before - 10, told
    assert served.http.get("/v1/models/photo-tags").json()["target"]["classes"][-1] == "plum"


def test_the_app_prepares_photos_as_the_daemon_does(folder: Path) -> None:
    from model import PREPROCESS, SIDE
    from photos import take
    from prepare import prepare

    image = Image.parse(PREPROCESS, TensorSpec("image", "float32", (3, SIDE, SIDE)))
    for photo in take(12, seed=5):
        ours, theirs = image.decode(photo.content), prepare(photo.content, image.describe())[0]
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
