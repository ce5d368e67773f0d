"""Models: their signatures, settings, files and sample counts."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from storage.records.signatures import Signature

BatchNorm = Literal["inference", "training"]
OptimizerName = Literal["sgd", "adam", "adamw", "rmsprop", "lion"]
Engine = Literal["sessions", "ort_training"]
WhenFull = Literal["oldest", "reservoir", "balanced"]


class FileRecord(Struct, frozen=True):
    """An immutable file, named by its SHA-256 (lower-case hex)."""

    sha256: str
    size_bytes: int


class SampleCounts(Struct, frozen=True):
    """Numbers of a model's samples. An unlabelled sample counts only as unlabelled."""

    train: int = 0
    validation: int = 0
    unlabelled: int = 0
    base: int = 0


class Quota(Struct, frozen=True):
    """Maximum number and bytes of a model's samples, None for no limit; when_full: which go first.

    Of the owner that holds most: `oldest`: the lowest ids. `reservoir`: those that leave a uniform
    choice of all that ever came. `balanced`: those of the largest class. Pinned ones stay, and
    validation samples unless others need the room.
    """

    max_samples: int | None = None
    max_bytes: int | None = None
    when_full: WhenFull = "oldest"


class NewModel(Struct, frozen=True):
    """A model to be registered; files: role (`training_model`, …) → published file. loss: of the
    task, see service/training/tasks/. sha256: of the file as it came. shapes: a hash of the names
    and shapes of what trains.
    """

    name: str
    loss: str
    optimizer: OptimizerName
    engine: Engine
    output: str
    signature: Signature
    trainable: tuple[str, ...]
    trainable_parameters: int
    frozen_parameters: int
    hyperparameters: dict[str, Any]
    files: dict[str, FileRecord]
    notes: tuple[str, ...] = ()
    gate: dict[str, Any] = field(default_factory=dict)
    retention: dict[str, Any] = field(default_factory=dict)
    preprocess: tuple[dict[str, Any], ...] = ()
    keeps_duplicates: bool = False
    features: tuple[str, ...] | None = None
    loss_output: str | None = None
    sha256: str = ""
    shapes: str = ""


class Model(Struct, frozen=True, kw_only=True):
    """A registered model, at one of its bases, which is the one of `latest` unless another was
    asked for. engine: the one that it was prepared for.

    trainable: names of the initializers that train. trainable_parameters, frozen_parameters: counts
    of scalars. files: role → file. notes: changes to the graph that make it trainable. gate,
    retention: differences from the defaults. held_since: since when jobs must not move `latest`,
    None while they may. reference_frozen_at: when the reference set was frozen, None without one.
    base_set_at: when samples were last added to the base set, None before.
    keeps_duplicates: whether samples with equal inputs are stored. features: the names of CSV
    columns, in the order of the inputs, None while they are not known. loss_output: the tensor that
    is the loss, if loss is `output`. shapes: as of a base. federation: read by
    service/federation/consent.py.
    """

    id: int
    name: str
    created_at: datetime
    base: int
    signature: Signature
    loss: str
    loss_output: str | None = None
    optimizer: OptimizerName
    engine: Engine
    output: str
    trainable: tuple[str, ...]
    trainable_parameters: int
    frozen_parameters: int
    hyperparameters: dict[str, Any]
    files: dict[str, FileRecord]
    samples: SampleCounts
    latest_version: int | None
    gate: dict[str, Any]
    retention: dict[str, Any]
    held_since: datetime | None
    reference_frozen_at: datetime | None
    base_set_at: datetime | None
    notes: tuple[str, ...]
    preprocess: tuple[dict[str, Any], ...] = ()
    quota: Quota = Quota()
    keeps_duplicates: bool = False
    features: tuple[str, ...] | None = None
    shapes: str = ""
    federation: dict[str, Any] = field(default_factory=dict)


class Base(Struct, frozen=True, kw_only=True):
    """A forward file that versions of a model descend from. sha256: of the file as it came. shapes:
    a hash of the names and shapes of what trains.

    adopted_at: when a version of it first became `latest`; None for an upgrade that waits, of which
    request is what its jobs are asked for, job_id the newest of them, and labelled the number of
    labelled samples when that was queued. versions: those that descend from it.
    """

    model_id: int
    base: int
    sha256: str
    shapes: str
    arrived_at: datetime
    adopted_at: datetime | None
    request: dict[str, Any]
    job_id: int | None
    labelled: int
    versions: tuple[int, ...]
