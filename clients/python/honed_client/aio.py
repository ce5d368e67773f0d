"""The client for programs with an asyncio event loop; its methods do what those of `sync` do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

from honed_client import connection, operations
from honed_client.calls import (
    Added,
    Call,
    Completion,
    Job,
    Prediction,
    Sample,
    Suggestion,
    Trigger,
    Version,
)
from honed_client.operations import ModelOperations, Operation
from honed_client.watching import AsyncWatch, session_of

T = TypeVar("T")


class AsyncClient:
    """Connects to one daemon. url, token: None for this machine's, as `honed` finds it.

    Use it in an `async with` block, or close it. Its methods and those of its models are those of
    `Client` and `Model`, to be awaited; lists are for `async for`.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None) -> None:
        options = connection.options(url, token)
        uds = options.pop("uds")
        self._where = f"unix:{uds}" if uds else options["base_url"]
        transport = uds and httpx.AsyncHTTPTransport(uds=uds, verify=options["verify"])
        self._http = httpx.AsyncClient(transport=transport, **options)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: Call) -> httpx.Response:
        """Send any request of the API. Raises HonedError and Unreachable."""
        with connection.reaching(self._where):
            response = await self._http.request(call.method, call.path, **call.options())
        return connection.checked(response)

    async def get(self, path: str, **params: Any) -> Any:
        """The JSON answer to a GET of any route."""
        return (await self.send(Call("GET", path, params=params))).json()

    async def events(self, call: Call) -> AsyncIterator[Any]:
        with connection.reaching(self._where):
            async with self._http.stream(call.method, call.path, **call.options()) as response:
                if response.is_error:
                    await response.aread()
                events = connection.Events(connection.checked(response).status_code)
                async for line in response.aiter_lines():
                    if (event := events.read(line)) is not None:
                        yield event

    async def items(self, path: str, **params: Any) -> AsyncIterator[Any]:
        """All items of a list of any route, page by page."""
        page = await self.get(path, **params)
        while True:
            for item in page["items"]:
                yield item
            if page["next"] is None:
                return
            page = await self.get(path, **params, cursor=page["next"])

    async def run(self, operation: Operation[T]) -> T:
        """Carry out what `honed_client.operations` describes."""
        go_on: Callable[[Any], Call | float] = operation.send
        answer: Any = None
        while True:
            try:
                step = go_on(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            go_on, answer = operation.send, None
            if isinstance(step, Call):
                try:
                    answer = await self.send(step)
                except connection.Unreachable as error:
                    go_on, answer = operation.throw, error
            else:
                await asyncio.sleep(step)

    def model(self, name: str) -> AsyncModel:
        """A model by its name; no request is made until it is used."""
        return AsyncModel(self, name)

    def models(self) -> AsyncIterator[dict[str, Any]]:
        return self.items("/v1/models")

    async def register(self, name: str, model: str | Path | bytes, **spec: Any) -> AsyncModel:
        return self.model(await self.run(operations.register(name, model, spec)))

    def jobs(
        self, *, model: str | None = None, state: str | Sequence[str] | None = None
    ) -> AsyncIterator[Job]:
        return self.items("/v1/jobs", model=model, state=state)

    async def policy(self, **changes: Any) -> dict[str, Any]:
        return await self.run(operations.policy(changes))


class AsyncModel:
    """One model of the daemon; each method is that of `Model`, to be awaited."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.client = client
        self.name = name
        self._operations = ModelOperations(name)

    async def describe(self) -> dict[str, Any]:
        return await self.client.run(self._operations.describe())

    async def predict(
        self, x: Any, *, keep: bool = False, top: int | None = None, output: Sequence[str] = ()
    ) -> Prediction:
        return await self.client.run(self._operations.predict(x, keep=keep, top=top, output=output))

    async def predict_all(
        self, x: Any, *, keep: bool = False, top: int | None = None, output: Sequence[str] = ()
    ) -> list[Prediction]:
        return await self.client.run(
            self._operations.predict_all(x, keep=keep, top=top, output=output)
        )

    async def suggest(self, text: str, count: int = 3) -> list[Suggestion]:
        return await self.client.run(self._operations.suggest(text, count))

    async def complete(self, text: str, **options: Any) -> Completion:
        return await self.client.run(self._operations.complete(text, options))

    def stream(self, text: str, **options: Any) -> AsyncIterator[Completion]:
        return self.client.events(self._operations.stream(text, options))

    async def predict_array(self, x: Any, *, output: str | None = None) -> Any:
        return await self.client.run(self._operations.predict_array(x, output=output))

    async def add(self, x: Any, label: Any = None, **about: Any) -> int | None:
        return await self.client.run(self._operations.add(x, label, about))

    async def add_all(
        self,
        x: Any,
        labels: Sequence[Any] | None = None,
        *,
        keys: Sequence[str | None] | None = None,
        weights: Sequence[float] | None = None,
        split: str | None = None,
    ) -> Added:
        about = {"key": keys, "weight": weights}
        return await self.client.run(self._operations.add_all(x, labels, split=split, **about))

    async def label(self, sample: int | str, label: Any) -> Sample:
        return await self.change(sample, label=label)

    async def change(self, sample: int | str, **changes: Any) -> Sample:
        return await self.client.run(self._operations.change(sample, changes))

    def samples(self, **conditions: Any) -> AsyncIterator[Sample]:
        return self.client.items(self._operations.path("samples"), **conditions)

    async def train(self, *, wait: bool = False, **hyperparameters: Any) -> Job:
        return await self.client.run(self._operations.train(hyperparameters, wait=wait))

    def triggers(self) -> AsyncIterator[Trigger]:
        return self.client.items(self._operations.path("triggers"))

    async def add_trigger(self, **fields: Any) -> Trigger:
        return await self.client.run(self._operations.trigger(None, fields))

    async def change_trigger(self, trigger: int, **fields: Any) -> Trigger:
        return await self.client.run(self._operations.trigger(trigger, fields))

    async def remove_trigger(self, trigger: int) -> None:
        await self.client.send(Call("DELETE", self._operations.path("triggers", trigger)))

    def versions(self) -> AsyncIterator[Version]:
        return self.client.items(self._operations.path("versions"))

    async def latest(self) -> Version:
        version: Version = await self.client.get(self._operations.path("latest"))
        return version

    async def fetch(self, file: str | Path, *, wait_s: int = 0) -> bool:
        return await self.client.run(self._operations.fetch(Path(file), wait_s=wait_s))

    async def newest(
        self, *, known: str | None = None, wait_s: int = 0
    ) -> tuple[bytes, str] | None:
        return await self.client.run(self._operations.newest(known=known, wait_s=wait_s))

    def watch(self, make: Callable[[bytes], Any] = session_of) -> AsyncWatch:
        return AsyncWatch(self.newest, make)
