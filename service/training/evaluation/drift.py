"""Carries out the task `Drift`: whether recent inputs have the distribution of training inputs."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from service.training.data.batches import BATCH_SIZE, Batches
from service.training.data.samples import SampleReader
from service.training.engine import Array
from service.training.protocol.messages.comparison import Drift, Drifted, FeatureDrift
from service.training.protocol.messages.shared import Measurement
from service.training.protocol.pipe import Heartbeat, Pipe
from service.training.tasks import TASKS
from storage.readonly.sample_index import read_newest, read_sample_index
from storage.records.samples import Split

if TYPE_CHECKING:
    from service.training.evaluation.anomalies import Alarms

TRAINING, RECENT = 1000, 300
"""Number of samples compared: training samples, evenly spread, and the newest samples since."""
MIN_SAMPLES = 30
MAX_FEATURES = 64
"""Samples with more numbers are compared by a few summary figures."""
FIGURES = ("mean", "deviation", "change")
THRESHOLD = 0.25
"""A PSI above it is a large shift. Source: Siddiqi (2006), Credit Risk Scorecards."""
CHANCE = 0.001
"""Probability that chance alone makes any feature of a model seem drifted."""
TOLD = 20

Values = NDArray[np.float64]


def drift(task: Drift, pipe: Pipe) -> Drifted:
    """Raises Interrupted if the parent ends it."""
    tick = Heartbeat(pipe)
    what = task.measurement
    reader = SampleReader(what, threads=task.limits.threads, tick=tick, model=task.model)
    return drift_of(what, reader, watermark=task.watermark, tick=tick, version=task.model)


def drift_of(
    what: Measurement, reader: SampleReader, *, watermark: int, tick: Heartbeat, version: str | None
) -> Drifted:
    """watermark: of the job that made the version; later samples are recent. version: its file,
    None if it is of another base, so that its scores are not compared.
    """
    database, packs = Path(what.database), Path(what.packs)
    target = reader.target
    seen = read_sample_index(
        database,
        packs,
        model_id=what.model_id,
        split=Split.TRAIN,
        watermark=watermark,
        target=target,
    )
    spread = np.unique(np.linspace(0, max(0, len(seen.ids) - 1), TRAINING).astype(np.int64))
    chosen = reader.open(seen.only(np.isin(np.arange(len(seen.ids)), spread)))
    training = _figures(chosen, what, tick)
    both = [
        read_newest(
            database,
            packs,
            model_id=what.model_id,
            newest=RECENT,
            target=target,
            labelled=labelled,
            splits=(Split.TRAIN, Split.VALIDATION),
        )
        for labelled in (True, False)
    ]
    after = np.sort(np.concatenate([index.ids[index.ids > watermark] for index in both]))[-RECENT:]
    opened = [reader.open(side.only(np.isin(side.ids, after))) for side in both]
    parts = [_figures(samples, what, tick) for samples in opened]
    recent = {name: np.concatenate([part[name] for part in parts]) for name in training}
    summed_up = [spec.name for spec in what.signature.inputs if prod(spec.shape) > MAX_FEATURES]
    if version is None or not TASKS[what.loss].tells_scores:
        return compare(training, recent, summed_up)
    from service.training.evaluation.anomalies import alarms_of

    alarms = alarms_of(version, what, opened, threads=reader.threads, tick=tick)
    return compare(training, recent, summed_up, alarms)


def compare(
    training: dict[str, Values],
    recent: dict[str, Values],
    summed_up: Collection[str] = (),
    alarms: Alarms | None = None,
) -> Drifted:
    """training, recent: figures of each input by its name, (samples, features).

    summed_up: inputs of too many numbers, of which FIGURES are compared. alarms: of a model whose
    predictions are scores.
    """
    before, now = (len(next(iter(side.values()))) for side in (training, recent))
    counts = Drifted(training_samples=before, recent_samples=now, features=())
    if min(before, now) < MIN_SAMPLES:
        return counts
    total = sum(values.shape[1] for values in training.values())
    features = [
        _compared(
            name,
            feature,
            values[:, feature],
            recent[name][:, feature],
            features=total,
            figure=FIGURES[feature] if name in summed_up else None,
        )
        for name, values in training.items()
        for feature in range(values.shape[1])
    ]
    if alarms is not None:
        features.append(_of_threshold(alarms, features=total))
    features.sort(key=lambda feature: feature.psi / feature.limit, reverse=True)
    drifted = sum(feature.psi > feature.limit for feature in features)
    return replace(counts, features=tuple(features[:TOLD]), compared=len(features), drifted=drifted)


def _compared(
    name: str, feature: int, before: Values, now: Values, *, features: int, figure: str | None
) -> FeatureDrift:
    index, bins = psi(before, now)
    return FeatureDrift(
        input=name,
        feature=feature,
        figure=figure,
        psi=index,
        limit=_limit(bins, (len(before), len(now)), features),
        training_mean=float(before.mean()),
        recent_mean=float(now.mean()),
    )


def _of_threshold(alarms: Alarms, *, features: int) -> FeatureDrift:
    """The share of recent scores above the version's threshold, beside the declared one."""
    rate, count = alarms.version.false_alarm_rate, alarms.version.threshold_samples
    expected, above = np.array([1 - rate, rate]) * count, alarms.is_above
    return FeatureDrift(
        input="score",
        feature=0,
        figure="above the threshold",
        psi=stability(expected, np.bincount(above, minlength=2)),
        limit=_limit(2, (count, len(above)), features),
        training_mean=rate,
        recent_mean=float(above.mean()),
    )


def _limit(bins: int, samples: tuple[int, int], features: int) -> float:
    """What an index exceeds by a large shift alone, and hardly ever by chance."""
    chance = chi_squared(bins - 1, CHANCE / features) * sum(1 / count for count in samples)
    return max(THRESHOLD, chance)


def psi(before: Values, now: Values) -> tuple[float, int]:
    """The population stability index, and its number of bins: deciles of `before`, and beyond.

    Half a sample is added to each bin, so that no empty bin gives infinity. Without a shift, it is
    distributed as chi-squared of bins - 1, times 1/len(before) + 1/len(now). Sources: Siddiqi
    (2006); Yurdakul (2018), Statistical Properties of Population Stability Index.
    """
    deciles = np.quantile(before, np.arange(1, 10) / 10)
    ends = before.min(), np.nextafter(before.max(), np.inf)
    edges = np.unique([*ends, *deciles])
    bins = len(edges) + 1
    counts = [
        np.bincount(np.searchsorted(edges, values, side="right"), minlength=bins)
        for values in (before, now)
    ]
    return stability(*counts), bins


def stability(before: NDArray[Any], now: NDArray[Any]) -> float:
    """The index of these counts by bin."""
    expected, actual = ((counts + 0.5) / (counts + 0.5).sum() for counts in (before, now))
    return float(((actual - expected) * np.log(actual / expected)).sum())


def chi_squared(freedom: int, p: float) -> float:
    """The value that chi-squared exceeds with probability p. Source: Wilson, Hilferty (1931)."""
    ninth = 2 / (9 * freedom)
    return float(freedom * (1 - ninth + NormalDist().inv_cdf(1 - p) * ninth**0.5) ** 3)


def _figures(samples: Batches, what: Measurement, tick: Heartbeat) -> dict[str, Values]:
    by_input: list[list[Values]] = [[] for _ in what.signature.inputs]
    for start in range(0, len(samples), BATCH_SIZE):
        chosen = np.arange(start, min(start + BATCH_SIZE, len(samples)))
        # Not by batches: those of texts differ in their number of figures.
        for values, histograms in zip(samples.inputs(chosen), by_input, strict=True):
            histograms.append(figures(values))
        tick(len(chosen))
    return {
        spec.name: np.concatenate([figures(np.empty((0, *spec.shape))), *by_input[place]])
        for place, spec in enumerate(what.signature.inputs)
    }


def figures(rows: Array) -> Values:
    """(n, features): the numbers themselves, or FIGURES of each row if there are too many.

    change: the mean absolute difference of neighbours on the last axis.
    """
    flat = rows.reshape(len(rows), prod(rows.shape[1:])).astype(np.float64)
    if flat.shape[1] <= MAX_FEATURES:
        return flat
    beside = np.abs(np.diff(rows.astype(np.float64), axis=-1))
    change = beside.mean(axis=tuple(range(1, rows.ndim))) if rows.shape[-1] > 1 else 0 * flat[:, 0]
    return np.stack([flat.mean(axis=1), flat.std(axis=1), change], axis=1)
