from datetime import datetime, timedelta, timezone
from itertools import count

import pytest
import stored
from msgspec.structs import replace
from stored import save_final, start_job

from storage.errors import InUse, NotFound, StateConflict
from storage.records.jobs import JobState, NewJob
from storage.records.samples import Split
from storage.store import Store
from storage.versions.retention import RetentionPolicy

LONG_AGO = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def clock():
    """A day passes between two transactions."""
    days = count()
    return lambda: LONG_AGO + timedelta(days=next(days))


@pytest.fixture
def store(data_dir, clock):
    store = Store.open(data_dir, now=clock)
    yield store
    store.close()


@pytest.fixture
def model(store, add_model):
    return add_model(store)


@pytest.fixture
def publish(store, model):
    def publish(*, promoted=True, compared_with=None):
        job = start_job(store, model.id)
        return stored.publish(
            store,
            job,
            checkpoint_id=save_final(store, job).id,
            promoted=promoted,
            compared_with=compared_with,
            provenance={"job_id": job.id},
        )

    return publish


def latest(store, model):
    return store.versions.by_alias(model.id, "latest").version


def numbers(store, model):
    return [version.version for version in store.versions.list(model.id, 100)]


def test_a_rollback_goes_back_step_by_step_to_what_latest_named(store, model, publish):
    publish()
    publish(promoted=False)
    publish()
    store.aliases.set(model.id, "latest", 3)
    assert [store.aliases.roll_back(model.id).version for _ in range(3)] == [4, 2, 1]
    with pytest.raises(StateConflict, match="version 1 alone"):
        store.aliases.roll_back(model.id)
    last = store.events.since(0, 1000)[-1]
    assert (last.type, last.data["version"], last.data["from"]) == ("version.rolled_back", 1, 2)


def test_a_version_that_is_made_latest_twice_is_undone_twice(store, model, publish):
    publish()
    for number in (1, 2):
        store.aliases.set(model.id, "latest", number)
    assert [store.aliases.roll_back(model.id).version for _ in range(3)] == [1, 2, 1]


def test_a_rollback_holds_latest_until_it_is_released(store, model, publish):
    publish()
    store.aliases.roll_back(model.id)
    held = publish()
    assert (held.version, held.promoted, latest(store, model)) == (3, False, 1)
    assert "a person holds latest at version 1 since 2026-" in held.reason
    assert store.models.get("digits").held_since is not None
    store.aliases.release(model.id)
    store.aliases.release(model.id)
    assert publish().promoted
    assert store.models.get("digits").held_since is None
    kinds = [event.type for event in store.events.since(0, 1000)]
    assert kinds.count("version.released") == 1


def test_a_person_may_move_latest_while_it_is_held(store, model, publish):
    publish()
    store.aliases.roll_back(model.id)
    assert store.aliases.set(model.id, "latest", 2).aliases == ("latest",)
    assert not publish().promoted


def test_nothing_is_kept_when_latest_moved_while_the_gate_decided(store, model, publish):
    publish()
    assert publish(compared_with=1) is None
    assert numbers(store, model) == [2, 1]
    assert store.jobs.running()[0].id == 2


def test_moving_an_alias_to_where_it_is_changes_nothing(store, model):
    before = store.events.last_id()
    store.aliases.set(model.id, "latest", 1)
    assert store.events.last_id() == before


def test_an_alias_but_latest_may_be_deleted(store, model):
    store.aliases.set(model.id, "stable", 1)
    store.aliases.delete(model.id, "stable")
    assert store.aliases.list(model.id, 10) == [("latest", 1)]
    with pytest.raises(NotFound, match="no alias 'stable'"):
        store.aliases.delete(model.id, "stable")
    with pytest.raises(InUse, match="latest is what apps fetch"):
        store.aliases.delete(model.id, "latest")


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        (RetentionPolicy(max_versions=None), [7, 6, 5, 4, 3, 2, 1]),
        (RetentionPolicy(max_versions=2), [7, 6, 5, 4, 2, 1]),
        (RetentionPolicy(max_versions=0), [7, 4, 2, 1]),
        (RetentionPolicy(max_versions=None, max_age_days=9), [7, 6, 4, 2, 1]),
        (RetentionPolicy(max_versions=None, max_bytes=0), [7, 4, 2, 1]),
        (RetentionPolicy(max_versions=None, max_bytes=60), [7, 6, 5, 4, 2, 1]),
    ],
)
def test_retention_spares_the_first_the_newest_the_aliased_and_where_a_rollback_goes(
    store, model, publish, limits, kept
):
    for _ in range(6):
        publish(promoted=False)
    for number in (2, 4):
        store.aliases.set(model.id, "latest", number)
    gone = store.retention.prune(model.id, limits)
    assert numbers(store, model) == kept
    assert gone == sorted(set(range(1, 8)) - set(kept))


def test_what_belongs_to_a_pruned_version_goes_with_it(store, model, publish, adopt):
    doomed = publish(promoted=False)
    pinned = publish(promoted=False)
    publish()
    store.checkpoints.update(pinned.checkpoint_id, pinned=True)
    made = store.variants.add(
        model.id,
        doomed.version,
        "int8",
        file=adopt(store, b"int8"),
        method="dynamic",
        metrics={},
        verdict={},
        reason="kept",
    )
    paths = [
        store.files.path(file.sha256)
        for file in (doomed.file, made.file, store.checkpoints.get(doomed.checkpoint_id).file)
    ]
    assert all(path.exists() for path in paths)
    store.retention.prune(model.id, RetentionPolicy(max_versions=0))
    assert numbers(store, model) == [4, 1]
    assert not any(path.exists() for path in paths)
    assert [each.id for each in store.checkpoints.list(model.id, 10)] == [3, 2]
    assert store.files.sweep() == 0


def test_while_a_job_is_under_way_nothing_is_pruned(store, model, publish):
    publish(promoted=False)
    publish(promoted=False)
    job = store.jobs.enqueue(NewJob(model.id, "manual", {}, "latest"))
    store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
    assert store.retention.prune(model.id, RetentionPolicy(max_versions=0)) == []


def test_a_variant_stands_on_its_version_and_is_made_once(store, model, publish, adopt):
    def add(content, **more):
        file = content and adopt(store, content)
        fields = {"method": "static", "metrics": {"loss": 1}, "verdict": {}, "reason": "kept"}
        return store.variants.add(model.id, 1, "int8", file=file, **{**fields, **more})

    first = add(b"one")
    assert add(b"two") == first
    assert store.versions.get(model.id, 1).variants == (first,)
    assert store.files.sweep() == 0
    assert store.files.path(first.file.sha256).read_bytes() == b"one"
    with pytest.raises(NotFound, match="no version 9"):
        store.variants.add(
            model.id, 9, "ort", file=None, method="", metrics={}, verdict={}, reason=""
        )


def test_another_gate_lets_refused_variants_be_asked_for_again(store, model):
    refused = store.variants.add(
        model.id, 1, "int8", file=None, method="none", metrics={}, verdict={}, reason="too bad"
    )
    assert store.versions.get(model.id, 1).variants == (refused,)
    store.models.change("digits", lambda now: replace(now, gate={"mode": "always"}))
    assert store.versions.get(model.id, 1).variants == ()


def test_a_reference_set_is_the_validation_samples_of_one_moment(store, model, upload):
    upload(store, model, [1, 2, None], split=Split.VALIDATION)
    assert store.references.freeze(model.id) == 2
    upload(store, model, [3], split=Split.VALIDATION, first=3)
    assert store.references.count(model.id) == 2
    assert store.models.get("digits").reference_frozen_at is not None
    first = store.samples.list(model.id, limit=1)[0]
    store.samples.delete(model.id, first.id)
    assert store.references.count(model.id) == 1
    assert store.references.freeze(model.id) == 2
    store.references.remove(model.id)
    assert (store.references.count(model.id), store.models.get("digits").reference_frozen_at) == (
        0,
        None,
    )
