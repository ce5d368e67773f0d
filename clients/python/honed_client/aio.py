"""The client for programs with an asyncio event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from honed_client import calls, connection
from honed_client.calls import Call, Job, Prediction, Sample, Version
from honed_client.watching import AsyncWatch, session_of

POLL_S = 0.5


class AsyncClient:
    """Connects to one daemon. url, token: None for this machine's, as `honed` finds it.

    Use it in an `async with` block, or close it.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None) -> None:
        given = connection.options(url, token)
        uds = given.pop("uds")
        self._http = httpx.AsyncClient(transport=uds and httpx.AsyncHTTPTransport(uds=uds), **given)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: Call) -> httpx.Response:
        """Send any request of the API. Raises HonedError and Unreachable."""
        with connection.reaching(self._http.base_url):
            response = await self._http.request(call.method, call.path, **call.options())
        return connection.checked(response)

    async def get(self, path: str, **params: Any) -> Any:
        """The JSON answer to a GET of any route."""
        return (await self.send(Call("GET", path, params=params))).json()

    def model(self, name: str) -> AsyncModel:
        """A model by its name; no request is made until it is used."""
        return AsyncModel(self, name)


class AsyncModel:
    """One model of the daemon."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.client = client
        self.name = name
        self._described: dict[str, Any] | None = None

    async def describe(self) -> dict[str, Any]:
        """Signature, settings and counts of samples, as they are now."""
        found: dict[str, Any] = await self.client.get(calls.model_path(self.name))
        self._described = found
        return found

    async def predict(self, x: Any, *, keep: bool = False) -> Prediction:
        """The promoted version's prediction for one instance.

        x: inputs by name, or the only input; lists or arrays, without a batch axis. keep: store it
        as a sample without a label; the answer then has its `id`, for `label`.
        """
        inputs = calls.inputs_of(x, None if isinstance(x, Mapping) else await self._known())
        answer = await self.client.send(calls.predict(self.name, inputs, keep=keep))
        return calls.predicted(answer.json())

    async def add(self, x: Any, label: Any = None, *, key: str | None = None) -> int | None:
        """Store a sample; returns its id, None for a duplicate. key: the app's own id for it."""
        inputs = calls.inputs_of(x, None if isinstance(x, Mapping) else await self._known())
        call = calls.add(self.name, inputs, await self._label(label), key)
        ids = (await self.client.send(call)).json()["ids"]
        return ids[0] if ids else None

    async def label(self, sample: int, label: Any) -> Sample:
        """Label a stored sample: a class name or number, or values; None removes the label."""
        call = calls.relabel(self.name, sample, await self._label(label))
        answer: Sample = (await self.client.send(call)).json()
        return answer

    async def train(self, *, wait: bool = False, **hyperparameters: Any) -> Job:
        """Queue a job. wait: until it has ended, successfully or not."""
        job: Job = (await self.client.send(calls.train(self.name, hyperparameters))).json()
        while wait and job["state"] not in calls.ENDED:
            await asyncio.sleep(POLL_S)
            job = await self.client.get(f"/v1/jobs/{job['id']}")
        return job

    async def latest(self) -> Version:
        """The version that apps get."""
        found: Version = await self.client.get(calls.model_path(self.name, "latest"))
        return found

    async def fetch(self, file: str | Path, *, wait_s: int = 0) -> bool:
        """Update `file` to the newest model; returns whether it was replaced.

        wait_s: how long to wait for a newer one if the file is the newest, at most 300.
        """
        path = Path(file)
        found = await self.newest(known=calls.digest_of(path), wait_s=wait_s)
        if found is not None:
            calls.put(path, found[0])
        return found is not None

    async def newest(
        self, *, known: str | None = None, wait_s: int = 0
    ) -> tuple[bytes, str] | None:
        """The newest model's file and its SHA-256; None if that is `known`."""
        call = calls.newest(self.name, known=known, wait_s=wait_s)
        return calls.file_of(await self.client.send(call))

    def watch(self, make: Callable[[bytes], Any] = session_of) -> AsyncWatch:
        """Keep a session of the newest model, swapped by a task; docs in `AsyncWatch`.

        make: makes a session from the file's bytes. Default: onnxruntime.InferenceSession.
        """
        return AsyncWatch(self.newest, make)

    async def _known(self) -> dict[str, Any]:
        return self._described or await self.describe()

    async def _label(self, label: Any) -> Any:
        known = await self._known() if calls.is_numeric_text(label) else None
        return calls.label_of(label, known)
