"""Jobs that may train on other execution providers, in a confined child."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from msgspec.structs import replace

from service.training.engines.provider_setting import CPU
from service.training.protocol.messages.shared import Artifacts
from service.training.protocol.messages.training import Started

MakeArtifacts = Callable[..., Artifacts]
OTHERS = [provider for provider in onnxruntime.get_available_providers() if provider != CPU]


def test_a_provider_that_is_not_there_is_told_and_the_job_ends_as_without(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, train: Any
) -> None:
    wanted = make_workshop().task(make_artifacts(), epochs=1)
    plain, _ = train(wanted)
    done, child = train(replace(wanted, providers=(("NoSuchExecutionProvider", {}),)))
    (started,) = (each for each in child.said if isinstance(each, Started))
    assert any("NoSuchExecutionProvider is not used: the" in each for each in started.warnings)
    assert Path(done.path).read_bytes() == Path(plain.path).read_bytes()


@pytest.mark.skipif(not OTHERS, reason="this onnxruntime has the CPU's execution provider alone")
@pytest.mark.parametrize("provider", OTHERS)
def test_a_confined_job_on_another_provider_names_it_in_provenance(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, train: Any, provider: str
) -> None:
    task = make_workshop().task(make_artifacts(), epochs=12)
    done, _ = train(replace(task, providers=((provider, {}),)))
    assert done.provenance["engine"].endswith(f", {provider}")
    assert done.validation["accuracy"] > 0.85 > done.baseline["accuracy"]


def test_none_is_tried_after_the_cpus(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, train: Any
) -> None:
    wanted = make_workshop().task(make_artifacts(), epochs=1)
    providers = ((CPU, {}), ("NoSuchExecutionProvider", {}))
    _, child = train(replace(wanted, providers=providers))
    (started,) = (each for each in child.said if isinstance(each, Started))
    assert not any("ExecutionProvider" in each for each in (*started.warnings, started.engine))
