"""Headers of recordings: what they say, and what is refused before any decoder sees it."""

from __future__ import annotations

import time

import numpy as np
import pytest
from recordings import tone, wav_header, written

from service.preprocess.kind import Unreadable
from service.preprocess.recordings import FLAC, WAV, AudioHeader, read_header


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "FLOAT", "DOUBLE", "ULAW"])
def test_a_wav_says_what_it_holds(subtype: str) -> None:
    data = written(np.zeros((50, 2)), 22_050, subtype=subtype)
    assert read_header(data) == AudioHeader(WAV, 22_050, 2, 50)


def test_a_wav_of_the_extensible_form_is_read() -> None:
    assert read_header(written(np.zeros(9), kind="WAVEX")).frames == 9


@pytest.mark.parametrize("samples", [1, 100, 4096, 4097, 40_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_flac_is_whole_or_cut_short_wherever_it_is_cut(samples: int, channels: int) -> None:
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (samples, channels))
    data = written(noise, 44_100, kind="FLAC")

    assert read_header(data) == AudioHeader(FLAC, 44_100, channels, samples)
    assert read_header(data + b"TAG" + bytes(125)).frames == samples
    for end in np.linspace(4, len(data) - 1, 40).astype(int).tolist():
        with pytest.raises(Unreadable, match="send the whole file"):
            read_header(data[:end])


def test_a_changed_last_frame_of_a_flac_is_found() -> None:
    data = bytearray(written(tone(440, 0), kind="FLAC"))
    data[-20] ^= 1
    with pytest.raises(Unreadable, match="it ends before the 2400 samples of its header"):
        read_header(bytes(data))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is no WAV or FLAC; convert it"),
        (b"OggS" + bytes(100), "it is no WAV or FLAC"),
        (written(np.zeros(0)), "it is empty"),
        (written(np.zeros(100))[:-50], "its header tells of 200 bytes, there are 150"),
        (wav_header(size=2**30), "its header tells of 1073741824 bytes, there are 100"),
        (wav_header(rate=2**32 - 1), "its sample rate is 4294967295 Hz"),
        (wav_header(rate=1), "its sample rate is 1 Hz; send one from 1000 to 384000"),
        (wav_header(channels=0), "0 channels"),
        (wav_header(bits=12), "coding 1 of 12 bits"),
        (wav_header()[:30], "it is cut short"),
        (b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 2000, "within its first 1000 chunks"),
        (b"RIFF\0\0\0\0WAVEdata\x04\0\0\0abcd", "its format is missing"),
    ],
)
def test_a_header_that_lies_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read_header(data)


def test_a_flac_full_of_sync_codes_is_refused_in_linear_time() -> None:
    data = written(tone(440, 0), kind="FLAC")
    hostile = data[: data.index(b"\xff\xf8")] + b"\xff\xf8" * 2**17
    began = time.process_time()
    with pytest.raises(Unreadable, match="it ends before"):
        read_header(hostile)
    assert time.process_time() - began < 1  # 12 s once, by searching all of it for each
