"""The kinds of heads that a job may give a classifier, and the hyperparameters each allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from storage.errors import Problem, counted
from storage.records.signatures import TargetSpec

if TYPE_CHECKING:
    from service.training.engines.manifest import ClassHead

Kind = Literal["prototype", "knn", "linear", "full"]
COMPUTED = ("prototype", "knn")
TRAINED = ("linear", "full")
ALL_HEADS = (*COMPUTED, *TRAINED)
NEIGHBOURS = 5
NO_HEAD = (
    "the model does not end in a linear layer that trains and has a row for each class (Gemm,"
    " MatMul and Add, or a Conv with a kernel of 1); leave head out, or register a model whose last"
    " layer is one"
)
NO_BIAS = (
    "the last layer has no bias, without which it cannot compare distances; take head knn or linear"
)


class JsonInteger:
    """Marks a number that must be one in JSON: pydantic else reads it from "5" and true too.

    A class of our own, because the training child does not import pydantic.
    """

    def __get_pydantic_core_schema__(self, kind: Any, handler: Callable[[Any], Any]) -> Any:
        return {**handler(kind), "strict": True}


@dataclass(frozen=True, slots=True)
class Head:
    """How the last layer is made: `prototype` and `knn` compute it from features, `linear` trains
    this layer only, `full` all trainable parameters. k: number of neighbours that vote.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: Kind
    k: Annotated[int, JsonInteger()] | None = None

    @property
    def is_computed(self) -> bool:
        """Whether it is computed without training steps."""
        return self.kind in COMPUTED


def plain(head: Any) -> Any:
    """The form in a job's row: `auto`, or the kind, with k if it applies. head: from JSON."""
    if not isinstance(head, Mapping):
        return head
    if head["kind"] != "knn":
        return {"kind": head["kind"]}
    return {"kind": "knn", "k": head.get("k") or NEIGHBOURS}


def is_computed(head: Any) -> bool:
    """Whether it is computed without training steps. head: from JSON."""
    return isinstance(head, Mapping) and head["kind"] in COMPUTED


def head_problems(head: Any, *, target: TargetSpec, engine: str) -> list[Problem]:
    """Every error in the head that a request asks for. head: from JSON."""
    if engine == "ort_training":
        return [
            _problem(
                "the head is hidden in the artifacts of Microsoft's tools that this model came as;"
                " leave it out, or register the forward ONNX model"
            )
        ]
    if target.shape:
        return [_problem(f"head is for one class a sample, a label has shape {[*target.shape]}")]
    if head == "auto":
        return []
    return _wrong_k(head)


def _problem(detail: str, at: str = "") -> Problem:
    return Problem(f"/head{at}", detail)


def _wrong_k(head: Mapping[str, Any]) -> list[Problem]:
    k = head.get("k")
    if head["kind"] not in get_args(Kind):
        return [_problem(f"there is no head {head['kind']!r}; take {', '.join(get_args(Kind))}")]
    if k is None:
        return []
    if head["kind"] != "knn":
        return [_problem(f"k is of knn; a {head['kind']} head has none", "/k")]
    return [] if k >= 1 else [_problem(f"k is {k}; at least one neighbour votes", "/k")]


def layer_problem(layer: ClassHead | None, *, kind: Kind | None) -> str | None:
    """Why the model's last layer cannot become a head, None if it can. kind: None for `auto`."""
    if layer is None:
        return NO_HEAD
    return NO_BIAS if layer.bias is None and kind == "prototype" else None


def more_neighbours_than(samples: int, head: Any) -> list[Problem]:
    """The error if more neighbours are to vote than there are samples. head: from JSON."""
    k = head.get("k") if isinstance(head, Mapping) else None
    if k is None or k <= samples:
        return []
    has = counted(samples, "training sample")
    return [_problem(f"k is {k}, the model has {has}; take fewer", "/k")]
