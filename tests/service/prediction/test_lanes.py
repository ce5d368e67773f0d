"""Slow models do not hold the predictions of the others."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from stored import adopt
from support import DEADLINE_S, until

from service.prediction.lanes import FILES_REMEMBERED
from service.prediction.worker import within

X = {"x": np.eye(4, dtype=np.float32)}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a process is stopped by a signal")


@contextmanager
def stopped(pids: list[int]) -> Iterator[list[int]]:
    """Processes that stand still meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_model_that_is_slow_leaves_a_process_to_the_others(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    for name in ("slow", "a", "b"):
        shop.add(name, model_bytes(1))

    async def scenario() -> None:
        async with running(prediction_timeout_s=DEADLINE_S) as here:
            await here.predictor.predict("slow", X)
            with stopped(here.predictor.pids):
                slow = [asyncio.create_task(here.predictor.predict("slow", X)) for _ in range(20)]
                await until(lambda: here.predictor.waiting == 20, "the slow questions")
                for name in ("a", "b", "a"):
                    await asyncio.wait_for(here.predictor.predict(name, X), DEADLINE_S / 2)
                assert not any(each.done() for each in slow)
            await asyncio.gather(*slow)
            assert here.predictor.waiting == 0

    asyncio.run(scenario())


def test_however_many_models_are_slow_a_quick_one_is_answered(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    slow = [f"slow{number}" for number in range(6)]
    for seed, name in enumerate(("quick", "other", *slow)):
        shop.add(name, model_bytes(seed))

    async def scenario() -> None:
        async with running(prediction_timeout_s=DEADLINE_S) as here:
            for _ in range(20):  # one of them took its usual time, however busy the machine is
                await here.predictor.predict("quick", X)
            asked = []

            def ask_slow(name: str) -> None:
                asked.append(asyncio.create_task(here.predictor.predict(name, X)))

            with stopped(here.predictor.pids) as first:
                ask_slow(slow[0])
                await until(lambda: here.predictor.waiting == 1, "the first of the slow ones")
                await here.predictor.predict("other", X)
                with stopped([pid for pid in here.predictor.pids if pid not in first]):
                    for name in slow[1:]:
                        ask_slow(name)
                    await until(lambda: here.predictor.waiting == len(slow), "the slow ones")
                    for _ in range(3):
                        await asyncio.wait_for(here.predictor.predict("quick", X), DEADLINE_S / 2)
                    assert not any(each.done() for each in asked)
            await asyncio.gather(*asked)
            assert here.predictor.waiting == 0

    asyncio.run(scenario())


def test_a_process_whose_caller_has_gone_is_not_free(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    for name in ("slow", "other"):
        shop.add(name, model_bytes(1))

    async def scenario() -> None:
        async with running(prediction_timeout_s=DEADLINE_S) as here:
            await here.predictor.predict("slow", X)
            with stopped(here.predictor.pids):
                given_up = asyncio.create_task(here.predictor.predict("slow", X))
                await until(lambda: here.predictor.waiting == 1, "the slow question")
                given_up.cancel()
                await asyncio.wait({given_up})
                await asyncio.wait_for(here.predictor.predict("other", X), DEADLINE_S / 2)
            await until(lambda: here.predictor.waiting == 0, "the answer that nobody reads")

    asyncio.run(scenario())


def test_models_that_are_quick_share_one_process(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    for name in ("a", "b"):
        shop.add(name, model_bytes(1))

    async def scenario() -> None:
        async with running() as here:
            for name in ("a", "b") * 5:
                await here.predictor.predict(name, X)
            assert len(here.predictor.pids) == 1

    asyncio.run(scenario())


def test_a_question_that_is_given_up_leaves_its_turn_to_the_next(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    shop.add("m", model_bytes(1))

    async def scenario() -> None:
        async with running() as here:
            await here.predictor.predict("m", X)
            asked = [asyncio.create_task(here.predictor.predict("m", X)) for _ in range(30)]
            await asyncio.sleep(0)
            for each in asked[::2]:
                each.cancel()
            await asyncio.gather(*asked[1::2])
            await until(lambda: here.predictor.waiting == 0, "every turn")
            await here.predictor.predict("m", X)

    asyncio.run(scenario())


def test_only_the_files_asked_last_are_remembered(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    model = shop.add("m", model_bytes(0))
    first = shop.store.versions.get(model.id, 1)
    files = [adopt(shop.store, model_bytes(seed)) for seed in range(FILES_REMEMBERED + 5)]

    async def scenario() -> None:
        async with running() as here:
            for file in files:
                await here.predictor.predict_with(replace(first, file=file), X, of=model)
            remembered = list(here.predictor._lanes._took)
            assert remembered == [file.sha256 for file in files[-FILES_REMEMBERED:]]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_answered", [False, True])
def test_who_leaves_is_gone_though_the_answer_comes_at_that_moment(is_answered: bool) -> None:
    async def scenario() -> None:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(within(answer, 60))
        await asyncio.sleep(0)
        if is_answered:
            answer.set_result(1)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        assert answer.cancelled() is not is_answered

    asyncio.run(scenario())


def test_an_answer_that_takes_too_long_is_not_waited_for() -> None:
    async def scenario() -> None:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        with pytest.raises(asyncio.TimeoutError):
            await within(answer, 0)
        assert answer.cancelled()

    asyncio.run(scenario())
