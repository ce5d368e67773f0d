"""Decodes recordings with libsndfile, only in children: imports soundfile."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from service.preprocess.kind import Unreadable

FRAMES_AT_ONCE = 1 << 16


def decode(data: bytes, most: int) -> NDArray[np.float32]:
    """The first `most` samples, from -1 to 1, the mean of the channels; fewer if there are fewer.

    Raises Unreadable, MemoryError.
    """
    try:
        with _opened(data) as source, soundfile.SoundFile(source, closefd=False) as file:
            blocks = []
            left = most
            while left > 0:
                block = file.read(min(left, FRAMES_AT_ONCE), dtype="float32", always_2d=True)
                if not len(block):
                    break
                blocks.append(block.mean(axis=1, dtype=np.float32))
                left -= len(block)
            return np.concatenate(blocks) if blocks else np.empty(0, np.float32)
    except (soundfile.SoundFileError, RuntimeError, ValueError) as error:
        raise Unreadable(f"it cannot be decoded: {error}; it may be damaged") from error


@contextmanager
def _opened(data: bytes) -> Iterator[Any]:
    """The source that libsndfile reads from.

    A file in memory where the system has them: soundfile reads Python objects through callbacks,
    which need writable and executable memory, and systemd's MemoryDenyWriteExecute forbids that.
    """
    if not hasattr(os, "memfd_create"):
        yield io.BytesIO(data)
        return
    descriptor = os.memfd_create("recording")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
