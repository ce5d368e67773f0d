"""Methods of both Python clients against a real daemon: lists, many samples, triggers, policy."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from completions import add_decoder
from decoders import byte_tokenizer, decoder
from honed_client import AsyncClient, AsyncModel, Call, Client, HonedError, Model
from pictures import PREPROCESS, image_model, photo
from support import Served, mlp

NAMES = ["no", "yes", "3"]
numbers = itertools.count()


class InLoop:
    """The asyncio client or one of its models, called as the other client is."""

    def __init__(self, it: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._it, self._loop = it, loop

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._it, name)
        return self._called(attribute) if callable(attribute) else attribute

    def _called(self, method: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            result = method(*arguments, **named)
            if inspect.isasyncgen(result):
                result = collected(result)
            if inspect.isawaitable(result):
                result = self._loop.run_until_complete(result)
            return InLoop(result, self._loop) if isinstance(result, AsyncModel) else result

        return call


async def collected(items: Any) -> list[Any]:
    return [item async for item in items]


@pytest.fixture(params=["threads", "asyncio"])
def client(served: Served, request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "threads":
        with Client(served.url, token=served.token) as connected:
            yield connected
        return
    loop = asyncio.new_event_loop()
    connected = InLoop(AsyncClient(served.url, token=served.token), loop)
    yield connected
    connected.aclose()
    loop.close()


@pytest.fixture
def model(client: Any) -> Any:
    """A model of its own, registered by the client."""
    name = f"called-{next(numbers)}"
    return client.register(name, mlp(4, 8, 3), loss="cross_entropy", classes=NAMES)


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 4), dtype=np.float32)


def test_a_model_is_registered_from_a_file_and_listed(client: Any, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(mlp(4, 2))
    names = [f"listed-{next(numbers)}" for _ in range(3)]
    for name in names:
        assert client.register(name, file, loss="mse").describe()["loss"] == "mse"
    listed = [shown["name"] for shown in client.items("/v1/models", limit=2)]
    assert set(names) <= set(listed)
    assert listed == [shown["name"] for shown in client.models()]
    with pytest.raises(HonedError, match=names[0]):
        client.register(names[0], file, loss="mse")
    client.send(Call("DELETE", f"/v1/models/{names[0]}"))
    assert names[0] not in [shown["name"] for shown in client.models()]


@pytest.mark.parametrize("kind", ["arrays", "lists", "lists of arrays", "by name"])
def test_many_samples_are_added_in_one_request(model: Any, kind: str) -> None:
    x = rows(5)
    told = {"arrays": x, "lists": x.tolist(), "lists of arrays": [*x], "by name": {"x": x}}
    inputs = told[kind]
    labels = ["yes", "3", "no", "yes", "no"]
    keys, weights = [f"k{n}" for n in range(5)], [1, 2, 0.5, 1, 1]
    added = model.add_all(inputs, labels, keys=keys, weights=weights, split="validation")
    first, last = added["ids"]
    assert (added["accepted"], added["duplicates"], last - first) == (5, 0, 4)
    stored = list(model.samples(split="validation", limit=2))
    found = [(sample["key"], sample["weight"]) for sample in stored]
    assert found == list(zip(keys, weights, strict=True))
    assert [NAMES[sample["label"]] for sample in stored] == labels
    again = model.add_all(inputs, labels)
    assert (again["accepted"], again["duplicates"], again["ids"]) == (0, 5, None)


def test_labels_of_arrays_may_be_numbers_texts_or_missing(model: Any, client: Any) -> None:
    assert model.add_all(rows(2, 1), np.array([0, 1]))["accepted"] == 2
    assert model.add_all(rows(2, 2), np.array(["3", "yes"]))["accepted"] == 2
    assert model.add_all(rows(2, 3), [None, 2])["accepted"] == 2
    assert model.add_all(rows(2, 4))["accepted"] == 2
    labels = [sample["label"] for sample in model.samples()]
    assert labels == [0, 1, 2, 1, None, 2, None, None]
    plain = client.register(f"called-{next(numbers)}", mlp(4, 3), loss="cross_entropy")
    plain.add_all(rows(2), ["2", "0"])
    assert [sample["label"] for sample in plain.samples()] == [2, 0]


def test_samples_of_several_names_are_added_as_arrays_and_as_lists(client: Any) -> None:
    name = f"called-{next(numbers)}"
    tags = client.register(name, mlp(4, 8, 3), loss="multilabel", classes=NAMES)
    labels: list[list[str]] = [["no"], ["no", "3"], []]
    assert tags.add_all(rows(3, 1), labels)["accepted"] == 3
    assert tags.add_all(rows(3, 2).tolist(), labels)["accepted"] == 3
    assert tags.add_all(rows(3, 3), np.eye(3, dtype=np.float32))["accepted"] == 3
    stored = [sample["label"] for sample in tags.samples()]
    assert stored == [[1, 0, 0], [1, 0, 1], [0, 0, 0]] * 2 + np.eye(3).tolist()


def test_numbers_by_name_are_added_as_they_become_known(client: Any) -> None:
    name = f"numbered-{next(numbers)}"
    model = client.register(name, mlp(4, 8, 3), loss="mse", classes=NAMES)
    unknown = dict.fromkeys(NAMES)
    assert model.add_all(rows(2, 1), [{"no": 0.5}, {"3": 2}])["accepted"] == 2
    first, second = model.samples()
    assert (first["label"], second["label"]) == (unknown | {"no": 0.5}, unknown | {"3": 2})
    model.label(first["id"], {"3": 1})
    assert next(iter(model.samples()))["label"] == unknown | {"no": 0.5, "3": 1}
    assert list(model.predict(rows(1)[0])["values"]) == NAMES


def test_one_output_is_asked_for_by_its_name(model: Any) -> None:
    assert len(model.predict(rows(1)[0], output="logits")["outputs"]["logits"]) == 3
    assert len(model.predict(rows(1)[0], output=["logits"])["outputs"]["logits"]) == 3


def test_columns_of_other_lengths_are_refused_before_they_are_sent(model: Any) -> None:
    with pytest.raises(ValueError, match=r"inputs 2, key 1"):
        model.add_all(rows(2).tolist(), keys=["a"])
    with pytest.raises(HonedError):
        model.add_all(rows(2), [0])


def test_a_sample_is_labelled_and_changed_by_its_key(model: Any) -> None:
    sample = model.add(rows(1)[0], key="app-17", weight=np.float32(2), split="train")
    labelled = model.label("app-17", "3")
    assert (labelled["id"], labelled["label"], labelled["weight"]) == (sample, 2, 2.0)
    changed = model.change("app-17", weight=0.5, pinned=True)
    assert (changed["weight"], changed["pinned"]) == (0.5, True)
    assert model.label(sample, None)["label"] is None
    with pytest.raises(HonedError, match="no sample with that key"):
        model.label("nobody", "3")
    assert [found["id"] for found in model.samples(key="app-17")] == [sample]


def test_photos_are_added_and_predicted_by_their_paths_and_bytes(
    client: Any, tmp_path: Path
) -> None:
    spec = {"loss": "cross_entropy", "classes": ["dark", "3"], "preprocess": PREPROCESS}
    pets = client.register(f"called-{next(numbers)}", image_model(), **spec)
    paths = [tmp_path / f"{n}.jpg" for n in range(3)]
    for n, path in enumerate(paths):
        path.write_bytes(photo(60 * n, n, kind="JPEG"))
    added = pets.add_all(paths, ["dark", None, "3"], keys=["a", "b", None], split="train")
    assert added["accepted"] == 3
    one = pets.add(photo(200, 7), "3", key="c", weight=2)
    assert pets.add(photo(200, 7), "3", key="c") is None
    assert [(sample["key"], sample["label"], sample["split"]) for sample in pets.samples()] == [
        *(("a", 0, "train"), ("b", None, "train"), (None, 1, "train")),
        ("c", 1, pets.label(one, "3")["split"]),
    ]
    found = pets.predict_all(paths, top=1)
    assert found[0] == pets.predict(paths[0].read_bytes(), top=1)
    shares = [pets.predict(path)["probabilities"] for path in paths]
    assert pets.predict_array(paths) == pytest.approx(np.array(shares))
    assert pets.predict(paths[1], keep=True)["id"] == added["ids"][0] + 1
    with pytest.raises(ValueError, match="file 3, key 1"):
        pets.add_all(paths, keys=["a"])
    with pytest.raises(ValueError, match="PNG, JPEG or WebP"):
        pets.predict(b"GIF89a")


def test_texts_are_added_and_continued_in_parts(client: Any, served: Served) -> None:
    name = f"called-{next(numbers)}"
    texts = ["see you soon", "see you there"]
    add_decoder(served, name, decoder(280), byte_tokenizer(texts, size=280))
    notes = client.model(name)
    sample = notes.add(texts[0], key="one")
    assert notes.add(texts[0], key="one") is None
    added = notes.add_all(texts, keys=["one", "two"], weights=[1, 2])
    assert (added["accepted"], added["duplicates"]) == (1, 1)
    stored = list(notes.samples())
    assert [(each["key"], each["weight"]) for each in stored] == [("one", 1), ("two", 2)]
    assert stored[0]["id"] == sample
    content = served.http.get(f"/v1/models/{name}/samples/{stored[1]['id']}/content")
    assert content.text == texts[1]
    with pytest.raises(ValueError, match="instance 2, key 1"):
        notes.add_all(texts, keys=["a"])
    asked = {"max_tokens": 12, "temperature": 0}
    whole = notes.complete("see", **asked)
    parts = list(notes.stream("see", **asked))
    assert "".join(part["text"] for part in parts) == whole["text"]
    assert [part["finish_reason"] for part in parts[:-1]] == [None] * (len(parts) - 1)
    assert (parts[-1]["finish_reason"], parts[-1]["tokens"]) == ("length", 12)
    with pytest.raises(HonedError, match="/top_p"):
        list(notes.stream("see", top_p=2))


@pytest.mark.parametrize("kind", ["arrays", "lists"])
def test_many_instances_are_predicted_in_one_request(model: Any, kind: str) -> None:
    x = rows(6)
    predictions = model.predict_all(x if kind == "arrays" else x.tolist(), keep=True, top=2)
    singly = [model.predict(row, top=2) for row in x]
    for one, other in zip(predictions, singly, strict=True):
        assert one["top"]["label"] == other["top"]["label"]
        assert one["version"] == 1
    assert [kept["id"] for kept in predictions] == [sample["id"] for sample in model.samples()]
    (named,) = model.predict_all(x[:1], output=["logits"])
    assert len(named["outputs"]["logits"]) == 3


def test_predictions_come_as_one_array(model: Any) -> None:
    x = rows(6)
    probabilities = model.predict_array(x)
    assert (probabilities.shape, probabilities.dtype) == ((6, 3), np.float32)
    said = [prediction["probabilities"] for prediction in model.predict_all(x)]
    np.testing.assert_allclose(probabilities, said, rtol=1e-6)
    logits = model.predict_array(x.tolist(), output="logits")
    powers = np.exp(logits)
    np.testing.assert_allclose(powers / powers.sum(1, keepdims=True), said, rtol=1e-4)


def test_jobs_and_versions_are_listed(model: Any, client: Any) -> None:
    model.add_all(rows(20), [0, 1] * 10, split="train")
    jobs = [model.train(wait=True, epochs=1, ignore_policy=True) for _ in range(2)]
    assert [job["state"] for job in jobs] == ["succeeded"] * 2
    listed = list(client.jobs(model=model.name, state=["queued", "succeeded"]))
    assert [job["id"] for job in listed] == [job["id"] for job in reversed(jobs)]
    assert [version["version"] for version in model.versions()] == [3, 2, 1]


def test_triggers_are_made_changed_and_removed(model: Any) -> None:
    trigger = model.add_trigger(new_samples=500, at_most_every_hours=6, enabled=False)
    assert (trigger["name"], trigger["enabled"]) == ("samples", False)
    assert model.change_trigger(trigger["id"], name="many")["name"] == "many"
    assert [shown["name"] for shown in model.triggers()] == ["many"]
    model.remove_trigger(trigger["id"])
    assert list(model.triggers()) == []


def test_the_policy_is_shown_and_changed(client: Any, served: Served) -> None:
    before = client.policy()
    changed = client.policy(nice=7, require_idle=True)
    assert changed == before | {"nice": 7, "require_idle": True}
    assert client.policy() == changed
    served.http.delete("/v1/policy").raise_for_status()


def test_both_clients_take_the_same() -> None:
    for one, other in ((Client, AsyncClient), (Model, AsyncModel)):
        methods = {name for name in vars(one) if not name.startswith("_")} - {"close"}
        assert methods == {name for name in vars(other) if not name.startswith("_")} - {"aclose"}
        for name in methods:
            taken = [inspect.signature(getattr(kind, name)).parameters for kind in (one, other)]
            assert list(taken[0].values()) == list(taken[1].values()), name
