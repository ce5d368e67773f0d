"""What a prediction says: classes and probabilities, values, or the model's outputs as they are."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from service.errors import InvalidInput
from service.prediction.frames import Array, Tensors
from storage.errors import Problem
from storage.records.models import Model

LABEL, TOP = "label", "top"


class Wanted(Struct, frozen=True):
    """What to say. top: how many of the likeliest classes. outputs: names of outputs to add."""

    top: int | None = None
    outputs: tuple[str, ...] = ()


def interpret(model: Model, outputs: Tensors, wanted: Wanted) -> dict[str, Array]:
    """Each field of the answer, batch first; `top/label` is the field `label` of `top`.

    Cross entropy: the likeliest class as `label`, an index, its `probability`, and `probabilities`
    by class (softmax over the class axis, which follows the batch axis). A class for each of
    several positions: `label` alone. Binary cross entropy: `probabilities` (sigmoid). Otherwise:
    `values`. `top` replaces these by the likeliest classes, along axis 1 of `top/label` and
    `top/probability`; `outputs/NAME` replace `probabilities` and `values`. Raises InvalidInput.
    """
    problems = [
        Problem("/query/output", f"there is no output {name!r}; there are {list(outputs)}")
        for name in wanted.outputs
        if name not in outputs
    ]
    if wanted.top is not None and model.loss != "cross_entropy":
        detail = f"only the loss cross_entropy ranks classes; the model's is {model.loss}"
        problems.append(Problem("/query/top", detail))
    if problems:
        raise InvalidInput("the query does not fit the model", problems=problems)
    main = outputs[model.output] if model.output in outputs else next(iter(outputs.values()))
    if model.loss == "cross_entropy":
        fields = _classes(softmax(main).astype(main.dtype), wanted.top)
    elif model.loss == "bce_with_logits":
        fields = {"probabilities": sigmoid(main).astype(main.dtype)}
    else:
        fields = {"values": main}
    if wanted.outputs:
        fields = {name: fields[name] for name in fields if name not in ("probabilities", "values")}
    return fields | {f"outputs/{name}": outputs[name] for name in wanted.outputs}


def softmax(logits: Array) -> Array:
    """Along axis 1, in float64. logits: (batch, classes, …)."""
    wide = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def sigmoid(logits: Array) -> Array:
    """Elementwise, in float64, without overflow."""
    wide = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        small = np.exp(-np.abs(wide))
        return np.asarray(np.where(wide >= 0, 1.0, small) / (1.0 + small))


def _classes(probabilities: Array, top: int | None) -> dict[str, Array]:
    """probabilities: (batch, classes, …)."""
    index_type = np.min_scalar_type(probabilities.shape[1] - 1)
    if top is not None:
        ranked = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
        likeliest = np.take_along_axis(probabilities, ranked, axis=1)
        return {f"{TOP}/label": ranked.astype(index_type), f"{TOP}/probability": likeliest}
    fields = {LABEL: probabilities.argmax(axis=1).astype(index_type)}
    if probabilities.ndim == 2:
        fields |= {"probability": probabilities.max(axis=1), "probabilities": probabilities}
    return fields
