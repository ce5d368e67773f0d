"""Updates: clipped, noised, compressed, and what the compression leaves out is not lost."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from service.training.errors import DeadlinePassed, TooFewSamples
from service.training.protocol.messages.training import LoopState, UpdateTerms
from service.training.updates.compression import read_update, write_update
from service.training.updates.update import (
    clipped,
    norm_of,
    require_enough,
    with_noise,
    with_residual,
)


def update(seed=0):
    draws = np.random.default_rng(seed)
    return {
        "a": draws.standard_normal((64, 128)).astype(np.float32),
        "b": draws.standard_normal(128).astype(np.float32) * 0.01,
        "c": np.zeros(10, np.float32),
    }


def test_a_long_update_is_shortened_as_one_vector():
    given = update()
    norm = norm_of(given)
    made = clipped(given, norm, 1.5)
    assert norm > 80
    assert 1.499 < norm_of(made) <= 1.5
    for name, values in given.items():
        assert np.allclose(made[name], values * (1.5 / norm), rtol=1e-5)


def test_a_short_update_stays_as_it_is():
    given = update()
    assert clipped(given, norm_of(given), 1000.0) is given
    assert clipped(given, norm_of(given), None) is given


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_what_was_left_out_makes_no_update_too_long_but_one_with_noise(tmp_path, noise):
    save_file(update(1), tmp_path / "left")  # as of a round with much noise
    left = str(tmp_path / "left")
    terms = UpdateTerms(
        given="", clip_norm=1.5, noise_multiplier=noise, compression="top_k", residual=left
    )
    norm = norm_of(with_residual(clipped(update(), norm_of(update()), 1.5), terms))
    assert norm > 80 if noise else 1.499 < norm <= 1.5


def test_noise_has_the_deviation_that_was_promised_and_never_comes_again():
    terms = UpdateTerms(given="", clip_norm=0.5, noise_multiplier=3.0)
    nothing = {"a": np.zeros(200_000, np.float32)}
    first, second = (with_noise(nothing, terms)["a"] for _ in range(2))
    assert first.dtype == np.float32
    assert abs(first.std() - 1.5) < 0.02  # 9 standard errors
    assert abs(first.mean()) < 0.03
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("kind", ["none", "int8", "top_k"])
def test_what_is_read_is_what_the_writer_was_told(tmp_path, kind):
    given = update()
    told = write_update(tmp_path / "u", given, kind, share=0.1, facts={"samples": 3})
    read = read_update(tmp_path / "u")
    assert read.keys() == given.keys()
    for name, values in given.items():
        assert read[name].shape == values.shape
        assert np.array_equal(read[name], told[name])
    if kind == "none":
        assert all(np.array_equal(read[name], values) for name, values in given.items())


def test_int8_takes_a_quarter_and_errs_by_half_a_step(tmp_path):
    given = update()
    read = write_update(tmp_path / "int8", given, "int8", share=0.1, facts={})
    write_update(tmp_path / "none", given, "none", share=0.1, facts={})
    assert (tmp_path / "int8").stat().st_size <= 0.27 * (tmp_path / "none").stat().st_size
    for name, values in given.items():
        step = np.abs(values).max() / 127
        assert np.abs(read[name] - values).max() <= step / 2 * 1.001


def test_top_k_keeps_the_largest(tmp_path):
    given = update()
    read = write_update(tmp_path / "u", given, "top_k", share=0.01, facts={})
    flat = np.concatenate([np.abs(given[name]).reshape(-1) for name in sorted(given)])
    kept = np.concatenate([read[name].reshape(-1) for name in sorted(given)])
    assert np.count_nonzero(kept) == int(np.ceil(0.01 * len(flat)))
    assert flat[kept != 0].min() >= flat[kept == 0].max()


@pytest.mark.parametrize(("kind", "worst"), [("int8", 0.001), ("top_k", 0.2)])
def test_with_what_was_left_out_the_sum_of_many_is_right(tmp_path, kind, worst):
    owed = {name: np.zeros_like(values) for name, values in update().items()}
    sent, wanted = owed, owed
    for seed in range(40):
        now = {name: values + 0.3 for name, values in update(seed).items()}
        owed = {name: owed[name] + values for name, values in now.items()}
        told = write_update(tmp_path / "u", owed, kind, share=0.1, facts={})
        owed = {name: values - told[name] for name, values in owed.items()}
        sent = {name: sent[name] + told[name] for name in sent}
        wanted = {name: wanted[name] + now[name] for name in wanted}
    apart = {name: wanted[name] - sent[name] for name in wanted}
    assert norm_of(apart) / norm_of(wanted) < worst


def test_an_update_of_few_samples_or_none_is_not_made():
    terms = UpdateTerms(given="", min_samples=16)
    with pytest.raises(DeadlinePassed, match="before the first step"):
        require_enough(terms, LoopState(), 0)
    with pytest.raises(TooFewSamples, match=r"come from 1 different sample; .* fewer than 16"):
        require_enough(terms, LoopState(step=1), 1)
    require_enough(terms, LoopState(step=1), 16)
