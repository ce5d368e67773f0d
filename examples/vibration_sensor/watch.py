"""A sensor on a pump learns to tell rare faults from recordings, by `honed train` without a flag.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/vibration_sensor/watch.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from model import LENGTH, PREPROCESS, STRIDE, base_model
from recordings import CLASSES, as_csv, record

sys.path.append(str(Path(__file__).parents[1]))

from asking import ask, honed

NAME = "pump"
RECORDINGS, SECONDS = 2, 240
KEPT_BACK = 100
"""Seed of the recording that no training sees."""


def predicted(recording: str) -> list[str]:
    """The state of each window, as the version that is in use sees it."""
    unlabelled = recording.replace(",calm", ",").replace(",bearing", ",").replace(",mount", ",")
    headers = {"Content-Type": "text/csv"}
    answer = ask("POST", f"{NAME}/predict", content=unlabelled, headers=headers)
    return [each["label"] for each in answer.json()["predictions"]]


def truth(states: Sequence[str]) -> list[str]:
    """The state of most rows of each window, of as many the later one."""
    windows = range(0, len(states) - LENGTH + 1, STRIDE)
    return [Counter(states[at : at + LENGTH][::-1]).most_common(1)[0][0] for at in windows]


def macro_f1(said: Sequence[str], true: Sequence[str]) -> float:
    """The mean of the classes' F1, so that a rare fault counts as much as calm."""
    scores = []
    for each in CLASSES:
        right = sum(a == b == each for a, b in zip(said, true, strict=True))
        scores.append(2 * right / max(1, said.count(each) + true.count(each)))
    return sum(scores) / len(scores)


def main() -> None:
    """The whole story, told as it goes."""
    signal, states = record(SECONDS, seed=KEPT_BACK)
    kept_back, true = as_csv(signal, states), truth(states)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "pump.onnx"
        model.write_bytes(base_model())
        classes = [part for each in CLASSES for part in ("--class", each)]
        preprocess = json.dumps(PREPROCESS)
        honed(
            "models", "add", model, "--loss", "cross_entropy", *classes, "--preprocess", preprocess
        )
        for number in range(RECORDINGS):
            recording = Path(folder) / f"day-{number}.csv"
            recording.write_text(as_csv(*record(SECONDS, seed=number)))
            print(honed("samples", "add", NAME, recording).splitlines()[0].rpartition("/")[2])
    faults = len(true) - true.count("calm")
    print(f"of {len(true)} windows kept back, {faults} have a fault")
    before = macro_f1(predicted(kept_back), true)
    print(honed("train", NAME, "--watch", "--now").strip().splitlines()[-1])
    said = predicted(kept_back)
    after = macro_f1(said, true)
    print(f"macro F1 on the recording kept back: {before:.2f} before, {after:.2f} after")
    found = sum(a == b != "calm" for a, b in zip(said, true, strict=True))
    alarms = sum(a != b == "calm" for a, b in zip(said, true, strict=True))
    print(f"{found} of {faults} windows with a fault named right, {alarms} false alarms")


if __name__ == "__main__":
    main()
