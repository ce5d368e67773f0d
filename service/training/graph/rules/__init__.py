"""One rule for each operator, in a module for each family."""

from service.training.graph.node import Rule
from service.training.graph.rules import activation, elementwise, matrix, movement, reduction

RULES: dict[str, Rule] = {
    **activation.RULES,
    **elementwise.RULES,
    **matrix.RULES,
    **movement.RULES,
    **reduction.RULES,
}

__all__ = ["RULES"]
