"""A column that three files declare comes and goes in every form, in a copy of the code."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemon_process import Process
from pictures import PREPROCESS, image_model, photo
from support import Served, mlp, npz

ROOT = Path(__file__).parents[3]
COLUMN = '''
class SourceColumn(Column):
    """The app's name of where a sample is from."""

    name = "source"
    schema: ClassVar = {"type": ["string", "null"], "maxLength": 20}
    array_kinds, array_of = "U", "text"
    asked = Asked(
        str,
        "Where it is from.",
        "Where the samples are from",
        {"max_length": 20},
        filtered=True,
    )

    def parse(self, value: Any) -> Value:
        """Text of at most 20 characters."""
        if value is None or (isinstance(value, str) and len(value) <= 20):
            return value, None
        return None, f"source {str(value)[:20]!r} is no text of at most 20 characters"


COLUMNS: tuple'''
CHANGES = {
    "storage/records/samples.py": [
        ('"weight": 1.0}', '"weight": 1.0, "source": None}'),
        ("    weight: float = 1.0\n", "    weight: float = 1.0\n    source: str | None = None\n"),
    ],
    "storage/database/schema.sql": [
        ("  split_before TEXT\n", "  split_before TEXT,\n  source TEXT\n")
    ],
    "service/samples/columns.py": [
        ("\nCOLUMNS: tuple", COLUMN),
        ("PinnedColumn, WeightColumn)", "PinnedColumn, WeightColumn, SourceColumn)"),
    ],
}
"""File → what stands there, and what takes its place."""
PATH = "/v1/models/m/samples"


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("code")
    for room in ("storage", "service", "api", "cli"):
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "honed.py", copy)
    for name, changes in CHANGES.items():
        text = (copy / name).read_text(encoding="utf-8")
        for before, after in changes:
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, after)
        (copy / name).write_text(text, encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def changed(code: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A daemon of the changed code."""

    def start(arguments: list[str], environment: dict[str, str], log: Path) -> Process:
        with log.open("ab") as output:
            command = [sys.executable, "-m", "honed", *arguments]
            return subprocess.Popen(
                command, cwd=code, env=environment, stdout=output, stderr=subprocess.STDOUT
            )

    data = tmp_path_factory.mktemp("changed") / "data"
    data.mkdir()
    running = Served(data, database=data, start=start)
    running.register("m", mlp(4, 3), classes=["a", "b", "c"])
    yield running
    running.stop()


@pytest.fixture
def honed(code: Path, changed: Served) -> Callable[..., str]:
    def run(*words: object) -> str:
        return subprocess.run(
            [sys.executable, "-m", "honed", *map(str, words)],
            cwd=code,
            env={**os.environ, "HONED_URL": changed.url, "HONED_TOKEN": changed.token},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    return run


def row(seed: int) -> list[float]:
    return np.random.default_rng(seed).standard_normal(4).astype(np.float32).tolist()


def sources(served: Served, answer: Any, model: str = "m") -> list[str | None]:
    """What the samples of an upload have."""
    assert answer.status_code == 201, answer.text
    first, last = answer.json()["ids"]
    paths = (f"/v1/models/{model}/samples/{at}" for at in range(first, last + 1))
    return [served.http.get(path).json()["source"] for path in paths]


def test_it_takes_no_more_files_than_contributors_are_told() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = told.split("**A column of samples.**")[1].split("\n\n")[0]
    assert len(CHANGES) <= 5
    assert all(f"`{name}`" in listed for name in CHANGES)


def test_json_npz_and_csv_bring_it(changed: Served) -> None:
    samples = [{"inputs": {"x": row(at)}, "source": told} for at, told in enumerate(("lab", None))]
    assert sources(changed, changed.http.post(PATH, json={"samples": samples})) == ["lab", None]
    arrays = {"x": np.array([row(2), row(3)], np.float32), "source": ["roof", ""]}
    assert sources(changed, changed.upload("m", **arrays)) == ["roof", None]
    lines = (f"{','.join(map(str, row(at)))},{told}\n" for at, told in ((4, "car"), (5, "")))
    text = "a,b,c,d,from\n" + "".join(lines)
    asked = {"source_column": "from", "source": "else"}
    csv = changed.http.post(PATH, content=text, params=asked, headers={"Content-Type": "text/csv"})
    assert sources(changed, csv) == ["car", "else"]


def test_what_is_no_value_of_it_is_refused_by_its_place(changed: Served) -> None:
    sample = {"inputs": {"x": row(6)}, "source": 7}
    answer = changed.http.post(PATH, json=sample)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/source"
    refused = changed.offer("m", x=np.zeros((1, 4), np.float32), source=["x" * 21]).json()
    assert refused["errors"][0]["pointer"] == "/source/0"
    asked = changed.http.get(PATH, params={"source": "x" * 21})
    assert asked.json()["errors"][0]["pointer"] == "/query/source"


def test_forms_and_parameters_of_files_bring_it(changed: Served) -> None:
    changed.register("photos", image_model(), classes=["dark", "bright"], preprocess=PREPROCESS)
    path = "/v1/models/photos/samples"
    files = [("file", (f"{at}.png", photo(60, at), "image/png")) for at in range(2)]
    form = {"samples": json.dumps([{"source": "door"}, {}])}
    sent = changed.http.post(path, files=files, data=form, params={"source": "house"})
    assert sources(changed, sent, "photos") == ["door", "house"]
    headers = {"Content-Type": "image/png"}
    one = changed.http.post(path, content=photo(60, 9), params={"source": "yard"}, headers=headers)
    assert sources(changed, one, "photos") == ["yard"]


def test_a_patch_changes_it_and_lists_ask_for_it(
    changed: Served, honed: Callable[..., str]
) -> None:
    added = changed.http.post(PATH, json={"inputs": {"x": row(20)}}).json()["ids"][0]
    assert changed.http.patch(f"{PATH}/{added}", json={"source": "new"}).json()["source"] == "new"
    found = changed.http.get(PATH, params={"source": "new"}).json()["items"]
    assert [each["id"] for each in found] == [added]
    honed("samples", "label", "m", added, "--source", "newer")
    listed = json.loads(honed("samples", "list", "m", "--source", "newer", "--json"))
    assert [each["id"] for each in listed] == [added]
    assert "newer" in honed("samples", "list", "m", "--source", "newer")


def test_content_and_archive_take_it_along(
    changed: Served, honed: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / "more.npz"
    file.write_bytes(npz(x=np.array([row(30)], np.float32)))
    added = json.loads(honed("samples", "add", "m", file, "--source", "cli", "--json"))[0]["ids"][0]
    with np.load(io.BytesIO(changed.http.get(f"{PATH}/{added}/content").content)) as arrays:
        assert arrays["source"].tolist() == ["cli"]
    archive = changed.http.get(f"{PATH}/archive").content
    changed.register("copied", mlp(4, 3), classes=["a", "b", "c"])
    headers = {"Content-Type": "application/zip"}
    taken = changed.http.post("/v1/models/copied/samples/archive", content=archive, headers=headers)
    assert "cli" in sources(changed, taken, "copied")
    described = changed.http.get("/openapi.json").text
    assert "Where the samples are from, for those that name none." in described
