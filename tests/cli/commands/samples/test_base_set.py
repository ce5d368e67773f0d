from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cli.client import Client, model_path


def clean(folder: Path) -> Path:
    """The digits that the demo's model was pre-trained on, as no camera has seen them."""
    rows = np.loadtxt(Path(__file__).parents[4] / "examples/digits/digits.csv.gz", delimiter=",")
    known = rows[np.random.default_rng(0).permutation(len(rows))[:400]]
    images = (known[:, :64] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    path = folder / "clean.npz"
    np.savez(path, image=images, label=known[:, 64].astype(np.int64))
    return path


def test_a_base_set_is_added_shown_and_removed(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    name = add_model()
    added = honed("base-set", "add", name, clean(tmp_path))
    assert added.returncode == 0, added.stderr
    lines = added.stdout.splitlines()
    assert lines[0].endswith("clean.npz: 400 accepted, 0 duplicates, 0 rejected")
    assert lines[1:4] == [
        "samples   400",
        "held out  39",
        "labels    0=34, 1=41, 2=37, 3=44, 4=37, 5=44, 6=35, 7=45, 8=47, 9=36",
    ]
    shown = json.loads(honed("base-set", "show", name, "--json").stdout)
    assert (shown["samples"], shown["held_out"]) == (400, 39)
    assert honed("base-set", "remove", name).stdout == "0 given back, 400 deleted\n"
    assert honed("base-set", "show", name).stdout == "samples   0\nheld out  0\n"


def test_the_first_samples_of_a_model_are_taken_and_given_back(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    name = add_model(samples=50)
    assert honed("base-set", "add", name, "--first", 20).stdout.startswith("20 samples taken\n")
    too_many = honed("base-set", "add", name, "--first", 60)
    assert too_many.returncode == 1
    assert "has 50 labelled samples, fewer than 60; ask for fewer" in too_many.stderr
    assert json.loads(honed("base-set", "remove", name, "--json").stdout) == {
        "given_back": 20,
        "deleted": 0,
    }


def test_an_archive_of_samples_is_a_base_set_too(
    honed: Callable[..., Any], client: Client, add_model: Callable[..., str], tmp_path: Path
) -> None:
    archive = tmp_path / "samples.zip"
    name = add_model(samples=30)
    archive.write_bytes(client.request("GET", model_path(name, "samples", "archive")).content)
    added = honed("base-set", "add", name, archive)
    lines = added.stdout.splitlines()
    assert lines[0].endswith("samples.zip: 0 accepted, 30 duplicates, 0 rejected")
    assert lines[1] == "samples   30"


def test_files_or_a_number_are_asked_for(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    name = add_model()
    for wrong in ([], [clean(tmp_path), "--first", 3]):
        done = honed("base-set", "add", name, *wrong)
        assert (done.returncode, "give FILES, or --first" in done.stderr) == (2, True)


def test_train_and_the_list_of_versions_tell_what_is_kept(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    name = add_model(samples=300)
    honed("base-set", "add", name, clean(tmp_path))
    recipe = ("--epochs", 6, "--learning-rate", 0.005, "--seed", 1)
    ended = honed("train", name, *recipe, "--replay", 0, "--watch").stdout
    (told,) = [line for line in ended.splitlines() if line.startswith("base set ")]
    assert told.startswith("base set    accuracy 0.")
    assert told.endswith(", before 1")
    assert "; base set accuracy went from 1 (version 1) to 0." in ended
    listed = honed("versions", "list", name).stdout.splitlines()
    assert listed[0].index("BASELINE") < listed[0].index("BASE SET") < listed[0].index("VERDICT")
    assert told.removeprefix("base set    ") in listed[1]
    assert "not promoted, better, worse on the base set" in listed[1]
