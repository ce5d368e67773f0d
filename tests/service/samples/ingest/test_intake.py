"""What is sent twice is one sample, columns go by their names, and odd inputs are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from stored import adopt, new_model

from service.errors import InvalidInput
from service.models.updates import change_model
from service.prediction.inputs import Batch, keep
from service.samples.ingest.csv_upload import store_csv
from service.samples.ingest.intake import IngestResult, UploadOptions
from service.samples.ingest.json_upload import store_json
from service.samples.ingest.npz_upload import store_npz
from service.samples.ingest.statistics import Statistics
from storage.records.models import Model
from storage.records.signatures import Signature, TargetSpec, TensorSpec
from storage.store import Store

NOTHING: dict[str, Any] = {
    "hyperparameters": {},
    "classes": None,
    "gate": {},
    "retention": {},
    "quota": {},
}
ROWS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


def send(store: Store, model: Model, *samples: dict[str, Any], **options: Any) -> IngestResult:
    body = json.dumps({"samples": samples}).encode()
    return store_json(store, model, body, UploadOptions(**options))


def one(value: float, label: int | None = None, **fields: Any) -> dict[str, Any]:
    return {"inputs": {"x": [value, 0, 0, 0]}, "label": label, **fields}


def test_the_same_samples_sent_twice_are_stored_once(store: Store, model: Model) -> None:
    first = send(store, model, one(1, 3), one(2, 4), one(1, 3))
    again = send(store, model, one(1, 3), one(2, 4))

    assert (first.accepted, first.duplicates) == (2, 1)
    assert (again.accepted, again.duplicates) == (0, 2)


def test_another_label_for_the_same_inputs_is_a_conflict(store: Store, model: Model) -> None:
    send(store, model, one(1, 3))
    result = send(store, model, one(1, 5))

    assert (result.accepted, result.duplicates, result.conflicts) == (1, 0, 1)


def test_a_label_that_comes_later_goes_to_the_sample_that_waits(store: Store, model: Model) -> None:
    (waiting,) = keep(store, model, Batch(np.zeros((1, 16), np.uint8)), None)
    result = send(store, model, one(0, 7, key="app-1"))

    assert (result.accepted, result.duplicates) == (0, 1)
    assert store.samples.get(model.id, waiting).label == 7
    assert store.samples.by_key(model.id, "app-1").id == waiting


def test_a_question_that_is_kept_twice_has_one_id(store: Store, model: Model) -> None:
    records = np.zeros((3, 16), np.uint8)
    records[1] = 1
    first = keep(store, model, Batch(records), None)
    second = keep(store, model, Batch(records[::-1].copy()), None)

    assert first[0] == first[2] != first[1]
    assert second == first[::-1]


def test_duplicates_are_stored_where_the_model_or_the_request_says_so(
    store: Store, model: Model
) -> None:
    send(store, model, one(1, 3))
    allowed = send(store, model, one(1, 3), allow_duplicates=True)
    keeping = change_model(store, model, **NOTHING, keeps_duplicates=True)
    kept = send(store, keeping, one(1, 3), one(1, 3))

    assert (allowed.accepted, kept.accepted) == (1, 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "samples.csv"


def send_csv(store: Store, model: Model, path: Path, text: str, **options: Any) -> IngestResult:
    path.write_text(text)
    return store_csv(store, store.models.get(model.name), path, UploadOptions(**options))


def stored_rows(store: Store, model: Model) -> list[list[float]]:
    return [
        np.frombuffer(store.samples.content(model.id, each.id), "<f4").tolist()
        for each in store.samples.list(model.id, limit=100)
    ]


def test_columns_in_another_order_are_put_right(store: Store, model: Model, path: Path) -> None:
    send_csv(store, model, path, "temp,rpm,load,age,label\n1,2,3,4,0\n")
    send_csv(store, model, path, "age,label,load,temp,rpm\n8,1,7,5,6\n")

    assert store.models.get(model.name).features == ("temp", "rpm", "load", "age")
    assert stored_rows(store, model) == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_a_missing_column_and_an_unknown_one_are_refused(
    store: Store, model: Model, path: Path
) -> None:
    send_csv(store, model, path, "temp,rpm,load,age,label\n1,2,3,4,0\n")
    for header, words in (
        ("temp,rpm,load,weight,label", "lacks ['age']"),
        ("temp,rpm,load,age,weight", "too many columns: ['weight']"),
    ):
        with pytest.raises(InvalidInput) as refused:
            send_csv(store, model, path, f"{header}\n1,2,3,4,0\n")
        assert words in refused.value.problems[0].detail

    for ignored in ("weight", "*"):
        text = f"weight,age,load,rpm,temp\n9,8,7,6,{len(ignored)}\n"
        send_csv(store, model, path, text, ignore_columns=ignored)
    assert stored_rows(store, model)[1:] == [[6, 6, 7, 8], [1, 6, 7, 8]]


def test_features_are_forgotten_and_named_anew(store: Store, model: Model, path: Path) -> None:
    send_csv(store, model, path, "a,b,c,d\n1,2,3,4\n")
    change_model(store, model, **NOTHING, features=None)
    send_csv(store, model, path, "e,f,g,h\n5,6,7,8\n")
    assert store.models.get(model.name).features == ("e", "f", "g", "h")

    for wrong in (["e", "f", "g"], ["e", "e", "g", "h"], ["e", "f", "g", "label"]):
        with pytest.raises(InvalidInput) as refused:
            change_model(store, model, **NOTHING, features=wrong)
        assert refused.value.problems[0].pointer == "/features"


def test_a_change_that_is_refused_leaves_all_as_it_was(store: Store, model: Model) -> None:
    send(store, model, *(one(at, 0) for at in range(30)))
    with pytest.raises(InvalidInput):
        change_model(store, model, **{**NOTHING, "quota": {"max_samples": 5}, "classes": ["a"]})
    assert store.sample_stats.counts(model.id).train > 20
    assert store.models.get(model.name).quota.max_samples is None


def send_rows(
    store: Store, model: Model, path: Path, rows: np.ndarray, labels: object = None
) -> tuple[str, ...]:
    label = np.arange(len(rows)) % 10 if labels is None else labels
    np.savez(path.with_suffix(".npz"), x=rows.astype(np.float32), label=label)
    saved = path.with_suffix(".npz")
    return store_npz(store, model, saved, UploadOptions(), max_bytes=2**30).warnings


def about_inputs(warnings: tuple[str, ...]) -> list[str]:
    return [warning for warning in warnings if "input" in warning]


def test_ordinary_inputs_are_no_reason_to_warn(store: Store, model: Model, path: Path) -> None:
    assert about_inputs(send_rows(store, model, path, ROWS)) == []
    assert about_inputs(send_rows(store, model, path, ROWS + 0.5)) == []


def test_inputs_of_another_scale_are_told_with_the_number(
    store: Store, model: Model, path: Path
) -> None:
    send_rows(store, model, path, ROWS)
    far = ROWS.copy()
    far[:, 2] += 273.15
    (warning,) = about_inputs(send_rows(store, model, path, far))
    assert "feature 2" in warning
    assert "a mean of 272.9" in warning
    spread = ROWS[:, 2].astype(np.float32).std(dtype=np.float64)
    assert f"a standard deviation of {spread:g}" in warning

    large = about_inputs(send_rows(store, model, path, ROWS * 50_000))
    assert any("standardize" in each for each in large)


def test_inputs_that_come_in_pieces_all_count(store: Store, model: Model) -> None:
    flat = ROWS.astype(np.float32)
    flat[:, 1] = 7
    statistics = Statistics(store, model)
    for start in range(0, len(flat), 7):
        statistics.add(np.ascontiguousarray(flat[start : start + 7]).view(np.uint8))
    (warning,) = statistics.warnings()
    assert "feature 1: the same value in all 60 samples" in warning


def test_a_damaged_sample_keeps_no_other_from_being_stored(
    store: Store, model: Model, path: Path
) -> None:
    send_rows(store, model, path, ROWS)
    (pack,) = store.packs_dir.glob("*/*")
    content = bytearray(pack.read_bytes())
    content[-1] ^= 255
    pack.write_bytes(content)
    assert about_inputs(send_rows(store, model, path, ROWS + 0.5)) == []
    assert len(store.samples.newest_records(model.id, 200)) == 119


def test_inputs_far_from_what_standardize_has_learned_are_told(store: Store, path: Path) -> None:
    learned = {"input": "x", "kind": "standardize", "mean": [0] * 4, "std": [1] * 4}
    model = store.models.add(new_model("s", preprocess=(learned,)), adopt(store, b"s"))
    named = replace(model, features=("temp", "rpm", "load", "age"))
    (warning,) = about_inputs(send_rows(store, named, path, ROWS + np.array([0, 0, 0, 99])))
    assert "age" in warning
    assert "standardize has learned" in warning


def test_a_feature_is_named_after_the_inputs_before_it(store: Store, path: Path) -> None:
    inputs = (TensorSpec("id", "int64", (2,)), TensorSpec("x", "float32", (4,)))
    signature = Signature(inputs, TargetSpec("labels", "int64", (), 10))
    model = store.models.add(new_model("two", signature=signature), adopt(store, b"two"))
    named = replace(model, features=("shop", "till", "temp", "rpm", "load", "age"))
    rows = ROWS.copy()
    rows[:, 1] = 7
    saved = path.with_suffix(".npz")
    np.savez(saved, id=np.zeros((60, 2), int), x=rows)
    warnings = store_npz(store, named, saved, UploadOptions(), max_bytes=2**30).warnings
    assert "input 'x', rpm: the same value" in about_inputs(warnings)[0]


def test_a_recording_of_one_constant_channel_is_stored_and_told(store: Store, path: Path) -> None:
    windows = {"input": "x", "kind": "windows", "mean": [0], "std": [1]}
    model = store.models.add(new_model("w", preprocess=(windows,)), adopt(store, b"w"))
    named = replace(model, features=("load",))
    path.write_text("load\n" + "700\n" * 240)
    result = store_csv(store, named, path, UploadOptions(allow_duplicates=True))
    assert result.accepted == 60
    far, constant = about_inputs(result.warnings)
    assert "a mean of 700 where standardize has learned 0" in far
    assert "feature 0, feature 1" in constant


def test_constant_columns_one_class_and_few_validation_samples_are_told(
    store: Store, model: Model, path: Path
) -> None:
    flat = ROWS.copy()
    flat[:, 1] = 7
    warnings = send_rows(store, model, path, flat, np.full(60, 3))
    assert any("feature 1: the same value in all 60" in warning for warning in warnings)
    assert any("of class 3" in warning for warning in warnings)
    assert any("for validation" in warning for warning in warnings)
