"""How each optimizer moves a block of parameters, as nodes of standard operators.

A block's state is read and written in place. That is safe in whatever order the nodes run, because
a rule reads what stands there in one node, or only in such that the new value depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import onnx

from service.training.optimizer.recipe import Recipe


class Nodes:
    """Emits nodes, and names what they give."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[float, onnx.TensorProto] = {}

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator}.{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, value: float) -> str:
        """float32 [1]: a scalar of no axes is slower to broadcast."""
        name = f"constant.{value!r}"
        array = np.array([value], np.float32)
        self.constants[value] = onnx.numpy_helper.from_array(array, name)
        return name

    def rename(self, old: str, new: str) -> None:
        for node in self.nodes:
            for names in (node.input, node.output):
                for place, name in enumerate(names):
                    if name == old:
                        names[place] = new

    def add(self, a: str, b: str) -> str:
        return self.emit("Add", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.emit("Sub", a, b)

    def mul(self, a: str, b: str | float) -> str:
        return self.emit("Mul", a, b if isinstance(b, str) else self.constant(b))

    def div(self, a: str, b: str) -> str:
        return self.emit("Div", a, b)


Slots = tuple[str, ...]
Direction = Callable[[Nodes, Recipe, str, Slots], tuple[str, Slots]]
"""(nodes, recipe, gradient, slots) → what to go against, times the rate; the slots' new values."""
EPSILON = "epsilon"
"""A scalar of each step, of the rules that have one."""
LARGE = 3e38
"""What makes 1 or more of every float32 that is not denormal, and nothing of 0."""
VELOCITY = "velocity"
"""A slot that is there only where the recipe has momentum."""


@dataclass(frozen=True, slots=True)
class Rule:
    """slots: the names of the state kept for each parameter, beside itself; all begin as 0.

    decoupled: whether weight decay shrinks the parameter and not the gradient. scalars: the factor
    on the learning rate, and epsilon, at a step counted from 1; None for 1 and no epsilon.
    """

    slots: Slots
    direction: Direction
    decoupled: bool = False
    scalars: Callable[[Recipe, int], tuple[float, float]] | None = None

    def slots_of(self, recipe: Recipe) -> Slots:
        return tuple(name for name in self.slots if name != VELOCITY or recipe.momentum)


def _sgd(b: Nodes, recipe: Recipe, gradient: str, slots: Slots) -> tuple[str, Slots]:
    """torch.optim.SGD without dampening."""
    if not slots:
        return gradient, ()
    velocity = b.add(b.mul(slots[0], recipe.momentum), gradient)
    if recipe.nesterov:
        return b.add(gradient, b.mul(velocity, recipe.momentum)), (velocity,)
    return velocity, (velocity,)


def _adam(b: Nodes, recipe: Recipe, gradient: str, slots: Slots) -> tuple[str, Slots]:
    """torch.optim.Adam and AdamW, for moments divided by 1 - beta, which spares two products."""
    first = b.add(b.mul(slots[0], recipe.first_beta), gradient)
    second = b.add(b.mul(slots[1], recipe.second_beta), b.mul(gradient, gradient))
    return b.div(first, _root(b, second)), (first, second)


def _adam_scalars(recipe: Recipe, step: int) -> tuple[float, float]:
    """The corrections of the bias, and those of the moments' own unit."""
    first, second = recipe.first_beta, recipe.second_beta
    unit = sqrt((1 - second) / (1 - second**step))
    return (1 - first) / (1 - first**step) / unit, recipe.epsilon / unit


def _rmsprop(b: Nodes, recipe: Recipe, gradient: str, slots: Slots) -> tuple[str, Slots]:
    """torch.optim.RMSprop, not centered, for a mean square divided by 1 - alpha."""
    square = b.add(b.mul(slots[0], recipe.alpha), b.mul(gradient, gradient))
    scaled = b.div(gradient, _root(b, square))
    if len(slots) == 1:
        return scaled, (square,)
    velocity = b.add(b.mul(slots[1], recipe.momentum), scaled)
    return velocity, (square, velocity)


def _rmsprop_scalars(recipe: Recipe, _step: int) -> tuple[float, float]:
    unit = sqrt(1 - recipe.alpha)
    return 1 / unit, recipe.epsilon / unit


def _lion(b: Nodes, recipe: Recipe, gradient: str, slots: Slots) -> tuple[str, Slots]:
    """Algorithm 2 of Chen et al. (2023), Symbolic Discovery of Optimization Algorithms."""
    change = b.sub(slots[0], gradient)
    direction = _sign(b, b.add(gradient, b.mul(change, recipe.first_beta)))
    return direction, (b.add(gradient, b.mul(change, recipe.second_beta)),)


def _sign(b: Nodes, value: str) -> str:
    """The runtime's own Sign takes 67 µs for 32,768 elements, these two 11."""
    return b.emit("Clip", b.mul(value, LARGE), b.constant(-1.0), b.constant(1.0))


def _root(b: Nodes, square: str) -> str:
    return b.add(b.emit("Sqrt", square), EPSILON)


RULES = {
    "sgd": Rule((VELOCITY,), _sgd),
    "adam": Rule(("first_moment", "second_moment"), _adam, scalars=_adam_scalars),
    "adamw": Rule(("first_moment", "second_moment"), _adam, decoupled=True, scalars=_adam_scalars),
    "rmsprop": Rule(("mean_square", VELOCITY), _rmsprop, scalars=_rmsprop_scalars),
    "lion": Rule(("momentum",), _lion, decoupled=True),
}
