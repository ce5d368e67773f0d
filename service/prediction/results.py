"""What a prediction says: classes and probabilities, values, or the model's outputs as they are."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from service.errors import InvalidInput
from service.prediction.frames import Array, Tensors
from service.prediction.pixels import told_boxes
from service.prediction.predictor import Prediction
from service.prediction.preparation import SCORES
from service.preprocess.boxes.labels import BOXES
from service.preprocess.text_inputs import WORDS
from service.training.tasks import TASKS, losses
from service.training.tasks.reconstruction import scored
from service.training.tasks.token_classification import predicted_spans
from storage.errors import Problem
from storage.records.models import Model

WHOLE = ("probabilities", "values", "embedding")
"""Fields that hold all of an output."""


class Wanted(Struct, frozen=True):
    """What to say. top: how many of the likeliest classes. outputs: names of outputs to add."""

    top: int | None = None
    outputs: tuple[str, ...] = ()


def interpret(prediction: Prediction, wanted: Wanted) -> dict[str, Array]:
    """Each field of the answer, batch first; `top/label` is the field `label` of `top`.

    They are the task's, where `outputs/NAME` replace those of WHOLE; of texts with spans and of
    photos with boxes these, a list of objects for each. Raises InvalidInput.
    """
    model, outputs = prediction.serving.model, prediction.outputs
    problems = [
        Problem("/query/output", f"there is no output {name!r}; there are {_names(outputs)}")
        for name in wanted.outputs
        if name not in _names(outputs)
    ]
    task = TASKS[model.loss]
    if wanted.top is not None and not task.ranks_classes:
        rankers = losses(lambda of_loss: of_loss.ranks_classes)
        detail = f"only the loss {rankers} ranks classes; the model's is {model.loss}"
        problems.append(Problem("/query/top", detail))
    if problems:
        raise InvalidInput("the query does not fit the model", problems=problems)
    main = outputs[model.output] if model.output in outputs else next(iter(outputs.values()))
    if WORDS in outputs:
        fields = {"spans": _spans(model, main, outputs[WORDS])}
    elif (boxes := task.boxes(main)) is not None:
        fields = {BOXES: told_boxes(model, boxes, prediction.sizes)}
    elif SCORES in outputs:
        threshold = prediction.serving.version.provenance.get("threshold")
        fields = scored(outputs[SCORES], threshold)
    else:
        fields = task.prediction(main, top=wanted.top)
    if wanted.outputs:
        fields = {name: fields[name] for name in fields if name not in WHOLE}
    return fields | {f"outputs/{name}": outputs[name] for name in wanted.outputs}


def _names(outputs: Tensors) -> list[str]:
    return [name for name in outputs if name not in (WORDS, SCORES)]


def _spans(model: Model, logits: Array, words: Array) -> Array:
    """(n,): the spans of each text. logits: (n, tokens, classes). words: (n, 2, tokens)."""
    classes = model.signature.target.classes
    assert classes is not None
    spans = np.empty(len(logits), object)
    for row, chances in enumerate(logits):
        spans[row] = predicted_spans(chances, words[row], classes)
    return spans
