"""Resampling, mel spectra and MFCCs, in numpy.

Checked against torchaudio and librosa: tests/service/preprocess/reference/make.py.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct

from storage.arrays import NDArray

Floats: TypeAlias = "NDArray[np.float64]"
Scale = Literal["htk", "slaney"]

FLOOR = 1e-10
"""The minimum power for logarithms: -100 dB."""
ZEROS, ROLLOFF = 6, 0.99
"""Zero crossings of the sinc on each side, and the cut-off as a share of the lower Nyquist rate."""
OUTPUTS_AT_ONCE = 1 << 14
VALUES_AT_ONCE = 1 << 20
SLANEY_STEP, SLANEY_BREAK, SLANEY_LOG = 200 / 3, 1000.0, math.log(6.4) / 27


class Spectrum(Struct, frozen=True):
    """The parameters of a spectrum. Sizes in samples, frequencies in Hz.

    coefficients: of an MFCC; None for log-mel bands. log: `natural`, to the base e, or `decibel`.
    padding: with `reflect`, frame t is centred on sample t * hop_size, with the signal mirrored
    beyond its ends; with `none` it begins there. mel_norm: `slaney`, by area, or `none`.
    """

    sample_rate: int
    fft_size: int
    window_size: int
    hop_size: int
    mels: int
    f_min: float
    f_max: float
    mel_scale: Scale
    mel_norm: str
    log: str
    padding: str
    coefficients: int | None = None

    def frames(self, signal: NDArray[np.float32]) -> Floats:
        """(frames, bands). signal: (samples,) at sample_rate."""
        if self.padding == "reflect":
            signal = np.pad(signal, self.fft_size // 2, mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(signal, self.fft_size)[:: self.hop_size]
        window, bank = self._window(), self.bank()
        energies = np.empty((len(windows), self.mels))
        step = max(1, VALUES_AT_ONCE // self.fft_size)
        for start in range(0, len(windows), step):
            spectrum = np.fft.rfft(windows[start : start + step] * window, axis=1)
            power = spectrum.real**2 + spectrum.imag**2
            energies[start : start + step] = power @ bank
        logs: Floats = np.log(np.maximum(energies, FLOOR))
        if self.log == "decibel":
            logs *= 10 / np.log(10)
        return logs if self.coefficients is None else logs @ cosines(self.mels, self.coefficients)

    def bank(self) -> Floats:
        """(bins, mels): the weight of each bin in each band; triangles on the mel scale.

        Source: Davis, Mermelstein (1980). Area norm: 2 / width of the band, as in Slaney (1998).
        """
        bins = np.linspace(0, self.sample_rate / 2, self.fft_size // 2 + 1)
        low, high = to_mel(np.array([self.f_min, self.f_max]), self.mel_scale)
        edges = to_hertz(np.linspace(low, high, self.mels + 2), self.mel_scale)
        widths = np.diff(edges)
        apart = edges[None, :] - bins[:, None]
        rising, falling = -apart[:, :-2] / widths[:-1], apart[:, 2:] / widths[1:]
        bank: Floats = np.maximum(0.0, np.minimum(rising, falling))
        if self.mel_norm == "slaney":
            bank *= 2 / (edges[2:] - edges[:-2])
        return bank

    def _window(self) -> Floats:
        """A periodic Hann window in the middle of a frame."""
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.window_size) / self.window_size)
        before = (self.fft_size - self.window_size) // 2
        return np.pad(hann, (before, self.fft_size - self.window_size - before))


def to_mel(hertz: Floats, scale: Scale) -> Floats:
    """Source: HTK Book, 5.4; Slaney (1998), Auditory Toolbox: linear up to 1 kHz."""
    if scale == "htk":
        return np.asarray(2595 * np.log10(1 + hertz / 700))
    above = SLANEY_BREAK / SLANEY_STEP
    with np.errstate(divide="ignore"):
        logs = above + np.log(hertz / SLANEY_BREAK) / SLANEY_LOG
    return np.where(hertz < SLANEY_BREAK, hertz / SLANEY_STEP, logs)


def to_hertz(mels: Floats, scale: Scale) -> Floats:
    """The inverse of `to_mel`."""
    if scale == "htk":
        return np.asarray(700 * (10 ** (mels / 2595) - 1))
    above = SLANEY_BREAK / SLANEY_STEP
    logs = SLANEY_BREAK * np.exp(SLANEY_LOG * (mels - above))
    return np.where(mels < above, mels * SLANEY_STEP, logs)


def cosines(mels: int, coefficients: int) -> Floats:
    """(mels, coefficients): the orthonormal DCT-II. Source: Ahmed, Natarajan, Rao (1974)."""
    angles = np.pi / mels * (np.arange(mels)[:, None] + 0.5) * np.arange(coefficients)
    matrix: Floats = np.cos(angles) * np.sqrt(2 / mels)
    matrix[:, 0] /= np.sqrt(2)
    return matrix


def resample(signal: NDArray[Any], rate: int, to: int, *, samples: int) -> NDArray[np.float32]:
    """The first `samples` samples at rate `to`; the signal is zero beyond its ends.

    A Hann-windowed sinc, the default of torchaudio.functional.resample. Memory does not
    depend on the rates' ratio. Source: Smith, Digital Audio Resampling.
    """
    resampled = np.zeros(samples, np.float32)
    count = min(samples, -(-len(signal) * to // rate))
    if rate == to:
        resampled[:count] = signal[:count]
        return resampled
    cutoff = min(rate, to) * ROLLOFF
    reach = int(np.ceil(ZEROS * rate / cutoff))
    padded = np.pad(signal.astype(np.float64), (reach, reach + 1))
    around = np.arange(-reach, reach + 1)
    step = max(1, min(OUTPUTS_AT_ONCE, VALUES_AT_ONCE // len(around)))
    for start in range(0, count, step):
        at = np.arange(start, min(start + step, count), dtype=np.int64) * rate
        middle, rest = np.divmod(at, to)
        times = (around[None, :] - rest[:, None] / to) * (cutoff / rate)
        clipped = times.clip(-ZEROS, ZEROS)
        weights = np.sinc(clipped) * np.cos(clipped * (np.pi / ZEROS / 2)) ** 2 * (cutoff / rate)
        values = padded[middle[:, None] + reach + around[None, :]]
        resampled[start : start + len(at)] = np.einsum("ij,ij->i", values, weights)
    return resampled
