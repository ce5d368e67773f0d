"""Tests a step before it is accepted: is its loss finite, may its batches be split, and does the
runtime compute the same in the form that jobs run?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from onnx.numpy_helper import to_array

from service.training.engines.manifest import Files, draw_all
from service.training.engines.runtime import LOAD_ERRORS, check_memory, open_session
from service.training.errors import refuse
from service.training.forward import trial
from service.training.forward.reading import ForwardModel
from service.training.graph.step import StepModel
from service.training.loss import LOSS, LOSS_SCALE, SUM
from service.training.tasks import TASKS

Array = NDArray[Any]
Feeds = dict[str, Array]
PLACE = "/model/graph"
ROWS = 3
TOLERANCE = 1e-3
"""Maximum difference, as a share of the largest number in the same tensor."""
SHARE = 0.2
"""Maximum norm of the difference between two steps' gradients, as a share of their norm."""


class Trial(Struct, frozen=True):
    """A step on random inputs. results: loss and gradients by name. rows_are_independent: whether
    the losses and gradients of rows add up to those of their batch.
    """

    feeds: Feeds
    results: Feeds
    rows_are_independent: bool

    def agrees(self, files: Files) -> bool:
        """Whether a model's optimized files give the loss and gradients of the step itself.

        Numbers next to the kink of a ReLU fall on either side: a ResNeXt's gradients differ by 2 %.
        """
        parts = (files.weights_model, files.optimized_step_model, files.gradients_model)
        try:
            results = _gradients([part for part in parts if part and part.is_file()], self.feeds)
        except (RuntimeError, *LOAD_ERRORS) as error:
            check_memory(error)
            return False
        sizes = {name: float(np.linalg.norm(value)) for name, value in self.results.items()}
        tiny = max(sizes.values()) * TOLERANCE
        gaps = {
            name: float(np.linalg.norm(results[name].reshape(value.shape) - value))
            for name, value in self.results.items()
        }
        return all(gap <= SHARE * sizes[name] + tiny for name, gap in gaps.items())


def run_as_it_is(step: StepModel, forward: ForwardModel) -> Trial:
    """Run a step as it was built, before the runtime optimizes it.

    Raises GraphRefused with the runtime's message if it does not run, or if its loss is not finite.
    """
    names = (LOSS, *step.gradients)
    with _refusing():
        session = trial.session(step.model)
        feeds, results = _run(session, step, forward, names)
        sums = {} if step.batch_statistics else _sums(session, step, feeds, names)
    if not np.isfinite(results[LOSS]):
        raise refuse(
            PLACE,
            "one step on small random inputs gave a loss that is not a number; "
            "check the weights and the loss",
        )
    adds_up = bool(sums) and all(_equal(results[name], sums[name]) for name in names)
    return Trial(feeds, results, adds_up)


def run_as_jobs_do(files: Files, feeds: Feeds) -> None:
    """Run a step that has no optimized file. Raises GraphRefused if the runtime cannot."""
    with _refusing():
        _results(open_session(files.step_model, threads=1, arena=False, reuse=False), feeds)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except trial.engine_errors() as error:
        sentence = trial.sentence(error)
        raise refuse(PLACE, f"the engine cannot train the model: {sentence}") from None


def _gradients(paths: Sequence[Path], feeds: Feeds) -> Feeds:
    """All results of files, each of which also reads those of the ones before."""
    known = dict(feeds)
    for path in paths:
        session = open_session(path, threads=1, arena=False, is_optimized=True, reuse=False)
        known.update(_results(session, known))
    return known


def _results(session: Any, known: Feeds) -> Feeds:
    """By name. Gradients are added to zeros."""
    read = {
        value.name: np.zeros(value.shape, np.float32)
        if value.name.startswith(SUM)
        else known[value.name]
        for value in session.get_inputs()
    }
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, read), strict=True))


def _run(
    session: Any, step: StepModel, forward: ForwardModel, names: Sequence[str]
) -> tuple[Feeds, Feeds]:
    """A batch and its results of these names, if possible one whose results are finite."""
    tried = []
    for least, flag in product((0, 1), (True, False)):
        feeds = trial_feeds(step, forward, flag=flag, least=least)
        results = dict(zip(names, session.run([*names], feeds), strict=True))
        if all(np.isfinite(result).all() for result in results.values()):
            return feeds, results
        tried.append((feeds, results))
    return max(tried, key=lambda trial: bool(np.isfinite(trial[1][LOSS])))


def _sums(session: Any, step: StepModel, feeds: Feeds, names: Sequence[str]) -> Feeds:
    """Of the results for each row alone; one row's at a time is kept."""
    fixed = {LOSS_SCALE, *step.parameters, *step.updated, *step.loss.label_tensors, *step.frozen}
    sums: Feeds = dict.fromkeys(names, np.float32(0))
    for row in range(ROWS):
        alone = {name: x if name in fixed else x[row : row + 1] for name, x in feeds.items()}
        for name, value in zip(names, session.run([*names], alone), strict=True):
            sums[name] = sums[name] + value
    return sums


def trial_feeds(step: StepModel, forward: ForwardModel, *, flag: bool, least: int = 0) -> Feeds:
    """What a step is tried on: some rows, of texts some short ones.

    flag: the value of all booleans, which are masks of either meaning. least: of whole numbers: a
    mean over a length of 0 is not a number.
    """
    graph = forward.graph
    # The longest texts would take most of a registration's time and memory; that the model runs on
    # them is known.
    tokens = graph.lengths.trials[0] if graph.lengths is not None else 0
    feeds = trial.draw(graph, ROWS, flag=flag, least=least, tokens=tokens or None)
    feeds |= draw_all(step.random, seed=0, batch=0, rows=ROWS)
    for name in (*step.parameters, *step.updated, *step.loss.label_tensors, *step.frozen):
        feeds[name] = to_array(graph.initializers[name])
    feeds[LOSS_SCALE] = np.full((1,) * step.scale_rank, 1 / ROWS, np.float32)
    if step.target is not None:
        task = TASKS[step.loss.name]
        row = forward.row_of(tokens)
        fed = task.fed_target(forward.signature.target, row)
        feeds[step.target] = trial.draw_target(fed, ROWS, seed=0)
    return feeds


def _equal(whole: Array, added: Array) -> bool:
    limit = TOLERANCE * float(np.abs(whole).max(initial=0.0)) + 1e-6
    return bool(np.allclose(whole, added, rtol=0.0, atol=limit))
