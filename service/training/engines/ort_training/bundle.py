"""Accepts artifacts made by Microsoft's own tools, unchanged after checks."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from msgspec.structs import replace

from service.training.engines.ort_training import proof, recognize, runtime
from service.training.errors import refusal, refuse
from service.training.forward import signature, trial
from service.training.forward.graph import Graph
from service.training.forward.load import MAX_MODEL_BYTES, parse, refuse_external
from service.training.graph.passes.canonical import stamp
from service.training.preparation.bounds import require_bounded
from service.training.protocol.messages import preparation
from service.training.protocol.messages.shared import Artifacts
from service.training.tasks import TASKS
from service.zips import ZIP_FAULTS
from storage.disk.durable import is_of_disk
from storage.errors import Problem, pointer
from storage.records.signatures import Signature, TensorSpec

MAX_RATIO = 200
"""Maximum ratio of unpacked to packed bytes of an entry; weights hardly compress at all."""
MAX_ENTRIES = 64


def unpack(source: Path, directory: Path, names: Collection[str]) -> None:
    """Write the named entries below `directory`. Raises GraphRefused with every error."""
    try:
        with zipfile.ZipFile(source) as archive:
            entries = _choose(archive.infolist(), names)
            directory.mkdir(parents=True, exist_ok=True)
            for name, entry in entries.items():
                with archive.open(entry) as packed, (directory / name).open("wb") as plain:
                    shutil.copyfileobj(packed, plain, 1 << 20)
    except (*ZIP_FAULTS, OSError) as error:
        if isinstance(error, OSError) and is_of_disk(error):
            raise
        raise refuse(
            "/artifacts", f"this is not a whole zip: {error}; pack {', '.join(names)} again"
        ) from None


def _choose(entries: list[zipfile.ZipInfo], names: Collection[str]) -> dict[str, zipfile.ZipInfo]:
    if len(entries) > MAX_ENTRIES:
        raise refuse("/artifacts", f"the zip has {len(entries)} entries; pack the artifacts alone")
    problems = [problem for entry in entries if (problem := _fault(entry))]
    chosen: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name = PurePosixPath(entry.filename).name
        if name in names and not entry.is_dir():
            if name in chosen:
                problems.append(Problem(pointer("artifacts", name), f"{name} is in the zip twice"))
            chosen[name] = entry
    problems += [
        Problem(pointer("artifacts", name), f"{name} is missing from the zip")
        for name in names
        if name not in chosen
    ]
    if problems:
        raise refusal(problems)
    return chosen


def _fault(entry: zipfile.ZipInfo) -> Problem | None:
    path = PurePosixPath(entry.filename.replace("\\", "/"))
    place = pointer("artifacts", entry.filename)
    if path.is_absolute() or ".." in path.parts or ":" in entry.filename:
        return Problem(place, "the entry's name leads out of the zip; pack plain file names")
    if entry.flag_bits & 1:
        return Problem(place, "the entry is encrypted; pack it without a password")
    if entry.file_size > MAX_MODEL_BYTES:
        return Problem(place, f"{entry.file_size} bytes, at most {MAX_MODEL_BYTES} are taken")
    if entry.file_size > MAX_RATIO * max(entry.compress_size, 1 << 10):
        return Problem(place, f"unpacks to more than {MAX_RATIO} times its size; store it plainly")
    return None


BASE_MODEL = "base_model.onnx"


def take(source: Path, artifacts: Artifacts, task: preparation.Prepare) -> preparation.Prepared:
    """Unpack and check them, prove them by one step, and export version 1.

    Raises GraphRefused, EngineMissing before the zip is opened.
    """
    api = runtime.training_api()
    training_model, eval_model, optimizer_model = _unpacked(source, artifacts)
    directory = Path(artifacts.eval_model).parent
    parameters = dict(_load_checkpoint(api, artifacts.checkpoint).parameters)
    end = recognize.recognize(eval_model, parameters)
    optimizer = recognize.check_order(end, optimizer_model, task)
    _refuse_choices(task)
    output = task.output or end.output
    recognize.expose(eval_model, output)
    onnx.save_model(eval_model, artifacts.eval_model)
    inputs = _inputs(eval_model, end)
    row = _row(eval_model, output)
    target = signature.target_spec(end.loss, row, task.classes)
    if TASKS[end.loss].fed_target(target, row) != target:
        detail = f"labels of {end.loss} are made ready only for forward models; send that instead"
        raise refuse("/spec/loss", detail)
    read = Signature(inputs, replace(target, may_ignore=False))  # this engine reads out of bounds
    trainable = tuple(
        value.name
        for value in training_model.graph.input
        if value.name in parameters and parameters[value.name].requires_grad
    )
    proof.prove(artifacts, read, trainable, "/artifacts", check_gradients=not end.is_ours)
    base = directory / BASE_MODEL
    _export(api, artifacts, base, output)
    sizes = {name: int(np.prod(parameter.data.shape)) for name, parameter in parameters.items()}
    return preparation.Prepared(
        artifacts=artifacts,
        base_model=str(base),
        signature=read,
        output=output,
        trainable=trainable,
        trainable_parameters=sum(sizes[name] for name in trainable),
        frozen_parameters=sum(size for name, size in sizes.items() if name not in trainable),
        optimizer=optimizer,
        notes=(
            "the artifacts are used as they are, with the output measured beside the loss",
            *TASKS[end.loss].notes(row),
        ),
    )


def _unpacked(source: Path, artifacts: Artifacts) -> list[onnx.ModelProto]:
    """The training, evaluation and optimizer models from the zip."""
    assert artifacts.optimizer_model is not None
    models = (artifacts.training_model, artifacts.eval_model, artifacts.optimizer_model)
    paths = [Path(path) for path in (*models, artifacts.checkpoint)]
    unpack(source, paths[0].parent, [path.name for path in paths])
    return [_read(path) for path in paths[:-1]]


def _refuse_choices(task: preparation.Prepare) -> None:
    fixed = {
        "trainable": task.trainable is not None,
        "weight_decay": task.weight_decay > 0,
        "max_grad_norm": task.max_grad_norm is not None,
    }
    problems = [
        Problem(f"/spec/{name}", f"{name} is fixed in artifacts; leave it out, or send the model")
        for name, value in fixed.items()
        if value
    ]
    if problems:
        raise refusal(problems)


def _read(path: Path) -> onnx.ModelProto:
    """A model without external data, written back with an IR version that the engine loads."""
    model = parse(path)
    place = pointer("artifacts", path.name)
    refuse_external(model, place)
    require_bounded(model, place)
    stamp(model)
    onnx.save_model(model, path)
    return model


def _load_checkpoint(api: Any, path: str) -> Any:
    try:
        return api.CheckpointState.load_checkpoint(path)
    except trial.engine_errors() as error:
        raise refuse(
            "/artifacts/checkpoint", f"the checkpoint does not load: {trial.sentence(error)}"
        ) from None


def _inputs(eval_model: onnx.ModelProto, known: recognize.Recognized) -> tuple[TensorSpec, ...]:
    graph = Graph(eval_model)
    fixed = [name for name in known.inputs if (dims := graph.dims(name)) and dims[0] is not None]
    if fixed:
        raise refusal(
            [
                Problem(
                    recognize.place(name),
                    f'axis 0 of "{name}" is fixed; generate the artifacts from a model with a '
                    "dynamic batch axis",
                )
                for name in fixed
            ]
        )
    return signature.input_specs(graph, known.inputs)


def _row(eval_model: onnx.ModelProto, output: str) -> tuple[int, ...]:
    """Shape of one row of the output."""
    dims = Graph(eval_model).dims(output)
    if dims is None or not dims or None in dims[1:]:
        raise refuse(
            "/artifacts/eval_model.onnx",
            f'the shape of "{output}" is not known; generate the artifacts from a model with '
            "fixed sizes",
        )
    return tuple(size or 0 for size in dims[1:])


def _export(api: Any, artifacts: Artifacts, path: Path, output: str) -> None:
    state = api.CheckpointState.load_checkpoint(artifacts.checkpoint)
    module = api.Module(artifacts.training_model, state, artifacts.eval_model)
    try:
        module.export_model_for_inferencing(path, [output])
    except trial.engine_errors() as error:
        raise refuse(
            "/artifacts/eval_model.onnx", f"version 1 cannot be exported: {trial.sentence(error)}"
        ) from None
