"""A model of which the head alone trains: its frozen part runs once for each sample."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from support import Served, blobs, mlp, wait_until

from storage.blobs.cache_folder import ENTRY

SIZES = (32, 256, 64, 4)
SAMPLES = 300
FEATURES = Path("cache", "1", "features")
RECIPE = {"max_steps": 4_000, "batch_size": 16, "seed": 5, "schedule": "cosine"}


def prepared(serve: Callable[..., Served], folder: Path, **settings: object) -> Served:
    served = serve(folder, **settings)
    served.register("m", mlp(*SIZES), trainable="head")
    assert served.upload("m", **blobs(SAMPLES, SIZES[0], SIZES[-1])).status_code == 201
    return served


def features_of(served: Served) -> np.ndarray:
    """Ids of the samples whose features are kept; 0 for erased ones."""
    found: np.ndarray = np.fromfile(served.data_dir / FEATURES / "entries", ENTRY)["id"]
    return found


def test_the_head_trains_on_kept_features_and_the_version_is_a_whole_model(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = prepared(serve, tmp_path / "data")
    model = served.http.get("/v1/models/m").json()
    assert model["parameters"]["names"] == ["layer2.weight", "layer2.bias"]
    assert any(note.startswith("cut at ") for note in model["notes"])

    job = served.train("m", epochs=20, learning_rate=0.01)

    metrics = job["metrics"]
    assert metrics["validation"]["loss"] < metrics["baseline"]["loss"]
    assert sorted(features_of(served)) == list(range(1, SAMPLES + 1))
    content = served.http.get(f"/v1/models/m/versions/{job['version']}/model.onnx").content
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["x"]
    assert [value.name for value in session.get_outputs()] == ["logits"]
    held = blobs(200, SIZES[0], SIZES[-1], seed=1)
    (scores,) = session.run(None, {"x": held["x"]})
    assert (scores.argmax(axis=1) == held["label"]).mean() > 0.8


def test_a_class_is_added_and_imprinted_on_the_features(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(tmp_path / "data")
    data = blobs(SAMPLES, SIZES[0], SIZES[-1] + 1)
    served.register("m", mlp(*SIZES), trainable="head", classes=["a", "b", "c", "d"])
    is_old = data["label"] < 4
    served.upload("m", x=data["x"][is_old], label=data["label"][is_old])
    served.train("m", epochs=20, learning_rate=0.01)

    added = served.http.post("/v1/models/m/classes", json={"name": "e"})
    served.upload("m", "train", x=data["x"][~is_old], label=data["label"][~is_old])
    job = served.train("m", max_steps=1, learning_rate=1e-9)

    assert added.status_code == 201, added.text
    assert len(features_of(served)) == SAMPLES
    content = served.http.get(f"/v1/models/m/versions/{job['version']}/model.onnx").content
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {"x": data["x"]})
    lead = scores[:, 4] - scores[:, :4].mean(axis=1)
    assert lead[~is_old].mean() > 0 > lead[is_old].mean()


def test_new_samples_join_the_features_and_erased_ones_leave(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = prepared(serve, tmp_path / "data")
    served.train("m", epochs=1)
    served.upload("m", **blobs(20, SIZES[0], SIZES[-1], seed=3))
    served.train("m", epochs=1)
    assert len(features_of(served)) == SAMPLES + 20

    answer = served.http.delete("/v1/models/m/samples/7")

    assert answer.status_code in {200, 204}
    assert 7 not in features_of(served)
    served.train("m", epochs=1)
    assert 7 not in features_of(served)


def test_half_precision_is_a_hyperparameter_of_the_model(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(tmp_path / "data")
    served.register(
        "m", mlp(*SIZES), trainable=["layer2.*"], hyperparameters={"feature_dtype": "float16"}
    )
    served.upload("m", **blobs(100, SIZES[0], SIZES[-1]))
    served.train("m", epochs=2)
    rows = served.data_dir / FEATURES / "rows"
    assert rows.stat().st_size == 100 * SIZES[2] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_daemon_finishes_the_job_bit_for_bit(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    calm = prepared(serve, tmp_path / "calm")
    calm.train("m", **RECIPE)
    undisturbed = served_bytes(calm)
    calm.stop()

    first = prepared(serve, tmp_path / "killed", checkpoint_interval_s=0.1)
    job_id = first.ask_for_job("m", **RECIPE)["id"]
    wait_until(lambda: first.http.get("/v1/models/m/checkpoints").json()["items"], "a checkpoint")
    assert first.child_pid() is not None, "the job ended too soon to be interrupted"
    first.stop(signal.SIGKILL)
    second = serve(tmp_path / "killed")
    second.wait_for_job(job_id, "succeeded")

    assert served_bytes(second) == undisturbed


def served_bytes(served: Served, version: int = 2) -> bytes:
    return served.http.get(f"/v1/models/m/versions/{version}/model.onnx").content


def weights(content: bytes) -> list[bytes]:
    return [each.raw_data for each in onnx.load_from_string(content).graph.initializer]


def test_damaged_features_are_computed_anew_and_it_is_told(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    recipe = {"epochs": 3, "batch_size": 16, "seed": 5, "from": "base"}
    served = prepared(serve, tmp_path / "data")
    assert served.train("m", **recipe)["metrics"]["warnings"] == []
    served.stop()
    path = served.data_dir / FEATURES / "rows"
    rows = bytearray(path.read_bytes())
    rows[4 * SIZES[2] * 100 + 3] ^= 0x40  # an exponent: the feature becomes huge, or tiny
    path.write_bytes(rows)

    served = serve(tmp_path / "data")
    (warning,) = served.train("m", **recipe)["metrics"]["warnings"]
    assert warning.startswith(f"the cache of features was damaged (1 of {SAMPLES} rows")
    happened = served.http.get("/v1/events/history", params={"type": "storage.damaged"}).json()
    assert [(entry["model"], entry["data"]["cache"]) for entry in happened["items"]] == [
        ("m", "features")
    ]
    assert weights(served_bytes(served, 3)) == weights(served_bytes(served, 2))
    assert served.train("m", **recipe)["metrics"]["warnings"] == []
