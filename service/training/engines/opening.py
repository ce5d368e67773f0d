"""Opens the engine that a model was prepared for."""

from __future__ import annotations

from pathlib import Path

from service.training.engine import Engine
from service.training.engines.manifest import Files
from service.training.optimizer.options import LossOptions, OptimizerOptions
from service.training.protocol.messages.shared import Artifacts


def is_of_sessions(artifacts: Artifacts) -> bool:
    return artifacts.manifest is not None


def open_engine(
    artifacts: Artifacts,
    *,
    output: str,
    threads: int,
    optimizer_options: OptimizerOptions | None = None,
    loss_options: LossOptions | None = None,
    checkpoint: Path | None = None,
    trains: bool = True,
) -> Engine:
    """A model in training, at a checkpoint; by default as it was uploaded.

    optimizer_options: AdamW by default; On-Device Training has its own in the artifacts. trains:
    whether steps will follow. Raises ArtifactsUnreadable, CheckpointUnreadable.
    """
    if is_of_sessions(artifacts):
        from service.training.engines.sessions.engine import SessionsEngine

        return SessionsEngine(
            Files.of(artifacts),
            threads=threads,
            optimizer_options=optimizer_options or OptimizerOptions(),
            loss_options=loss_options or LossOptions(),
            checkpoint=checkpoint,
            trains=trains,
        )
    from service.training.engines.ort_training.engine import OrtEngine

    return OrtEngine(
        artifacts,
        checkpoint=checkpoint or Path(artifacts.checkpoint),
        output=output,
        threads=threads,
    )
