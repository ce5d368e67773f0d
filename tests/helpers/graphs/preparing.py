"""Fixtures that prepare hand-made graphs, for the engine that a folder's `engine_name` says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from hand_made import Graphs

from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Prepare, Prepared, Refused

Answer = Prepared | Refused


@pytest.fixture(scope="session")
def graphs() -> Graphs:
    return Graphs()


@pytest.fixture
def order(tmp_path: Path, engine_name: str) -> Callable[..., Answer]:
    """Carry out `Prepare` on a model, on bytes or on a file."""

    def carry_out(model: onnx.ModelProto | bytes | Path, **choices: Any) -> Answer:
        source = tmp_path / "upload"
        if isinstance(model, Path):
            source = model
        else:
            data = model if isinstance(model, bytes) else model.SerializeToString()
            source.write_bytes(data)
        choices.setdefault("loss", "mse")
        choices.setdefault("form", "forward")
        choices.setdefault("engine", engine_name)
        return prepare(Prepare(source=str(source), work_dir=str(tmp_path / "work"), **choices))

    return carry_out


@pytest.fixture
def accept(order: Callable[..., Answer]) -> Callable[..., Prepared]:
    """Prepare a model that must be taken."""

    def carry_out(model: onnx.ModelProto | bytes | Path, **choices: Any) -> Prepared:
        answer = order(model, **choices)
        assert isinstance(answer, Prepared), answer
        return answer

    return carry_out


@pytest.fixture
def refuse(order: Callable[..., Answer]) -> Callable[..., dict[str, str]]:
    """Prepare a model that must be refused; pointer → detail of all problems."""

    def carry_out(model: onnx.ModelProto | bytes | Path, **choices: Any) -> dict[str, str]:
        answer = order(model, **choices)
        assert isinstance(answer, Refused), answer
        assert answer.problems
        assert "Traceback" not in answer.detail
        return {problem.pointer: problem.detail for problem in answer.problems}

    return carry_out
