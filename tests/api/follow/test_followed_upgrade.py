"""From a registry to `latest`: a signed base is taken, trained on the device, and judged."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_process import SIGKILL
from support import Served, blobs, mlp, wait_until
from vendors import Vendor, Website, needs_registry, push, registry, says, signed

QUICK = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01}
NAMES = ["ant", "bee", "cat"]
BETTER = mlp(6, 32, 16, 3, seed=3)
FOLLOW = "/v1/models/pets/follow"


def prepare(served: Served) -> None:
    """A model that has learned from its samples."""
    served.register("pets", mlp(6, 8, 3), classes=NAMES)
    served.upload("pets", "train", **blobs(300, 6, 3, seed=1))
    served.upload("pets", "validation", **blobs(90, 6, 3, seed=2))
    served.train("pets", **QUICK)


@pytest.fixture
def learned(served: Served) -> Iterator[Served]:
    prepare(served)
    yield served
    served.clear()


def follow(served: Served, source: str, vendor: Vendor, **more: Any) -> None:
    """Ask now."""
    body = {"source": source, "keys": [vendor.pem], "name": "digits", **more}
    answer = served.http.put(FOLLOW, json=body)
    assert answer.status_code == 200, answer.text


def once(served: Served, what: str) -> Any:
    return wait_until(
        lambda: (found := served.http.get(FOLLOW).json())[what] and not found["asking"] and found,
        f"{what} of the followed source",
    )


def latest(served: Served) -> int:
    number: int = served.http.get("/v1/models/pets/latest").json()["version"]
    return number


@needs_registry
def test_a_pushed_and_signed_base_becomes_latest_once_it_has_learned(learned, tmp_path):
    vendor = Vendor()
    with registry(tmp_path) as host:
        envelope = vendor.sign(BETTER, spec={"classes": NAMES, "hyperparameters": QUICK})
        source = push(host, BETTER, envelope)
        follow(learned, source, vendor)
        found = once(learned, "taken")
        assert (found["taken"], found["error"], found["in_share"]) == (2, None, True)
        assert latest(learned) == 2  # nothing has changed for apps
        job = learned.wait_for_job(found["job_id"])
        assert (job["state"], job["trigger"]) == ("succeeded", "upgrade"), job
        assert job["metrics"]["promoted"], job["metrics"]["reason"]
        assert latest(learned) == 3
        base = learned.http.get("/v1/models/pets/base").json()
        assert (base["sha256"], base["upgrade"]) == (found["offered"]["sha256"], None)
        assert found["downloaded_bytes"] == 0
        assert not list(Path(learned.data_dir, "cache", "follow").glob("*/*"))

        # A foreign signature, and a lower version, change nothing.
        push(host, mlp(6, 4, 3), Vendor().sign(mlp(6, 4, 3), 9))
        follow(learned, source, vendor)
        assert once(learned, "error")["error"]["code"] == "signature_refused"
        push(host, mlp(6, 4, 3), vendor.sign(mlp(6, 4, 3), 1))
        follow(learned, source, vendor)
        assert once(learned, "error")["error"]["code"] == "version_downgraded"
        assert latest(learned) == 3


def test_a_daemon_that_is_killed_goes_on_with_the_download(serve):
    vendor, rest, cut = Vendor(), threading.Event(), 20_000
    big = mlp(6, 200, 200, 3, seed=3)

    def stall(handler, content):
        """A part, and nothing more until the daemon is gone."""
        handler.answer(200, content[:cut], length=len(content))
        handler.wfile.flush()
        rest.wait()

    with Website() as site:
        served = serve()
        prepare(served)
        source = site.publish(vendor, big, spec={"hyperparameters": QUICK})
        site.lies["/digits.onnx"] = stall
        follow(served, source, vendor)
        here = "downloaded_bytes"
        wait_until(lambda: served.http.get(FOLLOW).json()[here] == cut, "a part of the file")
        served.stop(SIGKILL)
        rest.set()
        del site.lies["/digits.onnx"]
        again = serve()
        follow(again, source, vendor)
        assert once(again, "taken")["taken"] == 2
        assert site.asked[-1] == ("GET", "/digits.onnx", f"bytes={cut}-")
        assert again.wait_for_job(again.http.get(FOLLOW).json()["job_id"])["state"] == "succeeded"


def test_a_vendor_learns_one_small_report_and_only_where_a_person_allows_it(learned):
    vendor = Vendor()
    with Website() as site:
        source = site.publish(vendor, BETTER, spec={"classes": NAMES, "hyperparameters": QUICK})
        follow(learned, source, vendor)
        job = learned.wait_for_job(once(learned, "taken")["job_id"])
        shown = once(learned, "report_body")["report_body"]
        figures = figures_of(shown)
        accuracy = job["metrics"]["validation"]["accuracy"]
        assert figures["honed.upgrade.accuracy.after"] == round(accuracy, 2)
        assert figures["honed.upgrade.samples"] == 256  # of 300
        assert figures["honed.upgrade.promoted"] == 1
        assert site.posted == []

        collector = f"{site.url}/v1/metrics"
        site.lies["/v1/metrics"] = says(503)
        follow(learned, source, vendor, report=collector)
        assert once(learned, "asked_at")["reported"] is None
        del site.lies["/v1/metrics"]
        for _ in range(2):  # once, whatever is asked again
            follow(learned, source, vendor, report=collector)
            assert once(learned, "asked_at")["reported"] == 2
        (posted,) = site.posted
        assert figures_of(json.loads(posted)) == figures
        about = json.loads(posted)["resourceMetrics"][0]["resource"]["attributes"]
        values = {each["key"]: each["value"]["stringValue"] for each in about}
        digest = signed(BETTER).sha256
        assert values["honed.base.sha256"] == digest
        assert set(values.values()) == {"honed", "digits", "2", digest}
        assert len(posted) < 2000


def figures_of(report: dict[str, Any]) -> dict[str, float]:
    """By name, as a collector reads OTLP."""
    (scope,) = report["resourceMetrics"][0]["scopeMetrics"]
    return {each["name"]: each["gauge"]["dataPoints"][0]["asDouble"] for each in scope["metrics"]}


@pytest.mark.parametrize(
    ("model", "spec", "said"),
    [
        (b"no model", {}, "version 2"),
        (mlp(7, 8, 3), {}, "samples hold"),
        (BETTER, {"clases": NAMES}, "there is no such field"),
        (BETTER, {"classes": 3}, "/spec"),
    ],
    ids=["no ONNX", "other inputs", "a field that is none", "a field of another type"],
)
def test_a_signed_base_that_the_model_cannot_take_is_refused(learned, model, spec, said):
    vendor = Vendor()
    with Website() as site:
        follow(learned, site.publish(vendor, model, spec=spec), vendor)
        found = once(learned, "error")
        assert found["error"]["code"] == "base_refused"
        assert said in found["error"]["detail"]
        assert (found["taken"], found["downloaded_bytes"]) == (None, 0)
        assert learned.http.get("/v1/models/pets/base").json()["upgrade"] is None
        asked = len(site.asked)
        assert asked == 2
