"""The promoted version answers; one that cannot be loaded does not take its place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import DEADLINE_S, until

from service.errors import ModelNotLoadable, PredictionFailed
from storage.errors import Damaged, NotFound
from storage.records.models import FileRecord
from storage.store import Store

X = {"x": np.eye(4, dtype=np.float32)}
GARBAGE = b"not a model at all"


def flip_weight(store: Store, file: FileRecord) -> None:
    """Change one bit of a model's weights, as a disk would: the file's times stay."""
    path = store.files.path(file.sha256)
    found = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def test_a_promoted_version_takes_over(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    model = shop.add("m", model_bytes(1))

    async def scenario() -> None:
        async with running() as here:
            first = await here.predictor.predict("m", X)
            number = await asyncio.to_thread(shop.publish, model, model_bytes(2))
            await until(
                lambda: here.predictor.serving("m").version.version == number, "the new version"
            )
            second = await here.predictor.predict("m", X)
            assert (first.serving.version.version, second.serving.version.version) == (1, 2)
            assert not np.array_equal(first.outputs["logits"], second.outputs["logits"])

    asyncio.run(scenario())


def test_a_version_that_cannot_be_loaded_leaves_the_old_one_serving(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    model = shop.add("m", model_bytes(1))

    async def scenario() -> None:
        async with running() as here:
            await here.predictor.predict("m", X)
            await asyncio.to_thread(shop.publish, model, GARBAGE)
            await until(lambda: here.predictor.serving("m").refused, "the refusal")
            prediction = await here.predictor.predict("m", X)

            assert prediction.serving.version.version == 1
            assert prediction.serving.refused.version == 2
            (told,) = [each for each in here.told if each.type == "prediction.load_failed"]
            assert (told.model, told.data["version"]) == ("m", 2)

            await asyncio.to_thread(shop.publish, model, model_bytes(3))
            await until(lambda: here.predictor.serving("m").version.version == 3, "version 3")
            assert here.predictor.serving("m").refused is None

    asyncio.run(scenario())


def test_after_a_restart_an_earlier_version_stands_in(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    model = shop.add("m", model_bytes(1))
    shop.publish(model, model_bytes(2))
    shop.publish(model, GARBAGE)

    async def scenario() -> None:
        async with running() as here:
            prediction = await here.predictor.predict("m", X)
            assert prediction.serving.version.version == 2
            assert prediction.serving.refused.version == 3

    asyncio.run(scenario())


def test_what_stands_in_still_does_after_the_predictor_was_idle(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    model = shop.add("m", model_bytes(1))

    async def scenario() -> None:
        async with running(prediction_idle_timeout_s=0.1) as here:
            await here.predictor.predict("m", X)
            await asyncio.to_thread(shop.publish, model, GARBAGE)
            # Predicting, so that it is not idle before.
            while not (await here.predictor.predict("m", X)).serving.refused:
                pass
            await until(lambda: not here.predictor.pids, "the process to end")
            prediction = await here.predictor.predict("m", X)
            assert prediction.serving.version.version == 1

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def test_a_model_without_a_version_that_loads_says_so(
    shop: Any, running: Callable[..., Any]
) -> None:
    shop.add("m", GARBAGE)

    async def scenario() -> None:
        async with running() as here:
            with pytest.raises(ModelNotLoadable, match="version 1 of model 'm'"):
                await here.predictor.predict("m", X)
            with pytest.raises(NotFound):
                await here.predictor.predict("nobody", X)

    asyncio.run(scenario())


def test_a_damaged_version_is_not_predicted_with(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    model = shop.add("m", model_bytes(1))
    damaged = shop.publish(model, model_bytes(2))
    shop.publish(model, model_bytes(3))
    flip_weight(shop.store, shop.store.versions.get(model.id, damaged).file)

    async def scenario() -> None:
        async with running() as here:
            version = shop.store.versions.get(model.id, damaged)
            with pytest.raises(Damaged, match=version.file.sha256):
                await here.predictor.predict_with(version, X, of=model)
            assert (await here.predictor.predict("m", X)).serving.version.version == 3

    asyncio.run(scenario())
    assert list(shop.store.integrity.known().files.values()) == [[f"m version {damaged}"]]


def test_what_rots_while_it_serves_gives_way_when_it_is_loaded_again(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    model = shop.add("m", model_bytes(1))
    shop.publish(model, model_bytes(2))

    async def scenario() -> None:
        async with running(prediction_idle_timeout_s=0.1) as here:
            first = await here.predictor.predict("m", X)
            flip_weight(shop.store, first.serving.version.file)
            await until(lambda: not here.predictor.pids, "the process to end")
            again = await here.predictor.predict("m", X)
            assert (first.serving.version.version, again.serving.version.version) == (2, 1)
            assert again.serving.refused is None

    asyncio.run(scenario())


def test_a_deleted_model_answers_no_more(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    shop.add("m", model_bytes(1))

    async def scenario() -> None:
        async with running() as here:
            await here.predictor.predict("m", X)
            await asyncio.to_thread(shop.store.models.delete, "m")
            with pytest.raises(NotFound):
                await here.predictor.predict("m", X)

    asyncio.run(scenario())


def test_more_models_than_fit_are_loaded_anew(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    for number in range(4):
        shop.add(f"m{number}", model_bytes(number))

    async def scenario() -> None:
        async with running(prediction_sessions=2) as here:
            first = [await here.predictor.predict(f"m{n}", X) for n in range(4)]
            again = [await here.predictor.predict(f"m{n}", X) for n in range(4)]
            for one, other in zip(first, again, strict=True):
                assert np.array_equal(one.outputs["logits"], other.outputs["logits"])

    asyncio.run(scenario())


def test_inputs_that_the_model_cannot_compute_fail_alone(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    shop.add("m", model_bytes(1))

    async def scenario() -> None:
        async with running() as here:
            with pytest.raises(PredictionFailed, match="version 1 of model 'm'"):
                await here.predictor.predict("m", {"x": np.zeros((1, 5), np.float32)})
            assert (await here.predictor.predict("m", X)).outputs["logits"].shape == (4, 3)

    asyncio.run(scenario())


def test_only_the_request_that_kills_the_predictor_is_charged(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    import psutil

    shop.add("m", model_bytes(1))

    async def scenario() -> None:
        async with running() as here:
            await here.predictor.predict("m", X)
            for _ in range(3):
                process = psutil.Process(here.predictor.pids[0])
                process.suspend()
                asking = [asyncio.create_task(here.predictor.predict("m", X)) for _ in range(8)]
                await until(lambda: here.predictor.waiting == 8, "eight to wait")
                process.kill()
                answers = await asyncio.gather(*asking)
                assert len(answers) == 8

    asyncio.run(scenario())
