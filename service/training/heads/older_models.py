"""The head of a model that was prepared when manifests did not tell it."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from service.training.engines import checkpoint, manifest, opening
from service.training.engines.manifest import ClassHead, Files, Manifest
from service.training.errors import GraphRefused
from service.training.heads.kinds import Head, layer_problem
from service.training.protocol.messages.training import Train


def with_head(task: Train) -> Train:
    """The task, whose job is one of a head, with a manifest that tells the head.

    Raises GraphRefused if the model has no such layer.
    """
    head = task.hyperparameters.head
    files = opening.files_of(task.artifacts)
    made = manifest.read(files.manifest)
    if made.knows_head:
        return task
    made = replace(made, head=_found(made, files, task), knows_head=True)
    problem = layer_problem(made.head, kind=head.kind if isinstance(head, Head) else None)
    if problem is not None:
        raise GraphRefused(problem)
    path = Path(task.work_dir) / "with_head.json"
    manifest.write(made, path)
    return replace(task, artifacts=replace(task.artifacts, manifest=str(path)))


def _found(made: Manifest, files: Files, task: Train) -> ClassHead | None:
    """In the model to export, with the values that training starts from."""
    # Late: few jobs need them, and onnx takes long to import.
    import onnx

    from service.training.forward.head import describe

    model = onnx.load_model(files.inference_model, load_external_data=False)
    names = [each.name for each in (*made.parameters, *made.statistics)]
    values = zip(names, checkpoint.read(files.checkpoint, names), strict=True)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(v, name) for name, v in values)
    ids = task.signature.target.ids
    try:
        found = describe(onnx.shape_inference.infer_shapes(model), made.output, ids, len(ids))
    except GraphRefused:
        return None
    return found if {*found.axes} <= {each.name for each in made.parameters} else None
