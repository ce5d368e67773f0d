"""Runs an inference model as apps would: in a plain session, with any kind of batch axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from service.training.engine import Array
from service.training.engines.manifest import METADATA_PREFIX
from service.training.engines.runtime import LOAD_ERRORS, onnxruntime, open_session
from service.training.protocol.messages.shared import Measurement


class Unusable(Exception):
    """The model cannot be loaded, or cannot be run on samples of this signature."""


class InferenceModel:
    """Runs the output of the model at `path` that is measured. Raises Unusable.

    A model as registered may have inputs that training dropped, may take a fixed number of rows,
    and may continue after that output. classes: ids of those it knows, by index; None for those of
    the signature. Other classes of the signature get the logit -inf.
    """

    def __init__(
        self,
        path: str,
        what: Measurement,
        *,
        threads: int,
        classes: tuple[int, ...] | None = None,
    ) -> None:
        signature, self._output = what.signature, what.output
        self._then = classes if classes != signature.target.ids else None
        self._now = signature.target.ids
        self._names = [spec.name for spec in signature.inputs]
        self._session = self._open(Path(path), threads)
        rows = self._session.get_inputs()[0].shape[:1]
        self._rows = rows[0] if rows and isinstance(rows[0], int) else None

    def run(self, inputs: Sequence[Array]) -> Array:
        """inputs, result: batch axis first; classes on axis 1 by the signature's index."""
        count = len(inputs[0])
        if self._rows is None or self._rows == count:
            return self._run(inputs)
        parts = []
        for start in range(0, count, self._rows):
            part = [array[start : start + self._rows] for array in inputs]
            filled = [np.resize(array, (self._rows, *array.shape[1:])) for array in part]
            parts.append(self._run(filled)[: len(part[0])])
        return np.concatenate(parts)

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the file says of itself, by the names of its version's provenance."""
        entries = self._session.get_modelmeta().custom_metadata_map
        return {name.removeprefix(METADATA_PREFIX): value for name, value in entries.items()}

    def _run(self, inputs: Sequence[Array]) -> Array:
        try:
            outputs = self._session.run([self._output], dict(zip(self._names, inputs, strict=True)))
        except (*LOAD_ERRORS, ValueError) as error:
            raise Unusable(f"it cannot be run: {error}") from error
        result: Array = outputs[0]
        if len(result) != len(inputs[0]):
            raise Unusable(f"it gives {len(result)} rows for {len(inputs[0])} samples")
        return result if self._then is None else self._by_index(result, self._then)

    def _by_index(self, output: Array, then: tuple[int, ...]) -> Array:
        """With a column for each class of the signature."""
        if output.shape[1] != len(then):
            raise Unusable(f"it gives {output.shape[1]} classes, and should give {len(then)}")
        scores = np.full((len(output), len(self._now), *output.shape[2:]), -np.inf, output.dtype)
        for index, class_id in enumerate(self._now):
            if class_id in then:
                scores[:, index] = output[:, then.index(class_id)]
        return scores

    def _open(self, path: Path, threads: int) -> onnxruntime.InferenceSession:
        try:
            session = open_session(path, threads=threads, arena=False)
            inputs = {value.name for value in session.get_inputs()}
            outputs = {value.name for value in session.get_outputs()}
            if inputs != set(self._names) or self._output not in outputs:
                part = cut_out(path, dict.fromkeys(self._names), self._output)
                session = open_session(part, threads=threads, arena=False)
        except (*LOAD_ERRORS, ValueError) as error:
            raise Unusable(f"it cannot be loaded: {error}") from error
        return session


def cut_out(path: Path, inputs: Mapping[str, str | None], output: str) -> bytes:
    """The part of the model between these tensors.

    inputs: each with its dtype, None for an input of the model. Raises Unusable.
    """
    # Late: exported models are run whole, and importing onnx takes longer than comparing two.
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load_model(path, load_external_data=False)
        values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
        known = {value.name for value in values}
        # The extractor needs declarations; registration has checked the tensors' types.
        for name, dtype in {**inputs, output: "float32"}.items():
            if name not in known and dtype is not None:
                kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
                inner = onnx.helper.make_tensor_value_info(name, kind, None)
                model.graph.value_info.append(inner)
        part: onnx.ModelProto = onnx.utils.Extractor(model).extract_model([*inputs], [output])
    except (onnx.checker.ValidationError, DecodeError) as error:
        raise Unusable(f"it cannot be cut to its part that is run: {error}") from error
    content: bytes = part.SerializeToString()
    return content
