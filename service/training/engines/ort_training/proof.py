"""Proves artifacts by training with them, in this process, and by the loss itself.

Some gradients of 1.19.2 are silently wrong (measured: Conv with `auto_pad`), and a model that
trains with them ends worse than it started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.training.engines.ort_training import runtime
from service.training.engines.runtime import session_options
from service.training.errors import refuse
from service.training.forward import trial
from service.training.protocol.messages.shared import Artifacts
from storage.records.signatures import Signature, TensorSpec

Array = NDArray[np.generic]
Floats = NDArray[np.float32]
BATCHES = (1, 3)
SHAKE = 0.005
"""How far parameters are moved before slopes are measured, in their own units.

A fresh bias is exactly 0, and so is the result of a channel of zeros: ReLU has a kink there, and no
two-sided slope agrees with any gradient.
"""
STEPS = (1e-1, 1e-2, 1e-3)
"""Step lengths along a gradient; one that agrees is enough, since kinks may spoil others."""
TOLERANCE = 0.1
"""Tolerance relative to the slope. A wrong gradient is off by its own size."""
ROUNDING = 1e-6
"""Rounding error of float32, relative to the loss."""
MAX_TENSORS = 32
"""Maximum number of parameters checked, evenly spread over the model."""


def prove(
    artifacts: Artifacts,
    signature: Signature,
    trainable: Sequence[str],
    place: str = "/model/graph",
    *,
    check_gradients: bool,
) -> None:
    """One train step and one eval step with one row and with three.

    check_gradients: against the loss itself, for graphs that were not made by our rules.
    Raises GraphRefused with the engine's message, if the loss is not finite, or if the gradient is
    missing or not that of the loss.
    """
    try:
        state, module, optimizer = _load(artifacts)
        _shake(state.parameters, trainable)
        for rows in BATCHES:
            feeds = _feeds(module, signature, rows)
            same = _step(module, state.parameters, trainable, feeds=feeds, place=place)
            # With Dropout or batch statistics, the losses differ, and slopes cannot agree.
            if check_gradients and same:
                _check_slopes(module, state.parameters, trainable, feeds=feeds, place=place)
            optimizer.step()
            module.lazy_reset_grad()
    except trial.engine_errors() as error:
        raise refuse(place, f"the engine cannot train the model: {trial.sentence(error)}") from None


def _load(artifacts: Artifacts) -> tuple[Any, Any, Any]:
    options = session_options(1)
    options.log_severity_level = 4
    api = runtime.training_api()
    state = api.CheckpointState.load_checkpoint(artifacts.checkpoint)
    module = api.Module(
        artifacts.training_model, state, artifacts.eval_model, session_options=options
    )
    return state, module, api.Optimizer(artifacts.optimizer_model, module)


def _shake(parameters: Any, trainable: Sequence[str]) -> None:
    rng = np.random.default_rng(0)
    for name in trainable:
        values = np.array(parameters[name].data)
        values += rng.normal(0.0, SHAKE, values.shape).astype(np.float32)
        parameters[name].data = values


def _step(
    module: Any, parameters: Any, trainable: Sequence[str], *, feeds: Sequence[Array], place: str
) -> bool:
    """Leaves the gradients set. Returns whether training and evaluation give the same loss."""
    module.train()
    trained = _loss(module(*feeds))
    module.eval()
    evaluated = _loss(module(*feeds))
    if not np.all(np.isfinite((trained, evaluated))):
        raise refuse(
            place,
            "one step on small random inputs gave a loss that is not a number; "
            "check the weights and the loss",
        )
    missing = [name for name in trainable if parameters[name].grad is None]
    if missing:
        raise refuse("/spec/trainable", f"no gradient reaches {', '.join(missing)}")
    return bool(np.isclose(trained, evaluated, rtol=1e-5))


def _check_slopes(
    module: Any, parameters: Any, trainable: Sequence[str], *, feeds: Sequence[Array], place: str
) -> None:
    wrong = wrong_gradients(parameters, trainable, lambda: _loss(module(*feeds)))
    if wrong:
        raise refuse(
            place,
            f"the engine's gradient of {', '.join(wrong)} is not that of the loss; train only "
            "parameters above the operators that read them, and please report this model",
        )


def _loss(outputs: Array | tuple[Array, ...]) -> float:
    """The loss; the engine returns a tuple only if there is more than one output."""
    return float(outputs[0] if isinstance(outputs, tuple) else outputs)


def _feeds(module: Any, signature: Signature, rows: int) -> list[Array]:
    """Random floats; integers and booleans all 1, or all 0 if 1 masks everything away."""
    module.eval()
    target = trial.draw_target(signature.target, rows, seed=rows)
    for fill in (1, 0):
        rng = np.random.default_rng(rows)
        feeds = [*(_input(spec, rows, rng, fill) for spec in signature.inputs), target]
        if np.isfinite(_loss(module(*feeds))):
            break
    return feeds


def _input(spec: TensorSpec, rows: int, rng: np.random.Generator, fill: int) -> Array:
    shape = (rows, *spec.shape)
    if spec.dtype.startswith("float"):
        return rng.standard_normal(shape).astype(spec.dtype)
    return np.full(shape, fill, spec.dtype)


def wrong_gradients(
    parameters: Any, trainable: Sequence[str], loss: Callable[[], float]
) -> list[str]:
    """Names of parameters whose gradient does not match the slope of the loss along it.

    parameters: of a checkpoint state, with the gradients of one batch. loss: of that batch.
    """
    stride = -(-len(trainable) // MAX_TENSORS)
    return [name for name in trainable[::stride] if not _agrees(parameters[name], loss)]


def _agrees(parameter: Any, loss: Callable[[], float]) -> bool:
    gradient: Floats = parameter.grad
    start: Floats = np.array(parameter.data)
    slope = float(np.linalg.norm(gradient))
    if slope == 0:
        return True
    direction = gradient / np.float32(slope)
    try:
        return any(
            _close(parameter, start, step * direction, (slope, step), loss) for step in STEPS
        )
    finally:
        parameter.data = start


def _close(
    parameter: Any,
    start: Floats,
    move: Floats,
    expected: tuple[float, float],
    loss: Callable[[], float],
) -> bool:
    slope, step = expected
    parameter.data = np.asarray(start + move, np.float32)
    above = loss()
    parameter.data = np.asarray(start - move, np.float32)
    below = loss()
    noise = ROUNDING * max(abs(above), abs(below)) / step
    return abs((above - below) / (2 * step) - slope) <= TOLERANCE * slope + noise
