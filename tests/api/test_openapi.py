"""The OpenAPI description is complete, and true."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from support import Served, blobs, mlp

from api.schemas.models import ModelSpecBody
from service.access.principal import EVERY_SCOPE
from service.policy.policy import LEVELS, Policy

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def description(served: Served) -> dict[str, Any]:
    answer = served.tokenless.get("/openapi.json")
    assert answer.status_code == 200
    return answer.json()


def test_making_it_warns_of_nothing() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "api.description"], capture_output=True, cwd=ROOT, check=True
    )
    assert made.stderr == b""


OLDER_PYDANTIC = """
from pydantic import BaseModel, warnings
class Body(BaseModel):
    x: int
vars(warnings).pop("UnsupportedFieldAttributeWarning", None)
import api.schemas.base
"""


def test_bodies_need_nothing_that_the_oldest_allowed_pydantic_lacks() -> None:
    """2.11, which has no class for the warning that they ignore."""
    subprocess.run([sys.executable, "-c", OLDER_PYDANTIC], cwd=ROOT, check=True)


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


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        yield from references(child)


def test_every_reference_leads_somewhere(description: dict[str, Any]) -> None:
    found = set(references(description))
    assert len(found) > 40
    for reference in found:
        node: Any = description
        for part in reference.removeprefix("#/").split("/"):
            assert part in node, f"{reference} leads nowhere"
            node = node[part]


def test_the_spec_of_a_registration_is_described_with_all_its_fields(
    description: dict[str, Any],
) -> None:
    form = description["paths"]["/v1/models"]["post"]["requestBody"]["content"]
    reference = form["multipart/form-data"]["schema"]["properties"]["spec"]["$ref"]
    spec = description["components"]["schemas"][reference.rpartition("/")[2]]
    assert set(spec["properties"]) == set(ModelSpecBody.model_fields)
    assert set(spec["required"]) == {"name", "loss"}
    assert spec["additionalProperties"] is False


def test_the_policys_settings_are_described_with_their_bounds(
    served: Served, description: dict[str, Any]
) -> None:
    body = description["paths"]["/v1/policy"]["put"]["requestBody"]["content"]["application/json"]
    changes = description["components"]["schemas"][body["schema"]["$ref"].rpartition("/")[2]]
    assert list(changes["properties"]) == [field.name for field in fields(Policy)]
    assert "required" not in changes
    partners = {
        name: (each.stop, each.resume) for each in LEVELS for name in (each.stop, each.resume)
    }
    try:
        for name, described in changes["properties"].items():
            schema = {**described, **described.get("anyOf", [{}])[0]}
            for limit, beyond in (("minimum", -1), ("maximum", 1)):
                if limit not in schema:
                    continue
                edge = dict.fromkeys(partners.get(name, [name]), schema[limit])
                answer = served.http.put("/v1/policy", json=edge)
                assert answer.status_code == 200, answer.text
                answer = served.http.put("/v1/policy", json={name: schema[limit] + beyond})
                assert answer.status_code == 422, f"{name}: {schema[limit] + beyond}"
                assert [error["pointer"] for error in answer.json()["errors"]] == [f"/{name}"]
    finally:
        served.http.delete("/v1/policy").raise_for_status()


def test_the_version_of_an_alias_is_described_with_its_bounds(description: dict[str, Any]) -> None:
    version = description["components"]["schemas"]["AliasTarget"]["properties"]["version"]
    assert (version["minimum"], version["exclusiveMaximum"]) == (1, 2**63)
    assert isinstance(version["exclusiveMaximum"], int)


@pytest.fixture(scope="module")
def in_every_form(served: Served) -> str:
    """A model whose variants can be made."""
    served.register("every-form", mlp(8, 16, 3), trainable={"lora": {"rank": 2}})
    served.upload("every-form", **blobs(40, 8, 3), split="validation").raise_for_status()
    return "every-form"


@pytest.mark.parametrize("path", ["/latest/model.onnx", "/versions/1/model.onnx"])
def test_every_form_of_a_models_file_is_described(
    path: str, served: Served, description: dict[str, Any], in_every_form: str
) -> None:
    route = f"/v1/models/{{name}}{path}".replace("/versions/1/", "/versions/{number}/")
    responses = description["paths"][route]["get"]["responses"]
    variants = next(
        parameter["schema"]["anyOf"][0]["enum"]
        for parameter in description["paths"][route]["get"]["parameters"]
        if parameter["name"] == "variant"
    )
    if not hasattr(onnxruntime, "AdapterFormat"):
        variants.remove("adapter")  # which older runtimes cannot write
    for variant in (None, *variants):
        params = {"variant": variant} if variant else {}
        url = f"/v1/models/{in_every_form}{path}"
        whole = served.http.get(url, params=params)
        part = served.http.get(url, params=params, headers={"Range": "bytes=0-9"})
        assert (whole.status_code, part.status_code) == (200, 206), whole.text
        for answer in (whole, part):
            kind = answer.headers["content-type"].partition(";")[0]
            assert kind in responses[str(answer.status_code)]["content"], (variant, kind)


def test_the_daemon_never_loads_what_makes_the_description() -> None:
    code = "import sys, api.server; sys.exit('api.description' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_token_is_described(description: dict[str, Any]) -> None:
    scheme = description["components"]["securitySchemes"]["token"]
    assert scheme["scheme"] == "bearer"
    assert [each for each in EVERY_SCOPE if f"`{each.value}`" not in scheme["description"]] == []
    for method, path, operation in operations(description):
        if path in ("/healthz", "/readyz", "/v1/sign-in"):
            assert not operation.get("security"), path
        else:
            ((scope,),) = (each["token"] for each in operation["security"])
            assert scope in EVERY_SCOPE, f"{method} {path}"
            assert operation["description"].endswith(f"Scope: `{scope}`."), f"{method} {path}"


def test_the_pages_policy_lets_its_own_script_run_and_no_other(served: Served) -> None:
    answer = served.tokenless.get("/docs")
    policy = answer.headers["content-security-policy"]
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert '"persistAuthorization": false' in script


def test_the_page_needs_nothing_from_elsewhere(served: Served) -> None:
    page = served.tokenless.get("/docs").text

    assert "http://" not in page
    assert "https://" not in page
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"):
        assert f"/docs/assets/{asset}" in page
        answer = served.tokenless.get(f"/docs/assets/{asset}")
        assert answer.status_code == 200
