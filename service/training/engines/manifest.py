"""A compiled model's manifest: its files, and what an engine needs to know about them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict

from service.training.errors import ArtifactsUnreadable
from service.training.protocol.messages.shared import Artifacts
from service.training.protocol.serialization import Serialized, build, plain
from storage.arrays import NDArray
from storage.database.codec import dump

FORMAT = 1
METADATA_PREFIX = "hone."
"""Prefix of the entries that exports add to the model's metadata."""


ROLES = {"step_model": "training_model"}
"""Files that `Artifacts` names otherwise."""


class Files(Struct, frozen=True):
    """The paths of a compiled model.

    step_model, eval_model: see service/training/graph/step.py. inference_model: the graph to export
    without the tensors of `parameters` and `statistics`; checkpoint: these tensors, as training
    starts. class_step_model: the step with a by_class loss, for cross entropy.
    optimized_step_model, optimized_class_step_model: these steps for one kind of processor, as its
    runtime optimized them; with weights_model and gradients_model, which run once for a batch,
    before either and after it, unless they have nothing to compute from parameters alone.
    """

    manifest: Path
    step_model: Path
    eval_model: Path
    inference_model: Path
    checkpoint: Path
    class_step_model: Path | None = None
    optimized_step_model: Path | None = None
    optimized_class_step_model: Path | None = None
    weights_model: Path | None = None
    gradients_model: Path | None = None

    @classmethod
    def below(cls, folder: Path) -> Files:
        """With the file names that compilation uses."""
        endings = {"manifest": ".json", "checkpoint": ".safetensors"}
        names = cls.__struct_fields__
        return cls(**{name: folder / f"{name}{endings.get(name, '.onnx')}" for name in names})

    @classmethod
    def of(cls, artifacts: Artifacts) -> Files:
        """Those that a model's row names. Raises ArtifactsUnreadable if one is missing."""
        if artifacts.manifest is None or artifacts.inference_model is None:
            detail = "the model has no manifest or inference model; register it anew"
            raise ArtifactsUnreadable(detail)
        paths = {name: getattr(artifacts, ROLES.get(name, name)) for name in cls.__struct_fields__}
        return cls(**{name: path and Path(path) for name, path in paths.items()})

    @property
    def artifacts(self) -> Artifacts:
        """Those that were written, as a model's row names them."""
        there = {name: path for name, path in asdict(self).items() if path and path.is_file()}
        return Artifacts(**{ROLES.get(name, name): str(path) for name, path in there.items()})


class TrainedTensor(Serialized, frozen=True):
    """A float32 tensor that training changes."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)


class Draw(Serialized, frozen=True):
    """An input of uniform float32 numbers in [0, 1). shape: sizes, -1 for the batch."""

    name: str
    shape: tuple[int, ...]


class Work(Serialized, frozen=True):
    """The work of a step per sample: multiplications, and elements of the nodes' results.

    least_rows: what a run should take at least, whatever its results take.
    """

    multiplications: int = 0
    elements: int = 0
    least_rows: int = 0


class ClassHead(Serialized, frozen=True):
    """A classifier's last layer: for each class a row of `weight` along `axis`, and an element of
    `bias`.

    features: the tensor that it reads, in the exported model; features_axis: the axis that rows are
    multiplied with. classes: ids, by index. fresh: those that have not been trained yet.
    """

    weight: str
    axis: int
    bias: str | None
    features: str
    features_axis: int
    classes: tuple[int, ...]
    fresh: tuple[int, ...] = ()

    @property
    def axes(self) -> dict[str, int]:
        """Tensor with a row for each class → the axis of the rows."""
        return {self.weight: self.axis} | ({} if self.bias is None else {self.bias: -1})


class Adapter(Serialized, frozen=True):
    """A frozen weight W that is used as W + scale·left·right, with matrices of low rank.

    merges: whether the exported model has the sum instead of W, which is then float32; otherwise it
    has W and the adapter.
    """

    weight: str
    left: str
    right: str
    scale: float
    merges: bool


class Manifest(Serialized, frozen=True):
    """A model that an engine can train.

    inputs: in the order in which batches bring them. output: the tensor that is measured and
    exported. statistics: running statistics, then what scales labels. updated: the outputs that
    hold new values of the former, in this order. loss: fields of Loss. classes: of cross entropy.
    batch_statistics: batches may not be shared out. head: of a classifier with a last layer that
    trains, one row for each class. frozen: initializers of the exported model that the graphs are
    fed, so that they are in memory once. quantizes: some of what it computes is quantized.
    distills: its step by classes takes what a teacher answers. optimized_for: the runtime and
    processor that optimized_step_model was written for. optimized_rows: how many rows it takes at
    most, None for any number. choices: forms that it takes because they were measured to be faster
    there than the guessed ones, by question. target_shape: of one row of what a step is fed as the
    label.
    """

    engine: str
    inputs: tuple[str, ...]
    output: str
    parameters: tuple[TrainedTensor, ...]
    target: str | None = "target"
    draws: tuple[Draw, ...] = ()
    statistics: tuple[TrainedTensor, ...] = ()
    updated: tuple[str, ...] = ()
    loss: dict[str, Any] = field(default_factory=dict)
    batch_statistics: bool = False
    classes: int | None = None
    work: Work = field(default_factory=Work)
    head: ClassHead | None = None
    adapters: tuple[Adapter, ...] = ()
    frozen: tuple[str, ...] = ()
    quantizes: bool = False
    distills: bool = False
    optimized_for: str = ""
    optimized_rows: int | None = None
    choices: dict[str, str] = field(default_factory=dict)
    target_shape: tuple[int, ...] = ()
    format: int = FORMAT

    @property
    def tensor_names(self) -> list[str]:
        """Of what its checkpoints hold besides the optimizer's state."""
        return [tensor.name for tensor in (*self.parameters, *self.statistics)]

    @property
    def parameter_count(self) -> int:
        """The numbers of all parameters."""
        return sum(parameter.size for parameter in self.parameters)


def carry_over(
    array: NDArray[np.float32],
    axis: int,
    *,
    then: Sequence[int],
    now: Sequence[int],
    fresh: Collection[int] = (),
) -> NDArray[np.float32]:
    """The rows of the current classes, from those of the previous ones; both are ids, by index.

    A new class starts at the mean of the learned rows that stay: its logit is the mean of theirs,
    so that it is never the highest. fresh: previous classes that were not trained.
    """
    rows = np.moveaxis(array, axis, 0)
    known = {class_id: rows[index] for index, class_id in enumerate(then)}
    learned = [known[label] for label in now if label in known and label not in fresh] or [*rows]
    neutral = np.mean(learned, axis=0, dtype=np.float64).astype(np.float32)
    stacked = np.stack([known.get(label, neutral) for label in now])
    return np.ascontiguousarray(np.moveaxis(stacked, 0, axis))


def draw_all(
    draws: Sequence[Draw], *, seed: int, batch: int, rows: int
) -> dict[str, NDArray[np.float32]]:
    """The numbers for a whole batch: the same for a seed, however the batch is split.

    seed: of the step. batch: its number within the step. Source: Salmon et al. (2011), Parallel
    random numbers: as easy as 1, 2, 3; every input has its own counter.
    """
    drawn = {}
    for place, draw in enumerate(draws):
        generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, batch, place]))
        shape = [rows if size == -1 else size for size in draw.shape]
        drawn[draw.name] = generator.random(shape, dtype=np.float32)
    return drawn


def write_manifest(manifest: Manifest, path: Path) -> None:
    path.write_text(dump(plain(manifest), indent=1), "utf-8")


def read_manifest(path: Path) -> Manifest:
    """Raises ArtifactsUnreadable."""
    try:
        manifest = _parse(path.read_bytes())
    except (OSError, ValueError, AttributeError) as error:
        raise ArtifactsUnreadable(f"cannot read the manifest {path}: {error}") from error
    if manifest.format != FORMAT:
        raise ArtifactsUnreadable(
            f"{path} is of format {manifest.format}, this Hone reads {FORMAT}; register the model"
            " anew"
        )
    return manifest


def manifest_of(artifacts: Artifacts) -> Manifest:
    """That of a model which the engine of sessions trains. Raises ArtifactsUnreadable."""
    assert artifacts.manifest is not None
    return read_manifest(Path(artifacts.manifest))


@lru_cache(maxsize=4)
def _parse(content: bytes) -> Manifest:
    """Cached, because a job asks for it several times: that of MobileNetV2 takes 2 ms."""
    return build(Manifest, json.loads(content))
