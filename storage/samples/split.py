"""Which part of the samples a sample belongs to when nobody says."""

from __future__ import annotations

from storage.records.samples import Split

# 2**32 / golden ratio: multiples of it, modulo 2**32, spread evenly (Knuth, TAOCP vol. 3, 6.4).
_GOLDEN = 2654435769
_VALIDATION_BELOW = 2**32 // 10


def split_of(sample_id: int) -> Split:
    """One sample in ten is for validation, decided by its id alone and so for ever.

    The id times the golden ratio, as a fraction of one in 32 bits, is below a tenth: any ten
    or so consecutive ids hold one, which a hash would not promise.
    """
    if sample_id * _GOLDEN % 2**32 < _VALIDATION_BELOW:
        return Split.VALIDATION
    return Split.TRAIN
