"""Kind `audio`: WAV or FLAC into log-mel bands or MFCCs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import asdict

from service.preprocess.augmentation.audio import AudioAugmentation
from service.preprocess.augmentation.family import augment_field
from service.preprocess.checks import WrongDescription, chosen, is_number, numbers
from service.preprocess.kind import FileKind, Normalize, Row, Unreadable
from service.preprocess.recordings import AudioHeader, read_header
from service.preprocess.spectrum import Spectrum, resample
from storage.arrays import NDArray
from storage.database.codec import dump
from storage.records.signatures import TensorSpec

FIXED = {"channels": "mean", "resample": "sinc_interp_hann", "window": "hann", "power": 2}
FIXED |= {"floor": 1e-10, "fit": "start", "fill": 0}
"""The fixed parts, so that an app can do the same: see docs/preprocessing.md."""
CHOICES: dict[str, tuple[Any, ...]] = {
    "features": ("log_mel", "mfcc"),
    "layout": ("bands_first", "time_first"),
    "mel_scale": ("htk", "slaney"),
    "mel_norm": ("none", "slaney"),
    "log": ("natural", "decibel"),
    "padding": ("reflect", "none"),
    **{name: (value,) for name, value in FIXED.items()},
}
"""The choices; the first is the default."""
SIZES = {"sample_rate": (1_000, 192_000), "fft_size": (16, 2**16), "mels": (1, 1024)}
WINDOW_S, HOP_S = 0.025, 0.01
MOST_SECONDS = 120
MOST_CHANNELS = 2
MFCC_MELS = 40
OWN = ("fft_size", "window_size", "hop_size", "mels", "f_min", "f_max", "mean", "std", "augment")
FIELDS = ("input", "kind", *CHOICES, "sample_rate", *OWN)


@dataclass(frozen=True)
class Audio(FileKind):
    """Computes (features - mean) / std of a recording, mixed to mono, resampled, cut or padded.

    axes: the input's shape, with axes of 1 before bands and frames, or none. mean, std: one value
    per band or coefficient.
    """

    kind: ClassVar[str] = "audio"
    thing: ClassVar[str] = "recording"
    things: ClassVar[str] = "recordings"
    wanted: ClassVar[str] = "WAV or FLAC"
    media_types: ClassVar[tuple[str, ...]] = ("audio/wav", "audio/flac")

    input: str
    axes: tuple[int, ...]
    dtype: str
    layout: str
    spectrum: Spectrum
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: AudioAugmentation | None = None

    @classmethod
    def parse(cls, description: Mapping[str, Any], spec: TensorSpec) -> Audio:
        """Raises WrongDescription."""
        fields = chosen(description, FIELDS, CHOICES)
        if np.dtype(spec.dtype).kind != "f":
            detail = f"a recording becomes fractions, but the input takes {spec.dtype}"
            raise WrongDescription("/kind", detail)
        bands, frames = _bands_and_frames(spec, fields["layout"])
        spectrum = _spectrum(fields, bands)
        mean = numbers(fields, "mean", count=bands) or (0.0,) * bands
        std = numbers(fields, "std", count=bands) or (1.0,) * bands
        if min(std) <= 0:
            raise WrongDescription("/std", "every standard deviation is above 0")
        augment = AudioAugmentation.parse(fields.get("augment"))
        if augment is not None:
            augment.check(has_bands=spectrum.coefficients is None)
        audio = cls(
            spec.name, spec.shape, spec.dtype, fields["layout"], spectrum, mean, std, augment
        )
        if frames < 1 or audio.samples > MOST_SECONDS * spectrum.sample_rate:
            detail = (
                f"{frames} frames every {spectrum.hop_size} samples at {spectrum.sample_rate} Hz"
                f" are longer than the {MOST_SECONDS} s that are read of a recording"
            )
            raise WrongDescription("/hop_size", detail)
        if spectrum.padding == "reflect" and audio.samples <= spectrum.fft_size // 2:
            detail = f"the input's {frames} frames are too short to mirror; use padding none"
            raise WrongDescription("/padding", detail)
        return audio

    def describe(self) -> dict[str, Any]:
        spectrum = asdict(self.spectrum)
        is_mfcc = spectrum.pop("coefficients") is not None
        return {
            "input": self.input,
            "kind": self.kind,
            "features": "mfcc" if is_mfcc else "log_mel",
            "layout": self.layout,
            **spectrum,
            "mean": list(self.mean),
            "std": list(self.std),
            **FIXED,
            **augment_field(self.augment),
        }

    @property
    def shape(self) -> tuple[int, ...]:
        return self.axes

    @property
    def frames(self) -> int:
        """Frames of the tensor."""
        return self.shape[-1 if self.layout == "bands_first" else -2]

    @property
    def samples(self) -> int:
        """The number of samples taken from a recording, at the rate of the spectrum."""
        spectrum = self.spectrum
        last = 0 if spectrum.padding == "reflect" else spectrum.fft_size
        return (self.frames - 1) * spectrum.hop_size + last

    @property
    def row_bytes(self) -> int:
        return self.frames * len(self.mean) * 4

    @property
    def row_key(self) -> str:
        left_out = ("input", "layout", "mean", "std", "augment")
        described = {k: v for k, v in self.describe().items() if k not in left_out}
        described["frames"], described["coefficients"] = self.frames, self.spectrum.coefficients
        return hashlib.sha256(dump(described, sort_keys=True).encode()).hexdigest()

    def check(self, data: bytes) -> str:
        return self._header(data).media_type

    def row(self, data: bytes) -> Row:
        """The features as float32, (frames, bands), flat."""
        header = self._header(data)
        signal = _read(data, header, most=self._most_frames(header))
        rate = self.spectrum.sample_rate
        frames = self.spectrum.frames(resample(signal, header.rate, rate, samples=self.samples))
        return frames.astype(np.float32).reshape(-1).view(np.uint8)

    def changed(self, row: Row, draw: np.random.Generator) -> Row:
        if self.augment is None:
            return row
        spectrum, std = self.spectrum, np.array(self.std, np.float32)
        frames = row.view(np.float32).reshape(self.frames, len(self.mean)).copy()
        # A gain is a constant in every band, so only the first of its cosine coefficients is not 0.
        decibel = np.log(10) / 10 if spectrum.log == "natural" else 1.0
        gain = np.full(len(std), decibel)
        if spectrum.coefficients is not None:
            gain[:] = 0
            gain[0] = decibel * np.sqrt(spectrum.mels)
        self.augment.apply(frames, draw, decibel=gain, std=std)
        changed: Row = frames.reshape(-1).view(np.uint8)
        return changed

    def normalizer(self) -> Normalize:
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        frames, bands = self.frames, len(mean)

        def normalize(row: Row, tensor: NDArray[np.float32]) -> None:
            scaled = (row.view(np.float32).reshape(frames, bands) - mean) / std
            laid = scaled.T if self.layout == "bands_first" else scaled
            np.copyto(tensor, laid.reshape(self.shape))

        return normalize

    def _header(self, data: bytes) -> AudioHeader:
        """Raises Unreadable for a recording whose spectrum cannot be computed."""
        header, spectrum = read_header(data), self.spectrum
        if header.channels > MOST_CHANNELS:
            raise Unreadable(
                f"it has {header.channels} channels; send mono or stereo, of which the mean is"
                " taken, or one channel of it"
            )
        if header.rate < 2 * spectrum.f_max:
            raise Unreadable(
                f"its sample rate of {header.rate} Hz carries frequencies up to"
                f" {header.rate / 2:g} Hz, and the mel bands reach {spectrum.f_max:g} Hz; record at"
                f" {2 * spectrum.f_max:g} Hz or more, or register the model with a lower f_max"
            )
        least = spectrum.window_size / spectrum.sample_rate
        if header.frames < least * header.rate:
            raise Unreadable(
                f"it lasts {header.frames / header.rate:.3g} s, less than a window of {least:.3g}"
                " s; send a longer one"
            )
        return header

    def _most_frames(self, header: AudioHeader) -> int:
        """The number of samples that affect the tensor, including the resampler's reach."""
        rate = self.spectrum.sample_rate
        return self.samples * header.rate // rate + 16 * max(1, header.rate // rate) + 16


def _read(data: bytes, header: AudioHeader, *, most: int) -> NDArray[np.float32]:
    """The first samples, the mean of the channels. Raises Unreadable, MemoryError."""
    from service.preprocess.decoding import decode

    count = min(most, header.frames)
    signal = decode(data, count)
    if len(signal) < count:
        raise Unreadable(f"it can be decoded up to sample {len(signal)} only; send the whole file")
    if not np.isfinite(signal).all():
        raise Unreadable("it has samples that are not finite numbers; write it anew")
    return signal


def _bands_and_frames(spec: TensorSpec, layout: str) -> tuple[int, int]:
    shape = spec.shape
    if len(shape) < 2 or any(size != 1 for size in shape[:-2]):
        order = "[bands, frames]" if layout == "bands_first" else "[frames, bands]"
        detail = f"the input {spec.name!r} has shape {list(shape)}; it takes {order} ({layout})"
        raise WrongDescription("/layout", f"{detail}, with axes of 1 before them or none")
    return (shape[-2], shape[-1]) if layout == "bands_first" else (shape[-1], shape[-2])


def _spectrum(fields: Mapping[str, Any], bands: int) -> Spectrum:
    rate = _whole(fields, "sample_rate", 16_000, *SIZES["sample_rate"])
    window = _whole(fields, "window_size", round(rate * WINDOW_S), 1, SIZES["fft_size"][1])
    fft_size = _whole(
        fields, "fft_size", max(16, 1 << (window - 1).bit_length()), *SIZES["fft_size"]
    )
    hop = _whole(fields, "hop_size", round(rate * HOP_S), 1, SIZES["fft_size"][1])
    if window > fft_size:
        raise WrongDescription(
            "/window_size", f"a window has at most fft_size, {fft_size}, samples"
        )
    is_mfcc = fields["features"] == "mfcc"
    mels = _whole(fields, "mels", max(MFCC_MELS, bands) if is_mfcc else bands, *SIZES["mels"])
    if mels != bands and (not is_mfcc or mels < bands):
        what = "at least as many as coefficients" if is_mfcc else "as many as the input has"
        raise WrongDescription("/mels", f"there are {mels} mel bands; take {what}, {bands}")
    f_min, f_max = fields.get("f_min", 0), fields.get("f_max", rate / 2)
    if not (is_number(f_min) and is_number(f_max) and 0 <= f_min < f_max <= rate / 2):
        detail = f"0 <= f_min < f_max <= {rate / 2:g} Hz, half the sample rate"
        raise WrongDescription("/f_max", detail)
    spectrum = Spectrum(
        sample_rate=rate,
        fft_size=fft_size,
        window_size=window,
        hop_size=hop,
        mels=mels,
        f_min=float(f_min),
        f_max=float(f_max),
        **{name: fields[name] for name in ("mel_scale", "mel_norm", "log", "padding")},
        coefficients=bands if is_mfcc else None,
    )
    empty = np.flatnonzero(spectrum.bank().max(axis=0) <= 0)
    if len(empty):
        detail = f"mel band {empty[0]} holds no bin of an FFT of {fft_size}"
        raise WrongDescription("/mels", f"{detail}; take fewer bands, or a larger fft_size")
    return spectrum


def _whole(fields: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = fields.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise WrongDescription(f"/{name}", f"{name} is an integer from {least} to {most}")
    return value
