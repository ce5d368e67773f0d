"""Carries out the task `Convert`: another form of an inference model, compared with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx

from service.training.checkpoints import flush
from service.training.engines.manifest import METADATA_PREFIX
from service.training.engines.runtime import LOAD_ERRORS, onnxruntime, session_options
from service.training.errors import VariantRefused
from service.training.evaluation.evaluate import ModelComparer
from service.training.evaluation.inference import Unusable
from service.training.export.adapted import adaptable_form, adapter_form
from service.training.export.form import MadeForm, Maker, calibration_rows
from service.training.export.quantize import quantized_forms
from service.training.protocol.messages.comparison import Comparison, Convert, Converted
from service.training.protocol.pipe import Heartbeat, Pipe
from service.training.tasks import METRICS
from service.training.tasks.task import figure_of
from storage.records.versions import VariantName


def convert(task: Convert, pipe: Pipe) -> Converted:
    """Raises VariantRefused if the model has no such form that can be run and measured."""
    if task.measurement.own_loss is not None:
        raise VariantRefused(
            "a model that computes its loss itself has no variants: they do not have the loss, so"
            " they could not be measured"
        )
    tick = Heartbeat(pipe)
    comparer = ModelComparer(
        task.measurement,
        threads=task.limits.threads,
        tick=tick,
        model=task.source,
        classes=task.classes,
        baseline_classes=task.classes,
    )
    forms = MAKERS[task.variant](task, tick)
    candidates, faults = [], []
    for method, path, measured in forms:
        tick()
        try:
            compared = comparer.compare_everywhere(str(measured), task.source)
        except Unusable as error:
            faults.append(f"{method}: {error}")
            continue
        candidates.append((method, path, compared))
    if not candidates:
        why = "; ".join(faults) or "the model has no layers that could be quantized"
        raise VariantRefused(f"the model cannot be made {task.variant}: {why}")
    method, path, compared = max(candidates, key=lambda one: quality(one[2].validation, task))
    flush(path)
    return Converted(str(path), method, compared.validation, compared.reference, compared.base_set)


def quality(comparison: Comparison, task: Convert) -> float:
    """The metric that the gate uses, higher is better; in a tie the first is taken."""
    what = task.measurement
    value = figure_of(comparison.candidate, what.metric, what.metric_class)
    if value is None:
        return 0.0 if comparison.samples == 0 else -np.inf
    return METRICS[what.metric].gain(0.0, float(value))


def ort_form(task: Convert, _: Callable[[], None]) -> Iterator[MadeForm]:
    """ONNX Runtime's own format, with the optimizations that hold on every device.

    Source: https://onnxruntime.ai/docs/performance/model-optimizations/ort-format-models.html
    """
    path = Path(task.work_dir) / "model.ort"
    options = session_options(task.limits.threads, arena=False)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    try:
        onnxruntime.InferenceSession(task.source, options, providers=["CPUExecutionProvider"])
    except LOAD_ERRORS as error:
        raise VariantRefused(f"the model cannot be saved in ORT format: {error}") from error
    yield MadeForm("ort", path, path)


def int8_forms(task: Convert, tick: Callable[[], None]) -> Iterator[MadeForm]:
    """Quantized statically, with training samples as calibration, and dynamically."""
    source = Path(task.source)
    metadata = onnx.load_model(source, load_external_data=False).metadata_props
    properties = {entry.key: entry.value for entry in metadata}
    rows = list(calibration_rows(task, tick))
    for method, path in quantized_forms(source, Path(task.work_dir), rows=rows):
        model = onnx.load_model(path, load_external_data=False)
        own = {METADATA_PREFIX + "variant": "int8", METADATA_PREFIX + "quantization": method}
        onnx.helper.set_model_props(model, properties | own)
        onnx.save_model(model, path)
        yield MadeForm(method, path, path)


MAKERS: dict[VariantName, Maker] = {
    "adaptable": adaptable_form,
    "adapter": adapter_form,
    "int8": int8_forms,
    "ort": ort_form,
}
