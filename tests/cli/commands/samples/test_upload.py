from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.client import Client, model_path
from cli.commands.samples import upload as samples


def gray(row: int) -> list[Any]:
    """An image of one brightness."""
    return [[[row / 100] * 8] * 8]


@pytest.fixture
def lines(tmp_path: Path) -> Callable[[list[Any]], Path]:
    """Write a .jsonl file of gray digits with these labels."""

    def write(labels: list[Any]) -> Path:
        path = tmp_path / "samples.jsonl"
        path.write_text(
            "".join(
                json.dumps({"inputs": {"image": gray(row)}, "label": label, "key": f"k{row}"})
                + "\n"
                for row, label in enumerate(labels)
            )
        )
        return path

    return write


def test_an_npz_is_stored_whole(
    honed: Callable[..., Any], add_model: Callable[..., str], npz: Callable[..., Path]
) -> None:
    done = honed("samples", "add", add_model(), npz(50), "--split", "validation", "--json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    assert (result["accepted"], result["duplicates"], result["rejected"]) == (50, 0, 0)
    assert result["ids"][1] - result["ids"][0] == 49


def test_the_split_of_every_sample_is_set(
    honed: Callable[..., Any],
    client: Client,
    add_model: Callable[..., str],
    lines: Callable[[list[Any]], Path],
) -> None:
    name = add_model()
    done = honed("samples", "add", name, lines([1, 2, 3]), "--split", "validation")
    assert done.stdout.endswith("samples.jsonl: 3 accepted, 0 duplicates, 0 rejected\n")
    counts = {"train": 0, "validation": 3, "unlabelled": 0, "base": 0}
    assert client.get(model_path(name))["samples"] == counts


def test_a_json_file_holds_one_sample_or_many(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    one, two, three, four = ({"inputs": {"image": gray(at)}, "label": 7} for at in range(4))
    documents = {"one": one, "list": [two, three], "body": {"samples": [four]}}
    for stem, document in documents.items():
        (tmp_path / f"{stem}.json").write_text(json.dumps(document))
    files = [tmp_path / f"{stem}.json" for stem in ("one", "list", "body")]
    done = honed("samples", "add", add_model(), *files, "--json")
    assert done.returncode == 0, done.stderr
    assert [result["accepted"] for result in json.loads(done.stdout)] == [1, 2, 1]


def test_a_file_sent_again_is_all_duplicates(
    honed: Callable[..., Any],
    add_model: Callable[..., str],
    lines: Callable[[list[Any]], Path],
) -> None:
    name, path = add_model(), lines([1, 2, 3])
    assert honed("samples", "add", name, path).returncode == 0
    again = honed("samples", "add", name, path)
    assert again.stdout.endswith("0 accepted, 3 duplicates, 0 rejected\n")


def test_samples_that_a_quota_takes_away_are_told(
    honed: Callable[..., Any], add_model: Callable[..., str], lines: Callable[..., Path]
) -> None:
    name = add_model()
    honed("quota", "set", name, "max_samples=2")
    done = honed("samples", "add", name, lines([1, 2, 3]))
    assert "3 accepted, 0 duplicates, 0 rejected, 1 evicted" in done.stdout, done.stderr


def test_a_bad_npz_is_refused_whole_and_says_where(
    honed: Callable[..., Any],
    client: Client,
    add_model: Callable[..., str],
    npz: Callable[..., Path],
) -> None:
    name = add_model()
    refused = honed("samples", "add", name, npz(3, label=np.array([1, 12, 3])))
    assert refused.returncode == 1
    assert "samples.npz" in refused.stderr
    assert "12" in refused.stderr
    assert client.get(model_path(name))["samples"]["train"] == 0


def test_bad_lines_are_skipped_and_named(
    honed: Callable[..., Any],
    add_model: Callable[..., str],
    lines: Callable[[list[Any]], Path],
) -> None:
    done = honed("samples", "add", add_model(), lines([1, 12, 3]), "--on-error", "skip")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("2 accepted, 0 duplicates, 1 rejected\n")
    assert "skipped /2/label: line 2: label 12" in done.stderr


@pytest.mark.parametrize("word", ["refuse", "fail"])
def test_the_apis_word_and_the_old_one_refuse_bad_lines(
    word: str,
    honed: Callable[..., Any],
    client: Client,
    add_model: Callable[..., str],
    lines: Callable[[list[Any]], Path],
) -> None:
    name = add_model()
    refused = honed("samples", "add", name, lines([1, 12, 3]), "--on-error", word)
    assert refused.returncode == 1
    assert client.get(model_path(name))["samples"]["train"] == 0
    shown = honed("samples", "add", "--help").stdout
    assert "refuse|skip" in shown
    assert "fail" not in shown


def test_a_refused_batch_of_lines_says_which_lines_it_held(
    client: Client,
    add_model: Callable[..., str],
    lines: Callable[[list[Any]], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(samples, "BATCH_BYTES", 1)
    name, path = add_model(), lines([1, 2, 12, 4])
    with pytest.raises(samples.Failure) as caught:
        samples.add_file(client, model_path(name, "samples"), path, params={})
    assert "lines 3 to 3 were refused, what stands before them is stored" in caught.value.message
    assert client.get(model_path(name))["samples"]["train"] >= 1
    skipping = {"on_error": "skip"}
    skipped = samples.add_file(client, model_path(name, "samples"), path, params=skipping)
    (fault,) = skipped["errors"]
    assert (fault["pointer"], fault["detail"][:8]) == ("/3/label", "line 3: ")


def test_a_line_that_is_not_json_is_named(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "broken.jsonl").write_text('\n{"inputs"\n')
    refused = honed("samples", "add", add_model(), tmp_path / "broken.jsonl")
    assert refused.returncode == 1
    assert "/2: line 2 is not JSON" in refused.stderr


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_the_daemon_says_what_is_wrong_with_json(
    ending: str, honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    name, file = add_model(), tmp_path / f"one{ending}"
    for text, told in (
        (json.dumps({"inputs": {"image": [[[float("nan")] * 8] * 8]}}), "holds nan at [0, 0, 0]"),
        ('{"inputs": 1, "inputs": 2}', 'the name "inputs" twice'),
    ):
        file.write_text(text + "\n\n")
        assert told in honed("samples", "add", name, file).stderr
    assert "give a finite one" in honed("train", name, "--learning-rate", "nan").stderr


def test_another_kind_of_file_is_wrong_usage(honed: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "samples.xyz").touch()
    refused = honed("samples", "add", "digits", tmp_path / "samples.xyz")
    assert refused.returncode == 2
    assert "samples are .npz, .csv, .json, .jsonl, " in refused.stderr
