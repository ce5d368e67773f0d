"""Networks that give pictures, and image classifiers that no library has small enough."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.zoo.architectures.architecture import CLASSES, Architecture, floats, image


def _block(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
    )


class UNet(nn.Module):
    """Two levels; up by ConvTranspose, or by Resize where a mode is given."""

    def __init__(self, mode: str = "", classes: int = 3) -> None:
        super().__init__()
        self.down = nn.ModuleList([_block(3, 8), _block(8, 16)])
        self.middle = _block(16, 32)
        self.up = nn.ModuleList([self._lift(32, 16, mode), self._lift(16, 8, mode)])
        self.merge = nn.ModuleList([_block(32, 16), _block(16, 8)])
        self.head = nn.Conv2d(8, classes, 1)

    @staticmethod
    def _lift(before: int, after: int, mode: str) -> nn.Module:
        if not mode:
            return nn.ConvTranspose2d(before, after, 2, stride=2)
        align = None if mode == "nearest" else False
        resize = nn.Upsample(scale_factor=2, mode=mode, align_corners=align)
        return nn.Sequential(resize, nn.Conv2d(before, after, 1))

    def forward(self, image: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            skips.append(block(image))
            image = F.max_pool2d(skips[-1], 2)
        image = self.middle(image)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips), strict=True):
            image = merge(torch.cat([up(image), skip], 1))
        return self.head(image)


class Pyramid(nn.Module):
    """Pools to several sizes and resizes back with aligned corners, as PSPNet does."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.PReLU(8))
        self.levels = nn.ModuleList([nn.Conv2d(8, 4, 1) for _ in range(3)])
        self.head = nn.Conv2d(20, 3, 3, padding=2, dilation=2)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        parts = [x]
        for size, level in zip((1, 2, 4), self.levels, strict=True):
            small = level(F.adaptive_avg_pool2d(x, size))
            parts.append(F.interpolate(small, size=(16, 16), mode="bilinear", align_corners=True))
        return self.head(torch.cat(parts, 1))


class Inception(nn.Module):
    """One module with four branches, asymmetric kernels and an average pool of stride 1."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_block(3, 16), nn.MaxPool2d(3, 2, ceil_mode=True))
        self.one = _block(16, 8)
        self.long = nn.Sequential(
            nn.Conv2d(16, 8, (1, 7), padding=(0, 3)),
            nn.Conv2d(8, 8, (7, 1), padding=(3, 0)),
            nn.BatchNorm2d(8, eps=1e-3),
        )
        self.pooled = nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(16, 8, 1), nn.ReLU())
        self.strided = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(16, 8, 1), nn.ReLU())
        self.head = nn.Linear(32, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        branches = [self.one(x), self.long(x), self.pooled(x), self.strided(x)]
        x = F.local_response_norm(torch.cat(branches, 1), 5)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class InstanceNormed(nn.Module):
    """Style transfer's parts: reflected edges, InstanceNorm, an upsampling by nearest pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReflectionPad2d(4),
            nn.Conv2d(3, 8, 9),
            nn.InstanceNorm2d(8, affine=True),
            nn.ReLU(),
            nn.ReflectionPad2d(1),
            nn.Conv2d(8, 16, 3, stride=2),
            nn.InstanceNorm2d(16, affine=True),
            nn.ELU(),
            nn.Upsample(scale_factor=2),
            nn.ReplicationPad2d(1),
            nn.Conv2d(16, 3, 3),
            nn.Tanh(),
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class SpatialTransformer(nn.Module):
    """Jaderberg and others (2015): a part of the network turns the image before it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Sequential(
            nn.Conv2d(3, 4, 5, stride=2), nn.MaxPool2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(36, 6)
        )
        with torch.no_grad():
            self.place[-1].weight *= 0.3
            self.place[-1].bias += torch.tensor([1.0, 0, 0, 0, 1.0, 0])
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(8 * 7 * 7, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        grid = F.affine_grid(
            self.place(image).view(-1, 2, 3), [image.shape[0], 3, 16, 16], align_corners=False
        )
        return self.head(self.body(F.grid_sample(image, grid, align_corners=False)))


class Patches(nn.Module):
    """Overlapping patches, each changed by one layer and added up again."""

    def __init__(self) -> None:
        super().__init__()
        self.change = nn.Linear(27, 27)
        self.head = nn.Linear(3 * 16, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        patches = F.unfold(image, 3, stride=2, padding=1).transpose(1, 2)
        changed = torch.tanh(self.change(patches)).transpose(1, 2)
        image = F.fold(changed, (16, 16), 3, stride=2, padding=1)
        return self.head(F.avg_pool2d(image, 4).flatten(1))


def _volumes() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(8, 16, 3), nn.InstanceNorm3d(16, affine=True), nn.ReLU(),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(16, CLASSES),
    )  # fmt: skip


def _super_resolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(16, 8, 3, padding=1),
        nn.PixelUnshuffle(2),
        nn.Conv2d(32, 48, 3, padding=1),
        nn.PixelShuffle(4),
    )


def _convolutional_autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.LeakyReLU(0.1),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.SiLU(),
        nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1, groups=1),
        nn.Sigmoid(),
    )


def _vgg() -> nn.Module:
    return nn.Sequential(
        _block(3, 8), nn.MaxPool2d(2), _block(8, 16), _block(16, 16), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(),
        nn.Linear(32, CLASSES),
    )  # fmt: skip


ARCHITECTURES = {
    "unet_transpose": Architecture(UNet, image(), head="head"),
    "unet_nearest": Architecture(lambda: UNet("nearest"), image(), head="head"),
    "unet_bilinear": Architecture(lambda: UNet("bilinear"), image(), head="head"),
    "unet_bicubic": Architecture(lambda: UNet("bicubic"), image(16), "mse", head="head"),
    "pyramid": Architecture(Pyramid, image(), head="head"),
    "inception": Architecture(Inception, image(), head="head"),
    "style_transfer": Architecture(InstanceNormed, image(16), "l1", head="layers.10"),
    "super_resolution": Architecture(_super_resolution, image(16), "mse"),
    "autoencoder": Architecture(_convolutional_autoencoder, image(16), "mse"),
    "spatial_transformer": Architecture(SpatialTransformer, image(16), head="head"),
    "patches": Architecture(Patches, image(16), head="head"),
    "volumes": Architecture(_volumes, {"volume": floats(1, 8, 8, 8)}, head="9"),
    "vgg": Architecture(_vgg, image(), head="10"),
}
