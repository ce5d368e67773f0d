"""Jobs on Microsoft's artifacts: a real child trains them, is killed, goes on, lacks memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from msgspec.structs import replace

from service.training.protocol.messages.shared import Artifacts, Failed, ResourceLimits
from service.training.protocol.messages.training import Saved, Started

MakeArtifacts = Callable[..., Artifacts]


def started(child: Any) -> Started:
    (said,) = (each for each in child.said if isinstance(each, Started))
    return said


@pytest.mark.parametrize("kind", [{"optimizer": "SGD"}, {"dropout": True}], ids=str)
def test_a_killed_job_resumes_on_as_many_threads_and_ends_with_the_same_bytes(
    make_workshop: Callable[..., Any],
    make_artifacts: MakeArtifacts,
    train: Any,
    *,
    spawn: Any,
    resumed: Any,
    kind: dict[str, Any],
) -> None:
    task = make_workshop().task(make_artifacts(**kind), epochs=4, schedule="cosine")
    straight, child = train(replace(task, limits=ResourceLimits(threads=1, nice=0)))
    assert started(child).engine.startswith("onnxruntime-training 1.")
    assert started(child).threads == 1
    assert straight.validation["loss"] < straight.baseline["loss"]
    assert len(onnxruntime.InferenceSession(straight.path).get_outputs()) == 1
    task = replace(task, checkpoint_interval_s=0.0)
    child = spawn(task)
    saved = child.wait_for(lambda said: isinstance(said, Saved) and said.state.step >= 9)
    child.kill()
    assert saved.state.step % 13 != 0, "the cut must lie in the middle of an epoch"
    more = replace(resumed(task, saved), limits=ResourceLimits(threads=2, nice=0))
    done, child = train(more)
    assert started(child).threads == 1
    assert Path(done.path).read_bytes() == Path(straight.path).read_bytes()
    assert (done.validation, done.train_loss) == (straight.validation, straight.train_loss)


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts mappings on Linux alone")
def test_too_little_memory_fails_with_a_clear_last_word(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any
) -> None:
    task = make_workshop().task(make_artifacts(sizes=(6, 2800, 2800, 3)), epochs=1)
    last = spawn(task, memory_bytes=160 << 20).last()
    assert isinstance(last, Failed)
    assert last.code == "out_of_memory", last
    assert "onnxruntime" not in last.detail
