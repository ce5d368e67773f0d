"""The client for programs without an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from honed_client import calls, connection
from honed_client.calls import Call, Job, Prediction, Sample, Version
from honed_client.watching import Watch, session_of

POLL_S = 0.5


class Client:
    """Connects to one daemon. url, token: None for this machine's, as `honed` finds it.

    Use it in a `with` block, or close it. Safe to use from several threads.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None) -> None:
        given = connection.options(url, token)
        uds = given.pop("uds")
        self._http = httpx.Client(transport=uds and httpx.HTTPTransport(uds=uds), **given)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call) -> httpx.Response:
        """Send any request of the API. Raises HonedError and Unreachable."""
        with connection.reaching(self._http.base_url):
            response = self._http.request(call.method, call.path, **call.options())
        return connection.checked(response)

    def get(self, path: str, **params: Any) -> Any:
        """The JSON answer to a GET of any route."""
        return self.send(Call("GET", path, params=params)).json()

    def model(self, name: str) -> Model:
        """A model by its name; no request is made until it is used."""
        return Model(self, name)


class Model:
    """One model of the daemon."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self._described: dict[str, Any] | None = None

    def describe(self) -> dict[str, Any]:
        """Signature, settings and counts of samples, as they are now."""
        found: dict[str, Any] = self.client.get(calls.model_path(self.name))
        self._described = found
        return found

    def predict(self, x: Any, *, keep: bool = False) -> Prediction:
        """The promoted version's prediction for one instance.

        x: inputs by name, or the only input; lists or arrays, without a batch axis. keep: store it
        as a sample without a label; the answer then has its `id`, for `label`.
        """
        inputs = calls.inputs_of(x, None if isinstance(x, Mapping) else self._known())
        return calls.predicted(self.client.send(calls.predict(self.name, inputs, keep=keep)).json())

    def add(self, x: Any, label: Any = None, *, key: str | None = None) -> int | None:
        """Store a sample; returns its id, None for a duplicate. key: the app's own id for it."""
        inputs = calls.inputs_of(x, None if isinstance(x, Mapping) else self._known())
        call = calls.add(self.name, inputs, self._label(label), key)
        ids = self.client.send(call).json()["ids"]
        return ids[0] if ids else None

    def label(self, sample: int, label: Any) -> Sample:
        """Label a stored sample: a class name or number, or values; None removes the label."""
        answer: Sample = self.client.send(
            calls.relabel(self.name, sample, self._label(label))
        ).json()
        return answer

    def train(self, *, wait: bool = False, **hyperparameters: Any) -> Job:
        """Queue a job. wait: until it has ended, successfully or not."""
        job: Job = self.client.send(calls.train(self.name, hyperparameters)).json()
        while wait and job["state"] not in calls.ENDED:
            time.sleep(POLL_S)
            job = self.client.get(f"/v1/jobs/{job['id']}")
        return job

    def latest(self) -> Version:
        """The version that apps get."""
        found: Version = self.client.get(calls.model_path(self.name, "latest"))
        return found

    def fetch(self, file: str | Path, *, wait_s: int = 0) -> bool:
        """Update `file` to the newest model; returns whether it was replaced.

        wait_s: how long to wait for a newer one if the file is the newest, at most 300.
        """
        path = Path(file)
        found = self.newest(known=calls.digest_of(path), wait_s=wait_s)
        if found is not None:
            calls.put(path, found[0])
        return found is not None

    def newest(self, *, known: str | None = None, wait_s: int = 0) -> tuple[bytes, str] | None:
        """The newest model's file and its SHA-256; None if that is `known`."""
        return calls.file_of(self.client.send(calls.newest(self.name, known=known, wait_s=wait_s)))

    def watch(self, make: Callable[[bytes], Any] = session_of) -> Watch:
        """Keep a session of the newest model, swapped in a thread; docs in `Watch`.

        make: makes a session from the file's bytes. Default: onnxruntime.InferenceSession.
        """
        return Watch(self.newest, make)

    def _known(self) -> dict[str, Any]:
        return self._described or self.describe()

    def _label(self, label: Any) -> Any:
        known = self._known() if calls.is_numeric_text(label) else None
        return calls.label_of(label, known)
