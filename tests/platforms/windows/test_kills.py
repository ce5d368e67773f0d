"""Ends of the daemon and of its training child at random moments: nothing acknowledged is lost."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from copy import deepcopy

import httpx
import numpy as np
import onnx
import psutil
from comparing import data_dir, find
from onnx import TensorProto, helper, numpy_helper
from support import Served, wait_until
from truth import MODEL, RECORD_BYTES, Truth, content, possible

SEED, KILLS, LONGEST_S = 1, 100, 1.5
LABELS = 5
FEWEST, MOST = 30, 300
"""Samples that are stored: below it none is deleted, above it none is added."""
SAMPLES = f"/v1/models/{MODEL}/samples"
RECIPE = {"max_steps": 10_000_000, "batch_size": 16}
SETTINGS = {"checkpoint_interval_s": 0.1, "retry_backoff_s": 0.01}


def classifier():
    """Of bytes, as many as a sample of the soak has."""
    weight = np.random.default_rng(0).standard_normal((RECORD_BYTES, LABELS)).astype("f4") / 1e4
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["numbers"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["numbers", "weight"], ["logits"]),
        ],
        "bytes",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ["batch", RECORD_BYTES])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", LABELS])],
        [numpy_helper.from_array(weight, "weight")],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


class App(threading.Thread):
    """Adds, labels and deletes samples until the daemon is gone, and tells what it is told."""

    def __init__(self, served: Served, truth: Truth, seed: int) -> None:
        super().__init__()
        self._served, self._truth, self._chance = served, deepcopy(truth), random.Random(seed)
        self._ids = {int(each["key"]): each["id"] for each in listed(served)}
        self.told: list[str] = []
        self.start()

    def run(self) -> None:
        while True:
            asked = self._choose()
            self._tell(asked)
            self._tell({"begun": 0})
            try:
                self._ask(asked)
            except httpx.TransportError:
                return
            self._tell({"of": 0, "done": True})
            self._truth.apply(asked)

    def _tell(self, said):
        self.told.append(json.dumps(said))

    def _choose(self):
        stored, label = sorted(self._truth.samples), self._chance.randrange(LABELS)
        kinds = ["label", *["add"] * (len(stored) < MOST), *["delete"] * (len(stored) > FEWEST)]
        kind = self._chance.choice(kinds) if stored else "add"
        if kind == "add":
            numbers = [self._chance.getrandbits(60) for _ in range(self._chance.choice((1, 3, 20)))]
            return {"do": "add", "numbers": numbers, "labels": [label] * len(numbers)}
        return {"do": kind, "number": self._chance.choice(stored), "label": label}

    def _ask(self, asked):
        if asked["do"] == "add":
            numbers = asked["numbers"]
            x = np.frombuffer(b"".join(map(content, numbers)), "u1").reshape(len(numbers), -1)
            keys = np.array([*map(str, numbers)])
            given = self._served.upload(MODEL, x=x, label=np.array(asked["labels"]), key=keys)
            first, last = given.json()["ids"]
            self._ids.update(zip(numbers, range(first, last + 1), strict=True))
            return
        url = f"{SAMPLES}/{self._ids[asked['number']]}"
        if asked["do"] == "label":
            answer = self._served.http.patch(url, json={"label": asked["label"]})
        else:
            answer = self._served.http.delete(url)
        assert answer.is_success, answer.text


def listed(served):
    """All samples, as the daemon lists them."""
    items, cursor = [], {}
    while True:
        page = served.http.get(SAMPLES, params={"limit": 200, **cursor}).raise_for_status().json()
        items += page["items"]
        if page["next"] is None:
            return items
        cursor = {"cursor": page["next"]}


def training_children():
    """Those of Windows, as processes of this side."""
    found = psutil.process_iter(["cmdline"])
    return [each for each in found if {"-m", "service.training"} <= set(each.info["cmdline"] or ())]


class Lives:
    """One device: its daemon, a job that goes on, and the truths that its folder may hold."""

    def __init__(self, start, folder, copy, seed) -> None:
        self._start, self._folder, self._copy = start, folder, copy
        self._chance = random.Random(seed)
        self._may_be = [Truth()]
        self.counts = Counter()
        self._begin()

    def _begin(self) -> None:
        self._served = self._start(**SETTINGS)
        if not self.counts:
            self._served.register(MODEL, classifier())
        self._app = App(self._served, self._may_be[0], self._chance.getrandbits(32))

    def _running(self):
        """The job that runs; a new one is asked for if the last has failed."""
        jobs = self._served.http.get("/v1/jobs", params={"limit": 1}).json()["items"]
        if (not jobs or jobs[0]["state"] == "failed") and len(listed(self._served)) > LABELS:
            self._served.ask_for_job(MODEL, **RECIPE)
            self.counts["jobs"] += 1
        return jobs[0] if jobs and jobs[0]["state"] == "running" else None

    def _has_trained(self, job):
        now = self._served.job(job["id"])
        return now["state"] == "failed" or now["progress"]["step"] > job["progress"]["step"]

    def strike(self) -> None:
        """Kill the daemon or the child, while it starts or trains."""
        job = wait_until(self._running, "a job to run")
        if self._chance.random() < 0.5:
            wait_until(lambda: self._has_trained(job), "the job to train")
        time.sleep(self._chance.uniform(0, LONGEST_S))
        if self._chance.random() < 0.5:
            for child in training_children():
                with suppress(psutil.NoSuchProcess):
                    child.kill()
                    self.counts["kills of a child"] += 1
            return
        self._served.process.send_signal(signal.SIGKILL)
        self.counts["kills of the daemon"] += 1
        self._app.join()
        self._served.stop(signal.SIGKILL)
        self._look()
        self._begin()

    def end(self) -> None:
        """Ctrl-C, which loses nothing either."""
        assert self._served.stop(signal.SIGINT) == 0
        self._app.join()
        self._look()

    def _look(self) -> None:
        """On a copy, as the daemon finds its folder; its own backups are of the real calendar."""
        self._may_be = possible(self._may_be, self._app.told)
        self.counts["acknowledged"] += sum('"of"' in each for each in self._app.told)
        shutil.rmtree(self._copy, ignore_errors=True)
        without = shutil.ignore_patterns("backups")
        shutil.copytree(self._folder, data_dir(self._copy), ignore=without)
        self._may_be = [find(self._copy, self._may_be, is_strict=True)]


def test_kills_at_random_moments_lose_nothing_that_was_acknowledged(serve_there, folder, tmp_path):
    lives = Lives(serve_there, folder / "data", tmp_path / "device", SEED)
    while lives.counts["kills of a child"] + lives.counts["kills of the daemon"] < KILLS:
        lives.strike()
    lives.end()
    sys.stdout.write(f"{dict(lives.counts)}, seed {SEED}\n")
    assert min(lives.counts["kills of a child"], lives.counts["kills of the daemon"]) > KILLS / 4
