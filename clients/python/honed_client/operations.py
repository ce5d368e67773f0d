"""What each method of the clients asks, and what it makes of the answers; once for both clients.

The methods of a model take what is said here, and return what an operation ends with.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from honed_client import calls, values
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
from honed_client.connection import Unreachable

T = TypeVar("T")
Operation = Generator["Call | float", Any, T]
"""Yields requests, whose answers are sent back, and pauses in seconds; returns the result.

Unreachable is raised where a request was yielded.
"""

POLL_S = 0.5
RESTART_S = 60.0
"""How long the daemon of a job that is waited for may be away: it goes on with the job."""
ZIP = b"PK\x03\x04"


def register(name: str, model: str | Path | bytes, spec: Mapping[str, Any]) -> Operation[str]:
    content = model if isinstance(model, bytes) else Path(model).read_bytes()
    part = "artifacts" if content.startswith(ZIP) else "model"
    files = {
        "spec": (None, json.dumps({"name": name, **spec}), "application/json"),
        part: (part, BytesIO(content), "application/octet-stream"),  # as in Client.send
    }
    answer = yield Call("POST", "/v1/models", files=files)
    return str(answer.json()["name"])


def policy(changes: Mapping[str, Any]) -> Operation[dict[str, Any]]:
    answer = yield Call("PUT", "/v1/policy", changes) if changes else Call("GET", "/v1/policy")
    settings: dict[str, Any] = answer.json()
    return settings


class ModelOperations:
    """Those of one model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._described: dict[str, Any] | None = None

    def path(self, *parts: object) -> str:
        return calls.model_path(self.name, *parts)

    def describe(self) -> Operation[dict[str, Any]]:
        """Signature, settings and counts of samples, as they are now."""
        answer = yield Call("GET", self.path())
        self._described = answer.json()
        return self._described or {}

    def predict(
        self, x: Any, *, keep: bool = False, top: int | None = None, output: Sequence[str] = ()
    ) -> Operation[Prediction]:
        """The promoted version's prediction for one instance.

        x: inputs by name, or the only input; lists or arrays, without a batch axis; for a model of
        texts a text, or a tuple of two; for one of photos or recordings a file's path or bytes.
        keep: store it as a sample without a label; the answer then has its `id`, for `label`. top:
        only so many of the likeliest classes. output: names of the model's outputs to add.
        """
        file = values.file(x)
        body = {"json": (yield from self._instance(x))} if file is None else file.body
        (prediction,) = yield from self._predict(body, keep=keep, top=top, output=output)
        return prediction

    def predict_all(
        self, x: Any, *, keep: bool = False, top: int | None = None, output: Sequence[str] = ()
    ) -> Operation[list[Prediction]]:
        """As `predict`, for many instances: lists or arrays with a batch axis, in one request.

        A list of files takes a request for each.
        """
        predictions: list[Prediction] = []
        for body in (yield from self._bodies(x)):
            predictions += yield from self._predict(body, keep=keep, top=top, output=output)
        return predictions

    def _bodies(self, x: Any) -> Operation[list[dict[str, Any]]]:
        """Of requests for the predictions of many: one for each file, else one."""
        if (files := values.each_of(values.file, x)) is not None:
            return [file.body for file in files]
        if (texts := values.each_of(values.text, x)) is not None:
            return [{"json": {"instances": texts}}]
        return [values.instances_body((yield from self._inputs(x)))]

    def suggest(self, text: str, count: int = 3) -> Operation[list[Suggestion]]:
        """The likeliest next words of a text, and completions of the word that it ends with."""
        body = {"text": text, "suggestions": count}
        answer = yield Call("POST", self.path("complete"), body)
        suggestions: list[Suggestion] = answer.json()["suggestions"]
        return suggestions

    def complete(self, /, text: str, **options: Any) -> Operation[Completion]:
        """Text that the model generates after this one.

        options: `max_tokens`, `temperature`, `top_k`, `top_p`, `stop`, `seed`.
        """
        answer = yield Call("POST", self.path("complete"), {"text": text, **options})
        completion: Completion = answer.json()
        return completion

    def stream(self, text: str, options: Mapping[str, Any]) -> Call:
        return Call("POST", self.path("complete"), {"text": text, **options, "stream": True})

    def predict_array(self, x: Any, *, output: str | None = None) -> Operation[Any]:
        """The numbers for many instances as one NumPy array, instances first.

        output: of the model; None for the probabilities or values, or the classes of masks.
        """
        import numpy as np  # late: only who wants an array needs it

        arrays = []
        for body in (yield from self._bodies(x)):
            headers = {**body.pop("headers", {}), "Accept": "application/octet-stream"}
            asked = {"params": {"output": output}, "headers": headers, **body}
            answer = yield Call("POST", self.path("predict"), **asked)
            dtype = np.dtype(answer.headers["Honed-Dtype"]).newbyteorder("<")
            shape = [int(size) for size in answer.headers["Honed-Shape"].split(",")]
            arrays.append(np.frombuffer(answer.content, dtype).reshape(shape))
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def _predict(
        self, body: Mapping[str, Any], *, keep: bool, top: int | None, output: Sequence[str]
    ) -> Operation[list[Prediction]]:
        params = {
            "keep": keep or None,
            "top": top,
            "output": [output] if isinstance(output, str) else list(output),
        }
        answer = (yield Call("POST", self.path("predict"), params=params, **body)).json()
        predictions: list[Prediction] = answer["predictions"]
        for place, prediction in enumerate(predictions):
            prediction["version"] = answer["version"]
            if "ids" in answer:
                prediction["id"] = answer["ids"][place]
        return predictions

    def add(self, /, x: Any, label: Any = None, **about: Any) -> Operation[int | None]:
        """Store a sample; returns its id, None for a duplicate.

        x: as for `predict`.
        about: `key`, the app's own id for it; `weight`; `split`.
        """
        file, about = values.file(x), {"label": (yield from self._label(label)), **about}
        if file is None:
            body: dict[str, Any] = {"json": {**(yield from self._instance(x)), **about}}
        else:
            body = values.files_body([file], {name: [value] for name, value in about.items()})
        ids = (yield Call("POST", self.path("samples"), **body)).json()["ids"]
        return int(ids[0]) if ids else None

    def add_all(
        self,
        x: Any,
        labels: Sequence[Any] | None = None,
        *,
        keys: Sequence[str | None] | None = None,
        weights: Sequence[float] | None = None,
        split: str | None = None,
    ) -> Operation[Added]:
        """Store many samples, all or none, in one request.

        x has a batch axis, or is a list of texts, or of files by their paths or bytes.
        """
        about: dict[str, Any] = {"key": keys, "weight": weights}
        columns = {name: column for name, column in about.items() if column is not None}
        if labels is not None:
            columns["label"] = yield from self._labels(labels)
        texts = values.each_of(values.text, x)
        if (files := values.each_of(values.file, x)) is not None:
            body = values.files_body(files, columns)
        elif texts is not None:
            body = values.texts_body(texts, columns)
        else:
            body = values.samples_body((yield from self._inputs(x)), columns)
        added: Added = (
            yield Call("POST", self.path("samples"), params={"split": split}, **body)
        ).json()
        return added

    def label(self, sample: int | str, label: Any) -> Operation[Sample]:
        """Label a stored sample: a class name or number, or values; None removes the label.

        sample: its id, or its key as text.
        """
        return self.change(sample, label=label)

    def change(self, /, sample: int | str, **changes: Any) -> Operation[Sample]:
        """Change `label`, `weight`, `split` or `pinned` of a sample, by its id or its key."""
        if "label" in changes:
            changes["label"] = yield from self._label(changes["label"])
        by_key = isinstance(sample, str)
        path = self.path("samples") if by_key else self.path("samples", sample)
        params = {"key": sample} if by_key else {}
        stored: Sample = (yield Call("PATCH", path, changes, params)).json()
        return stored

    def train(self, /, *, wait: bool = False, **hyperparameters: Any) -> Operation[Job]:
        """Queue a job. wait: until it has ended, successfully or not.

        The daemon may restart meanwhile: it goes on with the job.
        """
        job: Job = (yield Call("POST", self.path("jobs"), hyperparameters)).json()
        seen_at = time.monotonic()
        while wait and job["state"] not in calls.ENDED:
            yield POLL_S
            try:
                job = (yield Call("GET", f"/v1/jobs/{job['id']}")).json()
                seen_at = time.monotonic()
            except Unreachable:
                if time.monotonic() > seen_at + RESTART_S:
                    raise
        return job

    def add_trigger(self, /, **fields: Any) -> Operation[Trigger]:
        """Have jobs queued, such as by `new_samples=500`: docs/triggers.md."""
        made: Trigger = (yield Call("POST", self.path("triggers"), fields)).json()
        return made

    def change_trigger(self, /, trigger: int, **fields: Any) -> Operation[Trigger]:
        """Change fields of a trigger."""
        changed: Trigger = (yield Call("PATCH", self.path("triggers", trigger), fields)).json()
        return changed

    def remove_trigger(self, trigger: int) -> Operation[None]:
        """Remove it; its jobs stay."""
        yield Call("DELETE", self.path("triggers", trigger))

    def latest(self) -> Operation[Version]:
        """The version that apps get."""
        version: Version = (yield Call("GET", self.path("latest"))).json()
        return version

    def newest(
        self, *, known: str | None = None, wait_s: int = 0
    ) -> Operation[tuple[bytes, str] | None]:
        """The newest model's file and its SHA-256; None if that is `known`."""
        headers = {"If-None-Match": f'"{known}"'} if known else {}
        params = {"wait": wait_s} if wait_s and known else {}
        path = self.path("latest", "model.onnx")
        return calls.file_of((yield Call("GET", path, params=params, headers=headers)))

    def fetch(self, file: str | Path, *, wait_s: int = 0) -> Operation[bool]:
        """Update `file` to the newest model; returns whether it was replaced.

        wait_s: how long to wait for a newer one if the file is the newest, at most 300.
        """
        path = Path(file)
        newest = yield from self.newest(known=calls.digest_of(path), wait_s=wait_s)
        if newest is not None:
            calls.put(path, newest[0])
        return newest is not None

    def _instance(self, x: Any) -> Operation[Mapping[str, Any]]:
        """A text, or inputs by name, as a sample has them."""
        text = values.text(x)
        if text is not None:
            return text
        return {"inputs": (yield from self._inputs(x))}

    def _inputs(self, x: Any) -> Operation[dict[str, Any]]:
        """Inputs by name. Raises ValueError if there are several, and x does not name them."""
        if isinstance(x, Mapping):
            return dict(x)
        names = [part["name"] for part in (yield from self._known())["inputs"]]
        if len(names) != 1:
            raise ValueError(f"the model takes {', '.join(names)}: give a dict of these")
        return {names[0]: x}

    def _label(self, label: Any) -> Operation[Any]:
        (sent,) = yield from self._labels([label])
        return sent

    def _labels(self, labels: Any) -> Operation[Any]:
        """Arrays of numbers as they are, all else as a list.

        Text of a number becomes one if the model's classes have no names.
        """
        if hasattr(labels, "__array__") and not values.holds_text(labels):
            return labels
        listed = values.plain(labels)
        if not any(map(values.is_numeric_text, listed)):
            return listed
        if (yield from self._known())["target"]["classes"]:
            return listed
        return [int(label) if values.is_numeric_text(label) else label for label in listed]

    def _known(self) -> Operation[dict[str, Any]]:
        return self._described or (yield from self.describe())
