"""A data folder with one model's samples, for the training child."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from stored import adopt, new_model

from service.training.hyperparameters import Hyperparameters
from service.training.protocol.messages.shared import Artifacts, ResourceLimits
from service.training.protocol.messages.training import Start, Train
from storage.records.models import Model
from storage.records.samples import Split
from storage.records.signatures import Signature, TargetSpec, TensorSpec
from storage.store import Store

FEATURES, HIDDEN, CLASSES = 6, 16, 3
CLASSIFICATION = Signature(
    inputs=(TensorSpec("x", "float32", (FEATURES,)),),
    target=TargetSpec("labels", "int64", (), CLASSES),
)
REGRESSION = Signature(
    inputs=(TensorSpec("x", "float32", (FEATURES,)),),
    target=TargetSpec("target", "float32", (CLASSES,)),
)


@dataclass
class Workshop:
    """A data folder with one model's samples, and the tasks to train on them."""

    store: Store
    model_id: int
    signature: Signature
    watermark: int
    folder: Path

    def task(self, artifacts: Artifacts, *, loss: str = "cross_entropy", **wanted: Any) -> Train:
        work_dir = self.folder / "work"
        work_dir.mkdir(exist_ok=True)
        hyperparameters = {"batch_size": 16, "learning_rate": 0.01, "seed": 5, **wanted}
        return Train(
            artifacts=artifacts,
            signature=self.signature,
            loss=loss,
            output="logits",
            database=str(self.store.database),
            packs=str(self.store.packs_dir),
            model_id=self.model_id,
            watermark=self.watermark,
            hyperparameters=Hyperparameters(**hyperparameters),
            start=Start(),
            work_dir=str(work_dir),
            limits=ResourceLimits(threads=1, nice=0),
        )


def add_model(store: Store, signature: Signature) -> Model:
    """A model without artifacts: each task names its own."""
    new = new_model(signature=signature)
    return store.models.add(new, adopt(store, b"the model as it came"))


def add_samples(store: Store, model: Model, *, train: int, validation: int) -> int:
    """Samples of both splits; the highest id, 0 without any."""
    if not train + validation:
        return 0
    target = model.signature.target
    x, labels = make_samples(train + validation, target=target)
    with store.samples.stage(model.id, x[0].nbytes) as staging:
        staging.add(
            x,
            [int(label) if target.dtype == "int64" else label.tobytes() for label in labels],
            split=[Split.TRAIN] * train + [Split.VALIDATION] * validation,
        )
        return staging.commit().last_id or 0


def make_samples(size: int, *, target: TargetSpec, seed: int = 7) -> tuple[Any, Any]:
    """Samples of a task that a perceptron learns: (size, FEATURES) float32, and labels.

    The labels of a float target are yes or no, as 1 and 0, which every loss of one takes.
    """
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(3).standard_normal((FEATURES, CLASSES))
    x = rng.standard_normal((size, FEATURES)).astype(np.float32)
    scores = x @ truth
    if target.dtype == "int64":
        return x, scores.argmax(axis=1).astype(np.int64)
    return x, (scores > 0).astype(np.float32)
