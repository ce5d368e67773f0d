"""The frozen part runs once for each sample, and nothing but the time shows it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from service.training.data.features import Prefix
from service.training.errors import ArtifactsUnreadable
from service.training.protocol.messages.preparation import Prepared
from service.training.protocol.messages.shared import Failed, Pause, Stopped
from service.training.protocol.messages.training import (
    Done,
    Progress,
    Quarantined,
    Saved,
    Train,
)
from storage.readonly.sample_index import read_sample_index
from storage.records.samples import Split
from storage.records.signatures import Signature

FRONTIER = 16
"""Values of a feature row: the hidden layer of the perceptron."""


def outputs(done: Done, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(done.path, providers=["CPUExecutionProvider"])
    result: np.ndarray = session.run(None, {"x": x})[0]
    return result


def test_a_cut_model_trains_to_what_the_whole_model_trains_to(
    cut: Callable[..., Prepared],
    task: Callable[..., Train],
    train: Any,
    samples: Any,
    classification: Signature,
) -> None:
    whole, _ = train(task(cut("whole", divide=False)))
    divided, _ = train(task())

    x, _ = samples(20, target=classification.target)
    np.testing.assert_allclose(outputs(divided, x), outputs(whole, x), rtol=1e-5, atol=1e-5)
    assert divided.validation["loss"] == pytest.approx(whole.validation["loss"], abs=1e-6)
    assert divided.baseline["loss"] == pytest.approx(whole.baseline["loss"], abs=1e-6)


def test_the_first_job_keeps_what_the_second_one_reads(
    task: Callable[..., Train], train: Any, tmp_path: Path
) -> None:
    first, _ = train(task())
    rows = tmp_path / "cache" / "features" / "rows"
    written = rows.stat()
    assert written.st_size == 260 * FRONTIER * 4

    second, _ = train(task())

    assert rows.stat().st_mtime_ns == written.st_mtime_ns
    assert Path(second.path).read_bytes() == Path(first.path).read_bytes()


def test_samples_whose_features_are_cached_are_not_read_again_but_the_checked_ones(
    task: Callable[..., Train], train: Any
) -> None:
    made = task()
    first, _ = train(made)
    (pack,) = (Path(made.packs) / str(made.model_id)).iterdir()
    target, watermark = made.signature.target, made.watermark
    which = {"model_id": made.model_id, "split": Split.TRAIN, "target": target}
    index = read_sample_index(Path(made.database), Path(made.packs), watermark=watermark, **which)

    def change(position: int) -> None:
        content = bytearray(pack.read_bytes())
        content[index.offsets[position]] ^= 1
        pack.write_bytes(content)

    def left_out(child: Any) -> list[int]:
        told = [each.reasons for each in child.said if isinstance(each, Quarantined)]
        return [int(np.flatnonzero(index.ids == int(one))[0]) for each in told for one in each]

    change(100)
    second, child = train(made)
    assert left_out(child) == []
    assert Path(second.path).read_bytes() == Path(first.path).read_bytes()
    change(3)
    assert left_out(train(made)[1]) == [3, 100]
    assert left_out(train(task(cache="another"))[1]) == [3, 100]


@pytest.mark.parametrize("most", [0, 100 * FRONTIER * 4])
def test_a_bound_on_the_cache_costs_time_and_no_bit(
    most: int, task: Callable[..., Train], train: Any, tmp_path: Path
) -> None:
    free, _ = train(task())
    bound, _ = train(task(cache="small", most=most))

    assert (tmp_path / "small" / "features" / "rows").stat().st_size == most
    assert Path(bound.path).read_bytes() == Path(free.path).read_bytes()


def test_a_paused_job_goes_on_bit_for_bit_even_if_the_cache_is_lost(
    task: Callable[..., Train], train: Any, spawn: Any, resumed: Any, tmp_path: Path
) -> None:
    long = task(epochs=None, max_steps=3000)
    calm, _ = train(long)
    child = spawn(long)
    child.wait_for(lambda said: isinstance(said, Progress) and said.step > 0)
    child.send(Pause())
    assert isinstance(child.last(), Stopped)
    saved = [said for said in child.said if isinstance(said, Saved)][-1]
    assert saved.state.step < 3000
    shutil.rmtree(tmp_path / "cache")

    done, _ = train(resumed(long, saved))

    assert Path(done.path).read_bytes() == Path(calm.path).read_bytes()


def test_halved_features_take_half_the_bytes_and_the_export_stays_exact(
    cut: Callable[..., Prepared], task: Callable[..., Train], train: Any, tmp_path: Path
) -> None:
    whole, _ = train(task())
    halved, _ = train(task(cut("half", feature_dtype="float16"), cache="half"))

    assert (tmp_path / "half" / "features" / "rows").stat().st_size == 260 * FRONTIER * 2
    assert halved.validation["loss"] == pytest.approx(whole.validation["loss"], rel=0.01)


def test_features_beyond_float16_are_kept_as_its_largest_value(
    cut: Callable[..., Prepared], task: Callable[..., Train]
) -> None:
    wanted = task(cut("half", feature_dtype="float16"))
    prefix = Prefix(Path(wanted.artifacts.prefix_model or ""), wanted, threads=1)

    kept = prefix.rows([np.full((2, 6), 1e6, np.float32)]).view(np.float16)

    assert np.isfinite(kept).all()
    assert kept.max() == np.finfo(np.float16).max


def test_a_model_whose_frozen_part_is_gone_says_so(task: Callable[..., Train], spawn: Any) -> None:
    wanted = task()
    Path(wanted.artifacts.prefix_model or "").unlink()

    last = spawn(wanted).last()

    assert isinstance(last, Failed)
    assert last.code == ArtifactsUnreadable.code
    assert "register the model anew" in last.detail
