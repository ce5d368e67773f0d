from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli import manual, reference

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "module"), [("cli.md", reference), ("honed.1", manual)], ids=["page", "manual"]
)
def test_every_command_and_option_is_documented_as_it_is(page: str, module: Any) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == module.render(), (
        f"docs/{page} is old: python -m {module.__name__} > docs/{page}"
    )


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_page_is_sound_roff() -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", "-z", str(DOCS / "honed.1")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""
