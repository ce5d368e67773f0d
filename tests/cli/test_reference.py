from __future__ import annotations

from pathlib import Path

from cli.reference import render

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_every_command_and_option_is_documented_as_it_is() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "docs/cli.md is old: python -m cli.reference > docs/cli.md"
    )
