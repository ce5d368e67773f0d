"""Logins to sources: by a password, or by a token that is sent for.

Source: the distribution project's "Token Authentication Specification", and RFC 7617.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlencode

import msgspec

from service.follow.errors import SourceRefused
from service.follow.messages import Login
from service.follow.web import Web, require_found
from storage.database.codec import decode

MOST_BYTES = 1 << 20
_PARAMETER = re.compile(r'([a-zA-Z_]+)="([^"]*)"')


class Authentication:
    """Answers a source's challenge: by user and password, or by a token that it sends for.

    repository: of a registry, which the token is to read.
    """

    def __init__(self, web: Web, login: Login | None, *, repository: str | None) -> None:
        self._web = web
        self._login = login
        self._repository = repository

    def answer(self, challenge: str) -> str:
        """The `Authorization` header for a `WWW-Authenticate` header. Raises SourceRefused."""
        scheme, _, rest = challenge.partition(" ")
        parameters = {name.lower(): value for name, value in _PARAMETER.findall(rest)}
        if scheme.lower() == "basic":
            return self._basic()
        if scheme.lower() == "bearer" and parameters.get("realm"):
            return f"Bearer {self._token(parameters)}"
        raise SourceRefused(f"the source wants a login of an unknown kind: {scheme!r}")

    def _basic(self) -> str:
        if self._login is None:
            raise SourceRefused(
                "the source wants a login, and the file of HONED_REGISTRY_CREDENTIALS has none for "
                "its host"
            )
        pair = f"{self._login.username}:{self._login.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def _token(self, parameters: dict[str, str]) -> str:
        realm = parameters["realm"]
        self._web.require_allowed(realm, asked_by=self._web.origin)
        query = {"scope": f"repository:{self._repository}:pull"}
        if "service" in parameters:
            query["service"] = parameters["service"]
        own = {} if self._login is None else {"Authorization": self._basic()}
        answer = self._web.get(f"{realm}?{urlencode(query)}", own, most_bytes=MOST_BYTES)
        require_found(answer, realm)
        try:
            fields = decode(answer.body, dict[str, Any])
            token = fields.get("token") or fields["access_token"]
        except (msgspec.DecodeError, KeyError, RecursionError) as error:
            raise SourceRefused("the registry's token service answers without a token") from error
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise SourceRefused("the registry's token service answers with no token")
        return token
