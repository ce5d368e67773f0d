"""Rows that an older version stored lack the fields that came since; what reads them goes on."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from federated import Device, make_device
from pictures import PREPROCESS, image_model, photo
from support import Served, blobs, mlp, wait_until
from vendors import Vendor

TARGET = {"name", "dtype", "shape", "num_classes", "classes"}
FIRST = {
    "audit.facts": None,  # covered by the hashes of the chain
    "bases.inputs": {"name", "dtype", "shape"},
    "bases.preprocess": {"kind", "input", "channels", "mean", "std"},
    "checkpoints.state": {"step", "epoch", "threads"},
    "jobs.blocked_by": {"condition", "detail"},
    "jobs.error": {"code", "detail"},
    "jobs.hyperparameters": {"max_steps", "epochs", "batch_size", "learning_rate", "seed"},
    "follows.terms": {"source", "keys", "name"},
    "models.federation": {"allowed", "superlink"},
    "models.target": TARGET,
    "rounds.terms": {
        *("clip_norm", "noise_multiplier", "compression", "share"),
        *("min_samples", "on_deadline"),
    },
    "triggers.rule": {"cron", "new_samples"},
    "versions.target": TARGET,
}
"""Fields of stored JSON, at any depth, that were there from the beginning; others may be missing.

None: nothing may.
"""
WITHOUT_JSON = {
    *("assembled_files", "damaged_files", "deletions", "erasures", "forgettings", "sample_keys")
}
"""Tables that need no row here."""
ALONE = {"Connection": "close"}
"""After an error of its own the daemon closes the connection, on which the next request fails."""


def test_every_route_shows_rows_that_lack_the_fields_that_came_later(
    old: Served, description: dict[str, Any]
) -> None:
    refused = {
        answer.url: answer.text
        for answer in asked(old, description["paths"])
        if answer.status_code >= 500
    }
    assert refused == {}
    assert "Traceback" not in old.said()


def test_old_models_train_and_predict_and_old_jobs_and_rounds_go_on(old: Served) -> None:
    (paused,) = old.http.get("/v1/jobs", params={"state": "paused"}).json()["items"]
    old.http.post(f"/v1/jobs/{paused['id']}/resume", json={"ignore_policy": True})
    before = paused["progress"]["step"]
    wait_until(lambda: old.job(paused["id"])["progress"]["step"] > before, "the job to go on")
    old.http.post(f"/v1/jobs/{paused['id']}/cancel").raise_for_status()
    old.wait_for_job(paused["id"], "cancelled")

    old.train("m", epochs=1, ignore_policy=True)
    old.http.post("/v1/models/m/predict", json={"inputs": {"x": [0, 1]}}).raise_for_status()
    path, headers = "/v1/models/pictures/predict", {"Content-Type": "image/png"}
    old.http.post(path, content=photo(98, 1), headers=headers).raise_for_status()
    device = Device(old, "federated")
    assert device.round(device.parameters(), round=2)["state"] == "succeeded"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    """The data folder of an older version."""
    folder = tmp_path_factory.mktemp("older") / "data"
    first = Served(folder, database=database, history_days=1)
    fill(first)
    assert first.stop() == 0
    assert make_old(folder / "hone.db") <= WITHOUT_JSON
    return folder


@pytest.fixture
def old(serve: Callable[..., Served], stored: Path, tmp_path: Path) -> Served:
    """A daemon with a copy of it."""
    return serve(shutil.copytree(stored, tmp_path / "data"))


def fill(served: Served) -> None:
    """Store a row of every kind, with as many fields as it can have."""
    http = served.http
    served.register(
        "m",
        mlp(2, 4, 2),
        classes=["cat", "dog"],
        gate={"mode": "always", "margin": 0.1},
        retention={"max_versions": 9},
        hyperparameters={"batch_size": 16},
    )
    served.upload("m", **blobs(200, 2, 2))
    quota = {"quota": {"max_samples": 9000}}
    http.patch("/v1/models/m", json=quota).raise_for_status()
    http.put("/v1/models/m/reference").raise_for_status()
    followed = {"source": "http://127.0.0.1:9/m.onnx", "keys": [Vendor().pem]}
    http.put("/v1/models/m/follow", json=followed).raise_for_status()
    served.train("m", epochs=1, ignore_policy=True)
    http.get("/v1/models/m/versions/2/model.onnx?variant=ort").raise_for_status()
    http.get("/v1/models/m/drift").raise_for_status()
    for rule in ({"cron": "0 3 * * *"}, {"new_samples": 9000}):
        http.post("/v1/models/m/triggers", json=rule).raise_for_status()
    http.put("/v1/policy", json={"nice": 5, "unknown": {"power": "block"}}).raise_for_status()
    limits = {"uploads": 2, "bytes_per_day": 10**9}
    token = {"name": "app", "scopes": ["predict"], "models": ["m"], "limits": limits}
    http.post("/v1/tokens", json=token).raise_for_status()
    served.register("pictures", image_model(), preprocess=PREPROCESS)
    path, headers = "/v1/models/pictures/samples?label=1", {"Content-Type": "image/png"}
    http.post(path, content=photo(99, 1), headers=headers).raise_for_status()
    device = make_device(served, "federated", samples=60, hidden=4)
    device.allow(delta=1e-6).raise_for_status()
    assert device.round(device.parameters())["state"] == "succeeded"
    job = served.ask_for_job("m", max_steps=10**6, ignore_policy=True)["id"]
    points = f"/v1/jobs/{job}/metrics"
    wait_until(lambda: http.get(points).json()["items"], "a point of its curve")
    http.post(f"/v1/jobs/{job}/pause").raise_for_status()
    served.wait_for_job(job, "paused")


def make_old(database: Path) -> set[str]:
    """Take the fields that came later out of all JSON. Returns the tables that have no row."""
    with closing(sqlite3.connect(database)) as connection, connection:
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%sqlite%'"
        names = [name for (name,) in connection.execute(tables)]
        for table in names:
            for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
                make_column_old(connection, table, column)
        return {
            name for name in names if not connection.execute(f"SELECT 1 FROM {name}").fetchone()
        }


def make_column_old(connection: sqlite3.Connection, table: str, column: str) -> None:
    first = FIRST.get(f"{table}.{column}", set())
    values = connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
    for (value,) in values if first is not None else ():
        change = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"
        if isinstance(value, str) and value[:1] in ("{", "["):
            connection.execute(change, (json.dumps(without(json.loads(value), first)), value))
        elif (table, column) == ("curves", "points"):
            points = json.dumps(without(json.loads(zlib.decompress(value)), first))
            connection.execute(change, (zlib.compress(points.encode()), value))


def without(value: Any, first: set[str]) -> Any:
    """The JSON with no other fields than those."""
    if isinstance(value, dict):
        return {name: without(field, first) for name, field in value.items() if name in first}
    return [without(item, first) for item in value] if isinstance(value, list) else value


def asked(served: Served, paths: dict[str, Any]) -> Iterator[httpx.Response]:
    for template, methods in paths.items():
        for path in filled(template) if template != "/v1/events" else ():
            if "get" in methods:
                yield served.http.get(path, headers=ALONE)
            if "patch" in methods:
                yield served.http.patch(path, json={}, headers=ALONE)


def filled(template: str) -> set[str]:
    """Paths of the template, with the names of our models and small numbers in its places."""
    path = template.replace("{number}", "2").replace("{alias}", "latest")
    named = {path.replace("{name}", model) for model in ("m", "pictures", "federated")}
    return {re.sub(r"{\w+}", number, each) for each in named for number in "123"}
