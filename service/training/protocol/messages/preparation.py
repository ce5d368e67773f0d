"""Messages of preparation."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from service.training.protocol.messages.shared import Artifacts, ResourceLimits
from service.training.protocol.serialization import Line, Serialized
from storage.errors import Problem
from storage.records.models import BatchNorm, OptimizerName
from storage.records.signatures import Signature


class Lora(Serialized, frozen=True):
    """Adapters of this rank, times alpha/rank, for the weights that the globs match.

    targets: globs over names of weights, and of the nodes that read them.
    """

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("*",)


class Prepare(Line, frozen=True):
    """Check an uploaded model and make it ready to train.

    source: a forward ONNX file, or a zip of artifacts. trainable: glob patterns over initializer
    names, `head` or `last:N`, None for every float parameter. lora: adapters that train as well, or
    alone if trainable is None. divide: cut off the frozen part below the parameters, if that pays.
    optimizer: empty for that of artifacts. feature_dtype: the type in which float32 features are
    cached. batch_norm: with `training`, every BatchNormalization uses its batch's statistics, as
    one exported that way always does. loss_output: the tensor that is the loss, if that is
    `output`. engine: the one to train a forward model. class_ids: give the head a row for each of
    these, instead of one for each class of the upload. row_ids: the ids of the upload's classes by
    index, -1 for one that the model does not have; None if they are 0, 1, … sizes: of a sample's
    axes by input, None for the file's own; they fix axes that the file leaves open. text: the
    description of kind text, if texts feed the model; tokenizer: the path of its file. Results are
    written below work_dir.
    """

    source: str
    form: Literal["forward", "artifacts"]
    work_dir: str
    loss: str
    optimizer: str = "adamw"
    output: str | None = None
    loss_output: str | None = None
    trainable: tuple[str, ...] | None = None
    lora: Lora | None = None
    classes: tuple[str, ...] | None = None
    class_ids: tuple[int, ...] | None = None
    row_ids: tuple[int, ...] | None = None
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    divide: bool = False
    feature_dtype: Literal["float32", "float16"] = "float32"
    batch_norm: BatchNorm = "inference"
    engine: Literal["ort_training", "sessions"] = "sessions"
    sizes: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    text: dict[str, Any] | None = None
    tokenizer: str | None = None
    limits: ResourceLimits = field(default_factory=ResourceLimits)


class Cut(Serialized, frozen=True):
    """The end of a model's frozen part. Bytes and milliseconds are per sample.

    tensors: those that cross the cut. nodes, parameters: their numbers below it. pays: whether
    reading a row of features is faster than computing it.
    """

    tensors: tuple[str, ...]
    nodes: int
    parameters: int
    feature_bytes: int
    input_bytes: int
    milliseconds: float
    pays: bool


class Parameter(Serialized, frozen=True):
    """A float parameter of the model. below: whether the cut leaves it in the frozen part."""

    name: str
    shape: tuple[int, ...]
    trains: bool
    below: bool


class Prepared(Line, frozen=True):
    """The model is ready to train. base_model: the inference model that is version 1.

    output: the tensor that is exported and measured. notes: what was corrected in the graph.
    parameters: all of a forward model's, in graph order. cut: the end of its frozen part, None
    if it has none. optimizer: that of artifacts. text: what the tokenizer and the graph
    add to the description of kind text.
    """

    artifacts: Artifacts
    base_model: str
    signature: Signature
    output: str
    trainable: tuple[str, ...]
    trainable_parameters: int
    frozen_parameters: int
    notes: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    cut: Cut | None = None
    optimizer: OptimizerName | None = None
    text: dict[str, Any] | None = None


class Refused(Line, frozen=True):
    """The upload cannot be trained; has every cause."""

    detail: str
    problems: tuple[Problem, ...]
