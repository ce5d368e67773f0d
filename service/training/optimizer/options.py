"""The optimizer settings of a job. Imports neither onnx nor a runtime."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from math import isfinite
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

from msgspec import Struct

from service.training.heads.kinds import ALL_HEADS, TRAINED
from service.training.protocol.serialization import Serialized
from storage.errors import Problem
from storage.records.signatures import IGNORED

OptimizerName = Literal["sgd", "adam", "adamw", "rmsprop", "lion"]
BETAS = {"adam": (0.9, 0.999), "adamw": (0.9, 0.999), "lion": (0.9, 0.99)}
"""PyTorch's defaults; Lion's are those of its paper."""


class About(NamedTuple):
    """What a hyperparameter is for, the bounds of its value, and to which jobs it applies.

    optimizers: which take it; all if empty. heads: with which it has a meaning. sets: a job's
    length; its course, which the server of a federated round sets, too; or its pace. chosen:
    whether the job may choose it. one_class: the value that needs one class a sample, and what it
    is called. `LearningTask.options` declares which tasks take it.
    """

    text: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    optimizers: tuple[str, ...] = ()
    heads: tuple[str, ...] = TRAINED
    sets: Literal["length", "course", "pace"] | None = None
    chosen: bool = False
    one_class: tuple[Any, str] | None = None

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds that are set, by name."""
        bounds = {"ge": self.ge, "gt": self.gt, "le": self.le, "lt": self.lt}
        return {name: bound for name, bound in bounds.items() if bound is not None}

    def is_of(self, optimizer: str) -> bool:
        """Whether the optimizer takes it."""
        return not self.optimizers or optimizer in self.optimizers


def abouts(struct: type[Struct]) -> dict[str, About]:
    """What each field of a struct of hyperparameters declares."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: get_args(hints[name])[1] for name in struct.__struct_fields__}


LabelSmoothing = Annotated[
    float, About("Share of the target spread over all classes.", ge=0, lt=1, chosen=True)
]
ClassWeights = Annotated[
    tuple[float, ...] | None,
    About("Weight of each class in the loss, in order.", chosen=True),
]
IgnoreIndex = Annotated[
    int | None,
    About(
        "Class whose labels count neither in the loss nor in what is measured. Positions with the "
        f"label {IGNORED} never do.",
        ge=IGNORED,
        heads=ALL_HEADS,
    ),
]
Distillation = Annotated[
    float,
    About(
        "Weight of keeping to what the version that the job starts from answers to the same "
        "samples; in an upgrade, to what `latest` answers.",
        ge=0,
        le=1000,
    ),
]


class LossOptions(Struct, frozen=True):
    """Options of cross entropy, as in PyTorch.

    distillation: the weight of its term, which the reported loss does not include; Li, Hoiem
    (2016), Learning without Forgetting.
    """

    label_smoothing: LabelSmoothing = 0.0
    class_weights: ClassWeights = None
    ignore_index: IgnoreIndex = None
    distillation: Distillation = 0.0


class OptimizerOptions(Serialized, frozen=True):
    """An optimizer with its options, named as in PyTorch where it has them.

    betas: None for the optimizer's own. alpha: RMSprop's smoothing. decays: globs of parameters
    that weight_decay applies to, None for all with two axes or more, so not biases and norms'
    scales. rate_factors: factors on the learning rate by glob; the first that matches counts.
    max_grad_norm, max_grad_value: clipping, by the norm of all gradients or element by element.
    ema_decay: of a moving average of the parameters, which is then measured and exported. l2_sp:
    half of it times the squared distance to the parameters at the start is added to the loss, but
    not to its reported value; Li et al. (2018), Explicit Inductive Bias for Transfer Learning.
    """

    optimizer: Annotated[
        OptimizerName, About("Optimizer that updates the parameters. Default: the model's.")
    ] = "adamw"
    momentum: Annotated[
        float, About("Of sgd and rmsprop.", ge=0, lt=1, optimizers=("sgd", "rmsprop"))
    ] = 0.0
    nesterov: Annotated[bool, About("Nesterov's momentum, of sgd.", optimizers=("sgd",))] = False
    betas: Annotated[
        tuple[float, float] | None,
        About(
            "Of adam, adamw (default 0.9 0.999) and lion (0.9 0.99).",
            optimizers=("adam", "adamw", "lion"),
        ),
    ] = None
    alpha: Annotated[float, About("Smoothing of rmsprop.", ge=0, lt=1, optimizers=("rmsprop",))] = (
        0.99
    )
    epsilon: Annotated[
        float,
        About("Of adam, adamw and rmsprop.", gt=0, le=1, optimizers=("adam", "adamw", "rmsprop")),
    ] = 1e-8
    weight_decay: Annotated[float, About("How much weights shrink.", ge=0, le=10)] = 0.0
    decays: Annotated[
        tuple[str, ...] | None,
        About("Glob of parameters that shrink. Default: those with two axes or more."),
    ] = None
    rate_factors: Annotated[
        dict[str, float] | None,
        About(
            "Factor on the learning rate, by glob of parameters; the first that fits.",
            heads=("full",),
        ),
    ] = None
    max_grad_norm: Annotated[
        float | None, About("Clip the norm of all gradients to this.", gt=0)
    ] = None
    max_grad_value: Annotated[
        float | None, About("Clip each element of the gradients to this.", gt=0)
    ] = None
    ema_decay: Annotated[
        float | None,
        About("Decay of an average of the weights, which is measured and exported.", ge=0, lt=1),
    ] = None
    l2_sp: Annotated[
        float, About("How much weights are drawn to those that the job began with.", ge=0, le=10)
    ] = 0.0

    @property
    def first_beta(self) -> float:
        return (self.betas or BETAS[self.optimizer])[0]

    @property
    def second_beta(self) -> float:
        return (self.betas or BETAS[self.optimizer])[1]

    def rate_factor(self, parameter: str) -> float:
        """The factor on the learning rate of this parameter."""
        matching = (
            factor
            for glob, factor in (self.rate_factors or {}).items()
            if fnmatchcase(parameter, glob)
        )
        return next(matching, 1.0)

    def decay(self, parameter: str, axes: int) -> float:
        """The weight decay of a parameter with this many axes."""
        if self.decays is None:
            return self.weight_decay if axes >= 2 else 0.0
        chosen = any(fnmatchcase(parameter, glob) for glob in self.decays)
        return self.weight_decay if chosen else 0.0


LARGEST_WEIGHT = 1e6
"""Of a class. In float32, the sum of a batch's loss must stay finite."""


def loss_problems(options: LossOptions, *, classes: int) -> list[Problem]:
    """Every error in the options of a job of a model with these classes."""
    problems = []
    weights = options.class_weights
    if weights is not None and len(weights) != classes:
        detail = f"{len(weights)} weights are given, the model has {classes} classes"
        problems.append(Problem("/class_weights", detail))
    if weights and not all(0 <= weight <= LARGEST_WEIGHT for weight in weights):
        detail = f"weights are numbers from 0 to {LARGEST_WEIGHT:g}"
        problems.append(Problem("/class_weights", detail))
    elif weights and not any(weights):
        problems.append(Problem("/class_weights", "all weights are 0; give a class another"))
    if options.ignore_index not in (None, IGNORED, *range(classes)):
        detail = f"the model has the classes 0 to {classes - 1}"
        problems.append(Problem("/ignore_index", detail))
    return problems


def problems(
    options: OptimizerOptions, names: Collection[str] = (), *, parameters: Sequence[str] = ()
) -> list[Problem]:
    """Every error in options, each within its own bounds.

    names: the requested options, which the optimizer must have even if they equal its
    defaults. parameters: the model's, to check globs against.
    """
    return [
        *_foreign_options(options, names),
        *_out_of_bounds(options),
        *_unmatched_globs(options, parameters),
    ]


def _foreign_options(options: OptimizerOptions, names: Collection[str]) -> Iterator[Problem]:
    plain = OptimizerOptions(options.optimizer)
    for name, about in abouts(OptimizerOptions).items():
        differs = getattr(options, name) != getattr(plain, name)
        if not about.is_of(options.optimizer) and (differs or name in names):
            takers = ", ".join(about.optimizers)
            yield Problem(
                f"/{name}", f"{options.optimizer} has no {name}; leave it out, or take {takers}"
            )
    if options.optimizer == "sgd" and options.nesterov and options.momentum == 0:
        yield Problem("/nesterov", "nesterov needs a momentum above 0")
    if "decays" in names and options.decays and options.weight_decay == 0:
        yield Problem(
            "/decays", "decays says what shrinks by a weight_decay above 0; give one, too"
        )


def _out_of_bounds(options: OptimizerOptions) -> Iterator[Problem]:
    """Of what `About.bounds` does not say: options that hold several numbers."""
    betas = options.betas or ()
    if options.betas is not None and len(betas) != 2:
        yield Problem("/betas", f"betas are two numbers, not {len(betas)}")
    for place, beta in enumerate(betas):
        if not 0 <= beta < 1:
            yield Problem(f"/betas/{place}", f"it is {beta}; it must be at least 0 and below 1")
    for glob, factor in (options.rate_factors or {}).items():
        if not (factor >= 0 and isfinite(factor)):
            detail = f"it is {factor}; it must be finite and at least 0"
            yield Problem(f"/rate_factors/{glob}", detail)


def _unmatched_globs(options: OptimizerOptions, parameters: Sequence[str]) -> Iterator[Problem]:
    globs = {"decays": options.decays or (), "rate_factors": tuple(options.rate_factors or ())}
    for name, patterns in globs.items():
        for glob in patterns:
            if parameters and not any(fnmatchcase(parameter, glob) for parameter in parameters):
                yield Problem(
                    f"/{name}",
                    f"no trained parameter matches {glob!r}; they are {', '.join(parameters)}",
                )
