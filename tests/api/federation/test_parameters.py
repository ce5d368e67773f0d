"""Parameters in and out: checked, judged by the gate, measured; never half applied."""

from __future__ import annotations

import json

import numpy as np
import pytest
from federated import BINARY, Device, make_device
from safetensors.numpy import save
from support import blobs, mlp

from service.federation.tensor_file import read_entries


def test_parameters_come_by_name_with_a_tag_that_stays(device, tmp_path):
    answer = device.http.get(f"{device.path}/parameters")
    assert answer.headers["content-length"] == str(len(answer.content))
    path = tmp_path / "parameters"
    path.write_bytes(answer.content)
    assert [(name, entry.shape) for name, entry in read_entries(path).items()] == [
        ("layer0.bias", (32,)),
        ("layer0.weight", (16, 32)),
        ("layer1.bias", (4,)),
        ("layer1.weight", (32, 4)),
    ]
    tag = [("If-None-Match", '"another"'), ("If-None-Match", answer.headers["etag"])]
    assert device.http.get(f"{device.path}/parameters", headers=tag).status_code == 304
    again = device.http.get(f"{device.path}/parameters", params={"version": 1})
    assert again.content == answer.content


def test_each_version_has_its_own(device):
    before = device.parameters()
    version = device.served.train(device.model, epochs=1, learning_rate=0.01)["version"]
    assert version == 2
    first, second = device.parameters(version=1), device.parameters(version=2)
    assert all(np.array_equal(before[name], first[name]) for name in before)
    assert not any(np.array_equal(first[name], second[name]) for name in before)
    missing = device.http.get(f"{device.path}/parameters", params={"version": 9})
    assert missing.status_code == 404


def test_parameters_that_are_better_become_latest_by_the_gate(device):
    start = device.parameters()
    device.served.train(device.model, epochs=5, learning_rate=0.01)
    learned = device.parameters()
    device.http.put(f"{device.path}/aliases/latest", json={"version": 1}).raise_for_status()
    answer = device.send(learned)
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
    job = device.served.wait_for_job(answer.json()["id"])
    assert (job["state"], job["version"], job["trigger"]) == ("succeeded", 3, "parameters")
    assert job["metrics"]["promoted"], job["metrics"]["reason"]
    assert job["progress"]["step"] == 0
    now = device.parameters()
    assert all(np.array_equal(now[name], learned[name]) for name in start)


def test_parameters_that_are_worse_here_never_move_latest(device):
    device.served.train(device.model, epochs=5, learning_rate=0.01)
    before = device.http.get(f"{device.path}/latest").json()["version"]
    learned = device.parameters()
    turned = {name: np.roll(learned[name], 1, -1) for name in ("layer1.bias", "layer1.weight")}
    worse = {**learned, **turned}  # each class answers for its neighbour
    job = device.served.wait_for_job(device.send(worse).json()["id"])
    assert job["state"] == "succeeded"
    assert not job["metrics"]["promoted"]
    assert device.http.get(f"{device.path}/latest").json()["version"] == before
    kept = device.parameters(version=job["version"])
    assert all(np.array_equal(kept[name], worse[name]) for name in worse)


def test_parameters_are_personalized_on_arrival_if_wished(device):
    device.allow(personalize={"epochs": 2, "learning_rate": 0.01})
    sent = device.parameters()
    job = device.served.wait_for_job(device.send(sent).json()["id"])
    assert job["progress"]["step"] == job["progress"]["total_steps"] > 0
    assert job["hyperparameters"]["epochs"] == 2
    now = device.parameters(version=job["version"])
    assert not any(np.array_equal(now[name], sent[name]) for name in sent)


def test_a_form_says_how_to_personalize_these(device):
    answer = device.http.put(
        f"{device.path}/parameters",
        data={"personalize": json.dumps({"max_steps": 3})},
        files={"parameters": ("p", save(device.parameters()))},
    )
    assert answer.status_code == 202, answer.text
    assert device.served.wait_for_job(answer.json()["id"])["progress"]["step"] == 3
    wrong = device.http.put(
        f"{device.path}/parameters",
        data={"personalize": json.dumps({"epoch": 3})},
        files={"parameters": ("p", save(device.parameters()))},
    )
    assert [error["pointer"] for error in wrong.json()["errors"]] == ["/personalize/epoch"]
    misspelled = device.http.put(
        f"{device.path}/parameters",
        data={"personalise": json.dumps({"max_steps": 3})},
        files={"parameters": ("p", save(device.parameters()))},
    )
    assert [error["pointer"] for error in misspelled.json()["errors"]] == ["/personalise"]
    part = ("parameters", ("p", save(device.parameters())))
    twice = device.http.put(f"{device.path}/parameters", files=[part, part])
    assert twice.status_code == 422
    assert "there 2 times" in twice.json()["errors"][0]["detail"]


@pytest.fixture(scope="module")
def allowed(served) -> Device:
    device = make_device(served, "allowed")
    device.allow()
    return device


@pytest.mark.parametrize("way", ["send", "measure", "ask"])
@pytest.mark.parametrize(
    ("spoil", "pointer"),
    [
        (lambda p: {name: each for name, each in p.items() if "bias" in name}, "/layer0.weight"),
        (lambda p: {**p, "layer1.bias": np.full(4, np.nan, np.float32)}, "/layer1.bias"),
        (lambda p: {**p, "layer1.bias": np.zeros(4, np.float16)}, "/layer1.bias"),
        (lambda p: {**p, "layer0.weight": p["layer0.weight"].T.copy()}, "/layer0.weight"),
        (lambda p: {**p, "other": np.zeros(4, np.float32)}, "/other"),
        (lambda _: b"no tensors at all", ""),
    ],
    ids=["another model", "NaN", "dtype", "shape", "more", "no file"],
)
def test_parameters_that_are_not_the_models_are_named_and_nothing_changes(
    allowed, way, spoil, pointer
):
    answer = getattr(allowed, way)(spoil(allowed.parameters()))
    assert answer.status_code == 422, answer.text
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]
    assert not allowed.http.get("/v1/jobs", params={"model": allowed.model}).json()["items"]
    assert allowed.http.get(allowed.path).json()["latest_version"] == 1
    left = list((allowed.served.data_dir / "tmp").glob("upload-*"))
    assert not left


def test_parameters_are_measured_on_the_local_validation_samples(device):
    start = device.parameters()
    before = device.measure(start).json()["metrics"]
    device.served.train(device.model, epochs=5, learning_rate=0.01)
    after = device.measure(device.parameters()).json()["metrics"]
    assert before["samples"] == after["samples"] > 20
    assert after["accuracy"] > before["accuracy"] + 0.2
    assert device.measure(start).json()["metrics"] == before
    assert "confusion_matrix" not in before
    jobs = device.http.get("/v1/jobs", params={"model": device.model}).json()["items"]
    assert len(jobs) == 1


def test_parameters_with_which_the_loss_is_not_finite_are_refused(device):
    large = {name: parameter * np.float32(1e30) for name, parameter in device.parameters().items()}
    answer = device.measure(large)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert "smaller" in answer.json()["detail"]
    job = device.served.wait_for_job(device.send(large).json()["id"])
    assert job["error"]["code"] == "loss_not_finite"
    assert "the received parameters" in job["error"]["detail"]


def test_a_federation_alone_needs_consent_to_send_and_to_measure(device, served):
    made = served.http.post("/v1/tokens", json={"name": "bridge", "scopes": ["federate"]})
    header = {"Authorization": f"Bearer {made.json()['secret']}", **BINARY}
    content = save(device.parameters())
    for method, place in (("PUT", "parameters"), ("POST", "evaluate")):
        url = f"{device.path}/{place}"
        answer = served.tokenless.request(method, url, content=content, headers=header)
        assert answer.json()["code"] == "not_consented"
    device.allow()
    for method, place, status in (("PUT", "parameters", 202), ("POST", "evaluate", 200)):
        url = f"{device.path}/{place}"
        answer = served.tokenless.request(method, url, content=content, headers=header)
        assert answer.status_code == status, answer.text
    validation = served.http.get(device.path).json()["samples"]["validation"]
    served.http.patch(device.path, json={"duplicates": "keep"}).raise_for_status()
    copies = {name: np.repeat(rows, 9, axis=0) for name, rows in blobs(1, 16, 4, seed=9).items()}
    served.upload(device.model, **copies, split="validation")
    for fewest, status in ((validation + 1, 200), (validation + 2, 409)):
        device.allow(min_samples=fewest)
        answer = served.tokenless.post(f"{device.path}/evaluate", content=content, headers=header)
        assert answer.status_code == status, answer.text
    assert answer.json()["code"] == "too_few_samples"


def test_parameters_for_standardized_labels_stay_here(served):
    name = "standardized"
    served.register(name, mlp(4, 1), loss="mse")
    x = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)
    label = 50 + 10 * x[:, :1]
    served.upload(name, x=x, label=label).raise_for_status()
    device = Device(served, name)
    first = device.parameters()
    served.train(name)
    refused = device.http.get(f"{device.path}/parameters")
    assert refused.status_code == 409
    assert "standardized labels" in refused.json()["detail"]
    device.allow()
    job = served.wait_for_job(device.send(first).json()["id"])
    again = device.parameters(version=job["version"])
    assert all(np.array_equal(first[each], again[each]) for each in first)
    served.train(name, **{"from": "base", "standardize_labels": False})
    assert device.parameters(version=4).keys() == first.keys()
