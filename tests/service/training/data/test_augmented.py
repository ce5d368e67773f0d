"""Augmented samples: training alone sees them, and sees the same again whatever came between."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image as Pillow
from workshop import HIDDEN

from service.preprocess import for_signature
from service.preprocess.augmentation.images import ImageAugmentation
from service.preprocess.image import Image
from service.training.data.batches import Dataset, Preprocessed
from service.training.data.features import ROWS, Features, Prefix
from service.training.data.files import LabelledFiles
from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.shared import Pause, Stopped
from service.training.protocol.messages.training import Done, Progress, Saved, Start, Train
from storage.blobs.cache_folder import erase_from_caches
from storage.blobs.row_cache import RowCache
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature, TargetSpec, TensorSpec

AUGMENT = {"jitter": 0.3, "scaling": 0.2, "shift": 0.2, "masking": 0.3, "mixup": 0.4}
PREPROCESS = ({"input": "x", "kind": "standardize", "mean": [0] * 6, "std": [1] * 6},)
AUGMENTED = ({**PREPROCESS[0], "augment": AUGMENT},)
COUNT = 3 * ROWS + 5
HEAD = ("w1", "b1")


@pytest.fixture
def numbers(
    make_dataset: Callable[..., Dataset], classification: Signature, samples: Any
) -> Preprocessed:
    x, labels = samples(COUNT, target=classification.target)
    dataset = make_dataset((x,), labels, classification)
    return Preprocessed(dataset, for_signature(classification, AUGMENTED))


@pytest.fixture
def images(tmp_path: Path) -> LabelledFiles:
    spec = TensorSpec("image", "float32", (3, 8, 8))
    contents = []
    for seed in range(COUNT):
        buffer = io.BytesIO()
        pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3)).astype(np.uint8)
        Pillow.fromarray(pixels).save(buffer, "PNG")
        contents.append(buffer.getvalue())
    path = tmp_path / "images.pack"
    path.write_bytes(b"".join(contents))
    lengths = np.array([len(content) for content in contents])
    index = SampleIndex(
        ids=np.arange(1, COUNT + 1),
        packs=np.zeros(COUNT, np.int32),
        offsets=np.cumsum(lengths) - lengths,
        lengths=lengths,
        labels=np.zeros(COUNT, np.int64),
        pack_paths=(path,),
    )
    signature = Signature((spec,), TargetSpec("labels", "int64", (), 2))
    asked = {"kind": "image", "augment": {"crop": 0.25, "rotation": 20, "contrast": 0.3}}
    return LabelledFiles(index, signature, Image.parse(asked, spec), None)


@pytest.mark.parametrize("kind", ["numbers", "images"])
def test_a_sample_becomes_the_same_beside_any_others(
    kind: str, request: pytest.FixtureRequest
) -> None:
    batches = request.getfixturevalue(kind)
    plain = batches.inputs(np.arange(COUNT))[0].copy()
    expected = batches.augmented(seed=5, epoch=3).inputs(np.arange(COUNT))[0].copy()
    assert not any(np.array_equal(a, b) for a, b in zip(plain, expected, strict=True))

    for seed, count in ((1, COUNT), (2, 7), (3, 1)):
        chosen = np.random.default_rng(seed).permutation(COUNT)[:count]
        again = batches.augmented(seed=5, epoch=3)
        np.testing.assert_array_equal(again.inputs(chosen)[0], expected[chosen])
    for other in ({"seed": 6, "epoch": 3}, {"seed": 5, "epoch": 4}):
        assert not np.array_equal(batches.augmented(**other).inputs(chosen)[0], expected[chosen])
    np.testing.assert_array_equal(batches.inputs(np.arange(COUNT))[0], plain)


def test_training_batches_alone_are_mixed_and_as_the_epoch_says(images: LabelledFiles) -> None:
    mixed = dataclasses.replace(images._kind, augment=ImageAugmentation(mixup=0.4, cutmix=1))
    images.mix = mixed.mix
    seen = images.augmented(seed=5, epoch=3)

    def batches(source: Any, start: int = 0) -> Any:
        order = np.arange(COUNT)[::-1][start:]
        return [batch[0][0].copy() for batch in source.batches(order, batch_size=8)]

    whole, rest = batches(seen), batches(seen, start=16)
    for first, again in zip(whole[2:], rest, strict=True):
        np.testing.assert_array_equal(first, again)
    alone = seen.inputs(np.arange(COUNT)[::-1])[0]
    assert np.abs(np.concatenate(whole) - alone).reshape(COUNT, -1).max(axis=1).min() > 0
    plain = np.concatenate(batches(images))
    np.testing.assert_array_equal(plain, images.inputs(np.arange(COUNT)[::-1])[0])


@pytest.fixture
def prepared(tmp_path: Path, forward_model: Path) -> Callable[..., Prepared]:
    """The perceptron, all of which trains, or the last layer alone."""

    def make(*trainable: str) -> Prepared:
        task = Prepare(
            source=str(forward_model),
            form="forward",
            work_dir=str(tmp_path / f"prepared{len(trainable)}"),
            loss="cross_entropy",
            trainable=trainable or None,
            divide=True,
        )
        made = prepare(task)
        assert isinstance(made, Prepared), made
        return made

    return make


@pytest.fixture
def whole(prepared: Callable[..., Prepared]) -> Prepared:
    return prepared()


@pytest.fixture
def cut(prepared: Callable[..., Prepared]) -> Prepared:
    return prepared(*HEAD)


@pytest.fixture
def task(make_workshop: Callable[..., Any], tmp_path: Path) -> Callable[..., Train]:
    workshop = make_workshop()

    def make(
        prepared: Prepared, preprocess: Any = AUGMENTED, *, cache: str = "cache", **wanted: Any
    ) -> Train:
        made: Train = workshop.task(prepared.artifacts, **{"epochs": 6, **wanted})
        return replace(
            made, cache=str(tmp_path / cache), feature_cache_bytes=1 << 20, preprocess=preprocess
        )

    return make


def test_training_sees_other_samples_and_nothing_else_does(
    whole: Prepared, task: Callable[..., Train], train: Any
) -> None:
    plain, _ = train(task(whole, PREPROCESS))
    augmented, _ = train(task(whole))
    again, _ = train(task(whole))

    assert augmented.baseline == plain.baseline
    assert augmented.train_loss > plain.train_loss * 1.1
    assert Path(again.path).read_bytes() == Path(augmented.path).read_bytes()


def going_on(saved: Saved) -> Start:
    return Start(how="resume", checkpoint=saved.path, state=saved.state)


@pytest.fixture
def pause(spawn: Any) -> Callable[[Train], Saved]:
    """Train until a pause in the middle of the job."""

    def make(task: Train) -> Saved:
        child = spawn(task)
        child.wait_for(lambda said: isinstance(said, Progress) and said.step > 20)
        child.send(Pause())
        assert isinstance(child.last(), Stopped)
        saved: Saved = [said for said in child.said if isinstance(said, Saved)][-1]
        return saved

    return make


@pytest.mark.parametrize("trainable", [(), HEAD])
def test_a_paused_job_sees_what_it_would_have_seen(
    trainable: tuple[str, ...], prepared: Any, task: Any, train: Any, pause: Any
) -> None:
    made = prepared(*trainable)
    saved = pause(task(made, epochs=None, max_steps=10_000_000))
    assert saved.state.step > 20
    rest = task(made, epochs=None, max_steps=saved.state.step + 40)
    calm, _ = train(rest)

    done, _ = train(replace(rest, start=going_on(saved)))

    assert isinstance(done, Done)
    assert Path(done.path).read_bytes() == Path(calm.path).read_bytes()


def test_chosen_hyperparameters_come_from_samples_as_they_are(
    whole: Prepared, task: Callable[..., Train], train: Any
) -> None:
    def chosen(preprocess: Any) -> Any:
        wanted = replace(task(whole, preprocess, epochs=2), to_choose=("learning_rate",))
        _, child = train(wanted)
        (said,) = (each for each in child.said if each.kind == "chosen")
        return said.values

    assert chosen(AUGMENTED) == chosen(PREPROCESS)


@pytest.fixture
def features(
    cut: Prepared, task: Callable[..., Train], numbers: Preprocessed, tmp_path: Path
) -> Callable[..., tuple[Features, Prefix]]:
    wanted = task(cut)
    path = Path(wanted.artifacts.prefix_model or "")

    def make(most: int = 1 << 20) -> tuple[Features, Prefix]:
        prefix = Prefix(path, wanted, threads=1)
        cache = RowCache.open(
            tmp_path / "model" / "features",
            key="views",
            row_bytes=prefix.row_bytes * 4,
            max_bytes=most,
        )
        return Features(numbers, prefix, cache), prefix

    return make


@pytest.mark.parametrize("kept", [COUNT, 10, 0])
def test_epochs_take_the_kept_views_in_turn(
    kept: int, features: Callable[..., tuple[Features, Prefix]], numbers: Preprocessed
) -> None:
    made, prefix = features(kept * HIDDEN * 4 * 4)
    made.fill(lambda: None)
    everything = np.arange(COUNT)

    for seed, epoch in ((1, 0), (1, 1), (2, 2), (3, 3), (4, 5)):
        found = made.augmented(seed=seed, epoch=epoch).inputs(everything)[0].copy()
        source = numbers.augmented(seed=0, epoch=epoch % 4) if epoch % 4 else numbers
        np.testing.assert_array_equal(found, prefix.run(source.inputs(everything))[0])
    np.testing.assert_array_equal(
        made.inputs(everything)[0], prefix.run(numbers.inputs(everything))[0]
    )
    mixed = [
        batch[0][0] for batch in made.augmented(seed=1, epoch=4).batches(everything, batch_size=9)
    ]
    assert not np.isin(np.concatenate(mixed), made.inputs(everything)[0]).all(axis=1).any()


def test_every_view_of_an_erased_sample_leaves_the_cache(
    features: Callable[..., tuple[Features, Prefix]], tmp_path: Path
) -> None:
    made, _ = features()
    made.fill(lambda: None)
    rows = tmp_path / "model" / "features" / "rows"
    table = np.fromfile(rows, np.float32).reshape(COUNT, 4, HIDDEN)
    assert len(np.unique(table[2], axis=0)) == 4

    erase_from_caches(tmp_path / "model", [3])

    left = np.fromfile(rows, np.float32).reshape(COUNT, 4, HIDDEN)
    assert not left[2].any()
    np.testing.assert_array_equal(np.delete(left, 2, axis=0), np.delete(table, 2, axis=0))


def test_a_job_keeps_the_views_within_its_bound(
    cut: Prepared, task: Callable[..., Train], train: Any, tmp_path: Path
) -> None:
    row = HIDDEN * 4 * 4
    free, _ = train(task(cut))
    assert (tmp_path / "cache" / "features" / "rows").stat().st_size == 260 * row

    bound, _ = train(replace(task(cut, cache="small"), feature_cache_bytes=100 * row + 8))

    assert (tmp_path / "small" / "features" / "rows").stat().st_size == 100 * row
    assert Path(bound.path).read_bytes() == Path(free.path).read_bytes()
