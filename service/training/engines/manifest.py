"""What a compiled model is: its files, and what an engine must know of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from service.training.errors import ArtifactsUnreadable
from service.training.protocol.serialization import build

FORMAT = 1
METADATA_PREFIX = "hone."
"""Of the entries that exports add to the model's metadata."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where a compiled model lies.

    step_model, eval_model: as service/training/graph/step.py describes them. inference_model: the
    graph to export without the tensors of `parameters` and `statistics`; checkpoint: these, as
    training starts. class_step_model: the step of a loss that is by_class, of cross entropy.
    """

    manifest: Path
    step_model: Path
    eval_model: Path
    inference_model: Path
    checkpoint: Path
    class_step_model: Path | None = None

    @classmethod
    def below(cls, folder: Path) -> Files:
        """Under the names that compilation gives them."""
        return cls(
            manifest=folder / "manifest.json",
            step_model=folder / "step_model.onnx",
            eval_model=folder / "eval_model.onnx",
            inference_model=folder / "inference_model.onnx",
            checkpoint=folder / "checkpoint.safetensors",
            class_step_model=folder / "class_step_model.onnx",
        )


@dataclass(frozen=True, slots=True)
class TrainedTensor:
    """A float32 tensor that training moves."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Draw:
    """An input of uniform float32 numbers in [0, 1). shape: sizes, -1 for the batch."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What a step computes for each sample: multiplications, and elements that nodes give."""

    multiplications: int = 0
    elements: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """A model that an engine can train.

    inputs: in the order in which batches bring them. output: the tensor that is measured and
    exported. statistics: running statistics, and updated the outputs that hold their new values, in
    this order. loss: fields of Loss. classes: of cross entropy. batch_statistics: batches may not
    be shared out.
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
    format: int = FORMAT


def write(manifest: Manifest, path: Path) -> None:
    path.write_text(json.dumps(asdict(manifest), indent=1), "utf-8")


def read(path: Path) -> Manifest:
    """Raises ArtifactsUnreadable."""
    try:
        written = json.loads(path.read_text("utf-8"))
        written.pop("sample_weight", None)  # of before: the loss's scale holds weights now
        manifest: Manifest = build(Manifest, written)
    except (OSError, ValueError, AttributeError) as error:
        raise ArtifactsUnreadable(f"cannot read the manifest {path}: {error}") from error
    if manifest.format != FORMAT:
        raise ArtifactsUnreadable(
            f"{path} is of format {manifest.format}, this Hone reads {FORMAT}; register the model"
            " anew"
        )
    return manifest
