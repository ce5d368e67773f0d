from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.client import Client, model_path
from cli.demo import digits


def test_a_sample_is_known_by_its_id_or_by_the_key_of_the_app(
    honed: Callable[..., Any], client: Client, add_model: Callable[..., str]
) -> None:
    name = add_model(samples=3)
    path = model_path(name, "samples")
    image = [[[0.5] * 8] * 8]
    client.post(path, {"inputs": {"image": image}, "label": 1, "key": "17"})
    by_key = json.loads(honed("samples", "label", name, "17", "2", "--by-key", "--json").stdout)
    assert (by_key["key"], by_key["label"]) == ("17", 2)
    by_id = honed("samples", "label", name, by_key["id"], "--none", "--weight", "0.5", "--pin")
    assert f"sample {by_key['id']}: label -, " in by_id.stdout
    assert by_id.stdout.endswith("weight 0.5, pinned\n")


def test_people_read_classes_by_name_and_scripts_by_index(
    honed: Callable[..., Any], client: Client, tmp_path: Path
) -> None:
    base = digits.folder() / "base.onnx"
    classes = [argument for index in range(10) for argument in ("--class", f"digit-{index}")]
    honed("models", "add", base, "--name", "named", "--loss", "cross_entropy", *classes)
    (tmp_path / "one.json").write_text(json.dumps({"inputs": {"image": [[[0.5] * 8] * 8]}}))
    for told in ("1 accepted, 0 duplicates", "0 accepted, 1 duplicate,"):
        assert told in honed("samples", "add", "named", tmp_path / "one.json").stdout
    (sample,) = client.items(model_path("named", "samples"))

    labelled = honed("samples", "label", "named", sample["id"], "digit-7").stdout
    assert labelled.startswith(f"sample {sample['id']}: label digit-7, ")
    for command in (["list", "named"], ["show", "named", sample["id"]]):
        assert "digit-7" in honed("samples", *command).stdout
        found = json.loads(honed("samples", *command, "--json").stdout)
        assert (found[0] if isinstance(found, list) else found)["label"] == 7


@pytest.mark.parametrize("wrong", [(), ("3", "--none")], ids=["nothing", "both"])
def test_a_change_that_says_nothing_or_two_things_is_wrong_usage(
    honed: Callable[..., Any], wrong: tuple[str, ...]
) -> None:
    assert honed("samples", "label", "none", "1", *wrong).returncode == 2


def test_samples_are_deleted_by_id_or_by_condition_and_never_without_either(
    honed: Callable[..., Any], client: Client, add_model: Callable[..., str]
) -> None:
    name = add_model(samples=40)
    found = list(client.items(model_path(name, "samples")))
    label = found[0]["label"]
    others = [each for each in found if each["label"] != label]
    assert honed("samples", "delete", name, "--yes").returncode == 2
    assert honed("samples", "delete", name, "1", "--label", label, "--yes").returncode == 2

    done = honed("samples", "delete", name, others[0]["id"], others[1]["id"], "--yes")
    assert done.stdout == "2 deleted\n"
    again = honed("samples", "delete", name, others[2]["id"], others[0]["id"], "--yes")
    assert again.stderr.startswith("error: 1 of 2 deleted: this model has no sample")
    deleted = json.loads(
        honed("samples", "delete", name, "--label", label, "--yes", "--json").stdout
    )
    assert deleted["deleted"] == len(found) - len(others)
    left = {each["id"] for each in client.items(model_path(name, "samples"))}
    assert left == {other["id"] for other in others[3:]}


def test_samples_are_listed_by_the_conditions_and_as_many_as_wished(
    honed: Callable[..., Any], client: Client, add_model: Callable[..., str]
) -> None:
    name = add_model(samples=30)
    listed = json.loads(
        honed("samples", "list", name, "--split", "train", "--limit", 7, "--json").stdout
    )
    assert len(listed) == 7
    assert {each["split"] for each in listed} == {"train"}
    stats = honed("samples", "stats", name).stdout
    assert stats.splitlines()[0].split() == [
        "train",
        str(client.get(model_path(name))["samples"]["train"]),
    ]
