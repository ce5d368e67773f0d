"""Errors of prediction."""

from __future__ import annotations

from storage.errors import HoneError


class ModelNotLoadable(HoneError):
    """The version's file cannot be loaded as a session."""

    code = "model_not_loadable"


class PredictionFailed(HoneError):
    """The model cannot compute these inputs, though they fit its signature."""

    code = "prediction_failed"


class PredictionTimeout(HoneError):
    """The predictor did not answer in time."""

    code = "prediction_timeout"
