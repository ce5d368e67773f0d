"""Principals: who makes a request, and what they may do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from enum import Enum

from msgspec import Struct, field

from service.errors import InsufficientScope
from storage.records.access import OF_TOKENS, Limits


class Scope(str, Enum):
    """One kind of right; every route needs one of them."""

    SAMPLES_WRITE = "samples:write"
    SAMPLES_READ = "samples:read"
    PREDICT = "predict"
    MODELS_READ = "models:read"
    TRAIN = "train"
    MODELS_ADMIN = "models:admin"
    DEVICE_POLICY = "device:policy"
    FEDERATE = "federate"
    BACKUP = "backup"
    TOKENS_ADMIN = "tokens:admin"


SCOPES: dict[Scope, str] = {
    Scope.SAMPLES_WRITE: "Add samples; change the label of those that the token itself has added.",
    Scope.SAMPLES_READ: "List, count, download and export samples.",
    Scope.PREDICT: "Have the promoted version predict.",
    Scope.MODELS_READ: "See models, versions, jobs, curves, triggers and events; fetch models.",
    Scope.TRAIN: "Queue, cancel, pause and resume jobs; make and change triggers.",
    Scope.MODELS_ADMIN: "Register, change and delete models, versions' aliases, checkpoints and "
    "anybody's samples.",
    Scope.DEVICE_POLICY: "See the device; see and change the policy; pause and snooze all "
    "training; let a job ignore the policy.",
    Scope.FEDERATE: "Send parameters of models and have them judged or measured; begin, see and "
    "stop rounds of federated training, and fetch their updates, where a person has allowed that.",
    Scope.BACKUP: "Back up everything; verify all that is stored.",
    Scope.TOKENS_ADMIN: "List, create, change, rotate and revoke tokens; read the audit log.",
}
"""Every scope and what it allows; docs/tokens.md says the same."""
DEVICE_WIDE = frozenset({Scope.DEVICE_POLICY, Scope.BACKUP, Scope.TOKENS_ADMIN})
"""Scopes that concern all models at once: a token bound to models cannot have them."""
OF_PAGES = frozenset(
    {Scope.SAMPLES_WRITE, Scope.SAMPLES_READ, Scope.PREDICT, Scope.MODELS_READ, Scope.TRAIN}
)
"""Maximum scopes of a token used by a web page of another origin."""
ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")
OF_USERS = "uid "
"""Prefix of the id of a user of this device."""
EVERY_SCOPE = frozenset(Scope)


def page_origin(text: str) -> str:
    """The origin of a web page, in lower case, as browsers send it.

    Raises ValueError unless the text is a single origin.
    """
    if not ORIGIN.fullmatch(text.lower()):
        raise ValueError(
            f"{text!r} is no origin of a web app: name each in full, such as "
            "http://localhost:3000, without a path; any page may not be allowed"
        )
    return text.lower()


def host_name(text: str) -> str:
    """The text. Raises ValueError for what is no host, such as an address with a scheme."""
    if re.search(r"[/\s]|^$", text):
        raise ValueError(f"{text!r} is no name of a host, such as honed.local or honed.local:443")
    return text


class Principal(Struct, frozen=True):
    """Who makes a request: the admin token, an app's token, or a user of this device.

    id: `admin`, `token 3` or `uid 1000`, as samples and the audit log record it. name: for people.
    models: the only ones it may access, None for all. expires_at: None for never.
    """

    id: str
    name: str
    scopes: frozenset[Scope]
    models: frozenset[str] | None = None
    limits: Limits = field(default_factory=Limits)
    expires_at: datetime | None = None

    @property
    def is_token(self) -> bool:
        """Whether it is a token of the database, which has limits and can be revoked."""
        return self.id.startswith(OF_TOKENS)

    @property
    def is_administrator(self) -> bool:
        """Whether it is the admin, or a user of this device, and may end the tokens of others."""
        return Scope.TOKENS_ADMIN in self.scopes and not self.is_token

    @property
    def owner(self) -> str | None:
        """The owner recorded with samples that it adds; None if it may change anybody's."""
        return None if Scope.MODELS_ADMIN in self.scopes else self.id

    def sees(self, model: str | None) -> bool:
        """Whether it may access this model; model: None for what concerns no model."""
        return self.models is None or model in self.models

    def has(self, scope: Scope, model: str | None = None) -> bool:
        """Whether it has this scope, for the model if given."""
        return scope in self.scopes and (model is None or self.sees(model))

    def require(self, scope: Scope, model: str | None = None) -> None:
        """Raises InsufficientScope, which names what is missing and how to get it."""
        if scope not in self.scopes:
            raise InsufficientScope(
                f"this needs the scope {scope.value}; {self.described} has "
                f"{_listed(held.value for held in Scope if held in self.scopes)}; "
                f"who has tokens:admin makes one: honed tokens create NAME --scope {scope.value}",
                scope=scope.value,
            )
        if model is not None and not self.sees(model):
            raise InsufficientScope(
                f"{self.described} is bound to {_listed(sorted(self.models or ()))}, and this "
                f"concerns {model!r}; who has tokens:admin makes one for it: "
                f"honed tokens create NAME --scope {scope.value} --model MODEL",
                scope=scope.value,
            )

    @property
    def described(self) -> str:
        """`token 3 (photos)`."""
        return self.id if self.name == self.id else f"{self.id} ({self.name})"


ADMIN = Principal("admin", "admin", EVERY_SCOPE)
"""The holder of the token in DATA_DIR/admin.token."""


def of_user(uid: int) -> str:
    """The id of a user of this device."""
    return f"{OF_USERS}{uid}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
