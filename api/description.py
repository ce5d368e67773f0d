"""The OpenAPI description. `python -m api.description` prints it: building it takes much memory."""

from __future__ import annotations

import sys
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel, TypeAdapter

from api.access.scopes import need_of
from api.openapi import BODY_FAULTS, SCHEMAS, answers
from api.schemas.base import ProblemBody
from api.schemas.device import EXAMPLE_POLICY
from api.schemas.diagnosis import DiagnosisSpecBody
from api.schemas.federation import Personalization, RoundRequest
from api.schemas.models import ModelSpecBody
from api.schemas.upgrades import UpgradeCheckBody, UpgradeSpecBody
from api.security import OPEN_PATHS
from service.access.principal import SCOPES
from service.policy.policy import Policy
from storage.database.codec import dump

Schema = dict[str, Any]

BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
SENT = (
    *(ProblemBody, ModelSpecBody, DiagnosisSpecBody, UpgradeSpecBody, UpgradeCheckBody),
    *(RoundRequest, Personalization),
)
"""Bodies that no route names as its own: of parts of forms, and of all errors."""


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, including bodies of routes that read theirs themselves."""
    description = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    components = description["components"]
    components["securitySchemes"] = {"token": _scheme()}
    scopes = _scopes(app)
    schemas = components["schemas"]
    schemas |= _policy_changes()
    for body in SENT:
        components["schemas"] = schemas = _schemas_of(body) | schemas
    for path, method in (("/v1/policy", "put"), ("/v1/policy/check", "post")):
        changes = description["paths"][path][method]["requestBody"]["content"]
        changes["application/json"]["schema"] = {"$ref": f"{SCHEMAS}PolicyChanges"}
    for path, operations in description["paths"].items():
        for operation in operations.values():
            _complete(operation, path, scopes.get(operation["operationId"]))
    _make_whole(description)
    return description


def _scheme() -> dict[str, str]:
    scopes = "\n".join(f"- `{scope.value}`: {what}" for scope, what in SCOPES.items())
    return {"type": "http", "scheme": "bearer", "description": f"Scopes:\n\n{scopes}"}


def _scopes(app: FastAPI) -> dict[str, str]:
    """The scope of each operation that needs one, by its id."""
    routes = (context.original_route for context in iter_route_contexts(app.routes))
    needs = {route.name: need_of(route) for route in routes if isinstance(route, APIRoute)}
    return {name: need.scope.value for name, need in needs.items() if need is not None}


def _complete(operation: dict[str, Any], path: str, scope: str | None) -> None:
    """Add what many routes share: the scope, and the errors of a JSON body.

    OpenAPI 3.1 allows a bearer scheme to name required roles.
    """
    if path not in OPEN_PATHS:
        operation["security"] = [{"token": [scope]}]
        operation["description"] += f"\n\nScope: `{scope}`."
    if path.startswith("/v1/") and "requestBody" in operation:
        for status, answer in answers(*BODY_FAULTS).items():
            operation["responses"].setdefault(str(status), answer)


def _make_whole(node: Any) -> None:
    """Turn bounds of integers into integers: FastAPI writes 2^63 as 9.223372036854776e+18."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for child in children:
        _make_whole(child)
    if isinstance(node, dict) and node.get("type") == "integer":
        node |= {name: int(node[name]) for name in BOUNDS & node.keys()}


def _schemas_of(body: type[BaseModel]) -> Schema:
    """The schema of a body and of its parts, by name."""
    schema = body.model_json_schema(ref_template=SCHEMAS + "{model}")
    return {**schema.pop("$defs", {}), body.__name__: schema}


def _policy_changes() -> Schema:
    """Every setting of the policy, without defaults: omitted ones stay unchanged."""
    changes = TypeAdapter(Policy).json_schema(ref_template=SCHEMAS + "{model}")
    schemas = {**changes.pop("$defs"), "PolicyChanges": changes}
    for part in (changes, schemas["Unknown"]):
        for setting in part["properties"].values():
            setting.pop("default", None)
    changes |= {
        "title": "PolicyChanges",
        "description": "What is to change; a setting that is absent stays. docs/policy.md explains "
        "each.",
        "examples": [EXAMPLE_POLICY],
    }
    return schemas


def main() -> None:
    """Print the description of an app whose daemon never starts."""
    from api.app import create_app
    from service.daemon import Daemon
    from service.settings import Settings

    settings = Settings()
    app = create_app(settings, Daemon(settings, on_fatal=lambda: None))
    sys.stdout.write(dump(describe(app)))


if __name__ == "__main__":
    main()
