"""Errors that the service raises; `storage/errors.py` holds the root."""

from __future__ import annotations

from storage.errors import HoneError, Problem


class InvalidInput(HoneError):
    """The input is wrong; `problems` names every place and its remedy."""

    @classmethod
    def at(cls, pointer: str, detail: str, *, title: str) -> InvalidInput:
        """With one problem."""
        return cls(title, problems=[Problem(pointer, detail)])


class TooLarge(HoneError):
    """The body is larger than the setting allows."""


class UnsupportedMediaType(HoneError):
    """The body's Content-Type is not one that this route takes."""


class ChildDied(HoneError):
    """The child process ended without an answer; the detail holds how, and its last words."""


class BadSetting(HoneError):
    """A setting is wrong; the detail names it, its source and what would be right."""


class CannotListen(BadSetting):
    """Not now: another program may have the address or the socket, or renew the certificate."""


class VariantNotReady(HoneError):
    """The variant is still being made; the same request may succeed in a moment."""


class NotReady(HoneError):
    """The daemon is starting or stopping."""


class PreparationFailed(HoneError):
    """The child that checks an uploaded model crashed or took too long."""


class ModelNotLoadable(HoneError):
    """The version's file cannot be loaded as a session."""


class PredictionFailed(HoneError):
    """The model cannot compute these inputs, though they fit its signature."""


class PredictionTimeout(HoneError):
    """The predictor did not answer in time."""


class NoSession(HoneError):
    """Who reports input is in no person's session of this device, as far as the kernel tells."""


class QuotaExceeded(HoneError):
    """The token has used up one of its limits; the detail names it."""

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unauthorized(HoneError):
    """The secret is not that of a token that is valid now; the detail says why."""


class InsufficientScope(HoneError):
    """The token is valid and may not do this; the detail says what it lacks."""

    def __init__(self, detail: str, *, scope: str) -> None:
        super().__init__(detail)
        self.scope = scope


class NotConsented(HoneError):
    """No person has allowed the model to take part in this federation."""


class PrivacyBudgetSpent(HoneError):
    """The round would spend more of the privacy budget than is left; only a person raises it."""
