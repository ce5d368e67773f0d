"""The page that tells what becomes of each operator."""

from __future__ import annotations

from pathlib import Path

from service.training.graph.coverage import REASONS, page, schemas, verdict
from service.training.graph.rules import RULES

PAGE = Path(__file__).parents[4] / "docs/operators.md"


def test_the_page_is_what_the_program_writes() -> None:
    assert PAGE.read_text("utf-8") == page()


def test_no_operator_of_onnx_is_left_out_and_no_rule_is_of_another() -> None:
    names = {schema.name for schema in schemas()}
    assert len(names) > 190
    assert {name for name in RULES if "." not in name} <= names
    assert set(REASONS) <= names
    assert not set(REASONS) & set(RULES)
    for schema in schemas():
        here, why = verdict(schema)
        assert here != "none" or why, schema.name


def test_what_onnx_calls_differentiable_has_a_rule_or_a_reason() -> None:
    wanting = {
        schema.name
        for schema in schemas()
        if verdict(schema)[0] == "none"
        and any(i.differentiation_category.name == "Differentiable" for i in schema.inputs)
    }
    assert wanting <= {"Col2Im", "Det", "GridSample", "Hardmax", "MaxRoiPool", "Scatter"}
