"""Language models of transformers, from configurations of two narrow layers."""

from __future__ import annotations

from typing import Any

import transformers
from torch import Tensor, nn

from tests.zoo.architectures.architecture import (
    CLASSES,
    VOCABULARY,
    Architecture,
    floats,
    padding,
    tokens,
)

LENGTH = 12
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 32,
    "num_labels": CLASSES,
    "pad_token_id": 0,
}
DISTIL = {
    "vocab_size": VOCABULARY,
    "dim": 32,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 48,
    "max_position_embeddings": 32,
    "num_labels": CLASSES,
}


class Logits(nn.Module):
    """A model of transformers that gives a tensor. last: of its last position alone."""

    def __init__(self, model: nn.Module, *, last: bool = False) -> None:
        super().__init__()
        self.model, self.last = model, last

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        logits = self.model(input_ids, attention_mask=attention_mask, return_dict=False)[0]
        return logits[:, -1] if self.last else logits


class Positions(nn.Module):
    """A language model with the classes on axis 1, as cross-entropy takes them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        read = {"input_ids": input_ids, "attention_mask": attention_mask}
        return self.model(**read, use_cache=False, return_dict=False)[0].transpose(1, 2)


class Encoded(nn.Module):
    """An encoder's mean over the positions, and a layer of ours."""

    def __init__(self, encoder: nn.Module, size: int) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, nn.Linear(size, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.classifier(self.encoder(inputs, return_dict=False)[0].mean(1))


def _classifier(model: str, config: str, **sizes: Any) -> nn.Module:
    made = getattr(transformers, config)(**sizes)
    return Logits(getattr(transformers, model)(made))


def _masked(attention: str) -> nn.Module:
    config = transformers.BertConfig(**SIZES, attn_implementation=attention)
    return Logits(transformers.BertForSequenceClassification(config))


def _causal(model: str, config: str, *, tied: bool = False, **sizes: Any) -> nn.Module:
    made = getattr(transformers, config)(**sizes, tie_word_embeddings=tied, use_cache=False)
    return getattr(transformers, model)(made)


def _llama(**more: Any) -> nn.Module:
    sizes = {name: value for name, value in SIZES.items() if name != "num_labels"}
    return _causal("LlamaForCausalLM", "LlamaConfig", **{**sizes, **more})


def _gpt2(*, tied: bool) -> nn.Module:
    return _causal(
        "GPT2LMHeadModel", "GPT2Config",
        vocab_size=VOCABULARY, n_positions=32, n_embd=32, n_layer=2, n_head=2, tied=tied,
    )  # fmt: skip


def _t5() -> nn.Module:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2
    )
    return Encoded(transformers.T5EncoderModel(config), 32)


def _wav2vec() -> nn.Module:
    config = transformers.Wav2Vec2Config(
        **{name: value for name, value in SIZES.items() if name != "max_position_embeddings"},
        conv_dim=(8, 8, 8),
        conv_stride=(5, 2, 2),
        conv_kernel=(10, 3, 3),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        num_feat_extract_layers=3,
    )
    return Encoded(transformers.Wav2Vec2Model(config), 32)


def _sequence(model: str, config: str, head: str = "model.classifier", **more: Any) -> Architecture:
    return Architecture(
        lambda: _classifier(model, config, **{**SIZES, **more}), tokens(), head=head
    )


MASKED = {**tokens(), "attention_mask": padding(LENGTH)}
ALIGNED = {**tokens(), "attention_mask": padding(LENGTH, left=True)}
"""Without a mask, decoders look for packed sequences, which TorchScript cannot export."""
ARCHITECTURES = {
    "bert": _sequence("BertForSequenceClassification", "BertConfig"),
    "bert_masked": Architecture(
        lambda: _masked("sdpa"), MASKED, head="model.classifier"
    ),
    "bert_eager": Architecture(
        lambda: _masked("eager"), MASKED, head="model.classifier"
    ),
    "distilbert": Architecture(
        lambda: _classifier("DistilBertForSequenceClassification", "DistilBertConfig", **DISTIL),
        tokens(), head="model.classifier",
    ),
    "albert": _sequence("AlbertForSequenceClassification", "AlbertConfig", embedding_size=16),
    "roberta": _sequence(
        "RobertaForSequenceClassification", "RobertaConfig", head="model.classifier.out_proj"
    ),
    "fnet": _sequence("FNetForSequenceClassification", "FNetConfig"),
    "electra": _sequence(
        "ElectraForSequenceClassification", "ElectraConfig",
        head="model.classifier.out_proj", embedding_size=16,
    ),
    "deberta": _sequence(
        "DebertaV2ForSequenceClassification", "DebertaV2Config",
        relative_attention=True, position_biased_input=False, pos_att_type=["p2c", "c2p"],
    ),
    "llama": Architecture(lambda: Logits(_llama(), last=True), ALIGNED, head="model.lm_head"),
    "llama_grouped": Architecture(
        lambda: Positions(_llama(num_key_value_heads=1)), MASKED, head="model.lm_head"
    ),
    "gpt2": Architecture(
        lambda: Logits(_gpt2(tied=False), last=True), ALIGNED, head="model.lm_head"
    ),
    "gpt2_tied": Architecture(lambda: Positions(_gpt2(tied=True)), MASKED),
    "t5_encoder": Architecture(_t5, tokens(), head="classifier"),
    "wav2vec": Architecture(_wav2vec, {"inputs": floats(400)}, head="classifier"),
}  # fmt: skip
