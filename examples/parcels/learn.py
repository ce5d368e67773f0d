"""A conveyor gets another camera, and its network learns to find parcels with it from sixty photos.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/parcels/learn.py [PICTURE]
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from model import PREPROCESS, base_model
from PIL import Image, ImageDraw
from scenes import CLASSES, SIZE, Scene, draw, write

sys.path.append(str(Path(__file__).parents[1]))

from asking import ask, register, sheet, teach

NAME = "parcels"
OLD, NEW, KEPT_BACK = 90, 60, 40
OLD_EPOCHS, NEW_EPOCHS = 12, 12
OVERLAP = 0.5
COLOURS = ((230, 159, 0), (86, 180, 233), (0, 200, 140))
SHOWN, SHOWN_FROM = 4, 0.3
"""Photos of the picture, and the least probability of a box that is drawn."""

Boxes = list[dict[str, Any]]


def predicted(scene: Scene) -> Boxes:
    """What the version that is in use finds, in the photo's own pixels."""
    headers = {"Content-Type": "image/jpeg"}
    answer = ask("POST", f"{NAME}/predict", content=scene.photo, headers=headers).json()
    boxes: Boxes = answer["predictions"][0]["boxes"]
    return boxes


def mean_precision(found: Sequence[Boxes], scenes: Sequence[Scene]) -> float:
    """mAP@0.5: precision at 101 recalls, mean over the classes."""
    return float(np.mean([_precision(found, scenes, kind) for kind in CLASSES]))


def _precision(found: Sequence[Boxes], scenes: Sequence[Scene], kind: str) -> float:
    true = [[box["box"] for box in scene.boxes if box["label"] == kind] for scene in scenes]
    count = sum(map(len, true))
    claims = [
        (box["probability"], place, box["box"])
        for place, boxes in enumerate(found)
        for box in boxes
        if box["label"] == kind
    ]
    hits = []
    for _, place, box in sorted(claims, key=lambda claim: -claim[0]):
        best = max(true[place], key=lambda other: _overlap(box, other), default=None)
        is_hit = best is not None and _overlap(box, best) >= OVERLAP
        if is_hit:
            true[place].remove(best)
        hits.append(is_hit)
    right = np.cumsum(hits)
    recalls, precisions = right / count, right / np.arange(1, len(hits) + 1)
    return float(
        np.mean([precisions[recalls >= at].max(initial=0) for at in np.linspace(0, 1, 101)])
    )


def _overlap(some: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union."""
    (x, y, width, height), (ox, oy, owidth, oheight) = some, other
    across = max(0.0, min(x + width, ox + owidth) - max(x, ox))
    down = max(0.0, min(y + height, oy + oheight) - max(y, oy))
    return across * down / (width * height + owidth * oheight - across * down)


def drawn(scene: Scene, boxes: Boxes) -> Image.Image:
    """The photo, twice as large, with boxes in the colours of their classes."""
    made = Image.open(io.BytesIO(scene.photo)).convert("RGB").resize((2 * SIZE[0], 2 * SIZE[1]))
    pen = ImageDraw.Draw(made)
    for box in boxes:
        if box.get("probability", 1) >= SHOWN_FROM:
            x, y, width, height = (2 * side for side in box["box"])
            colour = COLOURS[CLASSES.index(box["label"])]
            pen.rectangle((x, y, x + width, y + height), outline=colour, width=2)
    return made


def main() -> None:
    """The whole story, told as it goes; with PICTURE, also shown."""
    kept_back = draw(KEPT_BACK, seed=9, camera="new")
    register(NAME, base_model(), "detection", preprocess=PREPROCESS, classes=CLASSES)
    with tempfile.TemporaryDirectory() as folder:
        teach(NAME, write(draw(OLD, seed=1, camera="old"), Path(folder) / "old"), OLD_EPOCHS)
        before = [predicted(scene) for scene in kept_back]
        teach(NAME, write(draw(NEW, seed=2, camera="new"), Path(folder) / "new"), NEW_EPOCHS)
    after = [predicted(scene) for scene in kept_back]
    print(
        f"mAP@0.5 on {KEPT_BACK} scenes of the new camera: {mean_precision(before, kept_back):.2f} "
        f"before, {mean_precision(after, kept_back):.2f} after {NEW} photos of it"
    )
    if sys.argv[1:]:
        true = [scene.boxes for scene in kept_back]
        pairs = [zip(kept_back[:SHOWN], each, strict=False) for each in (before, after, true)]
        sheet([[drawn(*each) for each in pair] for pair in pairs]).save(sys.argv[1])


if __name__ == "__main__":
    main()
