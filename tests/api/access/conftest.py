"""Tokens of apps, made inside a daemon of the test's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from support import client

from service.access.principal import ADMIN, Scope
from storage.records.access import Limits


@pytest.fixture
def inside(serve_inside: Callable[..., Any]) -> Any:
    return serve_inside()


@pytest.fixture
def admin(inside: Any) -> Iterator[httpx.Client]:
    with client(inside.url, token=inside.token) as asking:
        yield asking


@pytest.fixture
def app(inside: Any) -> Iterator[Callable[..., httpx.Client]]:
    """A client with a new token of these scopes."""
    with ExitStack() as clients:

        def make(
            *scopes: str, models: list[str] | None = None, name: str = "", **limits: float
        ) -> httpx.Client:
            _, secret = inside.daemon.tokens.create(
                ADMIN,
                name=name or f"{scopes} {models}",
                scopes=[Scope(scope) for scope in scopes],
                models=models,
                limits=Limits(**limits),
                expires_at=None,
            )
            return clients.enter_context(client(inside.url, token=secret))

        yield make
