"""A real daemon in a process of its own, small real models, real uploads."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import psutil
from daemon_process import FORKS_CHILDREN, Process, end, start_daemon
from onnx import TensorProto, helper, numpy_helper
from stored import begin

DEADLINE_S = float(os.environ.get("HONE_DEADLINE_S", "180"))
"""Of every wait: only a test that fails takes so long, and on a busy machine none fails for it."""
HELPERS = Path(__file__).parent
IMPORTED_BY_TESTS = [str(HELPERS), str(HELPERS / "graphs")]
"""What a child process that imports a module of tests needs on its path."""
MIN_POLL_S, MAX_POLL_S = 0.02, 0.1
SILENCE_S = 0.5
"""After it a daemon is asked for a job whether it has logged something or not."""
ENDED = ("succeeded", "failed", "cancelled")
MAX_PAGE = 200
TAKEN_BACK = (("DELETE", "/v1/snooze"), ("POST", "/v1/resume"), ("DELETE", "/v1/policy"))


def wait_until(
    condition: Callable[[], Any],
    what: str,
    *,
    deadline_s: float = DEADLINE_S,
    poll_s: float | None = None,
) -> Any:
    """Ask until the answer is true; fail at the deadline. poll_s: between two questions."""
    began = time.monotonic()
    while not (answer := condition()):
        waited_s = time.monotonic() - began
        assert waited_s < deadline_s, f"waited {deadline_s:g} s for {what}"
        time.sleep(poll_s or pause_s(waited_s))
    return answer


def pause_s(waited_s: float) -> float:
    """How long to wait before asking again: a fifth of the wait so far, within bounds.

    A daemon that is asked every 20 ms spends a sixth of a processor on answering.
    """
    return min(max(waited_s / 5, MIN_POLL_S), MAX_POLL_S)


async def until(condition: Callable[[], Any], what: str) -> Any:
    """As `wait_until`, while the event loop goes on."""
    began = time.monotonic()
    while not (answer := condition()):
        waited_s = time.monotonic() - began
        assert waited_s < DEADLINE_S, f"waited {DEADLINE_S:g} s for {what}"
        await asyncio.sleep(pause_s(waited_s))
    return answer


def client(url: str, *, token: str | None = None) -> httpx.Client:
    """A client of a daemon; it waits for an answer as long as all tests wait.

    url: as the daemon announces it, `unix:` and a path too.
    """
    path = url.removeprefix("unix:")
    transport = httpx.HTTPTransport(uds=path) if path != url else None
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # Without certificates: reading them takes longer than most requests.
    return httpx.Client(
        base_url="http://localhost" if transport else url,
        headers=headers,
        timeout=DEADLINE_S,
        transport=transport,
        trust_env=False,
        verify=False,
    )


class Served:
    """A running `honed serve`, and a client that has its token.

    database: what a new data folder begins with. start: how the process is started.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        database: Path,
        start: Callable[..., Process] = start_daemon,
        **settings: object,
    ) -> None:
        if not data_dir.exists():
            begin(data_dir, database)
        self.data_dir = data_dir
        self.log = data_dir.with_name(data_dir.name + ".log")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HONED_")}
        chosen = {f"HONED_{name.upper()}": str(value) for name, value in settings.items()}
        self.log.touch()
        self._said_from = self.log.stat().st_size
        self.process = start(
            ["serve", "--data-dir", str(data_dir)],
            {**kept, "HONED_CONFIG": os.devnull, "HONED_PORT": "0", **chosen},
            self.log,
        )
        self.url = wait_until(self._announced, "the daemon to listen")
        wait_until(self._answers, "the daemon to be ready")
        self.token = (data_dir / "admin.token").read_text().strip()
        self.tokenless = client(self.url)
        self.http = client(self.url, token=self.token)

    def register(self, name: str, model: bytes, **spec: object) -> dict[str, Any]:
        """Register a forward model; cross entropy unless the spec says otherwise."""
        body = json.dumps({"name": name, "loss": "cross_entropy", **spec})
        files = {"model": ("model.onnx", model)}
        answer = self.http.post("/v1/models", data={"spec": body}, files=files)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def upload(self, name: str, split: str | None = None, **arrays: Any) -> httpx.Response:
        """Upload samples as npz, which are stored."""
        answer = self.offer(name, split, **arrays)
        assert answer.status_code == 201, answer.text
        return answer

    def offer(self, name: str, split: str | None = None, **arrays: Any) -> httpx.Response:
        """Upload samples as npz, which may be refused."""
        path = f"/v1/models/{name}/samples" + (f"?split={split}" if split else "")
        headers = {"Content-Type": "application/x-npz"}
        return self.http.post(path, content=npz(**arrays), headers=headers)

    def ask_for_job(self, name: str, **request: object) -> dict[str, Any]:
        """Queue a job."""
        answer = self.http.post(f"/v1/models/{name}/jobs", json=request)
        assert answer.status_code == 202, answer.text
        return answer.json()

    def job(self, job_id: int) -> dict[str, Any]:
        """A job as it is now."""
        return self.http.get(f"/v1/jobs/{job_id}").json()

    def wait_for_job(self, job_id: int, *states: str) -> dict[str, Any]:
        """The job once it is in one of the states (default: ended)."""
        wanted = states or ENDED

        def reached() -> dict[str, Any] | None:
            job = self.job(job_id)
            assert job["state"] in wanted or job["state"] not in ENDED, job
            return job if job["state"] in wanted else None

        return wait_until(self._when_it_speaks(reached), f"job {job_id} to be {wanted}")

    def train(self, name: str, **request: object) -> dict[str, Any]:
        """Train to the end."""
        job = self.wait_for_job(self.ask_for_job(name, **request)["id"])
        assert job["state"] == "succeeded", job
        return job

    def said(self) -> str:
        """What it has logged since it started or was cleared."""
        return self.log.read_bytes()[self._said_from :].decode(errors="replace")

    def clear(self, *, keep: Collection[str] = ()) -> None:
        """Take back what tests asked for: jobs, models but those to keep, pauses, the policy."""
        # Not by state: a job that leaves one for another would be missed.
        for job in [entry for entry in self._items("/v1/jobs") if entry["state"] not in ENDED]:
            self.http.post(f"/v1/jobs/{job['id']}/cancel")
            self.wait_for_job(job["id"])  # a model whose job runs cannot be deleted
        for model in self._items("/v1/models"):
            if model["name"] not in keep:
                self.http.delete(f"/v1/models/{model['name']}").raise_for_status()
        for method, path in TAKEN_BACK:
            self.http.request(method, path).raise_for_status()
        self._said_from = self.log.stat().st_size

    def _when_it_speaks(self, question: Callable[[], Any]) -> Callable[[], Any]:
        """Ask only when the log has grown, or after a while: it tells of each change of a job."""
        size, asked = -1, 0.0

        def ask() -> Any:
            nonlocal size, asked
            now, found = time.monotonic(), self.log.stat().st_size
            if found == size and now - asked < SILENCE_S:
                return None
            size, asked = found, now
            return question()

        return ask

    def _items(self, path: str, cursor: str | None = None) -> list[dict[str, Any]]:
        query = {"limit": MAX_PAGE} | ({"cursor": cursor} if cursor else {})
        page = self.http.get(path, params=query).raise_for_status().json()
        items: list[dict[str, Any]] = page["items"]
        return items + (self._items(path, page["next"]) if page["next"] else [])

    def children(self, module: str | None = None) -> list[psutil.Process]:
        """Processes that it has started and that run; module: those that run it."""
        return self._running(psutil.Process(self.process.pid).children(), module)

    def _running(self, children: Iterable[psutil.Process], module: str | None) -> list[Any]:
        found = []
        for child in children:
            with suppress(psutil.NoSuchProcess):  # it has just ended
                command = child.cmdline()
                if command[:1] != [FORKS_CHILDREN] and (module is None or module in command):
                    found.append(child)
        return found

    def child_pid(self) -> int | None:
        """The training child's process id, if one runs."""
        listed = self._running(self._listed(), "service.training")
        # Linux may leave one out while another ends.
        found = listed or self.children("service.training")
        return found[0].pid if found else None

    def _listed(self) -> Iterator[psutil.Process]:
        """Its children as Linux lists them; psutil looks through all processes of the machine."""
        for thread in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with suppress(OSError):  # the thread has just ended
                for pid in thread.read_text("ascii").split():
                    with suppress(psutil.NoSuchProcess):
                        yield psutil.Process(int(pid))

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End it, and wait for the end."""
        if hasattr(self, "http"):
            self.http.close()
            self.tokenless.close()
        end(self.process, how)
        return self.process.wait(DEADLINE_S)

    def _announced(self) -> str | None:
        text = self.said()
        assert self.process.poll() is None, f"the daemon ended: {text}"
        found = re.search(r'listens(?: on |","addresses":\[")((?:https?://|unix:)[^\s"]+)', text)
        return found[1] if found else None

    def _answers(self) -> bool:
        try:
            with client(self.url) as asking:
                return asking.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False


def npz(**arrays: Any) -> bytes:
    """The bytes of a .npz."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def weights(content: bytes) -> dict[str, bytes]:
    """Of an inference model: the files of two jobs differ in what they say of their origin."""
    graph = onnx.load_model_from_string(content).graph
    return {tensor.name: tensor.SerializeToString() for tensor in graph.initializer}


def mlp(*sizes: int, seed: int = 0, inputs: str = "x") -> bytes:
    """A forward ONNX MLP with ReLU: input (batch, sizes[0]), output `logits`."""
    generator = np.random.default_rng(seed)
    nodes, weights, last = [], [], inputs
    for layer, (rows, columns) in enumerate(pairwise(sizes)):
        scale = np.sqrt(2 / rows)
        matrix = (generator.standard_normal((rows, columns)) * scale).astype(np.float32)
        weights.append(numpy_helper.from_array(matrix, f"layer{layer}.weight"))
        weights.append(numpy_helper.from_array(np.zeros(columns, "f4"), f"layer{layer}.bias"))
        is_last = layer == len(sizes) - 2
        out = "logits" if is_last else f"hidden{layer}"
        parameters = [last, f"layer{layer}.weight", f"layer{layer}.bias"]
        nodes.append(helper.make_node("Gemm", parameters, [out], name=f"gemm{layer}"))
        if not is_last:
            nodes.append(helper.make_node("Relu", [out], [f"active{layer}"], name=f"relu{layer}"))
            last = f"active{layer}"
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info(inputs, TensorProto.FLOAT, ["batch", sizes[0]])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", sizes[-1]])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def blobs(count: int, features: int, classes: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Separable classes: `x` (count, features) float32 around one centre a class, and `label`."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((classes, features)) * 2
    label = generator.integers(0, classes, count)
    x = centres[label] + generator.standard_normal((count, features))
    return {"x": x.astype(np.float32), "label": label}
