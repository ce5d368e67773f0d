import pytest
import stored
from msgspec.structs import replace

from storage.errors import InUse, NotFound
from storage.records.jobs import JobState, NewJob
from storage.records.signatures import TensorSpec
from storage.records.versions import NewVersion
from storage.versions.retention import RetentionPolicy

WIDER = (TensorSpec("x", "float32", (9,)),)


@pytest.fixture
def model(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2, None])
    return model


@pytest.fixture
def begin(store, model):
    """Store an upgrade of the model; returns its first job."""

    def begin(content=b"of the upgrade", **fields):
        signature = replace(model.signature, inputs=WIDER)
        files = {"training_model": stored.adopt(store, content)}
        new = stored.new_model("-", signature=signature, files=files, sha256="1" * 64, **fields)
        job = NewJob(model.id, "upgrade", {}, start="base", base=0)
        return store.bases.begin(new, job, request={"epochs": 2})

    return begin


@pytest.fixture
def publish(store, model):
    """Have a queued job train and publish."""

    def publish(job, content, *, promoted=True):
        store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
        file = stored.adopt(store, content)
        checkpoint = store.checkpoints.add(
            model_id=model.id,
            job_id=job.id,
            role="final",
            step=1,
            epoch=1,
            engine="sessions",
            file=stored.adopt(store, content + b"!"),
            state={},
        )
        new = NewVersion(model.id, job.id, checkpoint.id, file, promoted, "the gate")
        return store.versions.publish(new, compared_with=None, job_metrics={})

    return publish


def train(store, model, **fields):
    return store.jobs.enqueue(NewJob(model.id, "test", {}, start="latest", **fields))


def test_an_upgrade_waits_beside_the_base_that_serves(store, model, begin):
    job = begin()
    first, upgrade = store.bases.list(model.id)
    assert (first.base, first.adopted_at, first.versions) == (1, first.arrived_at, (1,))
    assert (upgrade.base, upgrade.adopted_at, upgrade.versions) == (2, None, ())
    assert (upgrade.request, upgrade.job_id, upgrade.labelled) == ({"epochs": 2}, job.id, 2)
    assert (job.base, store.bases.waiting()) == (2, {model.name: (model.id, 2)})
    now = store.models.get(model.name)
    assert (now.base, now.signature, now.files) == (1, model.signature, model.files)
    new = store.models.get_by_id(model.id, base=2)
    assert (new.base, new.signature.inputs, new.samples) == (2, WIDER, now.samples)
    assert new.signature.target == model.signature.target


def test_the_base_changes_with_latest_and_back_with_a_rollback(store, model, begin, publish):
    publish(train(store, model), b"old")
    version = publish(begin(), b"new")
    assert (version.version, version.base) == (3, 2)
    assert store.models.get(model.name).signature.inputs == WIDER
    assert store.bases.list(model.id)[1].adopted_at is not None
    assert store.bases.waiting() == {}
    store.aliases.roll_back(model.id)
    now = store.models.get(model.name)
    assert (now.base, now.signature) == (1, model.signature)
    adopted = [e.data for e in store.events.since(0, 100) if e.type == "base.adopted"]
    assert [(each["from"], each["base"]) for each in adopted] == [(1, 2), (2, 1)]


def test_a_job_trains_the_base_that_is_current_when_it_starts(store, model, begin, publish):
    before, between = train(store, model), train(store, model)
    assert publish(before, b"old").base == 1
    publish(begin(), b"new")
    assert between.base is None
    assert publish(between, b"newer").base == 2


def test_a_job_starts_from_the_newest_version_of_its_own_base(store, model, begin, publish):
    old = publish(train(store, model), b"old")
    assert store.integrity.checkpoint_for(model.id, 2) is None
    new = publish(begin(), b"new")
    assert store.integrity.checkpoint_for(model.id, 1).id == old.checkpoint_id
    assert store.integrity.checkpoint_for(model.id, 2).id == new.checkpoint_id


def test_a_second_upgrade_takes_the_place_of_the_first_with_its_job(store, model, begin):
    first = begin()
    second = begin(b"of another")
    assert [each.base for each in store.bases.list(model.id)] == [1, 3]
    assert store.jobs.get(first.id).state is JobState.CANCELLED
    assert store.jobs.get(second.id).state is JobState.QUEUED


def test_an_upgrade_is_dropped_with_its_files_and_versions(store, model, begin, publish):
    job = begin()
    files = store.models.get_by_id(model.id, base=2).files
    version = publish(job, b"worse", promoted=False)
    kept = [*files.values(), version.file]
    assert all(store.files.path(each.sha256).exists() for each in kept)
    store.bases.drop(model.id)
    assert not any(store.files.path(each.sha256).exists() for each in kept)
    assert [each.version for each in store.versions.list(model.id, 9)] == [1]
    assert store.checkpoints.list(model.id, 9) == []
    with pytest.raises(NotFound, match="no upgrade"):
        store.bases.drop(model.id)
    # Its number is that of no other version, which apps may have by then.
    assert publish(begin(b"another"), b"another").version == version.version + 1


def test_an_upgrade_that_trains_or_has_an_alias_is_not_dropped(store, model, begin, publish):
    job = begin()
    store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
    with pytest.raises(InUse, match=f"job {job.id} trains the upgrade"):
        store.bases.drop(model.id)
    store.jobs.move(job.id, JobState.RUNNING, JobState.FAILED, error={"code": "", "detail": ""})
    again = store.bases.try_again(NewJob(model.id, "upgrade", {}, start="base", base=2))
    store.aliases.set(model.id, "canary", publish(again, b"worse", promoted=False).version)
    with pytest.raises(InUse, match="canary names version 2"):
        begin(b"of another")
    assert [each.base for each in store.bases.list(model.id)] == [1, 2]


def test_a_former_base_goes_with_its_last_version(store, model, begin, publish):
    publish(begin(), b"second")
    publish(begin(b"third"), b"third")
    caches = store.cache_dir / f"{model.id}-2" / "features"
    caches.mkdir(parents=True)
    keep_none = RetentionPolicy(max_versions=0)
    store.retention.prune(model.id, keep_none)
    assert [each.base for each in store.bases.list(model.id)] == [1, 2, 3]  # for a rollback
    publish(train(store, model), b"fourth")
    store.retention.prune(model.id, keep_none)
    assert [each.base for each in store.bases.list(model.id)] == [1, 3]
    assert not caches.exists()
    assert store.models.get(model.name).base == 3


def test_consent_ends_when_other_parameters_train(store, model, begin, publish):
    consent = {"allowed": True, "superlink": "s:1"}
    store.models.change(model.name, lambda now: replace(now, federation=consent))
    publish(begin(shapes="of others"), b"new")
    assert store.models.get(model.name).federation == {"superlink": "s:1"}
