"""One gradient rule per operator, one module per family."""

from service.training.graph.node import GradientRule
from service.training.graph.rules import (
    activation,
    convolution,
    deformable,
    elementwise,
    fourier,
    indexing,
    matrix,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    resize,
    sampling,
)

RULES: dict[str, GradientRule] = {
    **activation.RULES,
    **convolution.RULES,
    **deformable.RULES,
    **elementwise.RULES,
    **fourier.RULES,
    **indexing.RULES,
    **matrix.RULES,
    **movement.RULES,
    **normalization.RULES,
    **pooling.RULES,
    **quantization.RULES,
    **recurrent.RULES,
    **reduction.RULES,
    **resize.RULES,
    **sampling.RULES,
}

__all__ = ["RULES"]
