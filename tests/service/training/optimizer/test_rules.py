"""Each optimizer moves parameters as its definition says, written again here in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.training.engines.manifest import TrainedTensor
from service.training.engines.sessions.buffers import Buffers
from service.training.engines.sessions.crew import Crew
from service.training.engines.sessions.optimizer import Optimizer
from service.training.optimizer.layout import lay_out
from service.training.optimizer.options import OptimizerOptions
from service.training.optimizer.rules import slots

Array = NDArray[np.float64]
SHAPES = {"weight": (30, 40), "bias": (40,), "head.weight": (3, 40)}
STEPS = 6
RATES = (0.1, 0.05, 0.02, 0.02, 0.01, 0.01)


def gradients(step: int, share: int) -> dict[str, Array]:
    rng = np.random.default_rng([step, share])
    return {name: rng.standard_normal(shape) for name, shape in SHAPES.items()}


def start() -> dict[str, Array]:
    rng = np.random.default_rng(99)
    return {name: rng.standard_normal(shape) for name, shape in SHAPES.items()}


class Ours:
    """The optimizer over its buffers, fed with the same gradients."""

    def __init__(self, options: OptimizerOptions, *, threads: int = 2, shares: int = 2) -> None:
        tensors = [TrainedTensor(name, shape) for name, shape in SHAPES.items()]
        layout = lay_out(SHAPES, options, threads=threads)
        self.buffers = Buffers(tensors, layout, shares=shares, slots=slots(options))
        self.parameters = self.buffers.views(self.buffers.parameters)
        for name, values in start().items():
            self.parameters[name][...] = values
        self.optimizer = Optimizer(
            options, self.buffers, threads=threads, crew=Crew(), split=SHAPES, clears=False
        )

    def run(self, steps: int = STEPS) -> Ours:
        for step in range(steps):
            for share, buffer in enumerate(self.buffers.gradients):
                for name, view in self.buffers.views(buffer).items():
                    view[...] = gradients(step, share)[name]
            self.optimizer.step(RATES[step], number=step + 1)
        return self


def reference(
    update: Callable[[Array, Array, dict[str, Any], float, int], Array],
    *,
    shares: int = 2,
    change: Callable[[dict[str, Array]], dict[str, Array]] = lambda gradients: gradients,
    rate_of: Callable[[str], float] = lambda _: 1.0,
) -> dict[str, Array]:
    """Parameters after the steps, in float64; update: (parameter, gradient, state, rate, step)."""
    parameters, states = start(), {name: {} for name in SHAPES}  # type: ignore[var-annotated]
    for step in range(STEPS):
        parts = [gradients(step, share) for share in range(shares)]
        total = change({name: sum(part[name] for part in parts) for name in SHAPES})  # type: ignore[misc]
        for name in SHAPES:
            rate = RATES[step] * rate_of(name)
            parameters[name] = update(parameters[name], total[name], states[name], rate, step + 1)
    return parameters


def sgd(momentum: float = 0.0, nesterov: bool = False, decay: float = 0.0) -> Any:
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html"""

    def update(p: Array, g: Array, state: dict[str, Any], rate: float, step: int) -> Array:
        if decay and p.ndim > 1:
            g = g + decay * p
        if momentum:
            state["b"] = g if step == 1 else momentum * state["b"] + g
            g = g + momentum * state["b"] if nesterov else state["b"]
        return p - rate * g

    return update


def adam(
    betas: tuple[float, float] = (0.9, 0.999),
    *,
    epsilon: float = 1e-8,
    decay: float = 0.0,
    decoupled: bool,
) -> Any:
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html, and Adam.html"""

    def update(p: Array, g: Array, state: dict[str, Any], rate: float, step: int) -> Array:
        if p.ndim > 1:
            p, g = (p * (1 - rate * decay), g) if decoupled else (p, g + decay * p)
        state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
        state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * g * g
        m, v = (state[name] / (1 - beta**step) for name, beta in zip("mv", betas, strict=True))
        return p - rate * m / (np.sqrt(v) + epsilon)

    return update


def rmsprop(alpha: float = 0.99, *, epsilon: float = 1e-8, momentum: float = 0.0) -> Any:
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.RMSprop.html"""

    def update(p: Array, g: Array, state: dict[str, Any], rate: float, step: int) -> Array:
        state["v"] = alpha * state.get("v", 0) + (1 - alpha) * g * g
        g = g / (np.sqrt(state["v"]) + epsilon)
        if momentum:
            g = state["b"] = momentum * state.get("b", 0) + g
        return p - rate * g

    return update


def lion(betas: tuple[float, float] = (0.9, 0.99), *, decay: float = 0.0) -> Any:
    """https://arxiv.org/abs/2302.06675, Algorithm 2"""

    def update(p: Array, g: Array, state: dict[str, Any], rate: float, step: int) -> Array:
        m = state.get("m", 0)
        direction = np.sign(betas[0] * m + (1 - betas[0]) * g)
        state["m"] = betas[1] * m + (1 - betas[1]) * g
        return p - rate * (direction + (decay * p if p.ndim > 1 else 0))

    return update


def drawn_back(update: Any, strength: float) -> Any:
    """L2-SP: the gradient of strength / 2 · ‖p - p₀‖² beside the loss's."""

    def drawn(p: Array, g: Array, state: dict[str, Any], rate: float, step: int) -> Array:
        return update(p, g + strength * (p - state.setdefault("start", p)), state, rate, step)

    return drawn


CASES = {
    "sgd drawn to its start": (
        OptimizerOptions("sgd", momentum=0.9, l2_sp=2.0),
        drawn_back(sgd(0.9), 2.0),
    ),
    "adamw drawn to its start": (
        OptimizerOptions("adamw", l2_sp=3.0, ema_decay=0.5),
        drawn_back(adam(decoupled=True), 3.0),
    ),
    "sgd": (OptimizerOptions("sgd"), sgd()),
    "momentum": (OptimizerOptions("sgd", momentum=0.9), sgd(0.9)),
    "nesterov": (OptimizerOptions("sgd", momentum=0.8, nesterov=True), sgd(0.8, True)),
    "sgd with decay": (
        OptimizerOptions("sgd", momentum=0.9, weight_decay=0.1),
        sgd(0.9, decay=0.1),
    ),
    "adam": (OptimizerOptions("adam"), adam(decoupled=False)),
    "adam with decay": (
        OptimizerOptions("adam", weight_decay=0.3),
        adam(decay=0.3, decoupled=False),
    ),
    "adamw": (OptimizerOptions("adamw"), adam(decoupled=True)),
    "adamw with options": (
        OptimizerOptions("adamw", betas=(0.8, 0.95), epsilon=1e-3, weight_decay=0.3),
        adam((0.8, 0.95), epsilon=1e-3, decay=0.3, decoupled=True),
    ),
    "rmsprop": (OptimizerOptions("rmsprop"), rmsprop()),
    "rmsprop with options": (
        OptimizerOptions("rmsprop", alpha=0.9, epsilon=1e-2, momentum=0.5),
        rmsprop(0.9, epsilon=1e-2, momentum=0.5),
    ),
    "lion": (OptimizerOptions("lion"), lion()),
    "lion with options": (
        OptimizerOptions("lion", betas=(0.95, 0.98), weight_decay=0.5),
        lion((0.95, 0.98), decay=0.5),
    ),
}


def assert_equal(ours: Mapping[str, Any], expected: Mapping[str, Array]) -> None:
    for name, values in expected.items():
        np.testing.assert_allclose(ours[name], values, rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_steps_are_those_of_the_definition(case: str) -> None:
    options, update = CASES[case]
    assert_equal(Ours(options).run().parameters, reference(update))


@pytest.mark.parametrize(("threads", "shares"), [(1, 1), (1, 3), (3, 1)])
def test_steps_are_the_same_however_batches_and_rows_are_shared_out(
    threads: int, shares: int
) -> None:
    options, update = CASES["adamw with options"]
    ours = Ours(options, threads=threads, shares=shares).run()
    assert_equal(ours.parameters, reference(update, shares=shares))


def test_large_parameters_are_moved_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.training.optimizer.layout.MAX_WIDTH", 256)
    options, update = CASES["adamw with options"]
    ours = Ours(options)
    assert ours.buffers.layout.rows == 7  # six of weights, one of the bias, which does not decay
    assert_equal(ours.run().parameters, reference(update))


def test_clipping_by_norm_is_by_the_norm_of_all_gradients() -> None:
    def clipped(total: dict[str, Array]) -> dict[str, Array]:
        norm = np.sqrt(sum(float((each**2).sum()) for each in total.values()))
        assert norm > 5  # so that it clips
        return {name: each * 5 / (norm + 1e-6) for name, each in total.items()}

    ours = Ours(OptimizerOptions("sgd", max_grad_norm=5.0)).run()
    assert_equal(ours.parameters, reference(sgd(), change=clipped))


def test_clipping_by_both_clips_by_the_norm_first() -> None:
    def clipped(total: dict[str, Array]) -> dict[str, Array]:
        norm = np.sqrt(sum(float((each**2).sum()) for each in total.values()))
        return {name: (each * 5 / (norm + 1e-6)).clip(-0.1, 0.1) for name, each in total.items()}

    ours = Ours(OptimizerOptions("sgd", max_grad_norm=5.0, max_grad_value=0.1)).run()
    assert_equal(ours.parameters, reference(sgd(), change=clipped))


def test_a_norm_within_the_bound_is_left_alone() -> None:
    ours = Ours(OptimizerOptions("sgd", max_grad_norm=1e6)).run()
    assert_equal(ours.parameters, reference(sgd()))


def test_clipping_by_value_is_element_by_element() -> None:
    def clipped(total: dict[str, Array]) -> dict[str, Array]:
        return {name: each.clip(-0.5, 0.5) for name, each in total.items()}

    ours = Ours(OptimizerOptions("sgd", max_grad_value=0.5)).run()
    assert_equal(ours.parameters, reference(sgd(), change=clipped))


def test_rate_factors_and_decay_go_by_glob() -> None:
    options = OptimizerOptions(
        "sgd", weight_decay=0.2, decays=("head.*", "bias"), rate_factors={"head.*": 0.1, "b*": 0.0}
    )

    def update(p: Array, g: Array, state: dict[str, Any], rate: float, step: int) -> Array:
        return p - rate * (g + (0.2 * p if p.shape != (30, 40) else 0))

    factors = {"weight": 1.0, "head.weight": 0.1, "bias": 0.0}
    ours = Ours(options).run()
    assert_equal(ours.parameters, reference(update, rate_of=lambda name: factors[name]))


def test_the_moving_average_begins_with_the_first_step_and_follows() -> None:
    """torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn."""
    expected: dict[str, Array] = {}

    def update(p: Array, g: Array, state: dict[str, Any], rate: float, step: int) -> Array:
        p = p - rate * g
        state["ema"] = p if step == 1 else 0.7 * state["ema"] + 0.3 * p
        expected[str(p.shape)] = state["ema"]
        return p

    ours = Ours(OptimizerOptions("sgd", ema_decay=0.7)).run()
    assert_equal(ours.parameters, reference(update))
    averages = ours.buffers.views(ours.buffers.slots["ema"])
    assert_equal({str(average.shape): average for average in averages.values()}, expected)
