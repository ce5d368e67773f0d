"""An app learns to file messages by topic from twenty of each, and its encoder stays as it is.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/messages/file.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from reading import EXAMPLES, TOPICS, Texts, topics

sys.path.append(str(Path(__file__).parents[1]))

from asking import ask, register, train

HERE = Path(__file__).parent
NAME = "messages"
LONGEST = 48


def accuracy(judged: Texts) -> float:
    """The share of messages that the version in use files under their topic."""
    instances = {"instances": [{"text": text} for text, _ in judged]}
    answer = ask("POST", f"{NAME}/predict", json=instances).json()
    said = [prediction["label"] for prediction in answer["predictions"]]
    return sum(a == b for a, (_, b) in zip(said, judged, strict=True)) / len(judged)


def main() -> None:
    """The whole story, told as it goes."""
    filed, kept_back = topics()
    model, text = (HERE / "base.onnx").read_bytes(), {"kind": "text", "max_tokens": LONGEST}
    options = ("--trainable", "head.*", "--tokenizer", HERE / "tokenizer.json")
    register(NAME, model, "cross_entropy", *options, preprocess=text, classes=TOPICS)
    samples = [{"text": text, "label": topic} for text, topic in filed]
    stored = ask("POST", f"{NAME}/samples", json={"samples": samples}).json()
    print(f"{stored['accepted']} messages of {len(TOPICS)} topics, {EXAMPLES} of each")
    before = accuracy(kept_back)
    print(train(NAME, "--head", "prototype"))
    after = accuracy(kept_back)
    print(f"filed right of {len(kept_back)} others: {before:.0%} before, {after:.0%} after")


if __name__ == "__main__":
    main()
