"""Damaged samples and files are told, and the daemon goes on with what is whole."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from support import Served, blobs, mlp

from storage.store import Store

DAMAGED = [
    ("GET", "/v1/models/{name}/versions/{number}/model.onnx", None),
    ("GET", "/v1/models/{name}/parameters?version=2", None),
    ("POST", "/v1/models/{name}/predict?version=2", {"inputs": {"x": [0] * 8}}),
    ("GET", "/v1/models/{name}/samples/{sample_id}/content", None),
    ("GET", "/v1/checkpoints/{checkpoint_id}/content", None),
]
"""What is answered with this error once the file of version 2, sample 8 and checkpoint 1 are."""


def flip(path: Path, at: int = 40) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_daemon_serves_and_trains_with_what_is_whole(
    serve: Callable[..., Served], description: dict[str, Any]
) -> None:
    served = serve()
    for name in ("m", "other"):
        served.register(name, mlp(8, 8, 2))
        served.upload(name, split="train", **blobs(60, 8, 2))
        served.upload(name, split="validation", **blobs(20, 8, 2, seed=1))
    served.train("m", epochs=1)
    served.http.put("/v1/models/m/aliases/latest", json={"version": 2})
    served.stop()
    store = Store.open(served.data_dir)
    model, other = store.models.get("m"), store.models.get("other")
    flip(store.files.path(store.versions.get(model.id, 2).file.sha256), at=40)
    flip(store.files.path(store.checkpoints.get(1).file.sha256))
    flip(store.packs_dir / str(model.id) / "1.pack", at=32 * 7 + 3)
    (store.packs_dir / str(other.id) / "1.pack").unlink()
    store.close()

    again = serve()

    latest = again.http.get("/v1/models/m/latest").json()
    file = again.http.get("/v1/models/m/latest/model.onnx")
    assert latest["version"] == 1
    assert hashlib.sha256(file.content).hexdigest() == latest["sha256"]
    for method, path, body in DAMAGED:
        damaged = again.http.request(
            method, path.format(name="m", number=2, sample_id=8, checkpoint_id=1), json=body
        )
        assert (damaged.status_code, damaged.json()["code"]) == (500, "damaged"), path
        operation = description["paths"][path.partition("?")[0]][method.lower()]
        described = operation["responses"]["500"]["content"]["application/problem+json"]
        assert "damaged" in described["examples"], path
    assert again.http.get("/v1/models/m/samples/7/content").status_code == 200

    job = again.train("m", epochs=1)

    assert job["state"] == "succeeded"
    assert again.http.get("/v1/models/m/samples/8").json()["quarantine"].startswith("damaged")
    ready = again.tokenless.get("/readyz").json()
    assert ready["status"] == "ok"
    assert ready["damaged"]["samples"] == {"m": 1, "other": 80}
    assert sorted(ready["damaged"]["files"].values()) == [["checkpoint 1"], ["m version 2"]]


def etag_of(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()}"'


def stored(served: Served, query: str) -> list[Path]:
    """Where the files lie whose SHA-256 a query of the daemon's database gives."""
    with closing(sqlite3.connect(f"file:{served.data_dir}/hone.db?mode=ro", uri=True)) as database:
        hashes = [row[0] for row in database.execute(query)]
    return [served.data_dir / "files" / digest[:2] / digest for digest in hashes]


def test_a_damaged_checkpoint_artifact_and_variant_each_give_way(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    model = mlp(8, 8, 2)
    served.register("m", model)
    served.upload("m", split="train", **blobs(60, 8, 2))
    served.train("m", epochs=1)
    variant = {"variant": "ort"}
    served.http.get("/v1/models/m/versions/1/model.onnx", params=variant)

    (path,) = stored(served, "SELECT sha256 FROM variants")
    flip(path)
    again = served.http.get("/v1/models/m/versions/1/model.onnx", params=variant)
    assert (again.status_code, again.headers["ETag"]) == (200, etag_of(again.content))
    assert served.tokenless.get("/readyz").json()["damaged"] is None

    (path,) = stored(served, "SELECT sha256 FROM checkpoints WHERE role = 'final'")
    flip(path)
    job = served.train("m", epochs=1)
    assert (
        served.http.get(f"/v1/models/m/versions/{job['version']}").json()["provenance"][
            "parent_version"
        ]
        == 1
    )

    (path,) = stored(served, "SELECT sha256 FROM base_files WHERE role = 'training_model'")
    flip(path)
    failed = served.wait_for_job(served.ask_for_job("m")["id"])
    assert (failed["state"], failed["error"]["code"]) == ("failed", "damaged")
    told = served.tokenless.get("/readyz").json()["damaged"]["files"]
    assert ["m training_model"] in told.values()

    served.register("again", model)
    assert served.train("m", epochs=1)["state"] == "succeeded"
