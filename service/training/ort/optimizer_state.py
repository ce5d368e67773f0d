"""AdamW's moments and count of steps, in the checkpoint files of the engine.

The engine writes them and reads them, but its Python interface does not show them. The files are
FlatBuffers; the wheel brings the classes that read them, made from
`onnxruntime/core/flatbuffers/schema/ort_training_checkpoint.fbs`. Scalars and vectors of a finished
FlatBuffer may be written over in place: https://flatbuffers.dev, "Mutating FlatBuffers".
"""

from __future__ import annotations

import importlib
import mmap
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.training.ort.runtime import onnxruntime

Moment = NDArray[np.float32]
PACKAGE = "ort_flatbuffers_py"
STEP_FIELD = 6
"""`step` of OptimizerGroup, as an offset into its table of fields."""
FIRST, SECOND = "momentum0", "momentum1"


@dataclass(frozen=True, slots=True)
class OptimizerState:
    """steps: how many were made. moments: the first and the second, flat, by parameter."""

    steps: int
    moments: Mapping[str, tuple[Moment, Moment]]


def read_state(path: Path) -> OptimizerState | None:
    """A copy; None if the checkpoint holds none. Raises OSError."""
    with _open(path, mmap.ACCESS_READ) as group:
        if group is None:
            return None
        moments = {
            name: (pair[FIRST].copy(), pair[SECOND].copy()) for name, pair in _moments(group)
        }
        return OptimizerState(group.Step(), moments)


def write_state(path: Path, state: OptimizerState) -> None:
    """Put this state in place of the one that the engine wrote. Raises OSError.

    The engine must have made a step: a count of nought is left out of the file.
    """
    with _open(path, mmap.ACCESS_WRITE) as group:
        assert group is not None
        for name, pair in _moments(group):
            for ours, theirs in zip(state.moments[name], (pair[FIRST], pair[SECOND]), strict=True):
                theirs[:] = ours
        table = group._tab
        field = table.Offset(STEP_FIELD)
        assert field
        at = table.Pos + field
        table.Bytes[at : at + 8] = state.steps.to_bytes(8, "little", signed=True)
        table.Bytes.flush()


@contextmanager
def _open(path: Path, access: int) -> Iterator[Any]:
    """The optimizer's first group, over the file itself."""
    checkpoint = _reader().Checkpoint
    with path.open("rb" if access == mmap.ACCESS_READ else "rb+") as file:
        # Not closed by hand, which numpy's views of it would forbid: it goes with the last of them.
        content = mmap.mmap(file.fileno(), 0, access=access)
        root = checkpoint.GetRootAs(content)
        yield root.OptimizerGroups(0) if root.OptimizerGroupsLength() else None


def _moments(group: Any) -> Iterator[tuple[str, dict[str, Moment]]]:
    """Each parameter's name, and its moments by theirs; views."""
    for number in range(group.OptimizerStatesLength()):
        state = group.OptimizerStates(number)
        tensors = [state.Momentums(each) for each in range(state.MomentumsLength())]
        yield (
            state.ParamName().decode(),
            {each.Name().decode(): each.RawDataAsNumpy().view(np.float32) for each in tensors},
        )


def _reader() -> ModuleType:
    """`ort_flatbuffers_py.fbs.Checkpoint`, without the tools around it, which load onnx."""
    if PACKAGE not in sys.modules:
        package = ModuleType(PACKAGE)
        folder = Path(onnxruntime.__file__).parent / "tools/ort_format_model" / PACKAGE
        package.__path__ = [str(folder)]
        sys.modules[PACKAGE] = package
    return importlib.import_module(f"{PACKAGE}.fbs.Checkpoint")
