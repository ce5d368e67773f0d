"""Makes small pictures of samples, each in its own process: an image may be malicious."""

from __future__ import annotations

import asyncio

from service.errors import ChildDied
from service.preprocess import for_model
from service.processes.children import Children
from storage.errors import NotFound
from storage.records.models import Model
from storage.store import Store

TIMEOUT_S = 30.0
AT_ONCE = 2


class Thumbnails:
    """Makes PNGs of at most `size` pixels a side; a few at a time."""

    def __init__(self, store: Store, children: Children) -> None:
        self._store = store
        self._children = children
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def make(self, model: Model, sample_id: int, *, size: int) -> bytes:
        """Raises NotFound if the sample is not a picture or cannot be read, ChildDied."""
        from service.preprocess.image import Image

        if not isinstance(for_model(model).files, Image):
            raise NotFound(f"the samples of {model.name!r} are no pictures; ask for their content")
        data = await asyncio.to_thread(self._store.samples.content, model.id, sample_id)
        async with self._turns:
            process = await self._children.spawn("service.preprocess.thumbnail", str(size))
            try:
                thumbnail, words = await asyncio.wait_for(process.communicate(data), TIMEOUT_S)
            except asyncio.TimeoutError:
                process.kill()
                await process.wait()
                raise ChildDied(f"no thumbnail within {TIMEOUT_S:g} s") from None
        if process.returncode == 0:
            return thumbnail
        reason = words.decode(errors="replace").strip().rpartition("\n")[2]
        raise NotFound(f"sample {sample_id} has no thumbnail: {reason}")
