from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.client import Client

EDITOR = """
import pathlib, sys
file, turns, seen = (pathlib.Path(each) for each in (sys.argv[3], sys.argv[1], sys.argv[2]))
text = file.read_text()
with seen.open("a") as record:
    record.write(text + "=====\\n")
for old, new in eval(turns.read_text())[seen.read_text().count("=====") - 1]:
    assert old in text, text
    text = text.replace(old, new)
file.write_text(text)
"""


@pytest.fixture
def edit(honed: Callable[..., Any], tmp_path: Path) -> Callable[..., tuple[Any, list[str]]]:
    """Run `policy edit`, whose editor replaces these texts in each turn; also what it was shown."""

    def run(*turns: list[tuple[str, str]]) -> tuple[Any, list[str]]:
        program, script, seen = (tmp_path / name for name in ("editor.py", "turns", "seen"))
        program.write_text(EDITOR)
        script.write_text(repr(turns))
        seen.write_text("")
        editor = shlex.join([sys.executable, *map(str, (program, script, seen))])
        done = honed("policy", "edit", "--json", VISUAL=editor)
        return done, seen.read_text().split("=====\n")[:-1]

    return run


@pytest.fixture(autouse=True)
def taken_back(client: Client) -> Any:
    yield
    client.request("DELETE", "/v1/policy")


def test_what_is_saved_is_in_force_and_the_rest_stays(edit: Callable[..., Any]) -> None:
    before = ("min_free_disk_bytes = ", "# my own note\nmin_free_disk_bytes = ")
    power = ("unknown.power = allow", "unknown.power = block")
    done, _ = edit([before, ("nice = 10", "nice = 7"), power])
    changed = json.loads(done.stdout)
    assert (changed["nice"], changed["unknown"]["power"]) == (7, "block")
    assert changed["unknown"]["disk"] == "block"


def test_what_is_refused_stands_beneath_its_line_to_be_edited_again(
    edit: Callable[..., Any],
) -> None:
    wrong = [("nice = 10", "nice = 77\nwindws = []"), ("windows = []", 'windows = [{"days": []}]')]
    mended = [("nice = 77\n", "nice = 4\n"), ("windws = []\n", ""), ('[{"days": []}]', "[]")]
    done, (_, again) = edit(wrong, mended)
    lines = again.splitlines()

    def beneath(line: str) -> str:
        return lines[lines.index(line) + 1]

    assert beneath("nice = 77").startswith("# refused: ")
    assert "19" in beneath("nice = 77")
    assert beneath("windws = []").startswith("# refused: ")
    assert beneath('windows = [{"days": []}]').startswith("# refused: ")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nice"] == 4


def test_a_line_that_says_nothing_is_refused_without_asking(edit: Callable[..., Any]) -> None:
    done, (_, again) = edit([("nice = 10", "nice 10")], [("nice 10", "nice = 3")])
    assert "'nice 10' is not NAME=VALUE" in again
    assert json.loads(done.stdout)["nice"] == 3


def test_who_gives_up_changes_nothing(edit: Callable[..., Any], client: Client) -> None:
    before = client.get("/v1/policy")
    done, shown = edit([("nice = 10", "nice = 77")], [])
    assert len(shown) == 2
    assert done.returncode == 1
    assert "nothing was changed" in done.stderr
    assert client.get("/v1/policy") == before

    unchanged, _ = edit([])
    assert unchanged.returncode == 0
    assert "nothing was changed" in unchanged.stderr
