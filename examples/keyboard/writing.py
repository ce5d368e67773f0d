"""What two authors wrote: this project's manual, and the names of its tests.

Both are the project's own text, read from the working tree, so that nothing is stored twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
FEWEST_WORDS = 4
NO_PROSE = re.compile(r"```.*?```|^[|#>].*?$|[`*_\[\]()]", re.DOTALL | re.MULTILINE)
BASE_SET = 1200
HELD_BACK = 8
"""One sentence in so many is never trained on."""


def manual() -> list[str]:
    """The sentences of the documentation: the author whose words the base model knows."""
    return sentences(map(prose, sorted((ROOT / "docs").glob("*.md"))))


def names_of_tests() -> list[str]:
    """The sentences that tests are named by: the author whom the device learns."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [re.findall(r"def test_(\w+)", path.read_text("utf-8")) for path in files]
    return sentences(name.replace("_", " ") for each in names for name in each)


def base_set(sentences: list[str]) -> tuple[list[str], list[str]]:
    """The manual's to train the base model on, and those that its maker keeps for devices.

    These are not among the former, so that a version is not judged by what the base has memorized.
    """
    return sentences[BASE_SET:], sentences[:BASE_SET]


def divided(sentences: list[str]) -> tuple[list[str], list[str]]:
    """Those to learn from, and those that are kept back."""
    kept_back = [each for each in sentences if sha256(each.encode()).digest()[0] % HELD_BACK == 0]
    taken = set(kept_back)
    return [sentence for sentence in sentences if sentence not in taken], kept_back


def prose(page: Path) -> str:
    """What is written on a page beside tables, code and titles."""
    return NO_PROSE.sub(" ", page.read_text("utf-8"))


def sentences(texts: Iterable[str]) -> list[str]:
    """Those of several words, in lower case and without marks, each once."""
    found: dict[str, None] = {}
    for text in texts:
        for part in re.split(r"[.!?:;\n]\s|\n\n", text):
            words = re.findall(r"[a-z']+|[0-9]+", part.lower())
            if len(words) >= FEWEST_WORDS:
                found[" ".join(words)] = None
    return list(found)
