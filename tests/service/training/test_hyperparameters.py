"""Hyperparameters are declared once: requests and the command line follow."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec.structs import fields
from pydantic import ValidationError

from api.schemas.jobs import JobHyperparameters
from cli.commands.jobs.training import train
from service.errors import InvalidInput
from service.models.upgrade.spec import upgrade_spec
from service.training.heads.kinds import Kind
from service.training.hyperparameters import ABOUT, Hyperparameters, declared
from service.training.optimizer.rules import RULES
from service.training.tasks import TASKS

NAMES = [field.name for field in fields(Hyperparameters)]


@pytest.mark.parametrize("name", NAMES)
def test_a_hyperparameter_is_a_field_of_a_request_and_an_option_of_train(name: str) -> None:
    assert name in JobHyperparameters.model_fields
    (option,) = [param for param in train.params if param.name == name]
    assert option.opts == [f"--{name.replace('_', '-')}"]


@pytest.mark.parametrize("name", NAMES)
def test_a_request_may_leave_every_hyperparameter_out(name: str) -> None:
    assert getattr(JobHyperparameters.model_validate({name: None}), name) is None


def test_a_request_is_held_to_the_declared_bounds() -> None:
    for each in declared():
        for bound, limit in each.about.bounds.items():
            outside = limit if bound in {"gt", "lt"} else limit + (1 if bound == "le" else -1)
            with pytest.raises(ValidationError):
                JobHyperparameters.model_validate({each.name: outside})
            with pytest.raises(InvalidInput, match="spec is wrong"):
                upgrade_spec({"hyperparameters": {each.name: outside}})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rate": 1}, "/spec/hyperparameters: Object contains unknown field `rate`"),
        ({"learning_rate": "fast"}, "/spec/hyperparameters/learning_rate: Expected `float | null`"),
    ],
    ids=str,
)
def test_a_vendors_hyperparameters_are_those_of_a_request(wrong: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        upgrade_spec({"hyperparameters": wrong})
    (problem,) = caught.value.problems
    assert f"{problem.pointer}: {problem.detail}".startswith(said)
    given = {"learning_rate": 1, "head": {"kind": "knn", "k": 3}, "seed": None}
    assert upgrade_spec({"hyperparameters": given}).hyperparameters == given


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_a_request_with_a_number_that_is_not_finite_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="finite"):
        JobHyperparameters.model_validate_json(f'{{"learning_rate": {text}}}')


def test_a_hyperparameter_names_optimizers_and_heads_that_there_are() -> None:
    assert {optimizer for about in ABOUT.values() for optimizer in about.optimizers} == RULES.keys()
    assert {head for about in ABOUT.values() for head in about.heads} == {*get_args(Kind)}


def test_the_options_of_a_task_are_hyperparameters() -> None:
    assert set().union(*(task.options for task in TASKS.values())) <= ABOUT.keys()
