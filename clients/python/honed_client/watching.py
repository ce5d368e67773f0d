"""A session of the newest promoted model, kept up to date."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

logger = logging.getLogger(__name__)
WAIT_S = 30
"""How long the daemon holds each answer, and so how long ending the thread may take."""
PAUSE_S = 1.0
"""The pause after an error."""
Found = tuple[bytes, str] | None


def session_of(model: bytes) -> Any:
    """onnxruntime.InferenceSession on the CPU."""
    from onnxruntime import InferenceSession  # `pip install honed-client[onnx]`

    return InferenceSession(model, providers=["CPUExecutionProvider"])


class Swapped:
    """session: of the newest model; replaced in one assignment, so that callers can finish with the
    old one. sha256: of its file. trouble: why the last attempt to get a newer one failed.
    """

    session: Any
    sha256: str
    trouble: Exception | None = None

    def __init__(self, make: Callable[[bytes], Any]) -> None:
        self._make = make

    def _swap(self, newest: Found) -> None:
        if newest is not None:
            content, sha256 = newest
            self.session, self.sha256 = self._make(content), sha256
        self.trouble = None

    def _note(self, error: Exception) -> None:
        """Record an error; the session stays as it is."""
        if repr(error) != repr(self.trouble):
            logger.warning("the newest model is not in use: %s", error)
        self.trouble = error


class Watch(Swapped):
    """Swaps `session` in a thread, from entering the block to its end.

    with client.model("digits").watch() as live:
        live.session.run(None, {"image": image})
    """

    def __init__(self, newest: Callable[..., Found], make: Callable[[bytes], Any]) -> None:
        super().__init__(make)
        self._newest = newest
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="honed-watch", daemon=True)

    def __enter__(self) -> Watch:
        """Fetch the first model. Raises HonedError and Unreachable."""
        self._swap(self._newest())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()

    def wait_for_change(self, sha256: str, timeout_s: float | None = None) -> bool:
        """Wait until the session is not that of this file; returns whether it is another."""
        with self._changed:
            return self._changed.wait_for(lambda: self.sha256 != sha256, timeout_s)

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                newest = self._newest(known=self.sha256, wait_s=WAIT_S)
                if not self._closed.is_set():
                    with self._changed:
                        self._swap(newest)
                        self._changed.notify_all()
            except Exception as error:  # noqa: BLE001 - whatever a runtime raises for a model
                self._note(error)
                self._closed.wait(PAUSE_S)


class AsyncWatch(Swapped):
    """As `Watch`, by a task of the event loop; sessions are made in a thread.

    async with client.model("digits").watch() as live:
        live.session.run(None, {"image": image})
    """

    def __init__(
        self, newest: Callable[..., Awaitable[Found]], make: Callable[[bytes], Any]
    ) -> None:
        super().__init__(make)
        self._newest = newest

    async def __aenter__(self) -> AsyncWatch:
        """Fetch the first model. Raises HonedError and Unreachable."""
        self._changed = asyncio.Condition()
        await asyncio.to_thread(self._swap, await self._newest())
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def wait_for_change(self, sha256: str) -> None:
        """Wait until the session is not that of this file."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.sha256 != sha256)

    async def _follow(self) -> None:
        while True:
            try:
                newest = await self._newest(known=self.sha256, wait_s=WAIT_S)
                await asyncio.to_thread(self._swap, newest)
                async with self._changed:
                    self._changed.notify_all()
            except Exception as error:  # noqa: BLE001 - whatever a runtime raises for a model
                self._note(error)
                await asyncio.sleep(PAUSE_S)
