"""Checkpoints as safetensors: parameters under their own names, then the optimizer's state.

The format is read by many programs: https://huggingface.co/docs/safetensors. `CheckpointHead` is
the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from service.training.errors import CheckpointUnreadable
from service.training.optimizer.options import OptimizerOptions
from service.training.optimizer.rules import EMA, slots
from service.training.protocol.serialization import Serialized, build, plain
from storage.database.codec import dump

Tensors = Mapping[str, NDArray[np.float32]]
FLOAT32 = "F32"
METADATA = "hone"


class CheckpointHead(Serialized, frozen=True):
    """A checkpoint's metadata. optimizer_options: None without optimizer state.

    classes: ids, by the index of their rows in the head; None for 0, 1, … fresh: those that have
    not been trained yet. rows: of a run, at most, after memory did not suffice for more.
    """

    engine: str
    steps: int = 0
    optimizer_options: OptimizerOptions | None = None
    classes: tuple[int, ...] | None = None
    fresh: tuple[int, ...] = ()
    rows: int | None = None


def slot_name(slot: str, parameter: str) -> str:
    """The tensor name of a parameter's optimizer state."""
    return f"hone.{slot}/{parameter}"


def save(path: Path, head: CheckpointHead, tensors: Tensors) -> None:
    """Write a checkpoint; neither atomic nor flushed. The same content gives the same bytes."""
    # One entry, since the library writes several in an order that changes from run to run.
    save_file(dict(tensors), path, metadata={METADATA: dump(plain(head))})


def read_head(path: Path) -> CheckpointHead:
    """Raises CheckpointUnreadable."""
    with _opened(path) as file:
        metadata = file.metadata() or {}
        if METADATA not in metadata:
            raise CheckpointUnreadable(
                f"{path} has no {METADATA!r} in its metadata; take a checkpoint that Hone wrote"
            )
        return build(CheckpointHead, json.loads(metadata[METADATA]))


def is_bare(path: Path) -> bool:
    """Whether it holds only parameters, without Hone's metadata.

    Raises CheckpointUnreadable.
    """
    with _opened(path) as file:
        return METADATA not in (file.metadata() or {})


def measured_names(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Parameter → the tensor that the checkpoint's model is measured with: its moving average, if
    there is one. Raises CheckpointUnreadable.
    """
    optimizer_options = read_head(path).optimizer_options
    averaged = optimizer_options is not None and EMA in slots(optimizer_options)
    return {name: slot_name(EMA, name) if averaged else name for name in names}


def load(path: Path, tensors: Tensors, *, with_more: bool = False) -> None:
    """Fill the arrays with the file's tensors of the same names.

    with_more: whether the file may have others. Nothing is changed if names, shapes or types do
    not fit. Raises CheckpointUnreadable.
    """
    with _opened(path) as file:
        fault = _fault(file, tensors, with_more=with_more)
        if fault is not None:
            raise CheckpointUnreadable(
                f"{path} is no checkpoint of this model: {fault}; take one of its own jobs"
            )
        for name, array in tensors.items():
            array[...] = file.get_tensor(name)


def read(path: Path, names: Iterable[str] | None = None) -> dict[str, NDArray[np.float32]]:
    """The tensors with these names, by default all. Raises CheckpointUnreadable."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in (file.keys() if names is None else names)}


def fill(path: Path, tensors: Tensors, values: Tensors) -> None:
    """Fill the arrays with the tensors of the same names found in the file.

    Nothing is changed if names or shapes do not fit. Raises CheckpointUnreadable.
    """
    for name, array in tensors.items():
        if name not in values or values[name].shape != array.shape:
            raise CheckpointUnreadable(
                f'{path} is no checkpoint of this model: it has no "{name}" of shape'
                f" {list(array.shape)}; take one of its own jobs"
            )
    for name, array in tensors.items():
        array[...] = values[name]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Raises CheckpointUnreadable for whatever is wrong with the file inside the block."""
    try:
        with safe_open(path, framework="np") as file:
            yield file
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointUnreadable(f"cannot read the checkpoint {path}: {error}") from error


def _fault(file: Any, tensors: Tensors, *, with_more: bool) -> str | None:
    """The first mismatch, None if everything fits."""
    names = set(file.keys())
    missing, strange = sorted(tensors.keys() - names), sorted(names - tensors.keys())
    if missing:
        return f"it lacks {', '.join(missing)}"
    if strange and not with_more:
        return f"it has {', '.join(strange)}, which the model does not"
    for name, array in tensors.items():
        part = file.get_slice(name)
        kind, shape = part.get_dtype(), tuple(part.get_shape())
        if (kind, shape) != (FLOAT32, array.shape):
            return f'"{name}" is {kind} {list(shape)}, the model has {FLOAT32} {list(array.shape)}'
    return None
