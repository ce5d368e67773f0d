"""Recordings into tensors: what is checked of them, and what the description promises."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from recordings import PREPROCESS, SHAPE, tone, wav_header, written

from service.preprocess import Unreadable, for_signature, parse
from service.preprocess.audio import Audio
from service.preprocess.checks import WrongDescription
from storage.records.signatures import Signature, TargetSpec, TensorSpec

SPEC = TensorSpec("sound", "float32", SHAPE)


def audio(spec: TensorSpec = SPEC, **given: Any) -> Audio:
    return Audio.parse({**PREPROCESS, **given}, spec)


def test_the_description_has_all_defaults_and_is_read_back_the_same() -> None:
    signature = Signature((SPEC,), TargetSpec("labels", "int64", (), 2))
    (described,) = parse(PREPROCESS, signature)

    assert described["window_size"] == 200
    assert described["hop_size"] == 80
    assert described["fft_size"] == 256
    assert described["mels"] == 16
    assert described["f_max"] == 4000
    assert parse(described, signature) == (described,)
    assert for_signature(signature, [described]).files == audio()


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
def test_a_tone_lies_in_its_band(kind: str) -> None:
    low, high = (audio().decode(written(tone(hertz, 0), kind=kind)) for hertz in (300, 3000))

    assert low.shape == SHAPE
    assert low.dtype == np.float32
    assert low[0].mean(axis=1).argmax() < 4
    assert high[0].mean(axis=1).argmax() > 10


def test_other_rates_and_two_channels_make_nearly_the_same_tensor() -> None:
    plain = audio().decode(written(tone(500, 0, seconds=0.25)))
    signal = tone(500, 0, seconds=0.25, rate=48_000)
    stereo = audio().decode(written(np.stack([signal, signal], axis=1), 48_000))

    band = int(plain[0].mean(axis=1).argmax())
    np.testing.assert_allclose(stereo[0, band, 2:-2], plain[0, band, 2:-2], atol=0.05)


def test_only_the_beginning_of_a_long_recording_counts_and_a_short_one_is_filled_up() -> None:
    long = tone(500, 0, seconds=3)
    assert np.array_equal(audio().decode(written(long)), audio().decode(written(long[:2400])))
    short = audio().decode(written(long[:1000]))
    silence = (np.log(1e-10) + 6) / 4
    np.testing.assert_allclose(short[0, :, 16:], silence, atol=1e-4)
    assert (short[0, :, :8] > silence + 1).all()


def test_a_layout_with_time_first_is_the_transposed_one() -> None:
    data = written(tone(500, 0))
    turned = audio(TensorSpec("sound", "float16", (26, 16)), layout="time_first").decode(data)

    assert turned.dtype == np.float16
    np.testing.assert_allclose(turned, audio().decode(data)[0].T, atol=0.01)


@pytest.mark.parametrize("length", [0x7FFFF000, 2**31, 2**32 - 1])
def test_a_wav_that_was_written_to_a_pipe_is_read_to_its_end(length: int) -> None:
    data = written(tone(500, 0))
    at = data.index(b"data") + 4
    streamed = data[:at] + struct.pack("<I", length) + data[at + 4 :]

    assert audio().check(streamed) == "audio/wav"
    np.testing.assert_array_equal(audio().row(streamed), audio().row(data))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (written(np.zeros((800, 4))), "it has 4 channels; send mono or stereo"),
        (written(np.zeros(800), 4_000), "carries frequencies up to 2000 Hz.* reach 4000 Hz"),
        (written(np.zeros(100)), "it lasts 0.0125 s, less than a window of 0.025 s"),
        (wav_header(size=2**30), "there are 100; send the whole file"),
    ],
)
def test_a_recording_that_does_not_fit_is_refused_by_its_header(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        audio().check(data)
    with pytest.raises(Unreadable, match=reason):
        audio().row(data)


def test_samples_that_are_no_numbers_are_refused() -> None:
    data = written(np.full(800, np.nan), subtype="FLOAT")
    audio().check(data)
    with pytest.raises(Unreadable, match="not finite"):
        audio().row(data)


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"sample_rate": 10**9}, "/sample_rate"),
        ({"hop_size": 0}, "/hop_size"),
        ({"hop_size": 40_000}, "/hop_size"),
        ({"hop_size": 1}, "/padding"),
        ({"window_size": 300, "fft_size": 256}, "/window_size"),
        ({"mels": 20}, "/mels"),
        ({"features": "mfcc", "mels": 8}, "/mels"),
        ({"fft_size": 16, "window_size": 16}, "/mels"),
        ({"f_max": 5000}, "/f_max"),
        ({"std": [0]}, "/std"),
        ({"features": "chroma"}, "/features"),
        ({"layout": "time_first", "mels": 16}, "/mels"),
        ({"tempo": 1}, "/tempo"),
        ({"window": "hamming"}, "/window"),
        ({"augment": {"flip": 0.5}}, "/augment/flip"),
        ({"augment": {"band_masking": 0.5}, "features": "mfcc"}, "/augment/band_masking"),
    ],
)
def test_a_description_that_does_not_fit_names_the_field(
    given: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(WrongDescription) as wrong:
        audio(**given)
    assert wrong.value.pointer == pointer


def test_an_input_of_another_shape_or_type_is_refused() -> None:
    for spec in (TensorSpec("x", "float32", (16,)), TensorSpec("x", "float32", (2, 16, 26))):
        with pytest.raises(WrongDescription, match="with axes of 1 before them"):
            audio(spec)
    with pytest.raises(WrongDescription, match="int64"):
        audio(TensorSpec("x", "int64", SHAPE))


def changed(row: np.ndarray[Any, Any], **given: Any) -> np.ndarray[Any, Any]:
    draw = np.random.default_rng(3)
    made = audio(augment=given).changed(row.reshape(-1).view(np.uint8), draw)
    return made.view(np.float32).reshape(26, -1)


def test_each_augmentation_changes_what_it_says() -> None:
    row = audio().row(written(tone(500, 0))).view(np.float32).reshape(26, 16)

    louder = changed(row, gain=6) - row
    np.testing.assert_allclose(louder, louder[0, 0], atol=1e-5)
    assert 0 < abs(louder[0, 0]) <= 6 * np.log(10) / 10
    moved = changed(row, shift=0.5)
    assert any(np.array_equal(moved[k:], row[:-k]) for k in range(1, 14)) or any(
        np.array_equal(moved[:-k], row[k:]) for k in range(1, 14)
    )
    assert 0.5 < (changed(row, jitter=0.2) - row).std() / (0.2 * 4) < 2
    masked = changed(row, masking=1)
    assert 1 < (masked == row.mean(axis=0)).all(axis=1).sum() < 26
    bands = changed(row, band_masking=1)
    assert 1 <= (bands == row.mean(axis=0)).all(axis=0).sum() < 16


def test_a_gain_moves_the_first_cosine_of_mfccs_alone() -> None:
    given = {"features": "mfcc", "mels": 40, "augment": {"gain": 6}}
    kind = audio(**given)
    quiet, loud = (written(tone(500, 0) * factor, subtype="FLOAT") for factor in (1.0, 2.0))
    wanted = (kind.row(loud).view("f4") - kind.row(quiet).view("f4")).reshape(26, 16)
    made = kind.changed(kind.row(quiet), np.random.default_rng(1)).view("f4").reshape(26, 16)
    difference = made - kind.row(quiet).view("f4").reshape(26, 16)

    np.testing.assert_allclose(wanted[:, 1:], 0, atol=1e-3)
    np.testing.assert_allclose(difference[:, 1:], 0, atol=1e-5)
    louder_db = np.random.default_rng(1).random(2)[1] * 12 - 6
    np.testing.assert_allclose(
        difference[:, 0] / wanted[:, 0], louder_db / (20 * np.log10(2)), rtol=1e-3
    )


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_recordings_are_decoded_where_no_memory_may_be_written_and_run() -> None:
    program = (
        "import ctypes, sys\n"
        "PR_SET_MDWE, EXEC_GAIN = 65, 1\n"
        "if ctypes.CDLL(None).prctl(PR_SET_MDWE, EXEC_GAIN, 0, 0, 0): sys.exit(3)\n"
        "from service.preprocess.decoding import decode\n"
        "sys.stdout.write(str(len(decode(sys.stdin.buffer.read(), 10**6))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        input=written(tone(500, 0)),
        capture_output=True,
    )
    if done.returncode == 3:
        pytest.skip("the kernel has no PR_SET_MDWE")
    assert done.stdout == b"2400", done.stderr.decode()


def test_checking_uploads_loads_no_decoder() -> None:
    program = (
        "import sys\n"
        "from service.preprocess.kinds import KINDS\n"
        "from storage.records.signatures import TensorSpec\n"
        "spec = TensorSpec('sound', 'float32', (1, 16, 26))\n"
        "kind = KINDS['audio'].parse({'sample_rate': 8000, 'kind': 'audio'}, spec)\n"
        "kind.check(sys.stdin.buffer.read())\n"
        "sys.exit('soundfile' in sys.modules)\n"
    )
    data = written(tone(500, 0), kind="FLAC")
    assert subprocess.run([sys.executable, "-c", program], check=False, input=data).returncode == 0
