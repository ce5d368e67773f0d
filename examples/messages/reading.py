"""What is read here: the project's own sentences, from the working tree.

The maker's encoder reads docstrings and the names of tests, each of a room of the project; the
device reads the manual, of which a person files twenty sentences a topic.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

sys.path.append(str(Path(__file__).parents[1] / "keyboard"))

from writing import ROOT, prose, sentences

TOPICS = ("backup", "federated", "following", "policy", "prediction", "preprocessing")
"""Pages of the manual."""
EXAMPLES, KEPT_BACK = 20, 40
"""Sentences of a topic that the person files, and those at most that it is judged by."""
FEWEST = 20
"""A room of fewer sentences is not read."""
Texts = list[tuple[str, str]]
"""Sentences, each with its room or topic."""


def topics() -> tuple[Texts, Texts]:
    """Those that are filed by a person, and those that are kept back."""
    filed, kept_back = [], []
    for topic in TOPICS:
        own = sentences([prose(ROOT / "docs" / f"{topic}.md")])
        own.sort(key=lambda each: crc32(each.encode()))  # splits are drawn by SHA-256
        filed += [(each, topic) for each in own[:EXAMPLES]]
        kept_back += [(each, topic) for each in own[EXAMPLES : EXAMPLES + KEPT_BACK]]
    return filed, kept_back


def rooms() -> Texts:
    """What the maker's encoder learns from: sentences of the code and of its tests."""
    found: dict[str, list[str]] = {}
    for part in ("api", "cli", "service", "storage", "tests"):
        for path in sorted((ROOT / part).rglob("*.py")):
            room = path.parent.relative_to(ROOT).as_posix().removeprefix("tests/")
            found.setdefault(room, []).extend(_said(ast.parse(path.read_text("utf-8"))))
    by_room = {room: sentences(texts) for room, texts in found.items()}
    return [
        (text, room) for room, texts in by_room.items() if len(texts) >= FEWEST for text in texts
    ]


def _said(module: ast.Module) -> Iterator[str]:
    """Docstrings, and names of tests as sentences."""
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        if isinstance(node, ast.FunctionDef) and (name := re.match(r"test_(\w+)", node.name)):
            yield name[1].replace("_", " ")
