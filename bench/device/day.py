"""A day of a busy device, compressed: whether the daemon's memory and its folder stay level.

BENCH_DAY_MINUTES (24) is how long the day takes; an hour whose work takes longer than its share
lasts longer. AN_HOUR is what a real daemon gets over HTTP in each. Its model's quota is full, so
that uploads evict other samples, and retention keeps few versions.

Each hour ends at the same point: all work done, the samples replaced, so that their pack is new,
the predictor running, a sample deleted, which empties SQLite's log, and some rest. Only labels of
training samples change, so that no version is kept because it was the best before. Each change of
the threads is printed. History (jobs, curves, events, the audit log) is kept for a day at least,
so the database grows.
"""

from __future__ import annotations

import os
import random
import socket
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from threading import Lock
from urllib.parse import urlsplit

import numpy as np
import psutil

from bench.daemon import Served, mlp, served, wait_until
from bench.needs import LINUX
from bench.table import Row, text

HOURS = 24
MINUTES = float(os.environ.get("BENCH_DAY_MINUTES", "24"))
LEAST_REST_S = 5.0
FEATURES, CLASSES, BATCH = 784, 4, 32
QUOTA, VERSIONS = 400, 4
STEPS, STEPS_OF_KILLED = 200, 1000
MAX_DRIFT_PERCENT = 2.0
LEVEL = ("anonymous MB", "resident MB", "descriptors", "threads", "folder MB", "of it files MB")
GROWING = "of it database MB"
"""folder: with the ballast; files: without database and ballast."""
NAMES_THREADS = """
import threading
begin = threading.Thread._bootstrap_inner
def begin_with_name(self):
    with open("/proc/thread-self/comm", "w") as comm:
        comm.write(self.name[:15])
    begin(self)
threading.Thread._bootstrap_inner = begin_with_name
"""
"""A `sitecustomize` that shows Python's names of threads in /proc, as Python does from 3.14 on."""
IDLE_WORKER = "AnyIO worker th"
_M = "/v1/models/m"
LISTS = (
    *(f"{_M}/{each}" for each in ("samples?limit=50", "samples/stats", "versions", "checkpoints")),
    *("/v1/models", "/v1/jobs?model=m", "/v1/device", "/v1/audit", "/metrics"),
)

AN_HOUR = {
    "uploads": 60,
    "uploads of a batch": 4,
    "predictions": 120,
    "lists": 40,
    "labels changed": 10,
    "deletions": 10,
    "fetches": 20,
    "event streams dropped": 6,
    "requests abandoned": 10,
    "archives": 1,
    "backups": 1,
    "backups abandoned": 1,
    "models registered and deleted": 1,
    "predictors killed": 1,
    "jobs": 2,
    "jobs whose child is killed": 1,
    "comparisons": 1,
    "variants": 1,
}
NEEDS = (LINUX,)
SMALLEST = {
    "HOURS": 1,
    "MINUTES": 0.0,
    "LEAST_REST_S": 0.0,
    "AN_HOUR": dict.fromkeys(AN_HOUR, 1),
}


def run() -> list[Row]:
    """The drift of each measure over the second half of the day; a line per hour is printed."""
    with _threads_named(), served(retry_backoff_s=0.1) as daemon:
        device = _Device(daemon)
        print(", ".join(f"{times * HOURS:,} {what}" for what, times in AN_HOUR.items()))
        hours = []
        for hour in range(HOURS):
            hours.append({"hour": hour + 1, **device.hour()})
            print(
                "  ".join(f"{what} {text(value)}" for what, value in hours[-1].items()), flush=True
            )
    return [_drift(hours, what) for what in (*LEVEL, GROWING)]


@contextmanager
def _threads_named() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(NAMES_THREADS)
        os.environ["PYTHONPATH"] = folder
        yield
    del os.environ["PYTHONPATH"]


def _drift(hours: list[Row], what: str) -> Row:
    quarter = max(1, len(hours) // 4)
    third, last = (
        median(hour[what] for hour in hours[begin : begin + quarter])
        for begin in (len(hours) // 2, len(hours) - quarter)
    )
    return {
        "what": what,
        "third quarter": float(third),
        "last quarter": float(last),
        "drift, %": (last / third - 1) * 100,
        "must reach": f"≤ {MAX_DRIFT_PERCENT:g} %" if what in LEVEL else "",
    }


class _Device:
    """A daemon, and what apps on its device ask of it."""

    def __init__(self, daemon: Served) -> None:
        self._daemon, self._chance = daemon, random.Random(0)
        self._generator, self._numbers = np.random.default_rng(0), count(1)
        self._centres = np.random.default_rng(7).standard_normal((CLASSES, FEATURES)) * 2
        self._ids: deque[int] = deque(maxlen=QUOTA // 16)
        self._threads: Counter[str] = Counter()
        self._etag, self._checking = "", Lock()
        self._requests: dict[str, Callable[[], object]] = {
            "uploads": self._upload,
            "uploads of a batch": lambda: self._upload_batch(BATCH),
            "predictions": self._predict,
            "lists": self._list,
            "labels changed": self._relabel,
            "deletions": self._delete,
            "fetches": self._fetch,
            "event streams dropped": lambda: self._begin_to_read("/v1/events"),
            "requests abandoned": self._abandon,
            "archives": lambda: daemon.http.get(f"{_M}/samples/archive"),
            "backups": lambda: daemon.http.get("/v1/backup"),
            "backups abandoned": lambda: self._begin_to_read("/v1/backup"),
            "models registered and deleted": self._register,
            "predictors killed": self._kill_predictor,
        }
        self._training: dict[str, Callable[[], object]] = {
            "jobs": lambda: self._train(max_steps=STEPS),
            "jobs whose child is killed": self._train_and_kill,
            "comparisons": self._compare,
            "variants": lambda: self._model_file("int8"),
        }
        daemon.register("m", mlp(FEATURES, 64, CLASSES))
        kept = {"quota": {"max_samples": QUOTA}, "retention": {"max_versions": VERSIONS}}
        daemon.http.patch(_M, json=kept)
        self._replace_samples()

    def hour(self) -> Row:
        """Do an hour's work in any order, rest, and look."""
        began = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            for work in [
                pool.submit(self._work, kinds) for kinds in (self._requests, self._training)
            ]:
                work.result()
        self._replace_samples()
        self._predict()
        self._delete()
        worked_s = time.monotonic() - began
        time.sleep(max(LEAST_REST_S, MINUTES * 60 / HOURS - worked_s))
        return {**self._look(), "seconds of work": worked_s}

    def _work(self, kinds: dict[str, Callable[[], object]]) -> None:
        work = [do for what, do in kinds.items() for _ in range(AN_HOUR[what])]
        for do in random.Random(next(self._numbers)).sample(work, len(work)):
            do()

    def _look(self) -> Row:
        process = psutil.Process(self._daemon.process.pid)
        status = Path(f"/proc/{process.pid}/status").read_text()
        folder = self._daemon.data_dir
        sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        database = sum(size for path, size in sizes.items() if path.name.startswith("hone.db"))
        counts = self._daemon.http.get(_M).json()["samples"]
        threads = wait_until(self._settled_threads, "idle threads to end", poll_s=1)
        if threads != self._threads:
            came, ended = threads - self._threads, self._threads - threads
            print(f"threads: {sorted(came.elements())} came, {sorted(ended.elements())} ended")
        self._threads = threads
        return {
            "anonymous MB": int(status.split("RssAnon:")[1].split()[0]) / 1024,
            "resident MB": process.memory_info().rss / 2**20,
            "descriptors": process.num_fds(),
            "threads": threads.total(),
            "folder MB": sum(sizes.values()) / 2**20,
            "of it files MB": (sum(sizes.values()) - database - sizes[folder / "ballast"]) / 2**20,
            "of it database MB": database / 2**20,
            "samples": sum(counts.values()),
            "versions": len(self._items("versions")),
        }

    def _settled_threads(self) -> Counter[str] | None:
        """Names of threads, once anyio has one that is idle: a request ends those of 10 s ago."""
        self._daemon.http.get(_M)
        tasks = Path(f"/proc/{self._daemon.process.pid}/task").glob("*/comm")
        names = Counter(task.read_text().strip() for task in tasks)
        return names if names[IDLE_WORKER] == 1 else None

    def _items(self, path: str) -> list[Row]:
        return list(self._daemon.http.get(f"{_M}/{path}").json()["items"])

    def _samples(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        label = self._generator.integers(0, CLASSES, number)
        noise = self._generator.standard_normal((number, FEATURES))
        return (self._centres[label] + noise).astype(np.float32), label

    def _upload(self) -> None:
        x, label = self._samples(1)
        sample = {"inputs": {"x": x[0].tolist()}, "label": int(label[0]), "split": "train"}
        self._ids.append(self._post(f"{_M}/samples", sample)["ids"][0])

    def _replace_samples(self) -> None:
        """Evict all samples: their pack is rewritten once half is erased, if no job trains."""
        self._upload_batch(QUOTA)
        for _ in range(QUOTA // 16):
            self._upload()

    def _upload_batch(self, number: int) -> None:
        x, label = self._samples(number)
        self._daemon.upload("m", x=x, label=label)

    def _predict(self) -> None:
        self._post(f"{_M}/predict", {"inputs": {"x": self._samples(1)[0][0].tolist()}})

    def _post(self, path: str, body: object) -> Row:
        return dict(self._daemon.http.post(path, json=body).json())

    def _list(self) -> None:
        self._daemon.http.get(self._chance.choice(LISTS))

    def _relabel(self) -> None:
        label = {"label": self._chance.randrange(CLASSES)}
        self._daemon.http.patch(f"{_M}/samples/{self._chance.choice(self._ids)}", json=label)

    def _delete(self) -> None:
        self._daemon.http.delete(f"{_M}/samples/{self._ids.pop()}")

    def _fetch(self) -> None:
        headers = {"If-None-Match": self._etag} if self._chance.random() < 0.8 else {}
        answer = self._daemon.http.get(f"{_M}/latest/model.onnx", headers=headers)
        self._etag = answer.headers["etag"]

    def _begin_to_read(self, path: str) -> None:
        with self._daemon.http.stream("GET", path) as answer:
            next(answer.iter_raw())

    def _abandon(self) -> None:
        """Half of an upload, as a program that is killed leaves it."""
        address = urlsplit(self._daemon.url)
        with socket.create_connection((address.hostname, address.port)) as connection:
            head = f"POST {_M}/samples HTTP/1.1\r\nHost: {address.netloc}\r\n"
            head += f"Authorization: Bearer {self._daemon.token}\r\nContent-Length: 1000\r\n"
            connection.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())

    def _register(self) -> None:
        name = f"n{next(self._numbers)}"
        with self._checking:  # in a child, which is not the one to kill
            self._daemon.register(name, mlp(FEATURES, 16, CLASSES))
        self._daemon.http.delete(f"/v1/models/{name}")

    def _kill_predictor(self) -> None:
        for child in self._daemon.children("service.prediction"):
            child.kill()
            child.wait()

    def _train(self, **asked: object) -> None:
        self._daemon.train("m", **asked, ignore_policy=True)

    def _train_and_kill(self) -> None:
        with self._checking:
            job = self._daemon.ask_for_job("m", max_steps=STEPS_OF_KILLED, ignore_policy=True)["id"]
            psutil.Process(wait_until(self._daemon.child_pid, "a child to kill")).kill()
        ended = self._daemon.wait_for_job(job)
        assert (ended["state"], ended["restarts"]) == ("succeeded", 1), ended

    def _compare(self) -> None:
        newest = max(version["version"] for version in self._items("versions"))
        if newest > 1:
            self._daemon.http.get(f"{_M}/versions/1/comparison/{newest}")

    def _model_file(self, variant: str) -> None:
        newest = max(version["version"] for version in self._items("versions"))
        self._daemon.http.get(f"{_M}/versions/{newest}/model.onnx", params={"variant": variant})
