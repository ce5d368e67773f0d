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
from scenes import CLASSES, COLOURS, SIZE, Scene, draw

sys.path.append(str(Path(__file__).parents[1]))

from asking import ask, honed, register, train

NAME = "gardens"
OLD, NEW, KEPT_BACK = 100, 60, 40
OLD_EPOCHS, NEW_EPOCHS = 10, 12
SHOWN = 4


def upload(scenes: Sequence[Scene], folder: Path) -> None:
    """Photos and masks of the same names, in two folders."""
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True)
    for number, scene in enumerate(scenes):
        (folder / "images" / f"{number}.jpg").write_bytes(scene.photo)
        (folder / "masks" / f"{number}.png").write_bytes(scene.mask)
    print(honed("samples", "add", NAME, folder).splitlines()[0].rpartition("/")[2])


def learn(epochs: int) -> None:
    asked = ["--epochs", str(epochs), "--batch-size", "8", "--learning-rate", "0.003"]
    print(train(NAME, *asked, "--seed", "1"))


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


def picture(rows: Sequence[Sequence[Image.Image]]) -> Image.Image:
    """Pictures of one size beside and below each other."""
    width, height = SIZE[0] + 4, SIZE[1] + 4
    made = Image.new("RGB", (width * len(rows[0]) - 4, height * len(rows) - 4), "white")
    for y, row in enumerate(rows):
        for x, each in enumerate(row):
            made.paste(each, (x * width, y * height))
    return made


def coloured(classes: np.ndarray) -> Image.Image:
    return Image.fromarray(np.array(COLOURS, np.uint8)[classes])


def main() -> None:
    """The whole story, told as it goes; with PICTURE, also shown."""
    kept_back = draw(KEPT_BACK, seed=9, camera="new")
    register(NAME, base_model(), "cross_entropy", preprocess=PREPROCESS, classes=CLASSES)
    honed("gate", "set", NAME, "metric=mean_iou")
    with tempfile.TemporaryDirectory() as folder:
        upload(draw(OLD, seed=1, camera="old"), Path(folder) / "old")
        learn(OLD_EPOCHS)
        before = [predicted(scene) for scene in kept_back]
        upload(draw(NEW, seed=2, camera="new"), Path(folder) / "new")
        learn(NEW_EPOCHS)
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
        picture(rows).save(sys.argv[1])


if __name__ == "__main__":
    main()
