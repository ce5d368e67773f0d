"""Errors that the service raises; `storage/errors.py` holds the root."""

from __future__ import annotations

from storage.errors import HoneError


class InvalidInput(HoneError):
    """The input is wrong; `problems` names every place and its remedy."""

    code = "invalid_input"


class TooLarge(HoneError):
    """The body is larger than the setting allows."""

    code = "too_large"


class UnsupportedMediaType(HoneError):
    """The body's Content-Type is not one that this route takes."""

    code = "unsupported_media_type"


class ChildDied(HoneError):
    """The child process ended without an answer; the detail holds how, and its last words."""

    code = "child_died"


class BadSetting(HoneError):
    """A setting is wrong; the detail names it, its source and what would be right."""

    code = "bad_setting"


class VariantNotReady(HoneError):
    """The variant is still being made; the same request may succeed in a moment."""

    code = "variant_not_ready"


class NotReady(HoneError):
    """The daemon is starting or stopping."""

    code = "not_ready"


class PreparationFailed(HoneError):
    """The child that checks an uploaded model crashed or took too long."""

    code = "preparation_failed"


class NoSession(HoneError):
    """Who reports input is in no person's session of this device, as far as the kernel tells."""

    code = "no_session"


class QuotaExceeded(HoneError):
    """The token has used up one of its limits; the detail names it."""

    code = "quota_exceeded"

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unauthorized(HoneError):
    """The secret is not that of a token that is valid now; the detail says why."""

    code = "unauthorized"


class InsufficientScope(HoneError):
    """The token is valid and may not do this; the detail says what it lacks."""

    code = "insufficient_scope"

    def __init__(self, detail: str, *, scope: str) -> None:
        super().__init__(detail)
        self.scope = scope


class NotConsented(HoneError):
    """No person has allowed the model to take part in this federation."""

    code = "not_consented"


class PrivacyBudgetSpent(HoneError):
    """The round would spend more of the privacy budget than is left; only a person raises it."""

    code = "privacy_budget_spent"
