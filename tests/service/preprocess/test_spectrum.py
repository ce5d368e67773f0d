"""Spectra and resampling against librosa's and torchaudio's figures (reference/make.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from service.preprocess import spectrum as module
from service.preprocess.spectrum import Spectrum, resample

REFERENCE = np.load(Path(__file__).parent / "reference" / "spectra.npz")
SIGNAL = REFERENCE["signal"]
BASE = Spectrum(
    sample_rate=16_000,
    fft_size=512,
    window_size=400,
    hop_size=160,
    mels=40,
    f_min=20,
    f_max=7600,
    mel_scale="htk",
    mel_norm="none",
    log="natural",
    padding="reflect",
)
SLANEY = replace(BASE, mel_scale="slaney", mel_norm="slaney", log="decibel", f_min=0, f_max=8000)


@pytest.mark.parametrize(
    ("name", "spectrum"),
    [
        ("htk", BASE),
        ("mfcc", replace(SLANEY, window_size=512, hop_size=128, coefficients=13)),
        ("begins", replace(SLANEY, mels=20, padding="none")),
    ],
)
def test_frames_are_those_of_librosa(name: str, spectrum: Spectrum) -> None:
    made = spectrum.frames(SIGNAL)

    assert made.shape == REFERENCE[name].shape
    np.testing.assert_allclose(made, REFERENCE[name], atol=2e-4)


@pytest.mark.parametrize(
    ("name", "rate", "to"),
    [("down", 44_100, 16_000), ("up", 8_000, 16_000), ("odd", 11_025, 8_000)],
)
def test_resampled_signals_are_those_of_torchaudio(name: str, rate: int, to: int) -> None:
    wanted = REFERENCE[name]

    np.testing.assert_allclose(resample(SIGNAL, rate, to, samples=len(wanted)), wanted, atol=5e-5)


def test_a_signal_is_cut_at_the_end_and_filled_up_with_zeros() -> None:
    assert resample(SIGNAL, 16_000, 16_000, samples=5).tolist() == SIGNAL[:5].tolist()
    longer = resample(SIGNAL, 16_000, 8_000, samples=1600)
    assert not longer[1500:].any()
    assert longer[1499] != 0


def test_small_pieces_make_what_large_ones_make(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> list[Any]:
        return [BASE.frames(SIGNAL), resample(SIGNAL, 44_100, 16_000, samples=1089)]

    whole = made()
    monkeypatch.setattr(module, "VALUES_AT_ONCE", 1024)

    for one, other in zip(made(), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
