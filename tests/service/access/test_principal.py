from __future__ import annotations

import pytest

from service.access.principal import ADMIN, SCOPES, Principal, Scope
from service.errors import InsufficientScope

APP = Principal("token 3", "photos", frozenset({Scope.SAMPLES_WRITE}), frozenset({"pets"}))


def test_every_scope_is_described():
    assert list(SCOPES) == list(Scope)


def test_the_admin_may_do_everything_to_every_model():
    for scope in Scope:
        ADMIN.require(scope, "pets")
        assert ADMIN.has(scope, "pets")


def test_an_app_may_do_what_its_scopes_say_to_its_models():
    APP.require(Scope.SAMPLES_WRITE, "pets")
    assert APP.sees("pets")
    assert not APP.sees("faces")
    assert not APP.sees(None)
    assert not APP.has(Scope.SAMPLES_WRITE, "faces")


def test_a_missing_scope_is_named_with_the_way_to_get_it():
    with pytest.raises(InsufficientScope) as caught:
        APP.require(Scope.TRAIN, "pets")
    assert caught.value.scope == "train"
    assert caught.value.detail == (
        "this needs the scope train; token 3 (photos) has samples:write; "
        "who has tokens:admin makes one: honed tokens create NAME --scope train"
    )


def test_a_model_that_the_token_is_not_bound_to_is_named_with_those_that_it_is():
    with pytest.raises(InsufficientScope, match="bound to pets, and this concerns 'faces'"):
        APP.require(Scope.SAMPLES_WRITE, "faces")
