"""The client for programs without an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from honed_client import connection, operations
from honed_client.calls import Call, Completion, Job, Sample, Trigger, Version
from honed_client.operations import ModelOperations, Operation
from honed_client.watching import Watch, session_of

T = TypeVar("T")
P = ParamSpec("P")


class Client:
    """Connects to one daemon. url, token: None for this machine's, as `honed` finds it.

    Use it in a `with` block, or close it. Safe to use from several threads.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None) -> None:
        options = connection.options(url, token)
        uds = options.pop("uds")
        self._where = f"unix:{uds}" if uds else options["base_url"]
        transport = uds and httpx.HTTPTransport(uds=uds, verify=options["verify"])
        self._http = httpx.Client(transport=transport, **options)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call) -> httpx.Response:
        """Send any request of the API. Raises HonedError and Unreachable."""
        options = call.options()
        if call.content is not None:  # of bytes, httpcore copies all that is left with each part
            options["content"] = BytesIO(call.content)
        with connection.reaching(self._where):
            response = self._http.request(call.method, call.path, **options)
        return connection.checked(response)

    def get(self, path: str, **params: Any) -> Any:
        """The JSON answer to a GET of any route."""
        return self.send(Call("GET", path, params=params)).json()

    def events(self, call: Call) -> Iterator[Any]:
        """The events of a streamed answer, as they come. Raises HonedError and Unreachable."""
        with (
            connection.reaching(self._where),
            self._http.stream(call.method, call.path, **call.options()) as response,
        ):
            if response.is_error:
                response.read()
            events = connection.Events(connection.checked(response).status_code)
            for line in response.iter_lines():
                if (event := events.read(line)) is not None:
                    yield event

    def items(self, path: str, **params: Any) -> Iterator[Any]:
        """All items of a list of any route, page by page."""
        page = self.get(path, **params)
        yield from page["items"]
        while page["next"] is not None:
            page = self.get(path, **params, cursor=page["next"])
            yield from page["items"]

    def run(self, operation: Operation[T]) -> T:
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
                    answer = self.send(step)
                except connection.Unreachable as error:
                    go_on, answer = operation.throw, error
            else:
                time.sleep(step)

    def model(self, name: str) -> Model:
        """A model by its name; no request is made until it is used."""
        return Model(self, name)

    def models(self) -> Iterator[dict[str, Any]]:
        """Every model, as `describe` shows it."""
        return self.items("/v1/models")

    def register(self, name: str, model: str | Path | bytes, **spec: Any) -> Model:
        """Register an ONNX file, or a zip of artifacts, by its path or bytes.

        spec: `loss`, and more fields of POST /v1/models: `classes`, `preprocess`, `gate`, …
        """
        return self.model(self.run(operations.register(name, model, spec)))

    def jobs(
        self, *, model: str | None = None, state: str | Sequence[str] | None = None
    ) -> Iterator[Job]:
        """Jobs, newest first. state: one, or several."""
        return self.items("/v1/jobs", model=model, state=state)

    def policy(self, **changes: Any) -> dict[str, Any]:
        """When jobs may train (docs/policy.md), with these settings changed."""
        return self.run(operations.policy(changes))


def _method(
    operation: Callable[Concatenate[ModelOperations, P], Operation[T]],
) -> Callable[Concatenate[Model, P], T]:
    """The method that carries it out."""

    @wraps(operation)
    def method(self: Model, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self.client.run(operation(self._operations, *arguments, **named))

    return method


class Model:
    """One model of the daemon; `ModelOperations` says what its methods take and return."""

    def __init__(self, client: Client, name: str) -> None:
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

    def stream(self, text: str, **options: Any) -> Iterator[Completion]:
        """As `complete`, in parts: each has the text that it adds, and the tokens so far.

        Generation ends when the iterator is closed.
        """
        return self.client.events(self._operations.stream(text, options))

    def samples(self, **conditions: Any) -> Iterator[Sample]:
        """Samples by `label`, `split`, `unlabelled`, `key`, …: GET /v1/models/{name}/samples."""
        return self.client.items(self._operations.path("samples"), **conditions)

    def triggers(self) -> Iterator[Trigger]:
        """What queues jobs by itself."""
        return self.client.items(self._operations.path("triggers"))

    def versions(self) -> Iterator[Version]:
        """Every version, newest first."""
        return self.client.items(self._operations.path("versions"))

    def watch(self, make: Callable[[bytes], Any] = session_of) -> Watch:
        """Keep a session of the newest model, swapped in a thread; docs in `Watch`.

        make: makes a session from the file's bytes. Default: onnxruntime.InferenceSession.
        """
        return Watch(self.newest, make)
