"""A keyboard that knows one author's words learns another's on the device, and keeps the first's.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/keyboard/learn.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from measuring import LONGEST, Keyboard
from writing import base_set, divided, manual, names_of_tests

sys.path.append(str(Path(__file__).parents[1]))

from asking import ask, honed, register

HERE = Path(__file__).parent
NAME = "keyboard"
EPOCHS, BATCH_SIZE, LEARNING_RATE, REPLAY = 2, 32, 1e-3, 0.5
TYPED = 60
"""Sentences that are typed to count the words saved."""
FILES_AT_ONCE = 250


def send(path: str, sentences: list[str]) -> None:
    """As files of a form, each a text."""
    for at in range(0, len(sentences), FILES_AT_ONCE):
        some = sentences[at : at + FILES_AT_ONCE]
        files = [("file", (f"{n}.txt", each.encode(), "text/plain")) for n, each in enumerate(some)]
        ask("POST", f"{NAME}/{path}", files=files)


def told(name: str, keyboard: Keyboard, old: list[str], new: list[str]) -> None:
    (ours, _), (theirs, near) = keyboard.measure(old), keyboard.measure(new)
    saved = keyboard.saved(new[:TYPED])
    print(
        f"{name}: perplexity {ours:.1f} on the old author, {theirs:.1f} on the new one; "
        f"{near:.1%} of the new one's tokens among three, {saved:.1%} of words saved typing"
    )


def main() -> None:
    """The whole story, told as it goes."""
    (known, old), (typed, new) = divided(manual()), divided(names_of_tests())
    text = {"kind": "text", "max_tokens": LONGEST}
    tokenizer = HERE / "tokenizer.json"
    model = (HERE / "base.onnx").read_bytes()
    register(NAME, model, "causal_lm", "--tokenizer", tokenizer, preprocess=text)
    _, kept = base_set(known)
    send("base-set", kept)
    send("samples", typed)
    base = ask("GET", f"{NAME}/latest/model.onnx").content
    told("before", Keyboard(base, tokenizer.read_text("utf-8")), old, new)
    options = {"epochs": EPOCHS, "batch-size": BATCH_SIZE, "learning-rate": LEARNING_RATE}
    options |= {"schedule": "cosine", "replay": REPLAY, "seed": 1}
    honed("train", NAME, "--watch", *(f"--{name}={value}" for name, value in options.items()))
    version = ask("GET", f"{NAME}/latest").json()
    print(version["reason"])
    learned = ask("GET", f"{NAME}/latest/model.onnx").content
    fetched = ask("GET", f"{NAME}/tokenizer.json").text
    told("after", Keyboard(learned, fetched), old, new)


if __name__ == "__main__":
    main()
