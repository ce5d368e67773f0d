"""What apps get, chosen by hand: promotion, comparison, variants, prediction."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import mlp
from texts import labeller, tokenizer

from api.bodies.samples import FILES, TEXT
from cli.client import Client, model_path
from cli.commands.versions import predict
from cli.demo import digits
from service.prediction.inputs import READERS


@pytest.fixture
def trained(honed: Callable[..., Any], add_model: Callable[..., str]) -> str:
    """A model with a second version, which is promoted."""
    name = add_model(samples=200)
    honed("gate", "set", name, "mode=always")
    done = honed("train", name, "--epochs", 2, "--now", "--watch")
    assert done.returncode == 0, done.stderr
    return name


def latest(client: Client, model: str) -> int:
    return int(client.get(model_path(model, "latest"))["version"])


def test_versions_are_promoted_rolled_back_and_released(
    honed: Callable[..., Any], client: Client, trained: str
) -> None:
    assert f"apps fetch version 1 of {trained};" in honed("rollback", trained).stdout
    assert latest(client, trained) == 1
    honed("release", trained)
    assert client.get(model_path(trained))["held_since"] is None
    honed("aliases", "set", trained, "good", 2)
    assert honed("promote", trained, "good").stdout == f"apps fetch version 2 of {trained}\n"
    assert latest(client, trained) == 2


def test_two_versions_are_compared_on_the_samples_of_today(
    honed: Callable[..., Any], client: Client, trained: str
) -> None:
    found = json.loads(honed("compare", trained, 1, 2, "--json").stdout)
    made = client.get(model_path(trained, "versions", 2))
    assert found["versions"] == [1, 2]
    assert found["before"]["accuracy"] == made["baseline"]["accuracy"]
    assert found["after"]["recall"] == made["metrics"]["recall"]
    shown = honed("compare", trained, 1, 2, "--samples", 1).stdout
    assert f"{found['better']['total']} of {found['samples']} samples became right" in shown
    assert "recall of 9" in shown
    listed = bool(found["better"]["total"]) + bool(found["worse"]["total"])
    assert shown.count("ERROR BEFORE") == listed


def test_fetch_waits_for_a_newer_version_only_if_the_file_is_the_newest(
    honed: Callable[..., Any], trained: str, tmp_path: Path
) -> None:
    output = tmp_path / "model.onnx"
    asked = ("fetch", trained, "-o", output, "--wait", 1, "--json")
    assert json.loads(honed(*asked).stdout)["fetched"] is True
    assert json.loads(honed(*asked).stdout)["fetched"] is False
    honed("rollback", trained)
    changed = json.loads(honed(*asked).stdout)
    assert (changed["version"], changed["fetched"]) == (1, True)
    assert honed("fetch", trained, "-o", output, "--wait", 1, "--version", 1).returncode == 2


def test_a_fetched_file_replaces_files_alone(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    name, pipe = add_model(), tmp_path / "pipe"
    os.mkfifo(pipe)
    for output in (pipe, "-"):
        refused = honed("fetch", name, "-o", output)
        assert refused.returncode == 2
        assert f"{output} is no file" in refused.stderr
    assert pipe.is_fifo()

    file, link = tmp_path / "model.onnx", tmp_path / "current.onnx"
    link.symlink_to(file)
    for _ in range(2):
        assert honed("fetch", name, "-o", link).returncode == 0
        assert link.is_symlink()
        assert file.stat().st_size > 0


def test_a_variant_is_fetched_and_listed(
    honed: Callable[..., Any], trained: str, tmp_path: Path
) -> None:
    done = honed("fetch", trained, "-o", tmp_path / "model.ort", "--variant", "ort")
    assert done.returncode == 0, done.stderr
    (variant,) = json.loads(honed("variants", trained, "--json").stdout)
    assert (variant["variant"], variant["size_bytes"]) == (
        "ort",
        (tmp_path / "model.ort").stat().st_size,
    )


def test_a_table_is_predicted_row_by_row(
    honed: Callable[..., Any], trained: str, tmp_path: Path
) -> None:
    images, _ = digits.kept_back()
    np.savez(tmp_path / "inputs.npz", image=images[300:304])
    columns = ",".join(f"image[{number}]" for number in range(images[0].size))
    rows = images[300:304].reshape(4, -1)
    np.savetxt(tmp_path / "inputs.csv", rows, delimiter=",", header=columns, comments="")
    answers = [
        honed("predict", trained, tmp_path / f"inputs.{kind}", "--json").stdout
        for kind in ("npz", "csv")
    ]
    assert len(json.loads(answers[0])["predictions"]) == 4
    assert answers[0] == answers[1]


def test_every_kind_of_body_that_the_route_takes_has_its_file_ending() -> None:
    assert set(predict.KINDS.values()) == {*READERS, *FILES, TEXT}


def test_likeliest_classes_and_outputs_are_printed(
    honed: Callable[..., Any], trained: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "inputs.npz", image=digits.kept_back()[0][300:302])
    asked = ("predict", trained, tmp_path / "inputs.npz", "--top", 3, "--output", "logits")
    found = json.loads(honed(*asked, "--json").stdout)["predictions"]
    assert [len(each["top"]["label"]) for each in found] == [3, 3]
    _, _, first, _ = honed(*asked).stdout.splitlines()
    likeliest = f"{found[0]['top']['label'][0]} {found[0]['top']['probability'][0]:.4g}, "
    assert first.startswith(likeliest)
    assert f"logits={found[0]['outputs']['logits'][0]:.4g}, " in first


def test_an_embedding_is_printed(client: Client, honed: Callable[..., Any], tmp_path: Path) -> None:
    form = {"spec": json.dumps({"name": "places", "loss": "supcon"})}
    client.request("POST", "/v1/models", data=form, files={"model": mlp(4, 2)})
    (tmp_path / "inputs.json").write_text(json.dumps({"inputs": {"x": [1, 2, 3, 4]}}))
    answer = honed("predict", "places", tmp_path / "inputs.json", "--json")
    numbers = json.loads(answer.stdout)["predictions"][0]["embedding"]
    printed = honed("predict", "places", tmp_path / "inputs.json").stdout
    assert f"{numbers[0]:.4g}, {numbers[1]:.4g}" in printed


def test_spans_are_printed_with_their_characters(
    client: Client, honed: Callable[..., Any], tmp_path: Path
) -> None:
    spec = {"name": "names", "loss": "token_classification", "classes": ["PER", "O"]}
    spec["preprocess"] = {"kind": "text", "max_tokens": 16}
    files = {"model": labeller(64, 2), "tokenizer": tokenizer(["Anna saw Bob"])}
    client.request("POST", "/v1/models", data={"spec": json.dumps(spec)}, files=files)
    (tmp_path / "text.json").write_text(json.dumps({"text": "Anna saw Bob and Anna"}))
    asked = ("predict", "names", tmp_path / "text.json")
    spans = json.loads(honed(*asked, "--json").stdout)["predictions"][0]["spans"]
    assert spans
    shown = [f"PER {span['start']}-{span['end']} {span['score']:.4g}" for span in spans]
    (tmp_path / "text.txt").write_text("Anna saw Bob and Anna")
    for printed in (honed(*asked), honed("predict", "names", tmp_path / "text.txt")):
        assert ", ".join(shown) in printed.stdout


def test_predictions_are_kept_and_corrected(
    honed: Callable[..., Any], client: Client, trained: str, tmp_path: Path
) -> None:
    images, _ = digits.kept_back()
    np.savez(tmp_path / "inputs.npz", image=images[300:302])
    found = json.loads(
        honed("predict", trained, tmp_path / "inputs.npz", "--keep", "--json").stdout
    )
    assert len(found["predictions"]) == len(found["ids"]) == 2
    sample = found["ids"][0]
    assert client.get(model_path(trained, "samples", sample))["label"] is None
    assert honed("samples", "label", trained, sample, 7).returncode == 0
    assert client.get(model_path(trained, "samples", sample))["label"] == 7
    assert honed("predict", trained, tmp_path).returncode == 2
