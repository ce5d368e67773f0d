"""Errors of prediction."""

from __future__ import annotations

from storage.errors import HoneError


class ModelNotLoadable(HoneError):
    """The version's file cannot be loaded as a session."""


class PredictionFailed(HoneError):
    """The model cannot compute these inputs, though they fit its signature."""


class PredictionTimeout(HoneError):
    """The predictor did not answer in time."""
