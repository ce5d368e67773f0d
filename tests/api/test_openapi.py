"""The OpenAPI description is complete, and true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from support import Served

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def description(served: Served) -> dict[str, Any]:
    answer = httpx.get(f"{served.url}/openapi.json", trust_env=False)
    assert answer.status_code == 200
    return answer.json()


def operations(description: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_has_summary_description_and_tag(description: dict[str, Any]) -> None:
    for method, path, operation in operations(description):
        for field in ("summary", "description", "tags", "operationId"):
            assert operation.get(field), f"{method} {path} has no {field}"


def test_operation_ids_are_unique(description: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(description)]
    assert len(ids) == len(set(ids))


def test_every_route_describes_its_answer_and_its_errors(description: dict[str, Any]) -> None:
    for method, path, operation in operations(description):
        good = [code for code in operation["responses"] if code.startswith("2")]
        bad = [code for code in operation["responses"] if code.startswith(("4", "5"))]
        assert good, f"{method} {path}"
        assert bad, f"{method} {path}"
        for code in good:
            if code not in ("204", "206"):
                assert operation["responses"][code].get("content"), f"{method} {path} {code}"
        # The Open Inference Protocol has an error body of its own.
        kind = "application/json" if path.startswith("/v2") else "application/problem+json"
        for code in bad:
            content = operation["responses"][code].get("content", {})
            examples = content.get(kind, {}).get("examples")
            assert examples, f"{method} {path} {code} has no example"


def test_bodies_have_examples(description: dict[str, Any]) -> None:
    for method, path, operation in operations(description):
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            schema = content.get("schema", {})
            if schema.get("format") == "binary":
                continue
            given = (
                content.get("example")
                or content.get("examples")
                or has_example(schema, description)
            )
            assert given, f"{method} {path} {kind} has no example"


def has_example(schema: dict[str, Any], description: dict[str, Any]) -> bool:
    for part in [schema, *schema.get("anyOf", [])]:
        name = part.get("$ref", "").rpartition("/")[2]
        body = description["components"]["schemas"].get(name, part)
        if body.get("examples") or body.get("example"):
            return True
    return False


def test_every_route_stands_in_the_documentation(description: dict[str, Any]) -> None:
    text = (ROOT / "docs/http.md").read_text("utf-8")
    for method, path, _ in operations(description):
        assert f"`{method} {path}`" in text, f"docs/http.md lacks {method} {path}"


def test_the_token_is_described(description: dict[str, Any]) -> None:
    assert description["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    for method, path, operation in operations(description):
        if path in ("/healthz", "/readyz"):
            assert not operation.get("security"), path
        else:
            assert operation["security"] == [{"token": []}], f"{method} {path}"


def test_the_page_needs_nothing_from_elsewhere(served: Served) -> None:
    page = httpx.get(f"{served.url}/docs", trust_env=False).text

    assert "http://" not in page
    assert "https://" not in page
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"):
        assert f"/docs/assets/{asset}" in page
        answer = httpx.get(f"{served.url}/docs/assets/{asset}", trust_env=False)
        assert answer.status_code == 200
