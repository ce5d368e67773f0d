"""The description of kind `text`: which inputs a text feeds, and how many tokens they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from service.preprocess.checks import WrongDescription
from storage.records.signatures import TensorSpec

KIND = "text"
ROLES = ("attention_mask", "token_type_ids", "position_ids")
"""Inputs beside the ids that can be fed, by the names that exporters give them."""
IDS = "input_ids"
LEAVE_OUT = "leave_out"
"""The field that says what is not stored of texts; it may change at any time."""
CHOICES = {"truncation": ("right", "left"), "padding": ("max", "batch")}
"""The choices; the first is the default. padding: to max_tokens, or to the longest of a batch."""
FLAGS = {"pairs": False, "special_tokens": True}
OF_TOKENIZER = ("tokenizer", "vocabulary", "pad_id")
"""Fields that registration fills in; the SHA-256 of tokenizer.json, the highest id and 1 more."""
FIELDS = ("input", "kind", *ROLES, *CHOICES, *FLAGS, "max_tokens", "stride", "max_windows")
FIELDS += (LEAVE_OUT,)
DEFAULT_TOKENS = 128
"""Of an input whose length is not fixed."""
MOST_TOKENS = 8192
MAX_TEXT_BYTES = 2**20
MAX_TOKENIZER_BYTES = 64 * 2**20
"""Vocabularies of 260,000 tokens with their merges take 33 MB."""
WORDS = "hone.words"
"""A tensor beside inputs and outputs: where words are, (n, 2, tokens), see words.py."""
DEFAULT_WINDOWS, MOST_WINDOWS = 16, 256


def is_text(description: Mapping[str, Any]) -> bool:
    """Whether it is of this kind."""
    return description.get("kind") == KIND


def with_facts(description: Mapping[str, Any], known: Mapping[str, Any] | None) -> dict[str, Any]:
    """The description with what registration found out, which it may repeat but not change.

    known: that, or the model's description; None without a tokenizer. Raises WrongDescription.
    """
    if known is None:
        detail = "texts need their tokenizer; send tokenizer.json as the form's part `tokenizer`"
        raise WrongDescription("/kind", detail)
    for name in OF_TOKENIZER:
        if description.get(name) not in (None, known[name]):
            detail = f"{name} is the tokenizer's, {known[name]!r}; leave it out"
            raise WrongDescription(f"/{name}", detail)
    padding = description.get("padding") or known["padding"]
    if padding == "batch" and known["padding"] == "max":
        detail = "the length of the model's input is fixed, so texts are padded to it: max"
        raise WrongDescription("/padding", detail)
    return {**description, **{name: known[name] for name in OF_TOKENIZER}, "padding": padding}


def roles_of(description: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Role → the input that is fed it. names: of all inputs. Raises WrongDescription."""
    inputs = list(names)
    ids = ids_of(description, inputs)
    feeds: dict[str, str] = {}
    for role in ROLES:
        default = role if role in inputs else None
        name = description.get(role, default)
        if name is None:
            continue
        if name not in inputs or name in (ids, *feeds.values()):
            free = [other for other in inputs if other not in (ids, *feeds.values())]
            raise WrongDescription(f"/{role}", f"no input {name!r} is free for it; free: {free}")
        feeds[role] = name
    left = [name for name in inputs if name != ids and name not in feeds.values()]
    if left:
        detail = f"a text does not feed the input {left[0]!r}: say which of {list(ROLES)} it is"
        raise WrongDescription("", f"{detail}, or export the model without it")
    return feeds


def ids_of(description: Mapping[str, Any], inputs: Sequence[str]) -> str:
    """The input that is fed the ids. Raises WrongDescription."""
    only = inputs[0] if len(inputs) == 1 else IDS
    name: Any = description.get("input") or only
    if name not in inputs:
        raise WrongDescription("/input", f"the model has no input {name!r}; it has {inputs}")
    return str(name)


def length_of(fields: Mapping[str, Any], specs: Sequence[TensorSpec]) -> tuple[int, dict[str, str]]:
    """How many tokens the inputs take, and their dtypes by name."""
    for spec in specs:
        kinds = "iu" if spec is specs[0] else "iufb"
        if np.dtype(spec.dtype).kind not in kinds or len(spec.shape) != 1:
            raise WrongDescription(
                "/input",
                f"input {spec.name!r} takes {spec.dtype} of shape {list(spec.shape)} a sample;"
                " token ids are integers of shape [tokens]",
            )
        if spec.shape != specs[0].shape:
            raise WrongDescription("/input", "the inputs that a text feeds have the same length")
    (tokens,) = specs[0].shape
    if fields.get("max_tokens", tokens) != tokens:
        raise WrongDescription("/max_tokens", f"input {specs[0].name!r} takes {tokens} tokens")
    return tokens, {spec.name: spec.dtype for spec in specs}


def windows_of(fields: Mapping[str, Any], tokens: int) -> tuple[int | None, int]:
    stride, most = fields.get("stride"), fields.get("max_windows", DEFAULT_WINDOWS)
    if stride is None:
        if "max_windows" in fields:
            raise WrongDescription("/max_windows", "give stride, too: without it there is one")
        return None, 1
    if fields["pairs"]:
        raise WrongDescription("/stride", "pairs are truncated; leave stride out")
    if type(stride) is not int or not 1 <= stride <= tokens:
        raise WrongDescription("/stride", f"stride is an integer from 1 to max_tokens, {tokens}")
    if type(most) is not int or not 2 <= most <= MOST_WINDOWS:
        raise WrongDescription("/max_windows", f"an integer from 2 to {MOST_WINDOWS}")
    return stride, most
