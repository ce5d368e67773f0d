"""One slow model does not hold the predictions of the others."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import until

X = {"x": np.eye(4, dtype=np.float32)}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a process is stopped by a signal")


def test_a_model_that_is_slow_leaves_a_process_to_the_others(
    shop: Any, running: Callable[..., Any], model_bytes: Callable[[int], bytes]
) -> None:
    for name in ("slow", "a", "b"):
        shop.add(name, model_bytes(1))

    async def scenario() -> None:
        async with running() as here:
            await here.predictor.predict("slow", X)
            stopped = here.predictor.pid
            os.kill(stopped, signal.SIGSTOP)
            try:
                slow = [asyncio.create_task(here.predictor.predict("slow", X)) for _ in range(20)]
                await until(lambda: here.predictor.waiting == 20, "the slow questions")
                for name in ("a", "b", "a"):
                    await asyncio.wait_for(here.predictor.predict(name, X), 20)
                assert not any(each.done() for each in slow)
            finally:
                os.kill(stopped, signal.SIGCONT)
            await asyncio.gather(*slow)
            assert here.predictor.waiting == 0

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
