"""The client for programs without an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
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
from honed_client.watching import Watch, session_of

T = TypeVar("T")


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


class Model:
    """One model of the daemon."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self._operations = ModelOperations(name)

    def describe(self) -> dict[str, Any]:
        """Signature, settings and counts of samples, as they are now."""
        return self.client.run(self._operations.describe())

    def predict(
        self, x: Any, *, keep: bool = False, top: int | None = None, output: Sequence[str] = ()
    ) -> Prediction:
        """The promoted version's prediction for one instance.

        x: inputs by name, or the only input; lists or arrays, without a batch axis; for a model of
        texts a text, or a tuple of two; for one of photos or recordings a file's path or bytes.
        keep: store it as a sample without a label; the answer then has its `id`, for `label`. top:
        only so many of the likeliest classes. output: names of the model's outputs to add.
        """
        return self.client.run(self._operations.predict(x, keep=keep, top=top, output=output))

    def predict_all(
        self, x: Any, *, keep: bool = False, top: int | None = None, output: Sequence[str] = ()
    ) -> list[Prediction]:
        """As `predict`, for many instances: lists or arrays with a batch axis, in one request.

        A list of files takes a request for each.
        """
        return self.client.run(self._operations.predict_all(x, keep=keep, top=top, output=output))

    def suggest(self, text: str, count: int = 3) -> list[Suggestion]:
        """The likeliest next words of a text, and completions of the word that it ends with."""
        return self.client.run(self._operations.suggest(text, count))

    def complete(self, text: str, **options: Any) -> Completion:
        """Text that the model generates after this one.

        options: `max_tokens`, `temperature`, `top_k`, `top_p`, `stop`, `seed`.
        """
        return self.client.run(self._operations.complete(text, options))

    def stream(self, text: str, **options: Any) -> Iterator[Completion]:
        """As `complete`, in parts: each has the text that it adds, and the tokens so far.

        Generation ends when the iterator is closed.
        """
        return self.client.events(self._operations.stream(text, options))

    def predict_array(self, x: Any, *, output: str | None = None) -> Any:
        """The numbers for many instances as one NumPy array, instances first.

        output: of the model; None for the probabilities or values, or the classes of masks.
        """
        return self.client.run(self._operations.predict_array(x, output=output))

    def add(self, x: Any, label: Any = None, **about: Any) -> int | None:
        """Store a sample; returns its id, None for a duplicate.

        x: as for `predict`.
        about: `key`, the app's own id for it; `weight`; `split`.
        """
        return self.client.run(self._operations.add(x, label, about))

    def add_all(
        self,
        x: Any,
        labels: Sequence[Any] | None = None,
        *,
        keys: Sequence[str | None] | None = None,
        weights: Sequence[float] | None = None,
        split: str | None = None,
    ) -> Added:
        """Store many samples, all or none, in one request.

        x has a batch axis, or is a list of texts, or of files by their paths or bytes.
        """
        about = {"key": keys, "weight": weights}
        return self.client.run(self._operations.add_all(x, labels, split=split, **about))

    def label(self, sample: int | str, label: Any) -> Sample:
        """Label a stored sample: a class name or number, or values; None removes the label.

        sample: its id, or its key as text.
        """
        return self.change(sample, label=label)

    def change(self, sample: int | str, **changes: Any) -> Sample:
        """Change `label`, `weight`, `split` or `pinned` of a sample, by its id or its key."""
        return self.client.run(self._operations.change(sample, changes))

    def samples(self, **conditions: Any) -> Iterator[Sample]:
        """Samples by `label`, `split`, `unlabelled`, `key`, …: GET /v1/models/{name}/samples."""
        return self.client.items(self._operations.path("samples"), **conditions)

    def train(self, *, wait: bool = False, **hyperparameters: Any) -> Job:
        """Queue a job. wait: until it has ended, successfully or not.

        The daemon may restart meanwhile: it goes on with the job.
        """
        return self.client.run(self._operations.train(hyperparameters, wait=wait))

    def triggers(self) -> Iterator[Trigger]:
        """What queues jobs by itself."""
        return self.client.items(self._operations.path("triggers"))

    def add_trigger(self, **fields: Any) -> Trigger:
        """Have jobs queued, such as by `new_samples=500`: docs/triggers.md."""
        return self.client.run(self._operations.trigger(None, fields))

    def change_trigger(self, trigger: int, **fields: Any) -> Trigger:
        """Change fields of a trigger."""
        return self.client.run(self._operations.trigger(trigger, fields))

    def remove_trigger(self, trigger: int) -> None:
        """Remove it; its jobs stay."""
        self.client.send(Call("DELETE", self._operations.path("triggers", trigger)))

    def versions(self) -> Iterator[Version]:
        """Every version, newest first."""
        return self.client.items(self._operations.path("versions"))

    def latest(self) -> Version:
        """The version that apps get."""
        version: Version = self.client.get(self._operations.path("latest"))
        return version

    def fetch(self, file: str | Path, *, wait_s: int = 0) -> bool:
        """Update `file` to the newest model; returns whether it was replaced.

        wait_s: how long to wait for a newer one if the file is the newest, at most 300.
        """
        return self.client.run(self._operations.fetch(Path(file), wait_s=wait_s))

    def newest(self, *, known: str | None = None, wait_s: int = 0) -> tuple[bytes, str] | None:
        """The newest model's file and its SHA-256; None if that is `known`."""
        return self.client.run(self._operations.newest(known=known, wait_s=wait_s))

    def watch(self, make: Callable[[bytes], Any] = session_of) -> Watch:
        """Keep a session of the newest model, swapped in a thread; docs in `Watch`.

        make: makes a session from the file's bytes. Default: onnxruntime.InferenceSession.
        """
        return Watch(self.newest, make)
