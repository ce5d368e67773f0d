"""The client for programs with an asyncio event loop; its methods do what those of `sync` do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from honed_client import connection, operations
from honed_client.calls import Call, Completion, Job, Sample, Trigger, Version
from honed_client.operations import ModelOperations, Operation
from honed_client.watching import AsyncWatch, session_of

T = TypeVar("T")
P = ParamSpec("P")


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


def _method(
    operation: Callable[Concatenate[ModelOperations, P], Operation[T]],
) -> Callable[Concatenate[AsyncModel, P], Coroutine[Any, Any, T]]:
    """The method that carries it out."""

    @wraps(operation)
    async def method(self: AsyncModel, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await self.client.run(operation(self._operations, *arguments, **named))

    return method


class AsyncModel:
    """One model of the daemon; each method is that of `Model`, to be awaited."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.client = client
        self.name = name
        self._operations = ModelOperations(name)

    describe = _method(ModelOperations.describe)
    predict = _method(ModelOperations.predict)
    predict_all = _method(ModelOperations.predict_all)
    predict_array = _method(ModelOperations.predict_array)
    suggest = _method(ModelOperations.suggest)
    complete = _method(ModelOperations.complete)
    add = _method(ModelOperations.add)
    add_all = _method(ModelOperations.add_all)
    label = _method(ModelOperations.label)
    change = _method(ModelOperations.change)
    train = _method(ModelOperations.train)
    add_trigger = _method(ModelOperations.add_trigger)
    change_trigger = _method(ModelOperations.change_trigger)
    remove_trigger = _method(ModelOperations.remove_trigger)
    latest = _method(ModelOperations.latest)
    newest = _method(ModelOperations.newest)
    fetch = _method(ModelOperations.fetch)

    def stream(self, text: str, **options: Any) -> AsyncIterator[Completion]:
        return self.client.events(self._operations.stream(text, options))

    def samples(self, **conditions: Any) -> AsyncIterator[Sample]:
        return self.client.items(self._operations.path("samples"), **conditions)

    def triggers(self) -> AsyncIterator[Trigger]:
        return self.client.items(self._operations.path("triggers"))

    def versions(self) -> AsyncIterator[Version]:
        return self.client.items(self._operations.path("versions"))

    def watch(self, make: Callable[[bytes], Any] = session_of) -> AsyncWatch:
        return AsyncWatch(self.newest, make)
