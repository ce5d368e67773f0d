"""Kind `image`: PNG, JPEG or WebP into a tensor."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeGuard

import numpy as np

from service.preprocess.augmentation.family import augment_field
from service.preprocess.augmentation.images import ImageAugmentation
from service.preprocess.augmentation.mixing import Mix
from service.preprocess.checks import WrongDescription, chosen, numbers
from service.preprocess.kind import FileKind, Normalize, Row
from storage.arrays import NDArray
from storage.database.codec import dump
from storage.records.signatures import TensorSpec

CHANNELS = {"rgb": 3, "gray": 1}
FIXED = {"orientation": "exif", "background": 255, "padding": 0, "resample": "bilinear"}
"""The fixed parts, so that an app can do the same: see docs/preprocessing.md."""
CHOICES: dict[str, tuple[Any, ...]] = {
    "resize": ("cover", "contain", "stretch"),
    "channels": tuple(CHANNELS),
    "layout": ("nchw", "nhwc"),
    **{name: (value,) for name, value in FIXED.items()},
}
"""The choices; the first is the default."""
FIELDS = ("input", "kind", "size", *CHOICES, "scale", "mean", "std", "augment")
MOST_PIXELS_A_SIDE = 4096
LARGE_PIXELS = 25_000_000
"""Larger images are decoded one at a time: each takes 4 bytes a pixel, twice."""

Resize = Literal["cover", "contain", "stretch"]


@dataclass(frozen=True)
class Image(FileKind):
    """Computes (pixels / scale - mean) / std of an image after resizing.

    size: height, width. mean, std: one value per channel, in units after `scale`.
    """

    kind: ClassVar[str] = "image"
    thing: ClassVar[str] = "image"
    things: ClassVar[str] = "images"
    wanted: ClassVar[str] = "PNG, JPEG or WebP"
    media_types: ClassVar[tuple[str, ...]] = ("image/png", "image/jpeg", "image/webp")

    input: str
    size: tuple[int, int]
    resize: Resize
    channels: Literal["rgb", "gray"]
    layout: Literal["nchw", "nhwc"]
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: str
    augment: ImageAugmentation | None = None

    @classmethod
    def parse(cls, description: Mapping[str, Any], spec: TensorSpec) -> Image:
        """Raises WrongDescription."""
        fields = chosen(description, FIELDS, CHOICES, scale=255)
        if np.dtype(spec.dtype).kind != "f":
            detail = f"an image becomes fractions, but the input takes {spec.dtype}"
            raise WrongDescription("/kind", detail)
        (scale,) = numbers(fields, "scale", count=1) or (0.0,)
        count = CHANNELS[fields["channels"]]
        mean = numbers(fields, "mean", count=count) or (0.0,) * count
        std = numbers(fields, "std", count=count) or (1.0,) * count
        for name, values in (("scale", [scale]), ("std", std)):
            if min(values) <= 0:
                raise WrongDescription(f"/{name}", f"{name} is above 0")
        return cls(
            input=spec.name,
            size=_size(fields, spec),
            resize=fields["resize"],
            channels=fields["channels"],
            layout=fields["layout"],
            scale=scale,
            mean=mean,
            std=std,
            dtype=spec.dtype,
            augment=_augmentation(fields),
        )

    @classmethod
    def sizes(cls, description: Mapping[str, Any]) -> tuple[int | None, ...]:
        size = description.get("size")
        count = CHANNELS.get(str(description.get("channels") or "rgb"))
        if count is None or not _is_size(size):
            return ()
        return _laid(count, size, description.get("layout") or "nchw")

    def describe(self) -> dict[str, Any]:
        return {
            "input": self.input,
            "kind": self.kind,
            "size": list(self.size),
            "resize": self.resize,
            "channels": self.channels,
            "layout": self.layout,
            "scale": self.scale,
            "mean": list(self.mean),
            "std": list(self.std),
            **FIXED,
            **augment_field(self.augment),
        }

    @property
    def shape(self) -> tuple[int, int, int]:
        return _laid(CHANNELS[self.channels], self.size, self.layout)

    @property
    def mix(self) -> Mix | None:
        sides = (1, 2) if self.layout == "nchw" else (0, 1)
        return None if self.augment is None else self.augment.mix(sides)

    @property
    def row_bytes(self) -> int:
        return self.size[0] * self.size[1] * CHANNELS[self.channels]

    @property
    def row_key(self) -> str:
        described = [self.size, self.resize, self.channels, self.layout, FIXED]
        return hashlib.sha256(dump(described, sort_keys=True).encode()).hexdigest()

    def check(self, data: bytes) -> str:
        from service.preprocess.pictures import read_header

        return read_header(data).media_type

    def is_large(self, data: bytes) -> bool:
        from service.preprocess.pictures import read_header

        header = read_header(data)
        return header.width * header.height > LARGE_PIXELS

    def row(self, data: bytes) -> Row:
        """Its pixels, upright and resized, in the tensor's layout."""
        from service.preprocess.pictures import decode, fit, flatten

        picture = fit(flatten(decode(data), self.channels), self.size, self.resize)
        pixels = np.asarray(picture).reshape(*self.size, CHANNELS[self.channels])
        return (pixels.transpose(2, 0, 1) if self.layout == "nchw" else pixels).reshape(-1)

    def changed(self, row: Row, draw: np.random.Generator) -> Row:
        if self.augment is None:
            return row
        pixels, channels_first = row.reshape(self.shape), self.layout == "nchw"
        return self.augment.apply(pixels, draw, channels_first=channels_first)

    def normalizer(self) -> Normalize:
        """A function that writes (pixels / scale - mean) / std into a tensor of this shape.

        It takes one image at a time, which stays in the processor's cache between both passes.
        """
        lie = (-1, 1, 1) if self.layout == "nchw" else (1, 1, -1)
        std = np.array(self.std)
        factor = (1 / (self.scale * std)).astype(np.float32).reshape(lie)
        offset = (np.array(self.mean) / std).astype(np.float32).reshape(lie)
        is_centred = any(self.mean)
        shape = self.shape

        def normalize(pixels: NDArray[np.uint8], tensor: NDArray[np.float32]) -> None:
            # Converting first is faster than multiplying integers by floats.
            np.copyto(tensor, pixels.reshape(shape))
            np.multiply(tensor, factor, out=tensor)
            if is_centred:
                np.subtract(tensor, offset, out=tensor)

        return normalize


def _augmentation(fields: Mapping[str, Any]) -> ImageAugmentation | None:
    augmentation = ImageAugmentation.parse(fields.get("augment"))
    if augmentation is not None and augmentation.saturation and fields["channels"] == "gray":
        detail = "gray images have no saturation; leave it out"
        raise WrongDescription("/augment/saturation", detail)
    return augmentation


def _size(fields: Mapping[str, Any], spec: TensorSpec) -> tuple[int, int]:
    """Height and width; they must agree with the input's shape."""
    count = CHANNELS[fields["channels"]]
    size = fields.get("size")
    if size is None and len(spec.shape) == 3:
        size = spec.shape[1:] if fields["layout"] == "nchw" else spec.shape[:2]
    if not _is_size(size):
        detail = f"size is [height, width], each from 1 to {MOST_PIXELS_A_SIDE} pixels"
        raise WrongDescription("/size", detail)
    shape = _laid(count, size, fields["layout"])
    if shape != spec.shape:
        raise WrongDescription(
            "/size",
            f"it makes tensors of shape {list(shape)} ({fields['layout']}, {fields['channels']}), "
            f"the input {spec.name!r} takes {list(spec.shape)}",
        )
    return size[0], size[1]


def _laid(count: int, size: tuple[int, int], layout: str) -> tuple[int, int, int]:
    return (count, *size) if layout == "nchw" else (*size, count)


def _is_size(size: Any) -> TypeGuard[tuple[int, int]]:
    return (
        isinstance(size, list | tuple)
        and len(size) == 2
        and all(isinstance(side, int) and 1 <= side <= MOST_PIXELS_A_SIDE for side in size)
    )
