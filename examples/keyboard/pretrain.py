"""Makes base.onnx and tokenizer.json: a next-word model that knows the manual's words alone.

    pip install torch tokenizers onnx
    python examples/keyboard/pretrain.py [FOLDER]

What a phone's maker would do once, in PyTorch; the device then goes on by itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.nn import functional as F  # noqa: N812
from writing import base_set, divided, manual

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 1024, 96, 4, 2, 48
EPOCHS, BATCH_SIZE, LEARNING_RATE, DROPOUT = 12, 32, 3e-3, 0.2
SPECIAL = ["<pad>", "<s>"]


class Layer(nn.Module):
    """Attention to the tokens before, and a layer of GELU, each beside what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        parts = (
            each(y).unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(*parts, attn_mask=seen)
        x = x + self.dropout(self.out(y.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Keyboard(nn.Module):
    """Logits of the next token, (batch, tokens, vocabulary)."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(input_ids.shape[1])
        x = self.dropout(self.tokens(input_ids) + self.places(places))
        seen = (attention_mask > 0)[:, None, None, :] & (places[None, :] <= places[:, None])
        for layer in self.layers:
            x = layer(x, seen)
        return self.head(self.norm(x))


def trained_tokenizer(texts: list[str]) -> Tokenizer:
    """Byte-pair encoding of these texts; a text begins with <s>, so that its first word is
    predicted too."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options = {"vocab_size": VOCABULARY, "special_tokens": SPECIAL, "initial_alphabet": alphabet}
    made.train_from_iterator(texts, trainers.BpeTrainer(**options, show_progress=False))
    from tokenizers.processors import TemplateProcessing

    made.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made


def batch(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def loss_of(net: Keyboard, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean over the tokens but the first of each text."""
    target = torch.where(mask[:, 1:] > 0, ids[:, 1:], -100)
    return F.cross_entropy(net(ids, mask)[:, :-1].flatten(0, 1), target.flatten())


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.manual_seed(0)
    texts, kept_back = divided(manual())
    texts, _ = base_set(texts)
    tokenizer = trained_tokenizer(texts)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    rows = [tokenizer.encode(text).ids[:LONGEST] for text in texts]
    net = Keyboard()
    steps = EPOCHS * -(-len(rows) // BATCH_SIZE)
    optimizer = torch.optim.AdamW(net.parameters(), LEARNING_RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, steps)
    for epoch in range(EPOCHS):
        losses = []
        for chosen in torch.randperm(len(rows)).split(BATCH_SIZE):
            ids, mask = batch([rows[each] for each in chosen.tolist()])
            loss = loss_of(net, ids, mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        net.eval()
        with torch.no_grad():
            kept = loss_of(
                net, *batch([tokenizer.encode(each).ids[:LONGEST] for each in kept_back])
            )
        net.train()
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.2f}, kept back {kept:.2f}")
    ids, mask = batch(rows[:2])
    axes = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        net.eval(),
        (ids, mask),
        str(folder / "base.onnx"),
        input_names=["input_ids", "attention_mask"],
        output_names=["logits"],
        dynamic_axes={"input_ids": axes, "attention_mask": axes, "logits": {0: "batch"}},
        dynamo=False,
    )


if __name__ == "__main__":
    main()
