"""A camera is replaced, and its network learns to see with the new one from sixty masks.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/segmentation/learn.py [PICTURE]
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from model import PREPROCESS, base_model
from PIL import Image
from scenes import CLASSES, COLOURS, Scene, draw

sys.path.append(str(Path(__file__).parents[1]))

from asking import ask, honed, register, sheet, teach

NAME = "gardens"
OLD, NEW, KEPT_BACK = 100, 60, 40
OLD_EPOCHS, NEW_EPOCHS = 10, 12
SHOWN = 4


def write(scenes: Sequence[Scene], folder: Path) -> Path:
    """Photos and masks of the same names, in two folders."""
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True)
    for number, scene in enumerate(scenes):
        (folder / "images" / f"{number}.jpg").write_bytes(scene.photo)
        (folder / "masks" / f"{number}.png").write_bytes(scene.mask)
    return folder


def predicted(scene: Scene) -> np.ndarray:
    """The class of each of the photo's own pixels, as the version that is in use sees it."""
    headers = {"Content-Type": "image/jpeg", "Accept": "image/png"}
    answer = ask("POST", f"{NAME}/predict", content=scene.photo, headers=headers)
    return np.asarray(Image.open(io.BytesIO(answer.content)))


def mean_iou(said: Sequence[np.ndarray], scenes: Sequence[Scene]) -> float:
    """Of all pixels of all scenes together."""
    ours, true = np.stack(said), np.stack([scene.classes for scene in scenes])
    return float(
        np.mean(
            [
                ((ours == each) & (true == each)).sum() / ((ours == each) | (true == each)).sum()
                for each in range(len(CLASSES))
            ]
        )
    )


def coloured(classes: np.ndarray) -> Image.Image:
    return Image.fromarray(np.array(COLOURS, np.uint8)[classes])


def main() -> None:
    """The whole story, told as it goes; with PICTURE, also shown."""
    kept_back = draw(KEPT_BACK, seed=9, camera="new")
    register(NAME, base_model(), "cross_entropy", preprocess=PREPROCESS, classes=CLASSES)
    honed("gate", "set", NAME, "metric=mean_iou")
    with tempfile.TemporaryDirectory() as folder:
        teach(NAME, write(draw(OLD, seed=1, camera="old"), Path(folder) / "old"), OLD_EPOCHS)
        before = [predicted(scene) for scene in kept_back]
        teach(NAME, write(draw(NEW, seed=2, camera="new"), Path(folder) / "new"), NEW_EPOCHS)
    after = [predicted(scene) for scene in kept_back]
    print(
        f"mean IoU on {KEPT_BACK} scenes of the new camera: {mean_iou(before, kept_back):.2f} "
        f"before, {mean_iou(after, kept_back):.2f} after {NEW} masks of it"
    )
    if sys.argv[1:]:
        rows = [
            [Image.open(io.BytesIO(scene.photo)) for scene in kept_back[:SHOWN]],
            *([coloured(each) for each in said[:SHOWN]] for said in (before, after)),
            [coloured(scene.classes) for scene in kept_back[:SHOWN]],
        ]
        sheet(rows).save(sys.argv[1])


if __name__ == "__main__":
    main()
