"""Missing and damaged files are errors of ours, and no crash of the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from service.training.engines.ort_training.engine import OrtEngine
from service.training.engines.runtime import foreign_errors, native
from service.training.errors import ArtifactsUnreadable, CheckpointUnreadable
from service.training.protocol.messages.shared import Artifacts

MakeArtifacts = Callable[..., Artifacts]
OpenEngine = Callable[..., OrtEngine]


@pytest.mark.parametrize("role", ["training_model", "eval_model", "optimizer_model"])
def test_a_missing_artifact_is_an_error_and_no_crash(
    make_artifacts: MakeArtifacts, tmp_path: Path, role: str
) -> None:
    artifacts = replace(make_artifacts(), **{role: str(tmp_path / "missing")})
    with pytest.raises(ArtifactsUnreadable, match="there is no artifact at"):
        OrtEngine(artifacts, checkpoint=Path(artifacts.checkpoint), output="logits", threads=1)


@pytest.mark.parametrize("role", ["training_model", "eval_model", "optimizer_model"])
def test_a_damaged_artifact_is_an_error_and_no_crash(
    make_artifacts: MakeArtifacts, tmp_path: Path, role: str
) -> None:
    (tmp_path / "damaged").write_bytes(b"\x08\x09 this is no graph")
    artifacts = replace(make_artifacts(), **{role: str(tmp_path / "damaged")})
    checkpoint = Path(artifacts.checkpoint)
    with pytest.raises(ArtifactsUnreadable, match="cannot load the training artifacts"):
        OrtEngine(artifacts, checkpoint=checkpoint, output="logits", threads=1)


def test_an_output_that_the_eval_model_does_not_give_is_refused(open_engine: OpenEngine) -> None:
    with pytest.raises(ArtifactsUnreadable, match="additional_output_names"):
        open_engine(outputs=())


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_a_damaged_checkpoint_is_an_error(
    open_engine: OpenEngine, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "checkpoint"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointUnreadable, match="cannot load the checkpoint"):
        open_engine(checkpoint=path)
    with pytest.raises(CheckpointUnreadable, match="cannot load the checkpoint"):
        open_engine().load_parameters(path)


def test_a_truncated_checkpoint_is_an_error(open_engine: OpenEngine, tmp_path: Path) -> None:
    open_engine().save(tmp_path / "whole")
    (tmp_path / "half").write_bytes((tmp_path / "whole").read_bytes()[:500])
    with pytest.raises(CheckpointUnreadable):
        open_engine(checkpoint=tmp_path / "half")


def test_what_a_session_raises_is_one_of_ours_or_want_of_memory() -> None:
    for foreign, ours in (
        (native.Fail("no such node"), ArtifactsUnreadable),
        (native.RuntimeException("Failed to allocate memory for 5 bytes"), MemoryError),
        (RuntimeError("std::bad_alloc"), MemoryError),
    ):
        with pytest.raises(ours), foreign_errors(ArtifactsUnreadable, "cannot load"):
            raise foreign
