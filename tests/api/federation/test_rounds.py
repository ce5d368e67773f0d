"""Rounds: jobs that begin with what was sent and end in an update; refused, stopped, late."""

from __future__ import annotations

import time
from datetime import datetime

import numpy as np
import pytest
from federated import FEDERATION, make_device
from safetensors.numpy import save
from support import blobs, wait_until

from service.policy.time_windows import DAYS
from service.training.updates.compression import read_update

LONG = {"epochs": 1_000_000}


def test_a_round_gives_the_difference_to_what_was_sent(device):
    device.allow()
    sent = device.parameters()
    answer = device.ask(sent, epochs=2, seed=5)
    assert answer.status_code == 202, answer.text
    begun = answer.json()
    assert answer.headers["location"] == f"/v1/rounds/{begun['id']}"
    assert (begun["model"], begun["federation"], begun["round"]) == (device.model, FEDERATION, 1)
    shown = device.ended(begun["id"])
    assert shown["state"] == "succeeded", shown
    assert shown["samples"] == device.http.get(device.path).json()["samples"]["train"]
    update = device.update(begun["id"])
    learned = {name: sent[name] + update[name] for name in sent}
    told = device.measure(learned).json()["metrics"]
    assert told["accuracy"] == shown["metrics"]["validation"]["accuracy"] > 0.9
    assert shown["metrics"]["baseline"]["accuracy"] < 0.8
    assert "confusion_matrix" not in shown["metrics"]["validation"]


def test_copies_and_samples_of_weight_0_hide_no_others(served):
    device = make_device(served, "copies", samples=0)
    served.http.patch(device.path, json={"duplicates": "keep"}).raise_for_status()
    few = blobs(15, 16, 4)
    copied = {name: np.concatenate([rows] * 4) for name, rows in few.items()}
    served.upload("copies", **copied, split="train")
    unused = blobs(15, 16, 4, seed=1)
    served.upload("copies", **unused, weight=np.zeros(15, np.float32), split="train")
    device.allow()
    shown = device.round(device.parameters(), epochs=2)
    assert (shown["state"], shown["error"]["code"]) == ("failed", "too_few_samples"), shown
    assert "come from 15 different samples" in shown["error"]["detail"]


def test_metrics_of_too_few_validation_samples_stay_here(device):
    device.served.upload(device.model, x=np.full((9, 16), 1e6, np.float32), label=np.arange(9) % 4)
    validation = device.http.get(device.path).json()["samples"]["validation"]
    for number, fewest, leave in ((1, validation, True), (2, validation + 1, False)):
        device.allow(min_samples=fewest)
        shown = device.round(device.parameters(), round=number)
        metrics, told = shown["metrics"], device.served.job(shown["id"])["metrics"]
        assert told["train_loss"]
        assert told["warnings"]
        assert (metrics["train_loss"], metrics["warnings"]) == (None, [])
        assert bool(metrics["validation"]) is bool(metrics["baseline"]) is leave, metrics
    device.http.patch(device.path, json={"duplicates": "keep"}).raise_for_status()
    copies = {name: np.repeat(rows, 9, axis=0) for name, rows in blobs(1, 16, 4, seed=9).items()}
    device.served.upload(device.model, **copies, split="validation")
    assert device.round(device.parameters(), round=3)["metrics"]["validation"]
    device.allow(min_samples=validation + 2)
    assert not device.round(device.parameters(), round=4)["metrics"]["validation"]


def test_a_round_leaves_no_version_and_no_checkpoint(device):
    device.allow()
    device.round(device.parameters(), epochs=1)
    assert device.http.get(f"{device.path}/versions").json()["items"][0]["version"] == 1
    assert not device.http.get(f"{device.path}/checkpoints").json()["items"]


def test_only_the_newest_round_keeps_files(device, served):
    device.allow()
    sent = device.parameters()
    first = device.round(sent, round=1, compression="int8")
    second = device.round(sent, round=2, compression="int8")
    assert not device.show(first["id"])["has_update"]
    assert device.http.get(f"/v1/rounds/{first['id']}/update").status_code == 409
    assert device.show(second["id"])["has_update"]


def test_the_same_round_gives_the_same_update_though_it_was_killed(serve, tmp_path):
    sent, updates = None, []
    for name in ("whole", "killed"):
        served = serve(tmp_path / name, checkpoint_interval_s=0.01, retry_backoff_s=0.1)
        device = make_device(served, "m")
        device.allow()
        sent = device.parameters() if sent is None else sent
        begun = device.begin(sent, epochs=60, seed=3)
        if name == "killed":
            device.stepping(begun["id"], least=20)
            served.stop(how=9)
            served = serve(tmp_path / name, checkpoint_interval_s=0.01, retry_backoff_s=0.1)
            device = type(device)(served, "m")
        assert device.ended(begun["id"])["state"] == "succeeded"
        updates.append(device.update(begun["id"]))
        served.stop()
    assert all(np.array_equal(updates[0][name], updates[1][name]) for name in updates[0])


@pytest.mark.parametrize(
    ("federation", "spec", "code", "detail"),
    [
        ({"allowed": False}, {}, "not_consented", "nobody has allowed"),
        ({}, {"superlink": "other:1"}, "not_consented", "not in that of other:1"),
        ({"min_samples": 1000}, {}, "too_few_samples", "fewer than 1000"),
        ({}, {"max_steps": 1, "batch_size": 1}, "too_few_samples", "come from 1 sample of"),
        ({"max_rounds_per_day": 0}, {}, "quota_exceeded", "max_rounds_per_day"),
        ({"epsilon": 1.0}, {}, "privacy_budget_spent", "without noise has no bound"),
    ],
    ids=["no consent", "another federation", "min_samples", "one sample", "a day", "no noise"],
)
def test_what_the_person_has_not_allowed_is_refused(device, federation, spec, code, detail):
    device.allow(**federation)
    answer = device.ask(device.parameters(), **spec)
    assert answer.status_code == (429 if code == "quota_exceeded" else 409)
    assert answer.json()["code"] == code
    assert detail in answer.json()["detail"]
    assert not device.http.get("/v1/jobs", params={"model": device.model}).json()["items"]


def test_a_second_round_waits_for_the_first_and_none_comes_twice(device):
    device.allow()
    sent = device.parameters()
    begun = device.begin(sent, round=4, **LONG)
    refused = device.ask(sent, round=5)
    assert (refused.status_code, refused.json()["code"]) == (409, "state_conflict")
    assert f"/v1/rounds/{begun['id']}" in refused.json()["detail"]
    assert device.http.delete(f"/v1/rounds/{begun['id']}").status_code == 204
    done = device.round(sent, round=4)  # which came to nothing before
    refused = device.ask(sent, round=4)
    assert refused.status_code == 409
    assert f"trained already, as /v1/rounds/{done['id']}" in refused.json()["detail"]


def test_a_model_is_in_one_federation_at_a_time(device):
    device.allow()
    refused = device.allow(superlink="other:1")
    assert (refused.status_code, refused.json()["code"]) == (409, "state_conflict")
    assert device.federation()["superlink"] == FEDERATION
    assert device.allow(allowed=False).status_code == 200
    assert device.allow(superlink="other:1").json()["federation"]["superlink"] == "other:1"
    device.allow(allowed=False, superlink=None)
    assert device.allow(superlink=None).status_code == 422


def test_a_round_is_stopped_within_a_second_whatever_it_does(device):
    device.allow()
    begun = device.begin(device.parameters(), **LONG)
    device.stepping(begun["id"])
    before = time.monotonic()
    assert device.http.delete(f"/v1/rounds/{begun['id']}").status_code == 204
    assert time.monotonic() - before < 1
    shown = device.show(begun["id"])
    assert (shown["state"], shown["has_update"]) == ("cancelled", False)
    assert device.http.get(f"/v1/rounds/{begun['id']}/update").status_code == 409


def test_an_update_is_removed_when_its_round_is_deleted(device):
    device.allow()
    done = device.round(device.parameters())
    assert device.http.delete(f"/v1/rounds/{done['id']}").status_code == 204
    assert not device.show(done["id"])["has_update"]
    assert device.http.get(f"/v1/rounds/{done['id']}/update").status_code == 409


def test_at_the_deadline_comes_the_update_so_far(device):
    device.allow()
    done = device.begin(device.parameters(), deadline_seconds=4, **LONG)
    shown = device.ended(done["id"])
    assert shown["state"] == "succeeded", shown
    assert shown["metrics"]["ended"] == "out_of_time"
    assert shown["finished_at"] >= shown["deadline"]
    assert any(np.any(each) for each in device.update(done["id"]).values())


def test_or_none_if_none_is_wanted_then(device):
    device.allow()
    shown = device.round(device.parameters(), deadline_seconds=1, on_deadline="none", **LONG)
    assert (shown["state"], shown["has_update"]) == ("cancelled", False)
    assert shown["error"]["code"] == "deadline_passed"


@pytest.fixture
def closed(served):
    """Has the policy let no job run: a window of another day."""

    def close() -> None:
        day = DAYS[datetime.now().astimezone().weekday() - 3]
        windows = [{"days": [day], "start": "12:00", "end": "12:01"}]
        served.http.put("/v1/policy", json={"windows": windows}).raise_for_status()

    yield close
    served.http.delete("/v1/policy").raise_for_status()
    served.http.post("/v1/resume").raise_for_status()


def test_a_round_that_never_began_ends_at_its_deadline(device, closed):
    device.allow()
    closed()
    begun = device.begin(device.parameters(), deadline_seconds=3, **LONG)
    wait_until(lambda: device.show(begun["id"])["blocked_by"], "the policy to hold it")
    shown = device.ended(begun["id"])
    assert (shown["state"], shown["error"]["code"]) == ("cancelled", "deadline_passed")
    asked = device.http.get(f"/v1/rounds/{begun['id']}/update")
    assert (asked.status_code, "cancelled: the deadline passed" in asked.text) == (409, True)


def test_a_round_that_the_policy_paused_gives_what_it_has_at_its_deadline(device, closed):
    device.allow()
    begun = device.begin(device.parameters(), deadline_seconds=8, **LONG)
    device.stepping(begun["id"], least=30)
    closed()
    paused = wait_until(lambda: device.paused(begun["id"]), "the pause")
    shown = device.ended(begun["id"])
    assert shown["state"] == "succeeded", shown
    assert shown["metrics"]["ended"] == "out_of_time"
    assert paused["progress"]["step"] <= shown["progress"]["step"] + 1


def test_a_person_who_paused_everything_has_the_last_word(device, served, closed):
    device.allow()
    begun = device.begin(device.parameters(), deadline_seconds=8, **LONG)
    device.stepping(begun["id"], least=30)
    served.http.post("/v1/pause").raise_for_status()
    wait_until(lambda: device.paused(begun["id"]), "the pause")
    shown = device.ended(begun["id"])
    assert (shown["state"], shown["error"]["code"]) == ("cancelled", "deadline_passed")


def test_proximal_mu_keeps_the_update_short(device):
    device.allow()
    sent = device.parameters()
    lengths = []
    for number, mu in enumerate((0.0, 10.0)):
        done = device.round(sent, round=number, epochs=5, seed=1, proximal_mu=mu)
        update = device.update(done["id"])
        lengths.append(sum(float(np.square(each).sum()) for each in update.values()))
        assert done["hyperparameters"]["l2_sp"] == mu
    assert lengths[1] < lengths[0] / 2


def test_defaults_of_the_models_own_jobs_do_not_prolong_a_round(device):
    own = {"epochs": 500, "schedule": "cosine", "early_stopping_patience": 3, "batch_size": 8}
    device.http.patch(device.path, json={"hyperparameters": own}).raise_for_status()
    device.allow()
    done = device.round(device.parameters())
    wanted = done["hyperparameters"]
    assert (wanted["epochs"], wanted["schedule"], wanted["batch_size"]) == (1, "constant", 8)
    assert wanted["early_stopping_patience"] is None


def test_int8_takes_a_quarter_of_the_bytes_and_says_the_same(served, tmp_path):
    device = make_device(served, "wide", hidden=512)
    device.allow()
    sent = device.parameters()
    plain = device.round(sent, round=1, epochs=2, seed=1)
    exact = device.update(plain["id"])
    packed = device.round(sent, round=2, epochs=2, seed=1, compression="int8")
    assert packed["bytes"] <= 0.27 * plain["bytes"]
    assert packed["raw_bytes"] == plain["raw_bytes"] == sum(each.nbytes for each in sent.values())
    path = tmp_path / "update"
    path.write_bytes(device.http.get(f"/v1/rounds/{packed['id']}/update").content)
    assert path.stat().st_size == packed["bytes"]
    read = read_update(path)
    for name, values in exact.items():
        assert np.abs(read[name] - values).max() <= np.abs(values).max() / 127 * 0.51


def test_a_spec_that_is_wrong_is_named(device):
    device.allow()
    told = device.ask(device.parameters(), epoch=3, learning_rate=-1).json()["errors"]
    assert {each["pointer"] for each in told} == {"/spec/epoch", "/spec/learning_rate"}
    told = device.ask(device.parameters(), noise_multiplier=1.0).json()["errors"]
    assert [each["pointer"] for each in told] == ["/spec/clip_norm"]
    ignored = {"on_deadline": "none", "compression": "int8", "share": 0.5}
    told = device.ask(device.parameters(), **ignored).json()["errors"]
    assert [each["pointer"] for each in told] == ["/spec/on_deadline", "/spec/share"]
    content = save(device.parameters())
    answer = device.http.post(f"{device.path}/rounds", files={"parameters": ("p", content)})
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/spec"]
    answer = device.http.post(f"{device.path}/rounds", data={"spec": '{"round": 1}'})
    assert answer.status_code in (415, 422)


def test_a_token_of_another_model_sees_no_round(device, served):
    device.allow()
    done = device.round(device.parameters())
    body = {"name": "b", "scopes": ["federate"], "models": ["another"]}
    secret = served.http.post("/v1/tokens", json=body).json()["secret"]
    header = {"Authorization": f"Bearer {secret}"}
    for place in ("", "/update"):
        url = f"/v1/rounds/{done['id']}{place}"
        assert served.tokenless.get(url, headers=header).status_code == 404
