"""The networks of `bench architectures`, at the sizes that devices train; read by PyTorch's side.

They have random weights, and are in inference mode: stored statistics of BatchNorm, no Dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.zoo.architectures.architecture import CLASSES, Draw, floats, image, integers, padding
from tests.zoo.architectures.images import models, timm
from tests.zoo.architectures.language import Logits, transformers
from tests.zoo.architectures.sequences import Causal

SIDE, TOKENS, VOCABULARY = 96, 64, 2000


@dataclass(frozen=True, slots=True)
class Network:
    """inputs: by name, in the order of `forward`. loss: as Hone names it.

    tail: prefixes of the parameters that train in the row with a frozen part; empty for no such
    row. positions: of the target, if each has a class of its own.
    """

    build: Callable[[], nn.Module]
    inputs: dict[str, Draw]
    batch_size: int = 16
    tail: Sequence[str] = ()
    loss: str = "cross_entropy"
    positions: tuple[int, ...] = ()

    def target(self, rows: int) -> Tensor:
        """Random classes, or the first input where that is to be reproduced."""
        return torch.randint(0, CLASSES, (rows, *self.positions))


def _block(before: int, after: int, **options: Any) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False, **options),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Three levels from 32 channels on, two convolutions each. Ronneberger and others (2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            nn.Sequential(_block(before, after), _block(after, after))
            for before, after in ((3, 32), (32, 64), (64, 128))
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(before, before // 2, 2, stride=2) for before in (128, 64)
        )
        self.merge = nn.ModuleList(
            nn.Sequential(_block(before, after), _block(after, after))
            for before, after in ((128, 64), (64, 32))
        )
        self.head = nn.Conv2d(32, CLASSES, 1)

    def forward(self, image: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            image = block(F.max_pool2d(image, 2) if skips else image)
            skips.append(image)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips[:-1]), strict=True):
            image = merge(torch.cat([up(image), skip], 1))
        return self.head(image)


class Detector(nn.Module):
    """ResNet-18 with a pyramid, and a class at every eighth pixel. Lin and others (2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = models.resnet18()
        self.body.avgpool, self.body.fc = nn.Identity(), nn.Identity()
        self.side = nn.ModuleList(nn.Conv2d(width, 64, 1) for width in (128, 256, 512))
        self.head = nn.Sequential(_block(64, 64), nn.Conv2d(64, CLASSES, 3, padding=1))

    def forward(self, image: Tensor) -> Tensor:
        body = self.body
        x = body.layer1(body.maxpool(body.relu(body.bn1(body.conv1(image)))))
        levels = []
        for layer, side in zip((body.layer2, body.layer3, body.layer4), self.side, strict=True):
            x = layer(x)
            levels.append(side(x))
        merged = levels[-1]
        for level in reversed(levels[:-1]):
            merged = level + F.interpolate(merged, scale_factor=2, mode="nearest")
        return self.head(merged)


class Tcn(nn.Module):
    """Eight causal, dilated layers over a signal of 9 sensors. Bai and others (2018)."""

    def __init__(self) -> None:
        super().__init__()
        widths = (9, *[64] * 8)
        self.blocks = nn.Sequential(
            *(Causal(widths[i], widths[i + 1], 1 << i % 6) for i in range(8))
        )
        self.head = nn.Linear(64, CLASSES)

    def forward(self, signal: Tensor) -> Tensor:
        return self.head(self.blocks(signal).mean(2))


class ResNet1d(nn.Module):
    """A residual network over an electrocardiogram of 12 leads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(12, 64, 15, stride=2, padding=7)
        self.norms = nn.ModuleList(nn.BatchNorm1d(64) for _ in range(6))
        self.layers = nn.ModuleList(nn.Conv1d(64, 64, 7, padding=3) for _ in range(6))
        self.head = nn.Linear(64, CLASSES)

    def forward(self, signal: Tensor) -> Tensor:
        x = F.max_pool1d(F.relu(self.stem(signal)), 2)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + F.relu(norm(layer(x)))
        return self.head(x.mean(2))


def _keywords() -> nn.Module:
    """DS-CNN, Zhang and others (2017): depthwise separable convolutions over a spectrogram."""
    layers = [nn.Conv2d(1, 64, (10, 4), stride=2, padding=(4, 1)), nn.BatchNorm2d(64), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.BatchNorm2d(64), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


class Recurrent(nn.Module):
    """The last step of a recurrent layer of 128 over 64 steps of 32 features."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cell = kind(32, 128, batch_first=True)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, sequence: Tensor) -> Tensor:
        return self.head(self.cell(sequence)[0][:, -1])


class Recommender(nn.Module):
    """Embeddings of users, items and 20 items seen before, under a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(20_000, 32), nn.Embedding(50_000, 32)
        self.top = nn.Sequential(
            nn.Linear(96, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, CLASSES)
        )

    def forward(self, user: Tensor, item: Tensor, seen: Tensor) -> Tensor:
        parts = [self.user(user), self.item(item), self.item(seen).mean(1)]
        return self.top(torch.cat(parts, 1))


class Anomalies(nn.Module):
    """An autoencoder of spectra, its error as the loss. Koizumi and others (2020)."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        widths = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, vector: Tensor) -> Tensor:
        return self.layers(vector)


class Denoiser(nn.Module):
    """A convolutional autoencoder of pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(64, 32, 3, padding=1), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(32, CLASSES, 3, padding=1),
        )  # fmt: skip

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class Scene(nn.Module):
    """A segmenter of torchvision, which answers with a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.net = models.segmentation.lraspp_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=CLASSES
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.net(image)["out"]


def _vgg() -> nn.Module:
    """VGG-11 with a head of one layer."""
    return nn.Sequential(models.vgg11_bn().features, nn.Flatten(), nn.Linear(512 * 2 * 2, CLASSES))


def _torchvision(name: str, *tail: str, batch_size: int = 16, side: int = SIDE) -> Network:
    return Network(
        lambda: getattr(models, name)(num_classes=CLASSES), image(side), batch_size, tail
    )


def _timm(name: str, *tail: str, **options: Any) -> Network:
    return Network(
        lambda: timm.create_model(name, num_classes=CLASSES, **options), image(SIDE), 16, tail
    )


SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}


def _bert() -> nn.Module:
    config = transformers.BertConfig(**SIZES, num_labels=CLASSES)
    return Logits(transformers.BertForSequenceClassification(config))


def _llama() -> nn.Module:
    config = transformers.LlamaConfig(**SIZES, use_cache=False, tie_word_embeddings=False)
    return Logits(transformers.LlamaForCausalLM(config), last=True)


TEXT = {"input_ids": integers(VOCABULARY, TOKENS)}
NETWORKS: dict[str, Network] = {
    "resnet18": _torchvision("resnet18", "layer4", "fc"),
    "resnext50": _torchvision("resnext50_32x4d", batch_size=8, side=64),
    "vgg11": Network(_vgg, image(64), 16, ("2",)),
    "mobilenet_v2": _torchvision("mobilenet_v2", "features.16", "features.17", "features.18", "c"),
    "mobilenet_v3": _torchvision("mobilenet_v3_large"),
    "efficientnet_b0": _torchvision("efficientnet_b0", "features.7", "features.8", "classifier"),
    "shufflenet_v2": _torchvision("shufflenet_v2_x1_0"),
    "squeezenet": _torchvision("squeezenet1_1"),
    "densenet121": _torchvision("densenet121", batch_size=8, side=64),
    "regnety_002": _timm("regnety_002"),
    "convnext_atto": _timm("convnext_atto", "stages.3", "head"),
    "mobilevit_xxs": _timm("mobilevit_xxs"),
    "vit_tiny": _timm("vit_tiny_patch16_224", "blocks.11", "norm", "head", img_size=SIDE),
    "swin": _timm("swin_tiny_patch4_window7_224", img_size=SIDE, window_size=6, embed_dim=48,
                  depths=(2, 2, 4, 2), num_heads=(2, 4, 8, 16)),
    "unet": Network(UNet, image(64), 8, ("merge", "head"), positions=(64, 64)),
    "lraspp": Network(Scene, image(SIDE), 8, positions=(SIDE, SIDE)),
    "detector": Network(Detector, image(SIDE), 8, ("side", "head"), positions=(12, 12)),
    "denoiser": Network(Denoiser, image(64), 16, positions=(64, 64)),
    "tcn": Network(Tcn, {"signal": floats(9, 256)}, 16),
    "resnet1d": Network(ResNet1d, {"signal": floats(12, 1000)}, 16),
    "ds_cnn": Network(_keywords, {"image": floats(1, 49, 10)}, 64),
    "lstm": Network(lambda: Recurrent(nn.LSTM), {"sequence": floats(64, 32)}, 32),
    "gru": Network(lambda: Recurrent(nn.GRU), {"sequence": floats(64, 32)}, 32),
    "bert": Network(_bert, TEXT, 16, ("model.bert.encoder.layer.3", "model.classifier")),
    "llama": Network(
        _llama, {**TEXT, "attention_mask": padding(TOKENS, left=True)}, 16
    ),
    "recommender": Network(
        Recommender,
        {"user": integers(20_000), "item": integers(50_000), "seen": integers(50_000, 20)},
        64,
    ),
    "autoencoder": Network(Anomalies, {"vector": floats(640)}, 64, loss="mse", positions=(640,)),
}  # fmt: skip
