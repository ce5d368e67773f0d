"""A sensor on a pump learns how the pump sounds when it is well, and tells when it does not.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/vibration_sensor/watch.py [PICTURE]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from model import LENGTH, PREPROCESS, STRIDE, base_model
from PIL import Image, ImageDraw
from recordings import as_csv, record

sys.path.append(str(Path(__file__).parents[1]))

from asking import ask, honed, register, train

NAME = "pump"
CALM_DAYS, SECONDS = 2, 240
NOTED, KEPT_BACK = 50, 100
"""Seeds of the recording with a technician's notes, and of one that is never sent as samples."""
SIZE = (900, 240)


def upload(recording: str, path: Path, *split: str) -> None:
    """A recording of a day, as the logger's file."""
    path.write_text(recording)
    told = honed("samples", "add", NAME, path, *split)
    print(told.splitlines()[0].rpartition("/")[2])


def most_rows(has_fault: np.ndarray) -> np.ndarray:
    """Whether most rows of each window have a fault."""
    starts = range(0, len(has_fault) - LENGTH + 1, STRIDE)
    return np.array([has_fault[at : at + LENGTH].mean() > 0.5 for at in starts])


def picture(scores: np.ndarray, threshold: float, has_fault: np.ndarray) -> Image.Image:
    """Scores over time, the threshold as a line, and faults behind them."""
    made = Image.new("RGB", SIZE, "white")
    pen, (width, height) = ImageDraw.Draw(made), SIZE
    top = np.log(scores.max() / scores.min())
    x = np.arange(len(scores)) * width / len(scores)
    y = height - 10 - np.log(scores / scores.min()) / top * (height - 20)
    for at in np.flatnonzero(has_fault).tolist():
        pen.rectangle([x[at], 0, x[at] + width / len(scores), height], fill="#f6d5cf")
    pen.line([*zip(x.tolist(), y.tolist(), strict=True)], fill="#1f4e79", width=2)
    level = height - 10 - np.log(threshold / scores.min()) / top * (height - 20)
    pen.line([0, level, width, level], fill="#b03a2e", width=2)
    return made


def main() -> None:
    """The whole story, told as it goes; with PICTURE, also shown."""
    register(NAME, base_model(), "reconstruction", preprocess=PREPROCESS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for day in range(CALM_DAYS):
            calm, _ = record(SECONDS, seed=day, breaks=False)
            upload(as_csv(calm), folder / f"day-{day}.csv")
        noted = as_csv(*record(SECONDS, seed=NOTED))
        upload(noted, folder / "noted.csv", "--split", "validation")
    print(train(NAME))
    signal, has_fault = record(SECONDS, seed=KEPT_BACK)
    headers = {"Content-Type": "text/csv"}
    answer = ask("POST", f"{NAME}/predict", content=as_csv(signal), headers=headers)
    said, true = answer.json()["predictions"], most_rows(has_fault)
    alarms = np.array([each["anomaly"] for each in said])
    print(
        f"of {true.sum()} windows with a fault {alarms[true].mean():.0%} are above the threshold, "
        f"of {(~true).sum()} others {alarms[~true].mean():.1%}"
    )
    if sys.argv[1:]:
        scores = np.array([each["score"] for each in said])
        picture(scores, said[0]["threshold"], true).save(sys.argv[1])


if __name__ == "__main__":
    main()
