from __future__ import annotations

import pytest

from cli import output


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
    assert output.file_size(size_bytes) == text


def test_columns_are_as_wide_as_their_widest_cell(capsys: pytest.CaptureFixture[str]) -> None:
    output.echo_table(("NAME", "N"), [("digits", 1), ("a", None)])
    assert capsys.readouterr().out == "NAME    N\ndigits  1\na       -\n"


def test_fields_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    output.echo_fields([("job", 1), ("error", None), ("state", "queued")])
    assert capsys.readouterr().out == "job    1\nstate  queued\n"


def test_an_empty_table_says_so_to_people_alone(capsys: pytest.CaptureFixture[str]) -> None:
    output.echo_table(["NAME", "LOSS"], [])
    assert capsys.readouterr() == ("NAME  LOSS\n", "none yet\n")
