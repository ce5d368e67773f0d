"""Writes spectra.npz: what librosa and torchaudio make of a signal, for test_spectrum.py.

python make.py    (librosa 0.11.0, torch 2.13.0, torchaudio 2.11.0)
"""

from __future__ import annotations

from pathlib import Path

import librosa
import numpy as np
import torch
import torchaudio.functional

RATE = 16_000
generator = np.random.default_rng(0)
noise = generator.standard_normal(3000) * 0.1
signal = (noise + np.sin(np.arange(3000) ** 1.3 / 40) / 2).astype("f4")


def mel(**options: object) -> np.ndarray:
    made = librosa.feature.melspectrogram(y=signal, sr=RATE, power=2, pad_mode="reflect", **options)
    return made.astype("f8")


def resampled(rate: int, to: int) -> np.ndarray:
    return torchaudio.functional.resample(torch.from_numpy(signal), rate, to).numpy()


htk = mel(
    n_fft=512, win_length=400, hop_length=160, n_mels=40, fmin=20, fmax=7600, htk=True, norm=None
)
slaney = librosa.power_to_db(mel(n_fft=512, hop_length=128, n_mels=40), top_db=None)
begins = mel(n_fft=512, win_length=400, hop_length=160, n_mels=20, center=False)
np.savez_compressed(
    Path(__file__).with_name("spectra.npz"),
    signal=signal,
    htk=np.log(np.maximum(htk, 1e-10)).T,
    mfcc=librosa.feature.mfcc(S=slaney, n_mfcc=13).T,
    begins=librosa.power_to_db(begins, top_db=None).T,
    down=resampled(44_100, 16_000),
    up=resampled(8_000, 16_000),
    odd=resampled(11_025, 8_000),
)
