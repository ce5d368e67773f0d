"""Augmentations of images: of their 8-bit pixels, after resizing.

Imports Pillow late: the daemon only checks descriptions.
"""

from __future__ import annotations

from math import ceil, cos, exp, log, radians, sin, sqrt, tan
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from service.preprocess.augmentation.family import Amount, Family
from service.preprocess.checks import WrongDescription
from storage.arrays import NDArray
from storage.records.signatures import Signature

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Pixels: TypeAlias = "NDArray[np.uint8]"

ASPECT = 4 / 3
"""Maximum aspect of a resized crop. Source: Szegedy et al. (2015), Going Deeper with Convolutions,
6."""
ERASED_AREA, ERASED_ASPECT = (0.02, 0.4), 1 / 0.3
"""Shares of the image. Source: Zhong et al. (2020), Random Erasing Data Augmentation."""
LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue: ITU-R 601."""
ROTATION_LIMIT, SHEAR_LIMIT = 180, 45
Affine = tuple[float, float, float, float, float, float]


class Crop(NamedTuple):
    """The region that the output is taken from. dx, dy: in pixels, from the middle. width, height:
    as shares of the image's; a negative width flips it. angle: in degrees. slant: sideways, in
    pixels per row."""

    dx: float
    dy: float
    width: float = 1.0
    height: float = 1.0
    angle: float = 0.0
    slant: float = 0.0


class ImageAugmentation(Family, frozen=True):
    """In this order: crop, resized crop, flip, zoom, shear, rotation, colour, blur, noise, erasing.

    Beyond the image's border, the border is repeated.
    """

    kind: ClassVar[str] = "image"
    MIXES: ClassVar[tuple[str, ...]] = ("mixup", "cutmix")

    crop: Annotated[
        float,
        Amount("shift by up to this share of the sides, as by padding and cropping", 0, 0.5, True),
    ] = 0
    resized_crop: Annotated[
        float, Amount("cut out at least this share of the area, and resize it", 0.05, 1, True)
    ] = 0
    flip: Annotated[float, Amount("probability of a horizontal flip", moves=True)] = 0
    rotation: Annotated[
        float, Amount("rotate by up to so many degrees", 0, ROTATION_LIMIT, True)
    ] = 0
    zoom: Annotated[
        float, Amount("enlarge or shrink by a factor of up to 1 + this", 0, 1, True)
    ] = 0
    shear: Annotated[
        float, Amount("slant sideways by up to so many degrees", 0, SHEAR_LIMIT, True)
    ] = 0
    brightness: Annotated[float, Amount("multiply all values by 1 ± up to this")] = 0
    contrast: Annotated[
        float, Amount("multiply distances from the mean gray by 1 ± up to this")
    ] = 0
    saturation: Annotated[float, Amount("multiply distances from gray by 1 ± up to this")] = 0
    blur: Annotated[
        float, Amount("blur by a Gaussian of a deviation up to so many pixels", 0, 10)
    ] = 0
    noise: Annotated[
        float, Amount("add noise of a standard deviation up to this share of the range")
    ] = 0
    cutmix: Annotated[
        float, Amount("alpha of the Beta distribution of patches (Yun et al. 2019)", 0, 10, True)
    ] = 0
    erasing: Annotated[
        float, Amount("probability that a rectangle becomes noise (Zhong et al. 2020)")
    ] = 0

    def check_model(self, signature: Signature, *, is_cut: bool, labels_move: bool = False) -> None:
        super().check_model(signature, is_cut=is_cut, labels_move=labels_move)
        if is_cut and self.cutmix:
            raise WrongDescription(
                "/augment/cutmix",
                "the model's frozen part makes features of images once, and cutmix cuts patches of"
                " images; use mixup, or let all weights train",
            )

    def apply(self, pixels: Pixels, draw: np.random.Generator, *, channels_first: bool) -> Pixels:
        """Another image of the same shape and layout. pixels: (c, h, w) or (h, w, c)."""
        planes = pixels if channels_first else pixels.transpose(2, 0, 1)
        for change in (self._moved, self._painted, self._noisy, self._erased):
            planes = change(planes, draw)
        return planes if channels_first else planes.transpose(1, 2, 0)

    def moved(self, mask: Pixels, draw: np.random.Generator) -> Pixels:
        """A mask as `apply` moves its image by the same numbers. mask: (h, w)."""
        moved: Pixels = self._moved(mask[None], draw, blends=False)[0]
        return moved

    def moved_boxes(
        self, boxes: NDArray[Any], draw: np.random.Generator, size: tuple[int, int]
    ) -> NDArray[Any]:
        """What holds boxes after `apply` moves their image by the same numbers.

        boxes: (n, 4), left, top, right and bottom in pixels. size: height and width of the image.
        """
        if not self._moves:
            return boxes
        window = self._window(draw, height=size[0], width=size[1])
        a, b, c, d, e, f = _affine(window, height=size[0], width=size[1])
        corners = np.stack([boxes[:, [0, 2, 0, 2]] - c, boxes[:, [1, 1, 3, 3]] - f], axis=1)
        moved = np.linalg.inv([[a, b], [d, e]]) @ corners
        return np.concatenate([moved.min(axis=2), moved.max(axis=2)], axis=1)

    def _moved(self, planes: Pixels, draw: np.random.Generator, *, blends: bool = True) -> Pixels:
        if not self._moves:
            return planes
        _, height, width = planes.shape
        window = self._window(draw, height=height, width=width)
        if self._resamples:
            return _resample(planes, window, blends=blends)
        rows = _inside(np.arange(height) + int(window.dy), height)
        columns = _inside(np.arange(width) + int(window.dx), width)
        return planes[:, rows][:, :, columns[::-1] if window.width < 0 else columns]

    @property
    def _moves(self) -> bool:
        return bool(self.crop or self.flip or self._resamples)

    @property
    def _resamples(self) -> bool:
        return bool(self.resized_crop or self.rotation or self.zoom or self.shear)

    def _window(self, draw: np.random.Generator, *, height: int, width: int) -> Crop:
        right, down, area, aspect, x, y, turn, side, near, lean = draw.random(10).tolist()
        dx, dy = ((2 * draw - 1) * self.crop * n for draw, n in ((right, width), (down, height)))
        if not self._resamples:
            dx, dy = round(dx), round(dy)
        wide = high = 1.0
        if self.resized_crop:
            area = self.resized_crop + area * (1 - self.resized_crop)
            ratio = exp((2 * aspect - 1) * log(ASPECT))
            wide, high = min(1.0, sqrt(area * ratio)), min(1.0, sqrt(area / ratio))
        seen = (1 + self.zoom) ** (2 * near - 1)
        return Crop(
            dx=dx + (x - 0.5) * (1 - wide) * width,
            dy=dy + (y - 0.5) * (1 - high) * height,
            width=seen * (-wide if side < self.flip else wide),
            height=seen * high,
            angle=(2 * turn - 1) * self.rotation,
            slant=tan(radians((2 * lean - 1) * self.shear)),
        )

    def _painted(self, planes: Pixels, draw: np.random.Generator) -> Pixels:
        if not (self.brightness or self.contrast or self.saturation or self.blur):
            return planes
        from PIL import ImageFilter

        light, contrast, colour, blur = draw.random(4).tolist()
        # A gray that approximates the image's mean, from every fourth row: it need not be exact.
        mean = planes[:, ::4].mean(axis=(1, 2))
        gray = float(mean @ LUMA) if len(mean) == 3 else float(mean[0])
        brightness, contrast, saturation = (
            1 + (2 * draw - 1) * most
            for draw, most in (
                (light, self.brightness),
                (contrast, self.contrast),
                (colour, self.saturation),
            )
        )
        factor, offset = brightness * contrast, brightness * (1 - contrast) * gray
        picture = _recoloured(_picture(planes), factor, offset, saturation)
        if self.blur:
            picture = picture.filter(ImageFilter.GaussianBlur(blur * self.blur))
        return _planes(picture)

    def _noisy(self, planes: Pixels, draw: np.random.Generator) -> Pixels:
        if not self.noise:
            return planes
        deviation = 255 * self.noise * draw.random(dtype=np.float32)
        noisy = draw.standard_normal(planes.shape, np.float32)
        noisy *= deviation
        noisy += planes
        return np.rint(noisy, noisy).clip(0, 255).astype(np.uint8)

    def _erased(self, planes: Pixels, draw: np.random.Generator) -> Pixels:
        if not self.erasing:
            return planes
        whether, area, aspect, x, y = draw.random(5).tolist()
        if whether >= self.erasing:
            return planes
        count, height, width = planes.shape
        least, most = ERASED_AREA
        area = (least + area * (most - least)) * height * width
        ratio = exp((2 * aspect - 1) * log(ERASED_ASPECT))
        high = min(height, max(1, round(sqrt(area * ratio))))
        wide = min(width, max(1, round(sqrt(area / ratio))))
        top, left = int(y * (height - high + 1)), int(x * (width - wide + 1))
        erased: Pixels = planes.copy()
        erased[:, top : top + high, left : left + wide] = draw.integers(
            0, 256, (count, high, wide), np.uint8
        )
        return erased


def _inside(places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return places.clip(0, size - 1)


def _resample(planes: Pixels, window: Crop, *, blends: bool) -> Pixels:
    """Bicubic: bilinear would blur, unlike anything that the model is given later.

    blends: whether values may be mixed, unlike those of a mask.
    """
    from PIL import Image

    _, height, width = planes.shape
    a, b, c, d, e, f = _affine(window, height=height, width=width)
    corners = [(x, y) for x in (0, width) for y in (0, height)]
    beyond_x = max(max(-(at := a * x + b * y + c), at - width) for x, y in corners)
    beyond_y = max(max(-(at := d * x + e * y + f), at - height) for x, y in corners)
    more_x, more_y = (max(0, ceil(reach)) + 2 for reach in (beyond_x, beyond_y))
    rows = _inside(np.arange(-more_y, height + more_y), height)
    columns = _inside(np.arange(-more_x, width + more_x), width)
    c, f = c + more_x, f + more_y
    picture, size = _picture(planes[:, rows][:, :, columns]), (width, height)
    method = Image.Resampling.BICUBIC if blends else Image.Resampling.NEAREST
    if window.angle or window.slant:
        return _planes(picture.transform(size, Image.Transform.AFFINE, (a, b, c, d, e, f), method))
    # Takes half the time of a transformation.
    left, right = sorted((c, a * width + c))
    box = (left, f, right, e * height + f)
    resampled = _planes(picture.resize(size, method, box))
    return resampled[:, :, ::-1] if a < 0 else resampled


def _affine(window: Crop, *, height: int, width: int) -> Affine:
    """From a place in the output to one in the image, in pixels."""
    turn = radians(window.angle)
    sine, cosine = sin(turn), cos(turn)
    a, b = cosine * window.width, (window.slant * cosine - sine) * window.height
    d, e = sine * window.width, (window.slant * sine + cosine) * window.height
    x, y = width / 2, height / 2
    return a, b, x + window.dx - a * x - b * y, d, e, y + window.dy - d * x - e * y


def _recoloured(picture: Picture, factor: float, offset: float, saturation: float) -> Picture:
    """factor * colour + offset, with its distance from gray then multiplied."""
    if factor == 1 and offset == 0 and saturation == 1:
        return picture
    if picture.mode == "L":
        return picture.point([min(255, max(0, round(factor * n + offset))) for n in range(256)])
    rows: list[float] = []
    for channel in range(3):
        row = [factor * (1 - saturation) * luma for luma in LUMA]
        row[channel] += factor * saturation
        rows += [*row, offset]
    return picture.convert("RGB", tuple(rows))


def _picture(planes: Pixels) -> Picture:
    """planes: (1 or 3, h, w)."""
    from PIL import Image

    bands = [Image.fromarray(np.ascontiguousarray(plane)) for plane in planes]
    return bands[0] if len(bands) == 1 else Image.merge("RGB", bands)


def _planes(picture: Picture) -> Pixels:
    return np.stack([np.asarray(band) for band in picture.split()])
