"""Carries out the task `Evaluate`: two inference models on the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from service.training.data.batches import BATCH_SIZE, Batches, Indices
from service.training.data.counting import class_counts, holding
from service.training.data.samples import ALL_SAMPLES, SampleReader
from service.training.engine import Array
from service.training.errors import ExportMismatch
from service.training.evaluation.drift import drift_of
from service.training.evaluation.inference import InferenceModel, Unusable
from service.training.evaluation.own_loss import LossModel
from service.training.evaluation.significance import discordant, paired_bootstrap
from service.training.evaluation.simple import simple_scores
from service.training.protocol.messages.comparison import (
    Comparison,
    Evaluate,
    Evaluated,
    Interval,
    SimpleComparison,
)
from service.training.protocol.messages.shared import Measurement, OwnLoss
from service.training.protocol.pipe import Heartbeat, Pipe
from service.training.tasks import TASKS
from service.training.tasks.task import Metric, PerSample
from storage.readonly.sample_index import read_ids
from storage.records.samples import Split

Classes = tuple[int, ...] | None


def evaluate(task: Evaluate, pipe: Pipe) -> Evaluated:
    """Raises ExportMismatch if the candidate cannot be run, Interrupted if it must end."""
    tick = Heartbeat(pipe)
    comparer = ModelComparer(
        task.measurement,
        threads=task.limits.threads,
        tick=tick,
        model=task.candidate,
        baseline=task.baseline,
        baseline_classes=task.baseline_classes,
        baseline_measurement=task.baseline_measurement,
    )
    try:
        evaluated = comparer.compare_everywhere(task.candidate, task.baseline)
        if task.seen_up_to is None:
            return evaluated
        what, since = task.measurement, task.seen_up_to
        version = task.baseline if task.baseline_measurement is None else None
        drift = drift_of(what, comparer.reader, watermark=since, tick=tick, version=version)
        return replace(evaluated, drift=drift)
    except Unusable as error:
        raise ExportMismatch(f"the exported model is of no use: {error}") from error


class ModelMetrics(Struct, frozen=True):
    """A model's metrics. per_sample: (samples, …), of the metric that the gate uses."""

    metrics: dict[str, Any]
    per_sample: PerSample


class Side(Struct, frozen=True):
    """How one of two models is measured, the samples as it takes them, and the classes it knows."""

    measurement: Measurement
    dataset: Batches
    classes: Classes = None


class ModelComparer:
    """Measures models on the current labelled validation samples, and on the base set.

    model: path of one of them, whose lookup tables decide which samples can be used. classes,
    baseline_classes: those that candidates and baselines know, as in Evaluate. Both are measured on
    samples of classes that both know: the gain of a new class must not offset losses of others.
    baseline_measurement: as in Evaluate; then on samples that both can take. baseline: its path.
    """

    def __init__(
        self,
        measurement: Measurement,
        *,
        threads: int,
        tick: Heartbeat,
        model: str,
        classes: Classes = None,
        baseline: str | None = None,
        baseline_classes: Classes = None,
        baseline_measurement: Measurement | None = None,
    ) -> None:
        self.reader = SampleReader(measurement, threads=threads, tick=tick, model=model)
        self.dataset = _samples(self.reader, measurement)
        self._measurement = measurement
        self._threads = threads
        self.tick = tick
        self.ours = Side(measurement, self.dataset, classes)
        self.theirs = replace(self.ours, classes=baseline_classes)
        if baseline_measurement is not None:
            reader = SampleReader(baseline_measurement, threads=threads, tick=tick, model=baseline)
            dataset = _samples(reader, baseline_measurement)
            self.theirs = Side(baseline_measurement, dataset, baseline_classes)
        target, labels = measurement.signature.target, self.dataset.labels
        known = set(classes or target.ids) & set(baseline_classes or target.ids)
        strange = [index for index, class_id in enumerate(target.ids) if class_id not in known]
        self._is_known = np.isin(self.dataset.ids, self.theirs.dataset.ids)
        if strange:
            self._is_known &= ~holding(labels, strange)

    def known(self) -> Indices:
        """The samples whose classes both models know."""
        return np.flatnonzero(self._is_known)

    def compare_everywhere(self, candidate: str, baseline: str) -> Evaluated:
        """Compare on the validation samples, and on reference set and base set if wanted.

        candidate, baseline: paths. Raises Unusable if the candidate cannot be run.
        """
        wanted = self._measurement
        base = self._is_of("base") if wanted.base_set else np.zeros(len(self.dataset), bool)

        def compared(which: NDArray[np.bool_], *, simple: bool = False) -> Comparison:
            return self.compare(candidate, baseline, np.flatnonzero(which), simple=simple)

        return Evaluated(
            validation=compared(~base, simple=wanted.simple),
            reference=compared(self._is_of("reference") & ~base) if wanted.reference else None,
            base_set=compared(base) if wanted.base_set else None,
        )

    def _is_of(self, which: Literal["reference", "base"]) -> NDArray[np.bool_]:
        database, model_id = Path(self._measurement.database), self._measurement.model_id
        return np.isin(self.dataset.ids, read_ids(database, which, model_id=model_id))

    def compare(
        self, candidate: str, baseline: str, chosen: Indices, *, simple: bool = False
    ) -> Comparison:
        """Compare on these samples, and with simple predictions of them if that is wanted.

        Raises Unusable if the candidate cannot be run.
        """
        known = chosen[self._is_known[chosen]]
        metric = self._metric_on(known)
        ours = self.measure(candidate, known, self.ours, metric)
        alone = Comparison(
            samples=self.dataset.sample_count(known),
            class_counts=self._count(chosen),
            candidate=ours.metrics,
            baseline=None,
            left_out=self.dataset.sample_count(chosen[~self._is_known[chosen]]),
            ignored=self._measurement.ignore_index,
            simple=self._beside_simple(known, ours.per_sample, metric) if simple else (),
            metric=metric.name,
        )
        try:
            theirs = self.measure(baseline, known, self.theirs, metric)
        except Unusable as error:
            return replace(alone, fault=str(error))
        single = self._decides_once(metric)
        return replace(
            alone,
            baseline=theirs.metrics,
            discordant=discordant(ours.per_sample, theirs.per_sample) if single else None,
            interval=None if single else self._interval(metric, ours.per_sample, theirs.per_sample),
        )

    def _beside_simple(
        self, chosen: Indices, ours: PerSample, metric: Metric
    ) -> tuple[SimpleComparison, ...]:
        what = self._measurement
        simple = simple_scores(what, self.dataset, chosen, metric=metric, tick=self.tick)
        if not simple:
            return ()
        labels, ids = self.dataset.labels[chosen], self.dataset.ids[chosen]
        weights = TASKS[what.loss].pass_metrics(what.signature.target).weights(labels)
        scores = {
            name: figure if metric.of_set else by_sample(ids, weights, figure)
            for name, figure in simple.items()
        }
        return tuple(
            SimpleComparison(name, metric.of_mean(theirs), self._interval(metric, ours, theirs))
            for name, theirs in scores.items()
        )

    def _count(self, chosen: Indices) -> tuple[int, ...]:
        """Sample counts by class index, empty without classes."""
        classes = self._measurement.signature.target.num_classes
        if classes is None or self._measurement.own_loss is not None:
            return ()
        return tuple(class_counts(self.dataset.labels, chosen, classes).tolist())

    def batches(self, chosen: Indices, side: Side) -> Iterator[tuple[tuple[Array, ...], Array]]:
        """The samples at these positions of `dataset`, as a side takes them, and their labels."""
        rows = min(BATCH_SIZE, side.dataset.most_rows)
        return side.dataset.batches(self.places(chosen, side), batch_size=rows)

    def places(self, chosen: Indices, side: Side) -> Indices:
        """The positions of the same samples in a side's dataset. chosen: rising."""
        if side.dataset is self.dataset:
            return chosen
        return np.flatnonzero(np.isin(side.dataset.ids, self.dataset.ids[chosen]))

    def measure(self, path: str, chosen: Indices, side: Side, metric: Metric) -> ModelMetrics:
        """chosen: positions in `dataset`. metric: wanted of each sample.

        Raises Unusable if the model cannot be run.
        """
        measurement = side.measurement
        if measurement.own_loss is not None:
            return self.measure_own_loss(measurement.own_loss, path, chosen, side)
        task = TASKS[measurement.loss]
        loss_of = task.metric("loss").of_samples
        model = InferenceModel(path, measurement, threads=self._threads, classes=side.classes)
        metrics = task.pass_metrics(measurement.signature.target)
        metrics.read(model.metadata)
        counted, kept = [np.empty((2, 0))], []
        for inputs, truth in self.batches(chosen, side):
            output = model.run(inputs)
            metrics.update(output, truth)
            counted.append(np.array([metrics.weights(truth), loss_of(output, truth)]))
            each = (output, truth.copy()) if metric.of_set else (metric.of_samples(output, truth),)
            kept.append(each)
            self.tick(len(truth))
        weights, losses = np.concatenate(counted, axis=1)
        if not len(weights):
            return ModelMetrics({}, np.empty(0))
        ids = side.dataset.ids[self.places(chosen, side)]
        parts = [np.concatenate(arrays) for arrays in zip(*kept, strict=True)]
        mean = {
            "samples": self.dataset.sample_count(chosen),
            "loss": float(by_sample(ids, weights, losses).mean()),
        }
        return ModelMetrics(
            metrics={k: finite_or_none(v) for k, v in {**mean, **metrics.result()}.items()},
            per_sample=(
                metric.of_samples(*parts) if metric.of_set else by_sample(ids, weights, parts[0])
            ),
        )

    def measure_own_loss(
        self, files: OwnLoss, path: str, chosen: Indices, side: Side
    ) -> ModelMetrics:
        """By the loss that the model computes itself. Raises Unusable."""
        model = LossModel(files, Path(path), threads=self._threads)
        losses = [np.empty(0)]
        for inputs, truth in self.batches(chosen, side):
            losses.append(model.of_samples(inputs, truth))
            self.tick(len(truth))
        per_sample = np.concatenate(losses)
        mean = finite_or_none(float(per_sample.mean())) if len(per_sample) else None
        result = {"samples": len(per_sample), "loss": mean} if len(per_sample) else {}
        return ModelMetrics(metrics=result, per_sample=per_sample)

    def _decides_once(self, metric: Metric) -> bool:
        """Whether each sample is either right or wrong."""
        shape = self._measurement.signature.target.shape
        return metric.higher_is_better and metric.figure is None and int(np.prod(shape)) == 1

    def _metric_on(self, chosen: Indices) -> Metric:
        """The gate's, or another that these samples tell. chosen: positions in `dataset`."""
        what = self._measurement
        if what.metric_class is not None:
            return TASKS[what.loss].metric(what.metric, what.signature.target, what.metric_class)
        count = partial(self._count, chosen)
        return TASKS[what.loss].metric_on(count, what.metric, what.signature.target)

    def _interval(self, metric: Metric, ours: PerSample, theirs: PerSample) -> Interval | None:
        if not len(ours) or not np.isfinite(ours - theirs).all():
            return None
        return paired_bootstrap(ours, theirs, metric.figure, metric.of_rows, tick=self.tick)


def _samples(reader: SampleReader, what: Measurement) -> Batches:
    """The validation samples, with those of the base set if it is measured."""
    return reader.read(Split.VALIDATION, watermark=ALL_SAMPLES, base=what.base_set)


def by_sample(ids: Indices, weights: PerSample, scores: PerSample) -> PerSample:
    """Scores of samples, times what counts of each, so that their mean is that of the metric.

    ids: a sample that is several rows, such as a long text, has one score. scores: (rows, …).
    """
    shares = weights / (weights.mean() or 1.0)
    rows: PerSample = (shares * scores.T).T
    listed, which = np.unique(ids, return_inverse=True)
    if len(listed) == len(ids):
        return rows
    added = np.zeros((len(listed), *rows.shape[1:]))
    np.add.at(added, which, rows)
    return added * (len(listed) / len(ids))


def finite_or_none(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by None."""
    return None if isinstance(value, float) and not isfinite(value) else value
