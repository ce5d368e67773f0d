"""The predictor: answers with the promoted version, and switches to a new one without a gap."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from service.errors import ModelNotLoadable, PredictionFailed
from service.events import Feed
from service.logs import event
from service.models.latest import Latest, LatestVersions
from service.models.prepared import tokenizer_of
from service.prediction.frames import Frame, Tensors
from service.prediction.lanes import Lanes
from service.prediction.preparation import as_tensor, described
from service.processes.children import Children
from service.settings import Settings
from storage.database.transaction import Happening
from storage.errors import Damaged, HoneError, NotFound
from storage.records.models import Model
from storage.records.versions import Version
from storage.store import Store

logger = logging.getLogger(__name__)

LOOK_BACK = 10
"""How many versions back to look for one to fall back to."""
CHANGES = ("alias.", "model.", "version.")
NOT_LOADED = (ModelNotLoadable, Damaged)


class LoadFailure(Struct, frozen=True):
    """A promoted version that cannot be loaded."""

    version: int
    detail: str


class Serving(Struct, frozen=True):
    """The version of a model that answers now. refused: the promoted one, if it does not load."""

    model: Model
    version: Version
    refused: LoadFailure | None = None


class Prediction(Struct, frozen=True):
    """Every output of the model by name, batch first, and the version that computed it.

    sizes: height and width of the photos that masks or boxes are of, as they are seen.
    """

    serving: Serving
    outputs: Tensors
    sizes: Sequence[tuple[int, int]] = ()


class Predictor:
    """Predicts in a few processes for all models: started at first use, ended when idle.

    Belongs to the event loop.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        children: Children,
        *,
        latest: LatestVersions,
        feed: Feed,
    ) -> None:
        self._store = store
        self._latest = latest
        self._feed = feed
        self._serving: dict[str, Serving] = {}
        self._lanes = Lanes(
            settings, children, files=store.files.folder, on_idle=self._serving.clear
        )
        self._swaps: dict[str, asyncio.Task[None]] = {}
        feed.listen(self._on_event)

    async def predict(
        self, model: str, inputs: Tensors, version: Version | None = None
    ) -> Prediction:
        """Predict with the promoted version; while a new one is loading, with the previous one.

        inputs: as in the signature, batch first. version: to predict with, promoted or not. Raises
        NotFound, ModelNotLoadable, Damaged, PredictionFailed, PredictionTimeout, ChildDied, Busy.
        """
        serving = await self._serving_with(model, version)
        said = described(serving.model)
        return Prediction(serving, (await self.ask(serving.version, inputs, said)).tensors)

    async def predict_files(
        self, model: str, files: Sequence[bytes], version: Version | None = None
    ) -> Prediction:
        """Like `predict`, for a model that takes files; the process decodes them."""
        serving = await self._serving_with(model, version)
        tokenizer = await asyncio.to_thread(tokenizer_of, serving.model, self._store)
        said = described(serving.model, files, tokenizer)
        answer = await self.ask(serving.version, as_tensor(files), said)
        return Prediction(serving, answer.tensors, answer.header["sizes"])

    async def predict_with(self, version: Version, inputs: Tensors, *, of: Model) -> Tensors:
        """Predict with a given version, whatever is promoted. Raises as `predict` does."""
        return (await self.ask(version, inputs, described(of))).tensors

    async def _serving_with(self, model: str, version: Version | None) -> Serving:
        if version is None:
            return await self.serving_now(model)
        return Serving(await asyncio.to_thread(self._store.models.of_version, version), version)

    async def serving_now(self, model: str) -> Serving:
        """The version that answers, loaded if it was not. Raises as `predict` does."""
        return self._serving.get(model) or await self._begin(model)

    def serving(self, model: str) -> Serving | None:
        """The version that answers now, None if nothing is loaded."""
        return self._serving.get(model)

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        return self._lanes.pids

    @property
    def waiting(self) -> int:
        """How many questions have no answer yet."""
        return self._lanes.waiting

    async def stop(self) -> None:
        """End the processes."""
        for swap in self._swaps.values():
            swap.cancel()
        await self._lanes.stop()

    async def ask(self, version: Version, inputs: Tensors, said: Mapping[str, Any]) -> Frame:
        """Ask this version, also once there is a newer one; without inputs, only load it.

        said: more of the header, see `described`. Raises as `predict` does.
        """
        header = {"file": await self._file(version), "forget": False, **said}
        answer = await self._lanes.ask(version.model, Frame(header, inputs))
        if (error := answer.header.get("error")) is not None:
            if error["code"] == ModelNotLoadable.code:
                find = self._store.integrity.file_again
                await asyncio.to_thread(find, version.file.sha256)
            raise _error(version, error["code"], error["detail"])
        return answer

    def _on_event(self, happened: Happening) -> None:
        model = happened.model
        if model not in self._serving or not happened.type.startswith(CHANGES):
            return
        if happened.type == "model.deleted":
            del self._serving[model]
        elif model not in self._swaps:
            swap = self._swaps[model] = asyncio.create_task(self._swap(model))
            swap.add_done_callback(lambda _: self._swaps.pop(model))

    async def _begin(self, model: str) -> Serving:
        """Load the promoted version. Raises NotFound, ModelNotLoadable, …"""
        while True:
            latest = await self._latest.get(model)
            serving = Serving(latest.model, latest.version)
            try:
                await self.ask(latest.version, {}, {})
            except NOT_LOADED as error:
                refused = self._note(latest.version, error)
                version = await self._one_before(latest, error)
                serving = Serving(await self._model(latest, version), version, refused)
            if await self._latest.get(model) is latest:
                return self._serving.setdefault(model, serving)

    async def _one_before(self, latest: Latest, error: HoneError) -> Version:
        """The newest other promoted version that can be loaded. Raises `error` if there is none."""
        versions = await asyncio.to_thread(self._store.versions.list, latest.model.id, LOOK_BACK)
        for version in versions:
            if version.promoted and version.version != latest.version.version:
                with suppress(*NOT_LOADED):
                    await self.ask(version, {}, {})
                    return version
        raise error

    async def _swap(self, model: str) -> None:
        """Load the promoted version while the old one serves, then switch."""
        while (serving := self._serving.get(model)) is not None:
            try:
                latest = await self._latest.get(model)
            except NotFound:
                self._serving.pop(model, None)
                return
            if (latest.model, latest.version) == (serving.model, serving.version):
                return
            if serving.refused and serving.refused.version == latest.version.version:
                return
            refused = None
            try:
                await self.ask(latest.version, {}, {})
            except HoneError as error:
                refused = self._note(latest.version, error)
            if model not in self._serving:
                return
            version = serving.version if refused else latest.version
            self._serving[model] = Serving(await self._model(latest, version), version, refused)
            if refused:
                continue  # `latest` may have moved on because it is damaged
            if version.file != serving.version.file:
                await self._forget(serving.version)

    async def _model(self, latest: Latest, version: Version) -> Model:
        """The model, at the base that the version descends from."""
        if version.base == latest.version.base:
            return latest.model
        return await asyncio.to_thread(self._store.models.of_version, version)

    async def _forget(self, version: Version) -> None:
        with suppress(HoneError):  # a session that is not dropped is evicted later
            await self._lanes.tell_all(Frame({"file": await self._file(version), "forget": True}))

    def _note(self, version: Version, error: HoneError) -> LoadFailure:
        fields = {"version": version.version, "detail": error.detail}
        event(logger, logging.ERROR, "prediction.load_failed", model=version.model, **fields)
        self._feed.announce("prediction.load_failed", version.model, fields)
        return LoadFailure(version.version, error.detail)

    async def _file(self, version: Version) -> dict[str, object]:
        file, files = version.file, self._store.files
        path = files.path(file.sha256)
        if not path.exists():
            path = await asyncio.to_thread(files.whole_path, file.sha256)
        return {"sha256": file.sha256, "path": str(path), "size_bytes": file.size_bytes}


def _error(version: Version, code: str, detail: str) -> HoneError:
    if code == ModelNotLoadable.code:
        return ModelNotLoadable(
            f"version {version.version} of model {version.model!r} cannot be loaded; point "
            f"`latest` at another. {detail}"
        )
    return PredictionFailed(f"version {version.version} of model {version.model!r}: {detail}")
