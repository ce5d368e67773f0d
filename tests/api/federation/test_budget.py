"""The privacy budget: spent by what may leave, kept in two places, raised by people alone."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from contextlib import closing
from datetime import datetime, timezone

import numpy as np
import pytest
from federated import Device, make_device
from support import wait_until

from service.backup.contents import open_backup, read_contents
from service.backup.restore import restore
from service.federation.accounting import epsilon_of, rho_of
from service.training.updates.compression import read_update
from service.training.updates.update import norm_of

NOISE = {"clip_norm": 1.0, "noise_multiplier": 2.0}


def after(rounds: int, noise: float = 2.0) -> float:
    return epsilon_of(rounds * rho_of(noise), delta=1e-5)


def test_rounds_are_refused_for_ever_once_the_budget_is_spent(device):
    device.allow(epsilon=after(2) + 0.01)
    sent = device.parameters()
    for number in (1, 2):
        done = device.round(sent, round=number, **NOISE)
        assert done["epsilon"] == pytest.approx(after(number))
    refused = device.ask(sent, round=3, **NOISE)
    assert (refused.status_code, refused.json()["code"]) == (409, "privacy_budget_spent")
    assert f"epsilon {after(2):.4g}" in refused.json()["detail"]
    assert device.ask(sent, round=3, clip_norm=1.0).json()["code"] == "privacy_budget_spent"
    spent = device.federation()["spent"]
    assert spent == {"epsilon": after(2), "rounds": 2, "rounds_without_noise": 0}
    scraped = device.http.get("/metrics").text.splitlines()
    assert f'honed_rounds{{model="{device.model}"}} 2' in scraped
    assert f'honed_privacy_epsilon{{model="{device.model}"}} {after(2):.15g}' in scraped
    device.allow(epsilon=after(3) + 0.01).raise_for_status()
    assert device.round(sent, round=3, **NOISE)["state"] == "succeeded"


@pytest.mark.parametrize("noise", [1e-200, 1e-155, 9.9e-4, 1.1e6, -1])
def test_noise_outside_its_bounds_is_refused_and_spends_nothing(device, noise):
    device.allow(epsilon=100.0)
    refused = device.ask(device.parameters(), clip_norm=1.0, noise_multiplier=noise)
    assert refused.status_code == 422, refused.text
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/spec/noise_multiplier"]
    told = device.allow(noise_multiplier=noise, clip_norm=1.0)
    assert [error["pointer"] for error in told.json()["errors"]] == ["/federation/noise_multiplier"]
    assert device.federation()["spent"] == {"epsilon": 0, "rounds": 0, "rounds_without_noise": 0}


@pytest.mark.parametrize("field", ["clip_norm", "delta"])
def test_terms_too_small_to_calculate_with_are_refused(device, field):
    refused = device.allow(**{field: 1e-300})
    assert [error["pointer"] for error in refused.json()["errors"]] == [f"/federation/{field}"]


def test_the_least_noise_spends_what_a_number_can_tell(device):
    device.allow()
    done = device.round(device.parameters(), clip_norm=1.0, noise_multiplier=1e-3)
    assert done["epsilon"] == pytest.approx(after(1, 1e-3))


def test_a_round_without_noise_spends_any_budget(device):
    device.allow(epsilon=1e6)
    sent = device.parameters()
    refused = device.ask(sent, round=1, clip_norm=1.0).json()
    assert refused["code"] == "privacy_budget_spent"
    assert "noise_multiplier 0" in refused["detail"]
    assert "no bound" in refused["detail"]

    device.allow(epsilon=None).raise_for_status()
    assert device.round(sent, round=1)["epsilon"] is None
    device.allow(epsilon=1e6).raise_for_status()
    refused = device.ask(sent, round=2, **NOISE).json()
    assert refused["code"] == "privacy_budget_spent"
    assert "updates without noise (1)" in refused["detail"]
    spent = device.federation()["spent"]
    assert spent == {"epsilon": None, "rounds": 0, "rounds_without_noise": 1}


def test_the_devices_own_terms_hold_where_they_are_stricter(device):
    device.allow(clip_norm=0.5, noise_multiplier=4.0)
    sent = device.parameters()
    weak = device.round(sent, round=1, clip_norm=10.0, noise_multiplier=0.1)
    assert (weak["terms"]["clip_norm"], weak["terms"]["noise_multiplier"]) == (0.5, 4.0)
    assert weak["epsilon"] == pytest.approx(after(1, 4.0))
    strict = device.round(sent, round=2, clip_norm=0.1, noise_multiplier=9.0)
    assert (strict["terms"]["clip_norm"], strict["terms"]["noise_multiplier"]) == (0.1, 9.0)


def test_rounding_to_int8_makes_no_update_longer_than_clip_norm(device, tmp_path):
    device.allow()
    path = tmp_path / "update"
    for number, epochs in enumerate((1, 3, 9)):
        done = device.round(
            device.parameters(), round=number, epochs=epochs, clip_norm=0.25, compression="int8"
        )
        path.write_bytes(device.http.get(f"/v1/rounds/{done['id']}/update").content)
        assert 0.249 < norm_of(read_update(path)) <= 0.25


def test_what_leaves_is_clipped_and_noised(served):
    device = make_device(served, "noised", hidden=512)
    device.allow()
    sent = device.parameters()
    device.round(sent, round=1, epochs=3, clip_norm=0.25)
    norm = np.sqrt(sum(np.square(each).sum() for each in update_of(device, 1).values()))
    assert 0.2499 < norm <= 0.25
    device.round(sent, round=2, epochs=3, clip_norm=0.25, noise_multiplier=4.0)
    flat = np.concatenate([each.reshape(-1) for each in update_of(device, 2).values()])
    assert len(flat) > 10_000
    assert abs(flat.std() - 1.0) < 0.03


def update_of(device: Device, number: int) -> dict[str, np.ndarray]:
    jobs = device.http.get("/v1/jobs", params={"model": device.model}).json()["items"]
    shown = next(each for each in map(device.show, (job["id"] for job in jobs)))
    assert shown["round"] == number
    return device.update(shown["id"])


def test_what_leaves_stands_in_the_audit_log_without_values(device):
    device.allow()
    done = device.round(device.parameters(), **NOISE)
    device.update(done["id"])

    def entry():
        found = device.http.get(
            "/v1/audit", params={"kind": "export", "model": device.model}
        ).json()["items"]
        path = f"/v1/rounds/{done['id']}/update"
        return next((each for each in found if each["path"] == path), None)

    facts = wait_until(entry, "the entry")["facts"]
    assert facts["norm"] > 0.5
    assert facts["sent_norm"] > 20  # of noise of deviation 2 on 676 numbers
    assert facts["bytes"] == done["bytes"]
    assert facts["epsilon"] == done["epsilon"]
    assert (facts["round"], facts["samples"]) == (1, done["samples"])
    assert all(not isinstance(fact, list | dict) for fact in facts.values())


def test_a_paused_round_whose_consent_was_taken_back_trains_no_more(device):
    device.allow()
    done = device.round(device.parameters())
    begun = device.begin(device.parameters(), round=2, epochs=4000)
    device.stepping(begun["id"])
    paused = device.http.post(f"/v1/jobs/{begun['id']}/pause").raise_for_status().json()
    device.allow(allowed=False).raise_for_status()
    device.http.post(f"/v1/jobs/{begun['id']}/resume").raise_for_status()
    refused = device.http.get(f"/v1/rounds/{done['id']}/update")
    assert refused.json()["code"] == "not_consented"
    shown = device.ended(begun["id"])
    assert (shown["state"], shown["error"]["code"]) == ("failed", "not_consented")
    assert shown["progress"]["step"] == paused["progress"]["step"]
    assert device.federation()["spent"]["rounds_without_noise"] == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
def test_a_round_whose_consent_was_taken_back_while_it_trained_sends_nothing(device, served):
    device.allow()
    begun = device.begin(device.parameters(), epochs=100)
    child = wait_until(served.child_pid, "the training child")
    os.kill(child, signal.SIGSTOP)
    device.allow(allowed=False).raise_for_status()
    os.kill(child, signal.SIGCONT)
    shown = device.ended(begun["id"])
    assert (shown["state"], shown["error"]["code"]) == ("failed", "not_consented")
    assert device.federation()["spent"]["rounds_without_noise"] == 0


def test_the_budget_survives_a_restart_and_an_older_backup(serve, tmp_path):
    data_dir = tmp_path / "data"
    served = serve(data_dir)
    device = make_device(served, "m")
    device.allow(epsilon=100.0)
    sent = device.parameters()
    device.round(sent, round=1, **NOISE)
    archive = served.http.get("/v1/backup").raise_for_status().content
    for number in (2, 3):
        device.round(sent, round=number, **NOISE)
    served.stop()

    served = serve(data_dir)
    assert Device(served, "m").federation()["spent"]["epsilon"] == pytest.approx(after(3))
    served.stop()

    file = tmp_path / "backup.zip"
    file.write_bytes(archive)
    with closing(open_backup(file)) as opened:
        contents = read_contents(opened, archive_bytes=len(archive))
        now = datetime.now(timezone.utc)
        restore(opened, contents, data_dir, set_aside=True, now=now, advance=lambda _: None)
    served = serve(data_dir)
    device = Device(served, "m")
    assert device.federation()["rounds_today"] == 1  # the database is the older one
    assert device.federation()["spent"]["epsilon"] == pytest.approx(after(3))
    done = device.round(sent, round=2, **NOISE)
    assert done["epsilon"] == pytest.approx(after(4))


def test_a_file_of_what_was_spent_that_cannot_be_read_stops_rounds(serve, tmp_path):
    served = serve(tmp_path / "data")
    device = make_device(served, "m")
    device.allow(epsilon=100.0)
    device.round(device.parameters(), round=1, **NOISE)
    ledger = tmp_path / "data" / "privacy.json"
    kept = ledger.read_text()
    assert list(json.loads(kept).values()) == [{"rho": 0.125, "rounds": 1, "unnoised": 0}]
    assert ledger.stat().st_mode & 0o077 == 0
    ledger.write_text(kept[:20])
    refused = device.ask(device.parameters(), round=2, **NOISE)
    assert refused.json()["code"] == "storage_broken"
    assert str(ledger) in refused.json()["detail"]
    assert "honed_samples" in device.http.get("/metrics").raise_for_status().text
    ledger.write_text(kept)
    assert device.round(device.parameters(), round=2, **NOISE)["epsilon"] == pytest.approx(after(2))


def test_a_loss_that_is_no_number_counts_as_unbounded_until_its_owner_removes_it(serve, tmp_path):
    served = serve(tmp_path / "data")
    poisoned, other = make_device(served, "poisoned"), make_device(served, "other")
    sent = other.parameters()
    for device in (poisoned, other):
        device.allow(epsilon=100.0).raise_for_status()
        device.round(sent, round=1, **NOISE)
    ledger = tmp_path / "data" / "privacy.json"
    told = json.loads(ledger.read_text())
    key = next(each for each in told if each.startswith("poisoned"))
    told[key]["rho"] = math.inf
    ledger.write_text(json.dumps(told))
    assert "Infinity" in ledger.read_text()

    spent = poisoned.federation()["spent"]
    assert spent == {"epsilon": None, "rounds": 1, "rounds_without_noise": 1}
    assert poisoned.ask(sent, round=2, **NOISE).json()["code"] == "privacy_budget_spent"
    assert other.round(sent, round=2, **NOISE)["epsilon"] == pytest.approx(after(2))
    assert "Infinity" not in ledger.read_text()

    told = json.loads(ledger.read_text())
    del told[key]
    ledger.write_text(json.dumps(told))
    assert poisoned.round(sent, round=2, **NOISE)["epsilon"] == pytest.approx(after(2))


def test_a_model_of_the_same_name_begins_anew(device, served):
    device.allow(epsilon=100.0)
    device.round(device.parameters(), **NOISE)
    device.http.delete(device.path).raise_for_status()
    again = make_device(served, device.model)
    again.allow()
    assert again.federation()["spent"]["rounds"] == 0


def test_samples_that_are_forgotten_take_updates_of_them_along(device):
    device.allow()
    done = device.round(device.parameters(), compression="int8")
    version = device.served.train(device.model, epochs=3, learning_rate=0.01)["version"]
    assert version == 2
    device.http.patch(f"{device.path}", json={"gate": {"mode": "always"}}).raise_for_status()
    ids = device.http.get(f"{device.path}/samples", params={"split": "train", "limit": 1}).json()
    place = f"{device.path}/samples/{ids['items'][0]['id']}"
    answer = device.http.delete(place, params={"retrain": True})
    assert answer.status_code == 202, answer.text
    device.served.wait_for_job(answer.json()["job"]["id"])
    assert not device.show(done["id"])["has_update"]
