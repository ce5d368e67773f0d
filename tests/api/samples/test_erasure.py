"""What is erased is not in any file below the data folder."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import PREPROCESS, image_model, photo
from PIL import Image as Pillow
from support import Served, client, mlp, npz, wait_until

from service.jobs import runner
from storage.records.id_set import encode

SECRET_KEY = "patient-4711-secret"


def files_with(data_dir: Path, *needles: bytes) -> list[str]:
    """Files that hold one of the byte strings; tmp files that vanish meanwhile do not count."""
    found = []
    for path in data_dir.rglob("*"):
        if not path.is_file():
            continue
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        if any(needle in content for needle in needles):
            found.append(str(path.relative_to(data_dir)))
    return found


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.usefixtures("cleared")
def test_a_sample_its_key_and_its_label_are_gone_from_every_file(served: Served) -> None:
    served.register("m", mlp(64, 8, 2), loss="mse")
    secret = np.random.default_rng(1).random((1, 64)).astype(np.float32)
    label = np.array([[0.123456789, 0.987654321]], np.float32)
    others = np.random.default_rng(2).random((200, 64)).astype(np.float32)
    served.upload("m", split="train", x=others, label=np.zeros((200, 2)))
    answer = served.upload("m", split="train", x=secret, label=label, key=np.array([SECRET_KEY]))
    needles = (secret.tobytes()[:64], SECRET_KEY.encode(), label.astype("<f4").tobytes())
    assert files_with(served.data_dir, *needles)
    served.train("m", epochs=1)

    deleted = served.http.delete(f"/v1/models/m/samples/{answer.json()['ids'][0]}")

    assert deleted.status_code == 204
    assert files_with(served.data_dir, *needles) == []
    assert served.train("m", epochs=1)["state"] == "succeeded"


@pytest.mark.usefixtures("cleared")
def test_an_erased_image_leaves_the_cache_of_pixels_too(served: Served) -> None:
    served.register("m", image_model(), preprocess={**PREPROCESS, "resize": "stretch"})
    secret = photo(120, 77, side=8)
    files = [("file", (f"{n}.png", photo(60, n))) for n in range(4)]
    about = [{"label": 0, "split": "train"}] * 5
    answer = served.http.post(
        "/v1/models/m/samples",
        files=[*files, ("file", ("secret.png", secret))],
        data={"samples": json.dumps(about)},
    )
    served.train("m", epochs=1)

    pixels = np.asarray(Pillow.open(io.BytesIO(secret))).tobytes()
    (kept,) = files_with(served.data_dir, pixels)
    assert re.fullmatch(r"cache/\d+/tensors/rows", kept)

    served.http.delete(f"/v1/models/m/samples/{answer.json()['ids'][1]}")

    assert files_with(served.data_dir, pixels, secret[40:]) == []


@pytest.mark.usefixtures("cleared")
def test_the_versions_that_saw_a_sample_go_once_others_are_trained_without_it(
    served: Served,
) -> None:
    served.register("m", mlp(3, 4, 2))
    url = "/v1/models/m"
    rows = np.random.default_rng(0).random((20, 3))
    first = served.upload("m", split="train", x=rows, label=np.arange(20) % 2).json()["ids"][0]
    served.train("m", epochs=1)
    served.http.put(f"{url}/aliases/latest", json={"version": 2})
    served.http.patch(f"{url}/samples/{first}", json={"label": None})
    late = served.upload("m", split="train", x=rows + 1, label=np.arange(20) % 2).json()["ids"][0]
    served.train("m", epochs=1)
    served.http.put(f"{url}/aliases/latest", json={"version": 3})
    served.http.put(f"{url}/aliases/stable", json={"version": 2})
    tainted = {n: served.http.get(f"{url}/versions/{n}").json()["sha256"] for n in (2, 3)}

    seen = {n: served.http.get(f"{url}/versions/{n}/samples").json() for n in (1, 2, 3)}
    answer = served.http.delete(f"{url}/samples/{first}", params={"retrain": True})

    assert [each["total"] for each in seen.values()] == [0, 20, 40]
    assert answer.status_code == 202, answer.text
    job = served.wait_for_job(answer.json()["job"]["id"])
    assert (job["state"], job["trigger"]) == ("succeeded", "erasure")
    versions = served.http.get(f"{url}/versions").json()["items"]
    assert [version["version"] for version in versions] == [job["version"], 1]
    assert sorted(versions[0]["aliases"]) == ["latest", "stable"]
    assert versions[0]["reason"].startswith("latest, because version 3 had seen erased samples")
    checkpoints = served.http.get(f"{url}/checkpoints").json()["items"]
    assert {checkpoint["job_id"] for checkpoint in checkpoints} == {job["id"]}
    names = {path.name for path in (served.data_dir / "files").glob("*/*")}
    assert not names & set(tainted.values())
    remaining = served.http.get(f"{url}/versions/{job['version']}/samples").json()
    assert remaining["total"] == 39
    assert first not in [entry["id"] for entry in remaining["items"]]
    assert late in [entry["id"] for entry in remaining["items"]]


@pytest.mark.usefixtures("cleared")
def test_a_deleted_sample_is_still_among_those_that_a_version_saw(served: Served) -> None:
    served.register("m", mlp(3, 4, 2))
    answer = served.upload("m", split="train", x=np.eye(3), label=np.array([0, 1, 0]))
    first = answer.json()["ids"][0]
    served.train("m", epochs=1)

    served.http.patch(f"/v1/models/m/samples/{first + 1}", json={"label": None})
    served.http.delete(f"/v1/models/m/samples/{first}")

    seen = served.http.get("/v1/models/m/versions/2/samples", params={"limit": 2}).json()
    rest = served.http.get(
        "/v1/models/m/versions/2/samples", params={"cursor": seen["next"]}
    ).json()
    assert seen["items"] == [{"id": first, "deleted": True}, {"id": first + 1, "deleted": False}]
    assert rest["items"] == [{"id": first + 2, "deleted": False}]


@pytest.mark.usefixtures("cleared")
def test_when_nothing_is_left_to_train_on_the_versions_go_at_once(served: Served) -> None:
    served.register("m", mlp(3, 4, 2))
    served.upload("m", split="train", x=np.eye(3), label=np.array([0, 1, 0]))
    served.train("m", epochs=1)

    answer = served.http.delete("/v1/models/m/samples", params={"all": True, "retrain": True})

    assert answer.json() == {"deleted": 3, "job": None, "versions": [2]}
    assert served.http.get("/v1/models/m/latest").json()["version"] == 1


@pytest.mark.usefixtures("cleared")
def test_a_job_that_trains_on_an_erased_sample_is_stopped(served: Served) -> None:
    served.register("m", mlp(3, 4, 2))
    x = np.random.default_rng(0).random((50, 3))
    first = served.upload("m", split="train", x=x, label=np.arange(50) % 2).json()["ids"][0]
    running = served.ask_for_job("m", max_seconds=600)["id"]
    wait_until(lambda: served.job(running)["progress"]["step"] > 0, "the first step")

    answer = served.http.delete(f"/v1/models/m/samples/{first}", params={"retrain": True})

    assert served.job(running)["state"] == "cancelled"
    assert served.http.post(f"/v1/jobs/{answer.json()['job']['id']}/cancel").is_success


def test_what_a_killed_daemon_left_is_erased_at_the_next_start(
    serve: Callable[..., Served], data_dir: Path
) -> None:
    served = serve(data_dir)
    served.register("m", mlp(64, 2))
    secret = np.random.default_rng(1).random((1, 64)).astype(np.float32)
    served.http.post(
        "/v1/models/m/samples",
        content=npz(x=secret, key=np.array([SECRET_KEY])),
        headers={"Content-Type": "application/x-npz"},
    )
    served.http.delete("/v1/models/m/samples", params={"key": SECRET_KEY})
    served.stop()

    serve(data_dir)

    assert files_with(data_dir, secret.tobytes()[:64], SECRET_KEY.encode()) == []


def test_a_job_waits_until_a_deletion_of_many_has_ended_and_says_so(
    serve_inside: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SHORTAGE_RETRY_S", 0.2)
    inside = serve_inside()
    store = inside.daemon.store
    begun = "INSERT INTO deletions (model_id, ids) VALUES (1, ?)"
    with client(inside.url, token=inside.token) as http:
        files = {"model": ("model.onnx", mlp(4, 8, 2))}
        http.post("/v1/models", data={"spec": '{"name": "m", "loss": "mse"}'}, files=files)
        sample = {"inputs": {"x": [0.5] * 4}, "label": [1.0, 0.0], "split": "train"}
        http.post("/v1/models/m/samples", json=sample).raise_for_status()
        store._writer.write(lambda transaction: transaction.execute(begun, (encode([999]),)))

        asked = {"max_steps": 1, "ignore_policy": True}
        job = http.post("/v1/models/m/jobs", json=asked).headers["Location"]
        (blocker,) = wait_until(lambda: http.get(job).json()["blocked_by"], "the reason")
        assert blocker["condition"] == "busy"
        assert "samples of 'm' are being deleted" in blocker["detail"]

        store.finish_deletions()
        wait_until(lambda: http.get(job).json()["state"] == "succeeded", "the job to succeed")
