from __future__ import annotations

import json
import re

import pytest
from sources import ROOT, sources

from cli import output
from cli.errors import Failure
from storage.errors import file_size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.123456, "0.1235"),
        (True, "yes"),
        (3, "3"),
        ([], "-"),
        (["latest", "stable"], "latest, stable"),
        ({"loss": 0.5, "seed": 0}, "loss=0.5, seed=0"),
    ],
)
def test_values_are_plain_text(value: object, text: str) -> None:
    assert output.plain(value) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (40333, "39.4 KiB"), (5 * 2**30, "5.0 GiB")],
)
def test_file_sizes_have_a_unit(size_bytes: int, text: str) -> None:
    assert file_size(size_bytes) == text


def test_columns_are_as_wide_as_their_widest_cell(capsys: pytest.CaptureFixture[str]) -> None:
    output.echo_table(("NAME", "N"), [("digits", 1), ("a", None)])
    assert capsys.readouterr().out == "NAME    N\ndigits  1\na       -\n"


def test_fields_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    output.echo_fields([("job", 1), ("error", None), ("state", "queued")])
    assert capsys.readouterr().out == "job    1\nstate  queued\n"


def test_an_empty_table_says_so_to_people_alone(capsys: pytest.CaptureFixture[str]) -> None:
    output.echo_table(["NAME", "LOSS"], [])
    assert capsys.readouterr() == ("NAME  LOSS\n", "none yet\n")


FOREIGN = "a\x1b[2Kb\rc\x07\x7f\x9bd\u202ee\u2066f\u200fg\ud800h\u2028"
SHOWN = r"a\u001b[2Kb\u000dc\u0007\u007f\u009bd\u202ee\u2066f\u200fg\ud800h\u2028"


def test_what_others_name_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{FOREIGN}\n2026 change admin"
    output.echo_table(("NAME",), [(name,)])
    output.echo_fields([("name", [name, {"of": name}])])
    output.echo_text(f"token 3 ({FOREIGN}): é 漢字 👩‍🔬\nmore")
    Failure(f"no {FOREIGN}", [("/name", name)]).show()
    output.echo_json({"name": name})
    told = capsys.readouterr()
    table, fields, text, rest = told.out.partition("\n")[2].split("\n", 3)
    assert table == rf"{SHOWN}\u000a2026 change admin"
    assert fields == rf"name  {SHOWN}\u000a2026 change admin, of={SHOWN}\u000a2026 change admin"
    assert text == f"token 3 ({SHOWN}): é 漢字 👩‍🔬"
    assert json.loads(rest.removeprefix("more\n")) == {"name": name}
    assert not set(told.out + told.err) & set(FOREIGN) - set("abcdefgh[2K")


@pytest.mark.skipif(not sources("cli"), reason="the tests are not beside the sources")
def test_lines_for_people_pass_one_place() -> None:
    """`echo_text` is it; the rest prints nothing that others have named."""
    demo = {"cli/demo/demo.py", "cli/demo/story.py"}  # which names its own model and daemon
    own = {"cli/output.py", "cli/reference.py", "cli/manual.py", *demo}
    found = {
        path.relative_to(ROOT).as_posix()
        for path in sources("cli")
        if re.search(r"click\.echo|(?<![\w.])print\(|std(out|err)\.write", path.read_text("utf-8"))
    }
    assert found == own
