"""Anomalies: the threshold of scores, and how rare false alarms are with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from service.training.data.batches import BATCH_SIZE, Batches
from service.training.engine import Engine
from service.training.evaluation.inference import InferenceModel
from service.training.protocol.messages.shared import Measurement
from service.training.tasks.reconstruction import ANOMALOUS, ScoreThreshold, is_anomalous, scores
from service.training.tasks.task import PerSample
from storage.errors import counted


def calibrate(normal: PerSample, rate: float) -> ScoreThreshold | None:
    """The threshold that a new normal sample exceeds with at most this probability.

    normal: scores of normal samples that no job trains on; None without any. With fewer than
    1/rate - 1 no score is that high, and the threshold is the highest. Source: Laxhammar, Falkman
    (2010), Conformal Prediction for Distribution-Independent Anomaly Detection.
    """
    count = len(normal)
    if not count:
        return None
    place = min(count, ceil((count + 1) * (1 - rate) - 1e-9))
    return ScoreThreshold(float(np.sort(normal)[place - 1]), rate, count)


def calibrate_on(
    engine: Engine, samples: Batches, rate: float, *, tick: Callable[[], None]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of `ScoreThreshold` by the normal ones of these samples, none without any; and
    warnings for people. tick runs between batches.
    """
    parts = [np.empty(0)]
    for inputs, target in samples.batches(np.arange(len(samples)), batch_size=BATCH_SIZE):
        _, output = engine.evaluate(inputs, target)
        parts.append(scores(output, target)[~is_anomalous(target)])
        tick()
    normal = np.concatenate(parts)
    wanted = ceil(1 / rate - 1 - 1e-9)
    warnings: tuple[str, ...] = ()
    if len(normal) < wanted:
        warnings = (
            f"{counted(len(normal), 'normal validation sample')}, too few for a false_alarm_rate "
            f"of {rate:g}, which takes {wanted}: alarms will be more frequent",
        )
    calibration = calibrate(normal, rate)
    return {} if calibration is None else asdict(calibration), warnings


class Alarms(Struct, frozen=True):
    """What a version's threshold says of recent samples. is_above: (samples,), of each score."""

    version: ScoreThreshold
    is_above: NDArray[np.bool_]


def alarms_of(
    path: str,
    what: Measurement,
    recent: Sequence[Batches],
    *,
    threads: int,
    tick: Callable[[int], None],
) -> Alarms | None:
    """None for a version without a threshold. path: its file. recent: without their anomalous ones.

    Raises Unusable.
    """
    model = InferenceModel(path, what, threads=threads)
    version, parts = ScoreThreshold.of_file(model.metadata), [np.empty(0)]
    if version is None:
        return None
    for samples in recent:
        chosen = np.flatnonzero(samples.labels != ANOMALOUS)
        for inputs, target in samples.batches(chosen, batch_size=BATCH_SIZE):
            parts.append(scores(model.run(inputs), target))
            tick(len(target))
    joined = np.concatenate(parts)
    return Alarms(version, joined > version.threshold) if len(joined) else None
