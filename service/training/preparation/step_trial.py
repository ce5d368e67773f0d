"""Tests a step before it is accepted: is its loss finite, and may its batches be split?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.numpy_helper import to_array

from service.training.engines.manifest import Draw
from service.training.engines.randomness import draw_all
from service.training.engines.runtime import LOAD_ERRORS, check_memory, open_session
from service.training.errors import refuse
from service.training.forward import trial
from service.training.forward.reading import ForwardModel
from service.training.graph.step import LOSS, LOSS_SCALE, StepModel
from service.training.tasks import TASKS
from storage.records.signatures import TargetSpec

Array = NDArray[Any]
Feeds = dict[str, Array]
PLACE = "/model/graph"
ROWS = 3
TOLERANCE = 1e-3
"""Maximum difference, as a share of the largest number in the same tensor."""
SHARE = 0.2
"""Maximum norm of the difference between two steps' gradients, as a share of their norm."""


def rows_are_independent(step: StepModel, forward: ForwardModel) -> bool:
    """Whether the losses and gradients of rows add up to those of their batch.

    Raises GraphRefused with the runtime's message if the step does not run on random inputs, or
    if its loss is not finite.
    """
    try:
        session = open_session(step.model.SerializeToString(), threads=1)
        whole, rows = _run(session, step, forward)
    except trial.engine_errors() as error:
        sentence = trial.sentence(error)
        raise refuse(PLACE, f"the engine cannot train the model: {sentence}") from None
    if not np.isfinite(whole[0]):
        raise refuse(
            PLACE,
            "one step on small random inputs gave a loss that is not a number; "
            "check the weights and the loss",
        )
    if step.batch_statistics:
        return False
    together = 1 + len(step.parameters)
    sums = [sum(each) for each in zip(*(row[:together] for row in rows), strict=True)]
    return all(_equal(*each) for each in zip(whole[:together], sums, strict=True))


def computes_the_same(here: StepModel, step: StepModel, forward: ForwardModel) -> bool:
    """Whether a step for this processor gives the loss and gradients of the step for any.

    Numbers next to the kink of a ReLU fall on either side: gradients of a ResNeXt differ by 2 %.
    """
    feeds = trial_feeds(step, forward, flag=True)
    try:
        expected, found = (_gradients(each, feeds) for each in (step, here))
    except (RuntimeError, *LOAD_ERRORS) as error:
        check_memory(error)
        return False
    sizes = {name: float(np.linalg.norm(value)) for name, value in expected.items()}
    tiny = max(sizes.values()) * TOLERANCE
    gaps = {
        name: float(np.linalg.norm(found[name].reshape(value.shape) - value))
        for name, value in expected.items()
    }
    return all(gap <= SHARE * sizes[name] + tiny for name, gap in gaps.items())


def _gradients(step: StepModel, feeds: Feeds) -> Feeds:
    """Loss and gradients by name, with what runs once for a batch."""
    once, known = step.once, dict(feeds)
    for model in [step.model] if once is None else [once.before, step.model, once.after]:
        session = open_session(model.SerializeToString(), threads=1)
        read = {each.name: known[each.name] for each in session.get_inputs()}
        names = [each.name for each in session.get_outputs()]
        known.update(zip(names, session.run(names, read), strict=True))
    return {name: known[name] for name in (LOSS, *step.gradients)}


def _run(
    session: Any, step: StepModel, forward: ForwardModel
) -> tuple[list[Array], list[list[Array]]]:
    """The outputs for a batch, and for each row alone if rows may be independent."""
    for flag in (True, False):
        feeds = trial_feeds(step, forward, flag=flag)
        whole = session.run(None, feeds)
        if np.isfinite(whole[0]):
            break
    fixed = {LOSS_SCALE, *step.parameters, *step.updated, *step.loss.label_tensors, *step.frozen}
    rows = [
        session.run(
            None,
            {name: x if name in fixed else x[row : row + 1] for name, x in feeds.items()},
        )
        for row in range(0 if step.batch_statistics else ROWS)
    ]
    return whole, rows


def trial_feeds(step: StepModel, forward: ForwardModel, *, flag: bool) -> Feeds:
    """What a step is tried on: some rows, of texts some short ones.

    flag: the value of all booleans, which are masks of either meaning.
    """
    graph = forward.graph
    # The longest texts would take most of a registration's time and memory; that the model runs on
    # them is known.
    tokens = graph.lengths.trials[0] if graph.lengths is not None else 0
    feeds = trial.draw(graph, ROWS, flag=flag, tokens=tokens or None)
    feeds |= draw_all(
        [Draw(each.name, each.shape) for each in step.random], seed=0, batch=0, rows=ROWS
    )
    for name in (*step.parameters, *step.updated, *step.loss.label_tensors, *step.frozen):
        feeds[name] = to_array(graph.initializers[name])
    feeds[LOSS_SCALE] = np.full((1,) * step.scale_rank, 1 / ROWS, np.float32)
    if step.target is not None:
        task = TASKS[step.loss.name]
        row = forward.row_of(tokens)
        feeds[step.target] = _target(task.fed_target(forward.signature.target, row))
    return feeds


def _target(spec: TargetSpec) -> Array:
    rng = np.random.default_rng(0)
    shape = (ROWS, *spec.shape)
    if spec.num_classes is not None:
        return rng.integers(0, spec.num_classes, shape)
    return rng.random(shape).astype(spec.dtype)


def _equal(whole: Array, added: Array) -> bool:
    limit = TOLERANCE * float(np.abs(whole).max(initial=0.0)) + 1e-6
    return bool(np.allclose(whole, added, rtol=0.0, atol=limit))
