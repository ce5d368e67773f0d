"""Opens the engine that a model was prepared for."""

from __future__ import annotations

from pathlib import Path

from service.training.engine import Engine
from service.training.engines.manifest import Files
from service.training.errors import ArtifactsUnreadable
from service.training.optimizer.options import LossOptions, OptimizerOptions
from service.training.protocol.messages.shared import Artifacts


def is_of_sessions(artifacts: Artifacts) -> bool:
    return artifacts.manifest is not None


def open_engine(
    artifacts: Artifacts,
    *,
    output: str,
    threads: int,
    spinning: bool = False,
    optimizer_options: OptimizerOptions | None = None,
    loss_options: LossOptions | None = None,
    checkpoint: Path | None = None,
    trains: bool = True,
) -> Engine:
    """A model in training, at a checkpoint; by default as it was uploaded.

    optimizer_options: AdamW by default; On-Device Training has its own in the artifacts. spinning:
    whether idle threads of On-Device Training busy-wait. trains: whether steps will follow.
    Raises ArtifactsUnreadable, CheckpointUnreadable.
    """
    if is_of_sessions(artifacts):
        from service.training.engines.sessions.engine import SessionsEngine

        return SessionsEngine(
            files_of(artifacts),
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
        spinning=spinning,
    )


def files_of(artifacts: Artifacts) -> Files:
    """The files of a model of the session engine. Raises ArtifactsUnreadable if one is missing."""
    if artifacts.manifest is None or artifacts.inference_model is None:
        raise ArtifactsUnreadable("the model has no manifest or inference model; register it anew")
    return Files(
        manifest=Path(artifacts.manifest),
        step_model=Path(artifacts.training_model),
        eval_model=Path(artifacts.eval_model),
        inference_model=Path(artifacts.inference_model),
        checkpoint=Path(artifacts.checkpoint),
        class_step_model=_path(artifacts.class_step_model),
        optimized_step_model=_path(artifacts.optimized_step_model),
        optimized_class_step_model=_path(artifacts.optimized_class_step_model),
        weights_model=_path(artifacts.weights_model),
        gradients_model=_path(artifacts.gradients_model),
    )


def _path(file: str | None) -> Path | None:
    return None if file is None else Path(file)
