"""Augmentations of recordings: of their log-mel bands or MFCCs, before normalization.

Source: Park et al. (2019), SpecAugment, for both maskings.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from service.preprocess.augmentation.family import Amount, Family
from service.preprocess.augmentation.series import shifted, stretch
from service.preprocess.checks import WrongDescription
from storage.arrays import NDArray

Floats: TypeAlias = "NDArray[np.float32]"


class AudioAugmentation(Family, frozen=True):
    """In this order: shift, gain, jitter, masking, band masking."""

    kind: ClassVar[str] = "audio"

    shift: Annotated[
        float, Amount("shift in time by up to this share of the length", 0, 0.5, True)
    ] = 0
    gain: Annotated[float, Amount("louder or quieter by up to so many decibels", 0, 40)] = 0
    jitter: Annotated[float, Amount("standard deviation of noise that is added", 0, 10)] = 0
    masking: Annotated[
        float, Amount("set a stretch of up to this share of the length to the mean")
    ] = 0
    band_masking: Annotated[
        float, Amount("set neighbouring bands, up to this share of them, to the mean")
    ] = 0

    def check(self, *, has_bands: bool) -> None:
        """Raises WrongDescription for band masks if there are no bands."""
        if self.band_masking and not has_bands:
            detail = "MFCCs are no bands, and their neighbours are not alike; leave it out, or take"
            raise WrongDescription("/augment/band_masking", f"{detail} features log_mel")

    def apply(
        self,
        frames: Floats,
        draw: np.random.Generator,
        *,
        decibel: NDArray[np.float64],
        std: Floats,
    ) -> None:
        """Change (frames, bands) in place.

        decibel: what one decibel adds to each band. std: of each band; jitter is relative to it.
        """
        by, loud, begin, share, low, wide = draw.random(6).tolist()
        if self.shift:
            frames[:] = shifted(frames, round((2 * by - 1) * self.shift * len(frames)))
        if self.gain:
            frames += ((2 * loud - 1) * self.gain * decibel).astype(np.float32)
        if self.jitter:
            frames += self.jitter * std * draw.standard_normal(frames.shape, np.float32)
        if self.masking:
            frames[stretch(begin, share * self.masking, len(frames))] = frames.mean(axis=0)
        if self.band_masking:
            bands = stretch(low, wide * self.band_masking, frames.shape[1])
            frames[:, bands] = frames[:, bands].mean(axis=0)
