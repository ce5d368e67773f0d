"""Networks over time: recurrent, convolutional, attending, for speech, text and sensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.zoo.architectures.architecture import (
    CLASSES,
    VOCABULARY,
    Architecture,
    floats,
    integers,
    tokens,
)

FEATURES, LENGTH = 8, 12


class Recurrent(nn.Module):
    """The last step of a recurrent network; with attention, a weighted mean of all steps."""

    def __init__(self, kind: type[nn.RNNBase], *, attends: bool = False, **options: Any) -> None:
        super().__init__()
        self.cell = kind(FEATURES, 16, batch_first=True, **options)
        width = 32 if options.get("bidirectional") else 16
        self.score = nn.Linear(width, 1) if attends else None
        self.head = nn.Linear(width, CLASSES)

    def forward(self, sequence: Tensor) -> Tensor:
        steps, _ = self.cell(sequence)
        if self.score is None:
            return self.head(steps[:, -1])
        weights = torch.softmax(self.score(torch.tanh(steps)), 1)
        return self.head((weights * steps).sum(1))


class Causal(nn.Module):
    """A block of a temporal convolutional network: padded on the left, dilated, residual."""

    def __init__(self, before: int, after: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(before, after, 3, dilation=dilation)
        self.gate = nn.Conv1d(before, after, 3, dilation=dilation)
        self.skip = nn.Conv1d(before, after, 1)

    def forward(self, x: Tensor) -> Tensor:
        padded = F.pad(x, (self.pad, 0))
        return torch.tanh(self.conv(padded)) * torch.sigmoid(self.gate(padded)) + self.skip(x)


class Tcn(nn.Module):
    """Dilations 1, 2, 4."""

    def __init__(self) -> None:
        super().__init__()
        widths = (FEATURES, 12, 12, 16)
        self.blocks = nn.Sequential(
            *(Causal(widths[i], widths[i + 1], 1 << i) for i in range(len(widths) - 1))
        )
        self.head = nn.Linear(16, CLASSES)

    def forward(self, signal: Tensor) -> Tensor:
        return self.head(self.blocks(signal)[:, :, -1])


class TextCnn(nn.Module):
    """Kim (2014): kernels of several widths, the maximum over time."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(16, 8, width) for width in (2, 3, 4)])
        self.head = nn.Linear(24, CLASSES)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids).transpose(1, 2)
        pooled = [F.relu(conv(x)).amax(-1) for conv in self.convs]
        return self.head(torch.cat(pooled, 1))


class Crnn(nn.Module):
    """Convolutions over a line of text, an LSTM both ways, logits for each column."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d((2, 1)),
        )  # fmt: skip
        self.cell = nn.LSTM(32, 12, bidirectional=True)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        columns = self.convs(image).flatten(1, 2).permute(2, 0, 1)
        steps, _ = self.cell(columns)
        return self.head(steps).permute(1, 2, 0)


class ConformerBlock(nn.Module):
    """Half a feed-forward, attention, a gated depthwise convolution, half a feed-forward."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(4)])
        self.feeds = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width)) for _ in range(2)]
        )
        self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
        self.point = nn.Conv1d(width, 2 * width, 1)
        self.depth = nn.Conv1d(width, width, 5, padding=2, groups=width)
        self.batch = nn.BatchNorm1d(width)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.feeds[0](self.norms[0](x))
        y = self.norms[1](x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        y = F.glu(self.point(self.norms[2](x).transpose(1, 2)), 1)
        x = x + self.out(F.silu(self.batch(self.depth(y)))).transpose(1, 2)
        return self.norms[3](x + 0.5 * self.feeds[1](x))


class Conformer(nn.Module):
    """Two blocks over projected features."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(FEATURES, 16)
        self.blocks = nn.Sequential(ConformerBlock(), ConformerBlock())
        self.head = nn.Linear(16, CLASSES)

    def forward(self, sequence: Tensor) -> Tensor:
        return self.head(self.blocks(self.project(sequence)).mean(1))


class Translator(nn.Module):
    """PyTorch's own encoder and decoder, with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.core = nn.Transformer(
            16, 2, 1, 1, 32, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        steps = self.core(self.embed(source), self.embed(target), tgt_mask=self.mask)
        return self.head(steps).transpose(1, 2)


class EncoderDecoder(nn.Module):
    """Bahdanau and others (2015): a GRU both ways, another one that starts at its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 12)
        self.encode = nn.GRU(12, 8, bidirectional=True, batch_first=True)
        self.bridge, self.keys = nn.Linear(16, 12), nn.Linear(16, 12, bias=False)
        self.decode = nn.GRU(12, 12, batch_first=True)
        self.head = nn.Linear(28, CLASSES)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        read, ends = self.encode(self.embed(source))
        start = torch.tanh(self.bridge(torch.cat([ends[0], ends[1]], -1))).unsqueeze(0)
        steps, _ = self.decode(self.embed(target), start)
        weights = torch.softmax(steps @ self.keys(read).transpose(1, 2), -1)
        return self.head(torch.cat([steps, weights @ read], -1)).transpose(1, 2)


class Forecaster(nn.Module):
    """A transformer over positions as sines and cosines, behind an LSTM with a learned start."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(2, 1, 1, 16) * 0.3)
        self.cell = nn.LSTM(FEATURES, 16, batch_first=True)
        angles = torch.arange(20).unsqueeze(1) / 10000 ** (torch.arange(8) / 8)
        waves = torch.stack([angles.sin(), angles.cos()], -1)
        self.register_buffer("positions", waves.reshape(1, 20, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.gate = nn.Parameter(torch.tensor([0.5]))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, sequence: Tensor) -> Tensor:
        start = self.start.expand(-1, -1, sequence.shape[0], -1)
        steps, _ = self.cell(sequence, (start[0].contiguous(), start[1].contiguous()))
        attended = self.layer(steps + self.positions[:, : steps.shape[1]])
        return self.head((steps + self.gate * attended).mean(1))


def _group_normed() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(FEATURES, 16, 5, stride=2, padding=2), nn.GroupNorm(4, 16), nn.GELU(),
        nn.Conv1d(16, 16, 3, padding=1, groups=4), nn.GroupNorm(16, 16), nn.SiLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, CLASSES),
    )  # fmt: skip


def _keyword_spotting() -> nn.Module:
    """DS-CNN, Zhang and others (2017): depthwise separable convolutions over a spectrogram."""
    pairs = []
    for _ in range(2):
        pairs += [nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU()]
        pairs += [nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(
        nn.Conv2d(1, 16, (10, 4), stride=2, padding=(4, 1)), nn.BatchNorm2d(16), nn.ReLU(),
        *pairs, nn.AvgPool2d((10, 5)), nn.Flatten(), nn.Linear(16, CLASSES),
    )  # fmt: skip


class Spectral(nn.Module):
    """A learned filter before the spectrogram of a signal, and its spectrum beside that."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Conv1d(1, 1, 3, padding=1)
        self.register_buffer("window", torch.hann_window(16))
        self.head = nn.Linear(9 + 33, CLASSES)

    def forward(self, signal: Tensor) -> Tensor:
        filtered = self.filter(signal)[:, 0]
        short = torch.stft(filtered, 16, 8, window=self.window, center=False, return_complex=True)
        power = torch.view_as_real(short).square().sum(-1).mean(-1)
        whole = torch.fft.rfft(filtered, norm="ortho").abs()
        return self.head(torch.cat([power.log1p(), whole], 1))


def _recurrent(kind: type[nn.RNNBase], **options: Any) -> Architecture:
    series = {"sequence": floats(LENGTH, FEATURES)}
    return Architecture(lambda: Recurrent(kind, **options), series, head="head")


SIGNAL = {"signal": floats(FEATURES, 16)}
ARCHITECTURES = {
    "lstm": _recurrent(nn.LSTM),
    "lstm_deep": _recurrent(nn.LSTM, num_layers=2, bidirectional=True),
    "gru": _recurrent(nn.GRU),
    "gru_attention": _recurrent(nn.GRU, bidirectional=True, attends=True),
    "rnn_attention": _recurrent(nn.RNN, attends=True),
    "rnn_relu": _recurrent(nn.RNN, nonlinearity="relu"),
    "tcn": Architecture(Tcn, SIGNAL, head="head"),
    "conv1d_group_norm": Architecture(_group_normed, SIGNAL, head="8"),
    "keyword_spotting": Architecture(
        _keyword_spotting, {"spectrogram": floats(1, 20, 10)}, head="17"
    ),
    "spectral": Architecture(Spectral, {"signal": floats(1, 64)}, head="head"),
    "text_cnn": Architecture(TextCnn, tokens(), head="head"),
    "crnn": Architecture(Crnn, {"image": floats(1, 8, 24)}, head="head"),
    "conformer": Architecture(Conformer, {"sequence": floats(LENGTH, FEATURES)}, head="head"),
    "encoder_decoder": Architecture(
        EncoderDecoder,
        {"source": integers(VOCABULARY, 7), "target": integers(VOCABULARY, 5)},
        head="head",
    ),
    "forecaster": Architecture(Forecaster, {"sequence": floats(LENGTH, FEATURES)}, head="head"),
    "translator": Architecture(
        Translator,
        {"source": integers(VOCABULARY, 7), "target": integers(VOCABULARY, LENGTH)},
        head="head",
    ),
}
