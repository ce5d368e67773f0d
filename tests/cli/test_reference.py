from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from cli import manual, reference
from cli.main import honed

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "module"), [("cli.md", reference), ("honed.1", manual)], ids=["page", "manual"]
)
def test_every_command_and_option_is_documented_as_it_is(page: str, module: Any) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == module.render(), (
        f"docs/{page} is old: python -m {module.__name__} > docs/{page}"
    )


def test_a_command_that_a_page_names_exists_with_the_options_it_names() -> None:
    commands = dict(reference.walk("honed", honed))
    wrong = []
    for page in {*DOCS.glob("*.md"), DOCS.parent / "README.md"} - {DOCS / "cli.md"}:
        for line in re.findall(r"`(honed [^`]+)`", page.read_text("utf-8")):
            path, *words = line.split()
            while words and f"{path} {words[0]}" in commands:
                path += f" {words.pop(0)}"
            command = commands[path]
            options = {word.partition("=")[0] for word in words if word.startswith("--")}
            known = {name for option in command.params for name in option.opts} | {
                "--help",
                "--version",
            }
            lacks = isinstance(command, click.Group) and re.match("[a-z]", " ".join(words[:1]))
            if lacks or options - known:
                wrong.append(f"{page.name}: {line}")
    assert wrong == []


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_page_is_sound_roff() -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", "-z", str(DOCS / "honed.1")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""
