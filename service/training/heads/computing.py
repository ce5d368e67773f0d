"""Gives a model a head that is computed from the features of its samples, without training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from service.training.data.batches import Batches
from service.training.data.datasets import Datasets
from service.training.data.sampler import Sampler
from service.training.engine import Engine
from service.training.engines import checkpoint
from service.training.heads.features import HeadFeatures
from service.training.heads.kinds import NEIGHBOURS, Head
from service.training.heads.output_engine import with_output
from service.training.heads.prototypes import Doubles, Prototypes
from service.training.protocol.messages.training import Train


def compute_head(
    task: Train,
    engine: Engine,
    datasets: Datasets,
    sampler: Sampler,
    *,
    tick: Callable[[], None],
) -> tuple[Engine, tuple[str, ...]]:
    """The engine with the computed head that the task asks for, and warnings for people.

    tick runs between batches.
    """
    head, target = task.hyperparameters.head, task.signature.target
    assert isinstance(head, Head)
    assert target.num_classes is not None
    features = HeadFeatures(task, engine, tick=tick)
    weights = sample_weights(datasets.train, sampler)
    if head.kind == "knn":
        from service.training.heads.neighbours import Neighbours  # late: it imports onnx

        k = head.k or NEIGHBOURS
        kept = Neighbours.of(features, datasets.train, weights, classes=target.num_classes, k=k)
        warnings = kept.warnings(int((weights > 0).sum()))
        return with_output(engine, kept.output, kept.attach), warnings
    chosen = np.flatnonzero(weights > 0)
    prototypes = Prototypes.of(
        features, datasets.train, chosen, weights=weights, classes=target.num_classes
    )
    write(task, engine, features, prototypes, prototypes.scale(features, datasets.train, weights))
    return engine, tuple(_without_samples(task, prototypes))


def sample_weights(samples: Batches, sampler: Sampler) -> Doubles:
    """The effective weight of each sample: its own, times how often an epoch would see it."""
    weights = np.zeros(len(samples))
    weights[sampler.own] = 1
    if len(sampler.base):
        weights[sampler.base] = sampler.replayed / len(sampler.base)
    return weights if samples.weights is None else weights * samples.weights


def write(
    task: Train, engine: Engine, features: HeadFeatures, prototypes: Prototypes, scale: float
) -> None:
    """Set the head of an engine to these prototypes."""
    manifest, head = features.manifest, features.head
    path = Path(task.work_dir) / "computed.checkpoint"
    engine.save(path)
    tensors = checkpoint.read(path, manifest.tensor_names)
    prototypes.write(tensors, head, scale)
    before = checkpoint.read_head(path)
    known = {head.classes[index] for index in prototypes.known}
    fresh = tuple(class_id for class_id in before.fresh if class_id not in known)
    checkpoint.save(path, replace(before, steps=0, optimizer_options=None, fresh=fresh), tensors)
    engine.load_parameters(path)


def _without_samples(task: Train, prototypes: Prototypes) -> list[str]:
    names = task.signature.target.classes
    missing = np.flatnonzero(prototypes.mass == 0).tolist()
    return [
        f"class {repr(names[index]) if names else index} has no training samples: it keeps the row"
        " that it had"
        for index in missing
    ]
