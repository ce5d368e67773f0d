"""A version's adapters separate from their base, for the adapter API of ONNX Runtime.

`adaptable` is the model with everything that trains as optional inputs, and `adapter` a file of
values for these. Source: https://onnxruntime.ai/docs/genai/tutorials/finetune.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.adapters.branches import add_branches
from service.training.engines import checkpoint
from service.training.engines.manifest import METADATA_PREFIX, Manifest, read_manifest
from service.training.engines.model_header import read_header
from service.training.engines.runtime import onnxruntime, open_session
from service.training.errors import ExportMismatch, VariantRefused
from service.training.export.export import ROUNDING_TOLERANCE, TOLERANCE, compare
from service.training.export.form import MadeForm, calibration_rows
from service.training.forward.graph import Graph
from service.training.graph.flow import reads
from service.training.protocol.messages.comparison import AdaptedFiles, Convert
from service.training.protocol.serialization import plain
from storage.database.codec import dump

CHECKED_SAMPLES = 16
TAG_DIGITS = 8
Tensors = Mapping[str, NDArray[np.float32]]


def adaptable_form(task: Convert, tick: Callable[[], None]) -> Iterator[MadeForm]:
    """The version with trained tensors as inputs, which default to its own values."""
    files, manifest = _files(task)
    path = Path(task.work_dir) / "adaptable.onnx"
    _write(path, task, manifest, _values(files.trained or files.checkpoint, manifest))
    _check(task, manifest, path, None, tick)
    yield MadeForm("adaptable", path, path)


def adapter_form(task: Convert, tick: Callable[[], None]) -> Iterator[MadeForm]:
    """A file of the version's values, checked to give the version when applied to the base."""
    files, manifest = _files(task)
    if not hasattr(onnxruntime, "AdapterFormat"):
        raise VariantRefused(
            f"onnxruntime {onnxruntime.__version__} writes no adapters, 1.20 and later do; fetch"
            " the variant adaptable instead, or run the daemon on plain onnxruntime"
        )
    folder, values = Path(task.work_dir), _values(files.trained or files.checkpoint, manifest)
    base, filled, path = (folder / name for name in ("base.onnx", "whole.onnx", "a.onnx_adapter"))
    _write(base, task, manifest, _values(files.checkpoint, manifest))
    _write(filled, task, manifest, values)
    tag = _tag(files, manifest)
    written = onnxruntime.AdapterFormat()
    written.set_adapter_version(1)
    written.set_model_version(int(tag, 16) >> 1)  # of 31 bits
    of = onnxruntime.OrtValue.ortvalue_from_numpy
    written.set_parameters({f"{name}:{tag}": of(array) for name, array in values.items()})
    written.export_adapter(str(path))
    _check(task, manifest, base, path, tick)
    yield MadeForm("adapter", path, filled)


def _files(task: Convert) -> tuple[AdaptedFiles, Manifest]:
    manifest = None if task.adapted is None else read_manifest(Path(task.adapted.manifest))
    if task.adapted is None or manifest is None or not manifest.adapters:
        raise VariantRefused(
            "the model trains no adapters; register it with trainable.lora, or fetch the version"
            " as it is"
        )
    return task.adapted, manifest


def _values(path: str, manifest: Manifest) -> Tensors:
    """The version's measured values. Raises VariantRefused if the model has changed since."""
    statistics = {each.name: each.name for each in manifest.statistics}
    names = checkpoint.measured_names(Path(path), [each.name for each in manifest.parameters])
    arrays = checkpoint.read(Path(path), (names | statistics).values())
    values = {name: arrays[measured] for name, measured in (names | statistics).items()}
    for stored in (*manifest.parameters, *manifest.statistics):
        if (array := values[stored.name]).shape != stored.shape:
            raise VariantRefused(
                f'"{stored.name}" of the version has the shape {[*array.shape]}, that of the model'
                f" now {[*stored.shape]}: its classes have changed; train a new version"
            )
    return values


def _tag(files: AdaptedFiles, manifest: Manifest) -> str:
    """Identifies the base. Input names end in it, so that no other base's adapter fits."""
    content = Path(files.inference_model).read_bytes()
    moved = {key: plain(getattr(manifest, key)) for key in ("parameters", "statistics", "adapters")}
    whole = hashlib.sha256(content + dump(moved, sort_keys=True).encode())
    return whole.hexdigest()[:TAG_DIGITS]


def _write(path: Path, task: Convert, manifest: Manifest, values: Tensors) -> None:
    """Write the base with these values as optional inputs."""
    assert task.adapted is not None
    model, tag = onnx.load_model(task.adapted.inference_model), _tag(task.adapted, manifest)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(v, n) for n, v in values.items())
    model = add_branches(Graph(model), [adapter for adapter in manifest.adapters if adapter.merges])
    for node in model.graph.node:
        assert not values.keys() & ({*reads(node)} - {*node.input})  # subgraphs do not train
        node.input[:] = [f"{name}:{tag}" if name in values else name for name in node.input]
    for tensor in model.graph.initializer:
        if tensor.name in values:
            tensor.name = f"{tensor.name}:{tag}"
            shape = [*tensor.dims]
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, shape)
            model.graph.input.append(value)
    del model.graph.value_info[:]
    _, metadata = read_header(Path(task.source))
    own = {METADATA_PREFIX + "variant": "adaptable", METADATA_PREFIX + "base": tag}
    onnx.helper.set_model_props(model, metadata | own)
    onnx.save_model(model, path)


def _check(
    task: Convert, manifest: Manifest, model: Path, adapter: Path | None, tick: Callable[[], None]
) -> None:
    """Raises VariantRefused unless it gives the same outputs as the version."""
    options = onnxruntime.RunOptions()
    held: Any = None
    if adapter is not None:
        held = onnxruntime.LoraAdapter()
        held.Load(str(adapter))
        options.add_active_adapter(held)
    ours, theirs = (open_session(path, threads=1) for path in (model, Path(task.source)))
    tolerance = ROUNDING_TOLERANCE if manifest.quantizes else TOLERANCE
    for feeds in islice(calibration_rows(task, tick), CHECKED_SAMPLES):
        outputs = [manifest.output]
        (said,), (expected,) = ours.run(outputs, feeds, options), theirs.run(outputs, feeds)
        try:
            compare(said, expected, tolerance)
        except ExportMismatch as error:
            raise VariantRefused(
                "adapters beside the base do not give what the version gives, so it has more than"
                f" these: neighbours, or a temperature by calibrate ({error.detail})"
            ) from error
