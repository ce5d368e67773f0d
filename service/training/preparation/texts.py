"""Checks the tokenizer of a model that texts feed, against the model's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from service.preprocess.text_inputs import ROLES
from service.preprocess.tokens import (
    MASKS,
    TokenizerFacts,
    WrongTokenizer,
    examine,
    open_encoder,
)
from service.training.data.lookups import Lookups
from service.training.engine import Array
from service.training.errors import refuse
from service.training.forward.reading import ForwardModel
from service.training.protocol.messages.preparation import Prepare
from service.training.tasks import TASKS
from service.training.tasks.causal_lm import CausalLM
from storage.disk.digest import sha256_of
from storage.records.signatures import TensorSpec

PLACE = "/tokenizer"


def facts_of(task: Prepare) -> TokenizerFacts | None:
    """What is to be known of the task's tokenizer; None for a model that takes no texts.

    Raises GraphRefused.
    """
    if task.text is None or task.tokenizer is None:
        return None
    try:
        return examine(Path(task.tokenizer))
    except WrongTokenizer as wrong:
        raise refuse(
            PLACE, f"{wrong}; send the tokenizer.json of Hugging Face's tokenizers"
        ) from None


def described(
    task: Prepare, facts: TokenizerFacts, forward: ForwardModel, model: Path
) -> dict[str, Any]:
    """What registration adds to the description. Raises GraphRefused if an id has no row."""
    assert task.text is not None
    assert task.tokenizer is not None
    learned = TASKS[task.loss]
    needs_mask = isinstance(learned, CausalLM) and learned.needs_mask
    if needs_mask and open_encoder(task.tokenizer, 1, "right", False).mask_id is None:
        raise refuse(PLACE, f"{task.loss} hides tokens by {' or '.join(MASKS)}, and it has none")
    inputs = forward.signature.inputs
    roles = {task.text.get(role) or role: role for role in ROLES}
    names = [spec.name for spec in inputs]
    highest = [_highest(spec, roles.get(spec.name, ""), facts) for spec in inputs]
    for complaint in Lookups([model], names).complaints(highest).values():
        raise refuse(PLACE, f"the tokenizer has the ids below {facts.vocabulary}: {complaint}")
    return {
        "tokenizer": sha256_of(Path(task.tokenizer)),
        "vocabulary": facts.vocabulary,
        "pad_id": facts.pad_id,
        "padding": "batch" if forward.has_free_lengths else "max",
    }


def _highest(spec: TensorSpec, role: str, facts: TokenizerFacts) -> Array:
    """One row of the largest numbers that texts feed to an input."""
    (tokens,) = spec.shape
    if role == "position_ids":
        return np.arange(tokens, dtype=spec.dtype)[None]
    value = facts.vocabulary - 1 if role not in ROLES else 1
    return np.full((1, tokens), value).astype(spec.dtype)
