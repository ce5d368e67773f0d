"""The samples of a task, of any kind: tensors, images or recordings."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from service.preprocess import FileKind, for_signature
from service.preprocess.text import Text
from service.training.data.batches import Batches, Dataset, Indices, Preprocessed
from service.training.data.counting import holding, only_counted
from service.training.engines.sessions.crew import Crew
from service.training.errors import NoSamples
from service.training.protocol.messages.shared import Artifacts
from service.training.protocol.messages.training import (
    Decoded,
    Dropped,
    Quarantined,
    Seen,
    Train,
)
from service.training.tasks import TASKS
from storage.readonly.sample_index import (
    SampleIndex,
    damaged_positions,
    read_ids,
    read_sample_index,
)
from storage.records.id_set import encode
from storage.records.samples import CHANGED, Split

if TYPE_CHECKING:
    from service.preprocess.masks.masks import Masks
    from service.training.data.decoding import Decoding
    from service.training.data.files import PlacedLabels
    from service.training.data.lookups import Lookups
    from service.training.data.masks import MaskLabels
    from service.training.protocol.messages.shared import Measurement
    from service.training.protocol.messages.unions import Message
    from storage.blobs.row_cache import RowCache

ALL_SAMPLES = 2**63 - 1
"""A watermark above every sample, so that all current samples are used."""
TENSORS, MASKS = "tensors", "masks"
"""The kinds of the caches that hold decoded files, and their labels."""
CHECKED_AT_ONCE = 256
"""Samples whose token ids are checked between two ticks."""
READ_ANYWAY = 16
"""Samples of a split that are read although their features are cached: an exported model is
checked on them. Running the prefix is most of that, and so many prove that its parts fit."""


def load_samples(
    task: Train, reader: SampleReader, features: RowCache | None = None
) -> tuple[tuple[Batches, Batches], Indices]:
    """Labelled samples up to the watermark, for training and for validation, and which of the first
    are the base set's.

    features: those that were computed, so that their samples need not be read.
    Training samples include the base set, unless the job replays nothing.
    Raises NoSamples if there is nothing to train on.
    """
    base = bool(task.hyperparameters.replay) or "replay" in task.to_choose
    train_set = reader.read(Split.TRAIN, watermark=task.watermark, base=base, features=features)
    ids = read_ids(Path(task.database), "base", model_id=task.model_id)
    base_set = np.flatnonzero(np.isin(train_set.ids, ids))
    if len(train_set) == len(base_set):
        ignored = task.hyperparameters.ignore_index
        counted = "" if ignored is None else f" beside those of the ignore_index {ignored}"
        raise NoSamples(
            f"the model has no labelled training samples{counted}; upload some, or give labels to"
            " those that wait for one"
        )
    weights, of_classes = train_set.weights, task.hyperparameters.class_weights or ()
    if weights is not None and not np.delete(weights, base_set).any():
        raise NoSamples("all training samples have the weight 0; give some another")
    if 0 in of_classes and not holding(train_set.labels, np.flatnonzero(of_classes)).any():
        raise NoSamples("class_weights has 0 for the classes of all training samples; raise one")
    seen = train_set.ids if task.hyperparameters.epochs != 0 else train_set.ids[:0]
    sent = b64encode(encode(seen)).decode()
    origin = task.start.from_job if task.teacher is None else task.teacher.job
    reader.tell(Seen(sent, started_from=origin))
    validation_set = reader.read(Split.VALIDATION, watermark=task.watermark, features=features)
    return (train_set, validation_set), base_set


class SampleReader:
    """Opens a task's samples, preprocessed for the model.

    tick: runs periodically while files are decoded and token ids are checked, and may raise. send:
    called with messages about unusable samples and decoded files; None to send none. model: path of
    the ONNX file that will be run, if the task does not name it. target: to read labels of an index
    by; None for masks and boxes, which stay as they are stored.
    """

    def __init__(
        self,
        task: Train | Measurement,
        *,
        threads: int,
        tick: Callable[[], None],
        send: Callable[[Message], None] | None = None,
        model: str | None = None,
    ) -> None:
        self._task = task
        self.threads = threads
        self._crew = Crew()
        self._tick = tick
        self._send = send
        self._models = run_by(task.artifacts) if isinstance(task, Train) else [model]
        tokenizer = task.artifacts.tokenizer if isinstance(task, Train) else task.tokenizer
        self._pipeline = for_signature(task.signature, task.preprocess, tokenizer)
        self._masks = self._pipeline.masks(task.signature.target)
        self._boxes = self._pipeline.boxes(task.signature.target)
        self.target = None if self._masks or self._boxes else task.signature.target

    def tell(self, message: Message) -> None:
        """Send a message to the parent, if wanted."""
        if self._send is not None:
            self._send(message)

    def read(
        self,
        split: Split,
        *,
        watermark: int,
        base: bool = False,
        features: RowCache | None = None,
    ) -> Batches:
        """The samples of a split whose labels count; base: with those of the base set that go with
        it.

        features: see `open`. Raises SamplesInvalid, StorageBroken.
        """
        task = self._task
        index = read_sample_index(
            Path(task.database),
            Path(task.packs),
            model_id=task.model_id,
            split=split,
            watermark=watermark,
            target=self.target,
            base=base,
        )
        counted = only_counted(index, self.target, ignore_index=_ignored_class(task))
        only = TASKS[task.loss].trains_on if split is Split.TRAIN else None
        return self.open(
            counted if only is None else counted.only(counted.labels == only), features
        )

    def open(self, index: SampleIndex, features: RowCache | None = None) -> Batches:
        """The samples of an index whose bytes are intact. Raises SamplesInvalid.

        features: samples that have some are not read again, except the first of them, unless one
        of those is damaged.
        """
        read = None if features is None else features.find(index.ids) < 0
        if read is not None:
            read[:READ_ANYWAY] = True
        damaged = self._damaged(index, among=read)
        if damaged and read is not None:  # without these, others would be the first
            damaged = self._damaged(index)
        if damaged:
            self._quarantine(index, dict.fromkeys(damaged, CHANGED))
            index = index.without(damaged)
        if self._pipeline.files is not None:
            return self._compared(self._read_files(index))
        samples = self._read_tensors(index)
        if reasons := self._bad_lookups(samples):
            self._quarantine(index, reasons)
            samples = self._read_tensors(index.without(list(reasons)))
        return self._compared(samples)

    def _compared(self, samples: Batches) -> Batches:
        """With the targets of a loss that compares inputs."""
        task = TASKS[self._task.loss]
        samples.with_inputs = task.targets if task.compares_inputs else None
        return samples

    def _damaged(self, index: SampleIndex, among: NDArray[np.bool_] | None = None) -> list[int]:
        run, threads = self._crew.run, self.threads
        return damaged_positions(
            index, tick=self._tick, among=among, in_parallel=run, threads=threads
        )

    def _read_tensors(self, index: SampleIndex) -> Batches:
        samples = Dataset(index, self._task.signature)
        return Preprocessed(samples, self._pipeline) if self._pipeline.kinds else samples

    def _bad_lookups(self, samples: Batches) -> dict[int, str]:
        """Why the engine cannot take samples with token ids, by position."""
        lookups = self._lookups
        bad: dict[int, str] = {}
        everything, start = np.arange(len(samples) if lookups else 0), 0
        for inputs, labels in samples.batches(everything, batch_size=CHECKED_AT_ONCE):
            assert lookups is not None
            bad |= {start + row: why for row, why in lookups.complaints(inputs).items()}
            start += len(labels)
            self._tick()
        return bad

    @cached_property
    def _lookups(self) -> Lookups | None:
        """None if no input holds integers."""
        inputs = self._task.signature.inputs
        if not any(np.dtype(spec.dtype).kind in "iu" for spec in inputs):
            return None
        # Late: most models have no tables, and looking for them loads the whole file.
        from service.training.data.lookups import Lookups

        paths = [Path(model) for model in self._models if model is not None]
        return Lookups(paths, [spec.name for spec in inputs])

    def _read_files(self, index: SampleIndex) -> Batches:
        # Late: few models need it.
        from service.training.data.boxes import BoxLabels
        from service.training.data.decoding import decode_all
        from service.training.data.files import LabelledFiles

        kind = self._pipeline.files
        assert kind is not None
        cache = None if self._task.cache is None else self._decoded(kind)
        if isinstance(kind, Text):
            return self._read_texts(index, kind, cache)
        outcome = decode_all(index, kind, cache, threads=self.threads, tick=self._tick)
        self._tell(index, outcome)
        index = index.without(list(outcome.unreadable))
        labels: PlacedLabels | None = None
        if self._masks is not None:
            index, labels = self._read_masks(index, self._masks)
        elif self._boxes is not None:
            labels = BoxLabels(index, self._boxes)
        return LabelledFiles(index, self._task.signature, kind, cache, labels)

    def _read_masks(self, index: SampleIndex, masks: Masks) -> tuple[SampleIndex, MaskLabels]:
        """The samples whose masks are readable and count, or that wait for one."""
        from service.training.data.masks import counted_masks, decode_masks

        cache = None if self._task.cache is None else self._decoded(masks, MASKS)
        decoded = decode_masks(index, masks, cache, threads=self.threads, tick=self._tick)
        self._quarantine(index, decoded.unreadable)
        index, ignored = index.without(list(decoded.unreadable)), _ignored_class(self._task)
        return counted_masks(index, masks, cache, ignored=ignored)

    def _read_texts(self, index: SampleIndex, kind: Text, cache: RowCache | None) -> Batches:
        from service.training.data.texts import LabelledTexts, encode_all

        outcome, counts = encode_all(index, kind, cache, threads=self.threads, tick=self._tick)
        self._tell(index, outcome)
        return LabelledTexts(
            index.without(list(outcome.unreadable)),
            self._task.signature,
            kind,
            cache,
            counts=np.delete(counts, list(outcome.unreadable)),
            task=TASKS[self._task.loss],
        )

    def _quarantine(self, index: SampleIndex, reasons: dict[int, str]) -> None:
        """reasons: by position."""
        if reasons:
            self.tell(Quarantined({str(index.ids[at]): why for at, why in reasons.items()}))

    def _tell(self, index: SampleIndex, outcome: Decoding) -> None:
        self._quarantine(index, outcome.unreadable)
        if outcome.decoded:
            self.tell(
                Decoded(
                    samples=len(index.ids),
                    decoded=outcome.decoded,
                    kept=outcome.kept,
                    seconds=outcome.seconds,
                )
            )

    def _decoded(self, kind: FileKind | Masks, name: str = TENSORS) -> RowCache:
        task = self._task
        max_bytes = task.tensor_cache_bytes if isinstance(task, Train) else None
        return self.open_cache(
            name, key=kind.row_key, row_bytes=kind.row_bytes, max_bytes=max_bytes
        )

    def open_cache(self, name: str, *, key: str, row_bytes: int, max_bytes: int | None) -> RowCache:
        """One of the model's caches, as `RowCache.open`; the parent is told of a damaged one."""
        from storage.blobs.row_cache import RowCache

        assert self._task.cache is not None
        folder = Path(self._task.cache) / name
        cache = RowCache.open(
            folder, key=key, row_bytes=row_bytes, max_bytes=max_bytes, tick=self._tick
        )
        if cache.damage is not None:
            self.tell(Dropped(name, cache.damage))
        return cache


def _ignored_class(task: Train | Measurement) -> int | None:
    return task.hyperparameters.ignore_index if isinstance(task, Train) else task.ignore_index


def run_by(artifacts: Artifacts) -> list[str | None]:
    """The files that a job runs on its samples: the frozen part, and the rest."""
    return [artifacts.prefix_model, artifacts.eval_model]
