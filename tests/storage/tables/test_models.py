from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace
from stored import name_classes

from storage.errors import AlreadyExists, InUse, NotFound, StorageFull
from storage.records.jobs import JobState, NewJob
from storage.records.models import Quota, SampleCounts
from storage.records.samples import Split


def test_a_registered_model_has_version_1_as_latest(store, add_model):
    model = add_model(store)
    assert store.models.get("digits") == store.models.get_by_id(model.id) == model
    assert (model.latest_version, model.samples) == (1, SampleCounts())
    version = store.versions.by_alias(model.id, "latest")
    assert (version.version, version.promoted, version.reason) == (1, True, "registered")
    assert store.files.path(version.file.sha256).read_bytes() == b"base of digits"
    assert [event.type for event in store.events.since(0, 10)] == ["model.created"]


def test_a_name_is_taken_once(store, add_model):
    add_model(store)
    with pytest.raises(AlreadyExists, match="'digits' exists"):
        add_model(store)


def test_models_are_listed_by_name(store, add_model):
    for name in ("c", "a", "b"):
        add_model(store, name)
    assert [model.name for model in store.models.list(2)] == ["a", "b"]
    assert [model.name for model in store.models.list(2, "b")] == ["c"]


def test_a_change_replaces_what_it_edits(store, add_model):
    add_model(store)
    model = name_classes(store, "digits", tuple("abcdefghij"))
    assert model.signature.target.classes == tuple("abcdefghij")
    assert model.hyperparameters == {"batch_size": 8}
    changed, _ = store.models.change("digits", lambda now: replace(now, hyperparameters={}))
    assert changed.hyperparameters == {}
    with pytest.raises(NotFound, match="no model 'nobody'"):
        store.models.change("nobody", lambda now: now)


def test_deleting_a_model_leaves_nothing_of_it(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2], key=["a", "b"])
    store.jobs.enqueue(NewJob(model.id, "manual", {}, "latest"))
    store.models.delete("digits")
    with pytest.raises(NotFound):
        store.models.get("digits")
    tables = ("files", "samples", "sample_counts", "packs", "jobs", "versions", "aliases")
    rows = [
        store._connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables
    ]
    assert rows == [0] * len(tables)
    assert list(store.packs_dir.iterdir()) == []
    assert [path for path in (store.data_dir / "files").rglob("*") if path.is_file()] == []
    assert add_model(store).id > model.id


def test_a_model_in_training_is_not_deleted(store, add_model):
    model = add_model(store)
    job = store.jobs.enqueue(NewJob(model.id, "manual", {}, "latest"))
    store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
    with pytest.raises(InUse, match=f"job {job.id}; cancel it"):
        store.models.delete("digits")
    assert store.models.get("digits") == model


def test_of_two_changes_at_once_neither_is_lost(store, add_model):
    add_model(store)

    def add(number):
        def edit(model):
            return replace(model, hyperparameters={**model.hyperparameters, str(number): number})

        store.models.change("digits", edit)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert store.models.get("digits").hyperparameters.keys() >= set(map(str, range(40)))


def test_a_change_that_is_refused_changes_nothing(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1] * 10, split=Split.VALIDATION)

    with pytest.raises(StorageFull, match="quota"):
        store.models.change(
            "digits", lambda model: replace(model, quota=Quota(max_samples=1), gate={"a": 1})
        )
    assert store.models.get("digits") == replace(model, samples=SampleCounts(validation=10))


def test_a_change_of_the_quota_evicts_and_tells_how_many(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1] * 10, split=Split.TRAIN)
    changed, evicted = store.models.change(
        "digits",
        lambda model: replace(
            model, quota=Quota(max_samples=4), keeps_duplicates=True, features=("temp", "rpm")
        ),
    )
    assert (evicted, changed.samples.train, changed.quota.max_samples) == (6, 4, 4)
    assert (changed.keeps_duplicates, changed.features) == (True, ("temp", "rpm"))
    (pack,) = store.packs_dir.glob(f"{model.id}/*")
    assert pack.stat().st_size == 4 * 16
