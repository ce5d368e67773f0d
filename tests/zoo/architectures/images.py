"""Image classifiers of timm and torchvision, narrowed until a step takes milliseconds."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from tests.zoo.architectures.architecture import CLASSES, Architecture, image

_OPERATORS = torch.library.Library("torchvision", "DEF")
"""torchvision has no wheel for PyTorch's CPU build; its Python part loads with these declared."""
for _name in ("nms", "qnms"):
    _OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import timm  # noqa: E402
from timm.layers import GatedMlp, GroupNorm1  # noqa: E402
from timm.models.hrnet import HighResolutionNet  # noqa: E402
from timm.models.metaformer import MetaFormer, Pooling  # noqa: E402
from timm.models.mlp_mixer import MlpMixer, SpatialGatingBlock  # noqa: E402
from torchvision import models  # noqa: E402
from torchvision.models.regnet import BlockParams, RegNet  # noqa: E402

_HRNET_STAGES = {
    f"stage{count}": {
        "num_modules": 1,
        "num_branches": count,
        "block_type": "BOTTLENECK" if count == 1 else "BASIC",
        "num_blocks": (1,) * count,
        "num_channels": tuple(8 << place for place in range(count)),
        "fuse_method": "SUM",
    }
    for count in (1, 2, 3, 4)
}


def _timm(name: str, *, size: int = 32, head: str = "head", **options: Any) -> Architecture:
    make = partial(timm.create_model, name, num_classes=CLASSES, **options)
    return Architecture(make, image(size), head=head)


def _torchvision(
    make: Any, *, size: int = 32, head: str = "classifier", **options: Any
) -> Architecture:
    return Architecture(partial(make, num_classes=CLASSES, **options), image(size), head=head)


def _hrnet() -> nn.Module:
    return HighResolutionNet({"stem_width": 16, **_HRNET_STAGES}, num_classes=CLASSES)


def _regnet() -> nn.Module:
    blocks = BlockParams(
        depths=[1, 1, 2],
        widths=[16, 32, 48],
        group_widths=[8, 8, 8],
        bottleneck_multipliers=[1.0] * 3,
        strides=[2] * 3,
        se_ratio=0.25,
    )
    return RegNet(blocks, num_classes=CLASSES, stem_width=16)


def _mixer() -> nn.Module:
    return MlpMixer(CLASSES, 64, patch_size=16, num_blocks=2, embed_dim=32)


def _gated_mlp() -> nn.Module:
    return MlpMixer(
        CLASSES, 64, patch_size=16, num_blocks=2, embed_dim=32,
        mlp_ratio=4, block_layer=SpatialGatingBlock, mlp_layer=GatedMlp,
    )  # fmt: skip


def _poolformer() -> nn.Module:
    return MetaFormer(
        num_classes=CLASSES, depths=(1, 1, 1), dims=(8, 16, 24), token_mixers=Pooling,
        norm_layers=GroupNorm1, downsample_norm=None, mlp_act=nn.GELU, use_mlp_head=False,
        layer_scale_init_values=0.1, res_scale_init_values=None,
    )  # fmt: skip


ARCHITECTURES = {
    "resnet": _timm("test_resnet", head="fc"),
    "resnet_bottleneck": Architecture(
        lambda: models.ResNet(
            models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=CLASSES, width_per_group=16
        ),
        image(),
        head="fc",
    ),
    "seresnet": _timm(
        "seresnet18", head="fc", layers=(1, 1, 1, 1), channels=(8, 16, 24, 32), stem_width=8
    ),
    "mobilenet_v2": _torchvision(models.mobilenet_v2, width_mult=0.25),
    "mobilenet_v3": _timm("mobilenetv3_small_050", head="classifier"),
    "mobilenet_v4": _timm("mobilenetv4_conv_small_035", size=64, head="classifier"),
    "mnasnet": _torchvision(models.mnasnet0_5),
    "efficientnet": _timm("test_efficientnet", head="classifier"),
    "efficientnet_evonorm": _timm("test_efficientnet_evos", head="classifier"),
    "efficientnet_group_norm": _timm("test_efficientnet_gn", head="classifier"),
    "ghostnet": _timm("ghostnet_050", head="classifier"),
    "lcnet": _timm("lcnet_035", head="classifier"),
    "densenet": Architecture(
        lambda: models.DenseNet(8, (2, 2, 2), 16, num_classes=CLASSES), image(), head="classifier"
    ),
    "convnext": _timm("test_convnext", head="head.fc"),
    "convnext_grn": _timm("test_convnext2", head="head.fc", use_grn=True),
    "vit": _timm("test_vit", size=64, img_size=64),
    "vit_registers": _timm("test_vit3", size=64, img_size=64),
    "vit_relative": _timm("test_vit_relpos", size=64, img_size=64),
    "swin": _timm(
        "swin_tiny_patch4_window7_224",
        size=64,
        head="head.fc",
        img_size=64,
        embed_dim=16,
        depths=(2, 2),
        num_heads=(2, 4),
        window_size=4,
    ),
    "swin_v2": _timm(
        "swinv2_tiny_window8_256",
        size=64,
        head="head.fc",
        img_size=64,
        embed_dim=16,
        depths=(2, 2),
        num_heads=(2, 4),
        window_size=4,
    ),
    "mlp_mixer": Architecture(_mixer, image(64), head="head"),
    "gated_mlp": Architecture(_gated_mlp, image(64), head="head"),
    "mobilevit": _timm("mobilevit_xxs", size=64, head="head.fc"),
    "mobilevit_v2": _timm("mobilevitv2_050", size=64, head="head.fc"),
    "coatnet": _timm("test_coatnet", size=64, head="head.fc", img_size=64),
    "maxvit": _timm("test_maxvit", size=64, head="head.fc", img_size=64),
    "edgenext": _timm("edgenext_xx_small", size=64, head="head.fc"),
    "poolformer": Architecture(_poolformer, image(64), head="head.fc"),
    "byobnet": _timm("test_byobnet", head="head.fc"),
    "mambaout": _timm("test_mambaout", head="head.fc"),
    "starnet": _timm("starnet_s050"),
    "hrnet": Architecture(_hrnet, image(64), head="classifier"),
    "regnet": Architecture(_regnet, image(), head="fc"),
    "shufflenet": _torchvision(models.shufflenet_v2_x0_5, head="fc"),
    "squeezenet": _torchvision(models.squeezenet1_1, size=64),
    "dla": _timm("dla46_c", head="fc"),
    "selective_kernel": _timm(
        "skresnet18", head="fc", layers=(1, 1, 1, 1), channels=(16, 16, 32, 32), stem_width=8
    ),
}
