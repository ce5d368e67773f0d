from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.demo import digits


@pytest.fixture
def model(honed: Callable[..., Any]) -> Iterator[str]:
    names = [part for digit in "abcdefghij" for part in ("--class", digit)]
    source = digits.folder() / "base.onnx"
    added = honed("models", "add", source, "--name", "letters", "--loss", "cross_entropy", *names)
    assert added.returncode == 0, added.stderr
    yield "letters"
    honed("models", "remove", "letters", "--yes")


def test_classes_are_added_renamed_merged_removed_and_listed(
    honed: Callable[..., Any], model: str
) -> None:
    added = honed("classes", "add", model, "sharp/s", "--json")
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout) == {
        "index": 10,
        "name": "sharp/s",
        "train": 0,
        "validation": 0,
        "in_latest": False,
    }
    header, row = honed("classes", "rename", model, "j", "y").stdout.splitlines()
    assert header.split() == ["INDEX", "NAME", "TRAIN", "VALIDATION", "IN", "LATEST"]
    assert row.split() == ["9", "y", "0", "0", "yes"]
    assert honed("classes", "merge", model, "a", "b").returncode == 0
    removed = honed("classes", "remove", model, "c", "--unlabel")
    assert removed.stdout == "class c of letters is removed\n"

    assert honed("classes", "rename", model, "sharp/s", "z").returncode == 0

    listed = json.loads(honed("classes", "list", model, "--json").stdout)
    assert [each["name"] for each in listed] == [*"bdefghiyz"]
    assert [each["index"] for each in listed] == [*range(9)]


def test_an_unknown_class_is_named(honed: Callable[..., Any], model: str) -> None:
    refused = honed("classes", "remove", model, "ö")
    assert refused.returncode == 1
    assert "has no class 'ö'; there are 'a', 'b'" in refused.stderr


def test_a_name_that_a_url_drops_removes_no_model(honed: Callable[..., Any], model: str) -> None:
    refused = [honed(kind, "remove", model, "..") for kind in ("classes", "aliases")]
    assert [each.returncode for each in refused] == [1, 1]
    assert honed("models", "show", model).returncode == 0
