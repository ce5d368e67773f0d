import pytest

from storage.errors import AlreadyExists, InUse, NotFound
from storage.records.jobs import JobState, NewJob
from storage.records.models import SampleCounts


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
    with pytest.raises(AlreadyExists, match="'digits' already"):
        add_model(store)


def test_models_are_listed_by_name(store, add_model):
    for name in ("c", "a", "b"):
        add_model(store, name)
    assert [model.name for model in store.models.list(2)] == ["a", "b"]
    assert [model.name for model in store.models.list(2, "b")] == ["c"]


def test_an_update_replaces_what_is_given(store, add_model):
    add_model(store)
    model = store.models.update("digits", classes=tuple("abcdefghij"))
    assert model.signature.target.classes == tuple("abcdefghij")
    assert model.hyperparameters == {"batch_size": 8}
    assert store.models.update("digits", hyperparameters={}).hyperparameters == {}
    with pytest.raises(NotFound, match="no model 'nobody'"):
        store.models.update("nobody", hyperparameters={})


def test_deleting_a_model_leaves_nothing_of_it(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2], keys=["a", "b"])
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
