"""A client of Hone, the daemon that trains models on this device."""

from honed_client.aio import AsyncClient, AsyncModel
from honed_client.calls import (
    Added,
    Call,
    Completion,
    Job,
    Prediction,
    Sample,
    Suggestion,
    Trigger,
    Version,
)
from honed_client.connection import HonedError, Unreachable
from honed_client.sync import Client, Model
from honed_client.watching import Watch

__all__ = [
    "Added",
    "AsyncClient",
    "AsyncModel",
    "Call",
    "Client",
    "Completion",
    "HonedError",
    "Job",
    "Model",
    "Prediction",
    "Sample",
    "Suggestion",
    "Trigger",
    "Unreachable",
    "Version",
    "Watch",
]
