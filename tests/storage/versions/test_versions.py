import pytest
import stored

from storage.errors import InUse, NotFound, StateConflict
from storage.records.jobs import JobState, NewJob


@pytest.fixture
def model(store, add_model):
    return add_model(store)


@pytest.fixture
def publish(store, model):
    def publish(*, promoted=True, claim=True, compared_with=None):
        job = store.jobs.enqueue(NewJob(model.id, "manual", {}, "latest"))
        if claim:
            job = store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
        return stored.publish(
            store,
            job,
            checkpoint_id=stored.save_final(store, job).id,
            metrics={"loss": 0.1},
            baseline={"loss": 0.2},
            promoted=promoted,
            reason="lower loss",
            verdict={"metric": "loss"},
            provenance={"seed": 7},
            compared_with=compared_with,
            job_metrics={"train_loss": 0.3},
        )

    return publish


def test_publishing_is_version_alias_and_job_at_once(store, model, publish):
    version = publish()
    assert (version.version, version.aliases, version.promoted) == (2, ("latest",), True)
    job = store.jobs.get(version.job_id)
    told = {"train_loss": 0.3, "promoted": True, "reason": "lower loss"}
    assert (job.state, job.version, job.metrics) == (JobState.SUCCEEDED, 2, told)
    assert store.models.get("digits").latest_version == 2
    kinds = [event.type for event in store.events.since(0, 100)]
    assert kinds[-3:] == ["version.created", "version.promoted", "job.succeeded"]


def test_a_version_that_is_not_promoted_leaves_latest_where_it_was(store, model, publish):
    version = publish(promoted=False)
    assert version.aliases == ()
    assert store.versions.by_alias(model.id, "latest").version == 1
    assert "version.promoted" not in [event.type for event in store.events.since(0, 100)]


def test_nothing_of_a_version_is_kept_when_its_job_is_not_running(store, model, publish):
    with pytest.raises(StateConflict, match="is queued, not running"):
        publish(claim=False)
    assert [version.version for version in store.versions.list(model.id, 10)] == [1]
    assert store.events.since(0, 100)[-1].type == "checkpoint.saved"


def test_versions_are_listed_newest_first(store, model, publish):
    for _ in range(3):
        publish()
    assert [version.version for version in store.versions.list(model.id, 2)] == [4, 3]
    assert [version.version for version in store.versions.list(model.id, 9, 3)] == [2, 1]


def test_aliases_move_between_versions(store, model, publish):
    publish()
    store.aliases.set(model.id, "stable", 1)
    assert store.aliases.list(model.id, 10) == [("latest", 2), ("stable", 1)]
    assert store.aliases.set(model.id, "latest", 1).aliases == ("latest", "stable")
    last = store.events.since(0, 100)[-1]
    assert (last.type, last.data) == ("version.promoted", {"alias": "latest", "version": 1})


def test_what_is_not_there_is_not_found(store, model):
    with pytest.raises(NotFound, match="no version 9"):
        store.versions.get(model.id, 9)
    with pytest.raises(NotFound, match="no version 9"):
        store.aliases.set(model.id, "latest", 9)
    with pytest.raises(NotFound, match="no alias 'stable'"):
        store.versions.by_alias(model.id, "stable")


def test_the_checkpoint_of_a_version_is_not_deleted(store, publish):
    version = publish()
    with pytest.raises(InUse, match="a version was exported from it"):
        store.checkpoints.delete(version.checkpoint_id)
