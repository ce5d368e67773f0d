"""A voice assistant learns ten commands of its own from thirty texts each, beside an int8 base.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/voice_commands/teach.py
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from model import BASE, tokenize

sys.path.append(str(Path(__file__).parents[1]))

from asking import ask, register, train

NAME = "commands"
RANK = 8
Text = dict[str, str]


def texts(part: str) -> list[Text]:
    """What the device gets, or what is kept back: each with its command."""
    with BASE.with_name("commands.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["part"] == part]


def accuracy(model: bytes, commands: list[str]) -> float:
    """On texts that nothing has seen, run by plain ONNX Runtime as an app would."""
    kept_back = texts("kept_back")
    tokens = np.array([tokenize(each["text"]) for each in kept_back], np.int64)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"tokens": tokens})
    said = [commands[index] for index in logits.argmax(axis=1)]
    return sum(a == b["command"] for a, b in zip(said, kept_back, strict=True)) / len(said)


def main() -> None:
    """The whole story, told as it goes."""
    heard = texts("device")
    commands = sorted({each["command"] for each in heard})
    trains = ("--trainable", "head.*", "--lora", "attn.*", "--lora", "ffn.*")
    options = (*trains, "--lora-rank", str(RANK))
    register(NAME, BASE.read_bytes(), "cross_entropy", *options, classes=commands)
    samples = [
        {"inputs": {"tokens": tokenize(each["text"])}, "label": each["command"]} for each in heard
    ]
    stored = ask("POST", f"{NAME}/samples", json={"samples": samples}).json()
    print(f"{stored['accepted']} texts of {len(commands)} commands went up")
    print(train(NAME))
    newest = ask("GET", f"{NAME}/latest").json()
    before = accuracy(ask("GET", f"{NAME}/versions/1/model.onnx").content, commands)
    after = accuracy(ask("GET", f"{NAME}/latest/model.onnx").content, commands)
    stored, base = newest["stored_bytes"], BASE.stat().st_size
    print(f"version {newest['version']} takes {stored:,} bytes beside its base of {base:,}")
    print(f"commands understood on texts kept back: {before:.0%} before, {after:.0%} after")


if __name__ == "__main__":
    main()
