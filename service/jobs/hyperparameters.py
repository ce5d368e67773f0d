"""How a job's hyperparameters come about: defaults, then the model's, then the request's."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from service.training.protocol.messages.training import Hyperparameters

ENDINGS = ("epochs", "max_steps", "max_seconds")
"""Each of these ends a job; the first met does."""
DEFAULT_EPOCHS = 5
FOR_JOBS = frozenset(field.name for field in fields(Hyperparameters))
FOR_ARTIFACTS = frozenset({"weight_decay", "max_grad_norm", "feature_dtype"})
"""Written into the artifacts when they are made."""


def merge(model_defaults: dict[str, Any], request: dict[str, Any], *, seed: int) -> dict[str, Any]:
    """Every hyperparameter of a job. seed: for a request that names none.

    A request that says how long to train takes the place of all that the model says about it.
    """
    asked = {name: value for name, value in request.items() if value is not None}
    defaults = {name: value for name, value in model_defaults.items() if name in FOR_JOBS}
    if any(name in asked for name in ENDINGS):
        defaults = {name: value for name, value in defaults.items() if name not in ENDINGS}
    merged = {"seed": seed, **defaults, **asked}
    if not any(merged.get(name) for name in ENDINGS):
        merged["epochs"] = DEFAULT_EPOCHS
    whole = Hyperparameters(**merged)
    return {field.name: getattr(whole, field.name) for field in fields(whole)}
