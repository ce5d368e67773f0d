"""The update of a round: trained parameters minus the given ones, made ready to leave.

In this order, so that the noise covers everything that leaves: the difference of all parameters is
clipped as one vector, Gaussian noise is added, and only then is it compressed. McMahan et al.
(2018), Learning Differentially Private Recurrent Language Models, with the noise added by the
device.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from service.training.checkpoints import flush
from service.training.data.batches import Batches
from service.training.data.sampler import Sampler
from service.training.engine import Engine
from service.training.engines import checkpoint
from service.training.errors import DeadlinePassed, LossNotFinite, TooFewSamples
from service.training.protocol.messages.training import LoopState, Train, Updated, UpdateTerms
from service.training.schedule import Ending
from service.training.updates.compression import write_update
from storage.errors import counted
from storage.readonly.sample_index import count_different

ROUNDING = 1e-6
"""Relative margin of a clipped norm below its bound: float32 rounds both."""

Floats = NDArray[np.float32]


def make_update(
    task: Train,
    engine: Engine,
    state: LoopState,
    *,
    samples: int,
    validation: dict[str, Any],
    reason: Ending,
) -> Updated:
    """Write the update, and its compression's residual. samples: as `samples_behind` counts them.

    Raises DeadlinePassed if nothing was trained, TooFewSamples, LossNotFinite.
    """
    terms = task.update
    assert terms is not None
    require_enough(terms, state, samples)
    folder = Path(task.work_dir)
    difference = _difference(engine, terms, folder)
    norm = norm_of(difference)
    if not np.isfinite(norm):
        raise LossNotFinite("the parameters are not finite any more; try a lower learning_rate")
    noised = with_noise(clipped(difference, norm, terms.clip_norm), terms)
    path = folder / f"update-{secrets.token_hex(4)}.safetensors"
    owed, sent = _written(path, with_residual(noised, terms), terms, samples)
    return Updated(
        path=str(path),
        residual=_keep_residual(folder, owed, sent, terms),
        samples=samples,
        step=state.step,
        norm=norm,
        sent_norm=norm_of(sent),
        raw_bytes=sum(tensor.nbytes for tensor in difference.values()),
        train_loss=state.loss_sum / state.loss_count if state.loss_count else None,
        validation=validation,
        baseline=state.baseline,
        reason=reason,
    )


def norm_of(tensors: Mapping[str, Floats]) -> float:
    """The Euclidean norm of all tensors as one vector."""
    return sqrt(sum(float(np.square(part, dtype=np.float64).sum()) for part in tensors.values()))


def clipped(
    tensors: Mapping[str, Floats], norm: float, clip_norm: float | None
) -> Mapping[str, Floats]:
    """Scaled down to clip_norm if the norm is larger."""
    if clip_norm is None or norm <= clip_norm:
        return tensors
    factor = np.float32(clip_norm / norm * (1 - ROUNDING))
    return {name: tensor * factor for name, tensor in tensors.items()}


def with_noise(tensors: Mapping[str, Floats], terms: UpdateTerms) -> Mapping[str, Floats]:
    """With independent Gaussian noise for each number, which no job's seed reproduces."""
    if not terms.noise_multiplier:
        return tensors
    assert terms.clip_norm is not None
    generator = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    deviation = terms.noise_multiplier * terms.clip_norm
    return {
        name: (tensor + generator.normal(0, deviation, tensor.shape)).astype(np.float32)
        for name, tensor in tensors.items()
    }


def with_residual(update: Mapping[str, Floats], terms: UpdateTerms) -> Mapping[str, Floats]:
    """With the last compression's residual, unless the parameters have changed since; without
    noise clipped again, as the residual may be long.
    """
    if terms.compression == "none" or terms.residual is None:
        return update
    left = checkpoint.read(Path(terms.residual))
    if {name: tensor.shape for name, tensor in left.items()} != {
        name: tensor.shape for name, tensor in update.items()
    }:
        return update
    whole = {name: tensor + left[name] for name, tensor in update.items()}
    return whole if terms.noise_multiplier else clipped(whole, norm_of(whole), terms.clip_norm)


def samples_behind(task: Train, dataset: Batches, sampler: Sampler, state: LoopState) -> int:
    """How many different samples the steps have used: equal ones count once, of weight 0 none."""
    wanted = task.hyperparameters
    per_step = wanted.batch_size * wanted.accumulation_steps
    used, steps, epoch = np.zeros(len(dataset), bool), state.step, 0
    while steps > 0 and not used[sampler.own].all():
        used[sampler.epoch(epoch, seed=wanted.seed)[: steps * per_step]] = True
        steps -= ceil(len(sampler) / per_step)
        epoch += 1
    return count_different(Path(task.database), dataset.ids[used])


def require_enough(terms: UpdateTerms, state: LoopState, seen: int) -> None:
    """Raises DeadlinePassed, TooFewSamples."""
    if state.step == 0:
        raise DeadlinePassed("the deadline passed before the first step; nothing was trained")
    if seen < terms.min_samples:
        raise TooFewSamples(
            f"the update would come from {counted(seen, 'different sample')}; the device lets "
            f"no update leave of fewer than {terms.min_samples} (min_samples)"
        )


def _difference(engine: Engine, terms: UpdateTerms, folder: Path) -> dict[str, Floats]:
    path = folder / "trained.checkpoint"
    engine.save(path)
    start = checkpoint.read(Path(terms.given))
    names = checkpoint.measured_names(path, start)
    trained = checkpoint.read(path, names.values())
    return {name: trained[names[name]] - start[name] for name in names}


def _written(
    path: Path, owed: Mapping[str, Floats], terms: UpdateTerms, samples: int
) -> tuple[Mapping[str, Floats], Mapping[str, Floats]]:
    """The update as it is owed and as it was written, which rounding to int8 makes longer: without
    noise both are clipped again.
    """
    facts = {"samples": samples}
    sent = write_update(path, owed, terms.compression, share=terms.share, facts=facts)
    longest = None if terms.noise_multiplier else terms.clip_norm
    if (shorter := clipped(owed, norm_of(sent), longest)) is not owed:
        return _written(path, shorter, terms, samples)
    flush(path)
    return owed, sent


def _keep_residual(
    folder: Path, owed: Mapping[str, Floats], sent: Mapping[str, Floats], terms: UpdateTerms
) -> str | None:
    if terms.compression == "none":
        return None
    path = folder / f"residual-{secrets.token_hex(4)}.safetensors"
    save_file({name: tensor - sent[name] for name, tensor in owed.items()}, path)
    flush(path)
    return str(path)
