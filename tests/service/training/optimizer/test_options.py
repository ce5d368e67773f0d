"""What a job may ask of an optimizer, and how parameters are chosen."""

from __future__ import annotations

import subprocess
import sys

import pytest

from service.training.optimizer.options import OptimizerOptions, problems


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop", "lion"])
def test_the_defaults_of_every_optimizer_are_in_order(optimizer: str) -> None:
    assert problems(OptimizerOptions(optimizer), parameters=["w"]) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "pointer", "words"),
    [
        (OptimizerOptions("adamw", momentum=0.9), "/momentum", "adamw has no momentum"),
        (OptimizerOptions("sgd", betas=(0.9, 0.9)), "/betas", "take adam, adamw, lion"),
        (OptimizerOptions("sgd", nesterov=True), "/nesterov", "a momentum above 0"),
        (
            OptimizerOptions("adam", betas=(0.9, 1.0)),
            "/betas/1",
            "is 1.0; it must be at least 0 and below",
        ),
        (OptimizerOptions(rate_factors={"w": -2.0}), "/rate_factors/w", "at least 0"),
        (
            OptimizerOptions(rate_factors={"x*": 2.0}),
            "/rate_factors",
            "matches 'x*'; they are w, head.b",
        ),
        (OptimizerOptions(decays=("y",)), "/decays", "matches 'y'"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_wrong_is_named_with_its_place(
    options: OptimizerOptions, pointer: str, words: str
) -> None:
    (problem,) = problems(options, parameters=["w", "head.b"])
    assert problem.pointer == pointer
    assert words in problem.detail


def test_all_that_is_wrong_is_told_at_once() -> None:
    options = OptimizerOptions("adam", nesterov=True, betas=(2.0, 0.9), rate_factors={"w": -1.0})
    places = [problem.pointer for problem in problems(options)]
    assert places == ["/nesterov", "/betas/0", "/rate_factors/w"]


def test_weights_decay_and_biases_and_scales_do_not_unless_they_are_chosen() -> None:
    options = OptimizerOptions(weight_decay=0.1)
    assert [options.decay("w", axes) for axes in range(5)] == [0.0, 0.0, 0.1, 0.1, 0.1]
    chosen = OptimizerOptions(weight_decay=0.1, decays=("bias", "conv.*"))
    assert chosen.decay("bias", 1) == chosen.decay("conv.weight", 4) == 0.1
    assert chosen.decay("weight", 2) == 0.0


def test_the_first_glob_that_matches_gives_the_rate_factor() -> None:
    options = OptimizerOptions(rate_factors={"head.bias": 0.0, "head.*": 10.0})
    assert [options.rate_factor(each) for each in ("head.bias", "head.w", "w")] == [0.0, 10.0, 1.0]


def test_options_are_judged_without_onnx_which_the_daemon_does_not_load() -> None:
    program = (
        "import sys; from service.training.optimizer.options import OptimizerOptions, problems;"
        "problems(OptimizerOptions()); print('onnx' in sys.modules or 'numpy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert run.stdout.split() == [b"False"]
