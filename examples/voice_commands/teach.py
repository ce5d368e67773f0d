"""A voice assistant learns ten commands of its own from thirty texts each, beside an int8 base.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/voice_commands/teach.py
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnxruntime
from model import BASE, tokenize

NAME = "commands"
RANK = 8
Text = dict[str, str]


def texts(part: str) -> list[Text]:
    """What the device gets, or what is kept back: each with its command."""
    with BASE.with_name("commands.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["part"] == part]


def honed(*arguments: str | Path) -> str:
    """What the command line prints; it finds daemon and token in the environment."""
    program = [Path(sys.executable).with_name("honed"), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"honed {arguments[0]}: {done.stderr}")
    return done.stdout


def ask(method: str, path: str, **request: Any) -> httpx.Response:
    """Of the daemon's API."""
    answer = httpx.request(
        method,
        f"{os.environ['HONED_URL']}/v1/models/{NAME}{path}",
        headers={"Authorization": f"Bearer {os.environ['HONED_TOKEN']}"},
        timeout=60,
        trust_env=False,
        **request,
    )
    if answer.is_error:
        raise SystemExit(answer.text)
    return answer


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
    classes = [part for each in commands for part in ("--class", each)]
    trains = ["--trainable", "head.*", "--lora", "attn.*", "--lora", "ffn.*"]
    rank = ["--lora-rank", str(RANK)]
    honed(
        "models", "add", BASE, "--name", NAME, "--loss", "cross_entropy", *classes, *trains, *rank
    )
    samples = [
        {"inputs": {"tokens": tokenize(each["text"])}, "label": each["command"]} for each in heard
    ]
    stored = ask("POST", "/samples", json={"samples": samples}).json()
    print(f"{stored['accepted']} texts of {len(commands)} commands went up")
    print(honed("train", NAME, "--watch", "--now").strip().splitlines()[-1])
    newest = ask("GET", "/latest").json()
    before = accuracy(ask("GET", "/versions/1/model.onnx").content, commands)
    after = accuracy(ask("GET", "/latest/model.onnx").content, commands)
    stored, base = newest["stored_bytes"], BASE.stat().st_size
    print(f"version {newest['version']} takes {stored:,} bytes beside its base of {base:,}")
    print(f"commands understood on texts kept back: {before:.0%} before, {after:.0%} after")


if __name__ == "__main__":
    main()
