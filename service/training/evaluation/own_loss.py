"""Evaluates the loss that a model computes itself: exported models no longer have it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.training.engine import Array
from service.training.engines import checkpoint
from service.training.engines.manifest import read_manifest
from service.training.engines.runtime import LOAD_ERRORS, open_session
from service.training.engines.sessions.shares import scale_rank
from service.training.evaluation.inference import Unusable
from service.training.loss import LOSS, LOSS_SCALE
from service.training.protocol.messages.shared import OwnLoss
from service.training.tasks import OWN, TASKS

Values = dict[str, NDArray[np.float32]]


class LossModel:
    """The evaluation model of training, with the weights of the inference model at `path`.

    Version 1 may have other weight names; its weights are those that training starts from.
    """

    def __init__(self, files: OwnLoss, path: Path, *, threads: int) -> None:
        self._manifest = read_manifest(Path(files.manifest))
        self._session = open_session(Path(files.eval_model), threads=threads, arena=False)
        self._fixed = {
            **self._weights(path, Path(files.checkpoint)),
            LOSS_SCALE: np.ones((1,) * scale_rank(self._session), np.float32),
        }

    def of_samples(self, inputs: Sequence[Array], target: Array) -> NDArray[np.float64]:
        """(batch,): the loss of each sample alone. Raises Unusable."""
        losses = np.empty(len(target))
        for at in range(len(target)):
            losses[at] = self._of_one([array[at : at + 1] for array in (*inputs, target)])
        return losses

    def _of_one(self, arrays: Sequence[Array]) -> float:
        *inputs, target = arrays
        feeds: dict[str, Array] = {**self._fixed}
        feeds.update(zip(self._manifest.inputs, inputs, strict=True))
        if self._manifest.target is not None:
            feeds[self._manifest.target] = TASKS[OWN].fed(target, self._manifest.target_shape)
        try:
            return float(self._session.run([LOSS], feeds)[0])
        except (*LOAD_ERRORS, ValueError) as error:
            raise Unusable(f"its loss cannot be computed: {error}") from error

    def _weights(self, path: Path, start: Path) -> Values:
        wanted = {t.name: t.shape for t in (*self._manifest.parameters, *self._manifest.statistics)}
        import onnx  # late: few models have a loss of their own

        graph = onnx.load_model(path, load_external_data=False).graph
        weights = {
            tensor.name: onnx.numpy_helper.to_array(tensor)
            for tensor in graph.initializer
            if wanted.get(tensor.name) == tuple(tensor.dims)
        }
        if weights.keys() == wanted.keys():
            return weights
        values = {name: np.empty(shape, np.float32) for name, shape in wanted.items()}
        checkpoint.load(start, values)
        return values
