"""What was damaged is found, told and set aside; the rest works."""

import pytest
from stored import publish, save_final, start_job

from storage.errors import Damaged
from storage.samples.filter import SampleFilter
from storage.store import Store


def flip(path, at=0):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def quarantined(store, model):
    return store.samples.ids(model.id, SampleFilter(quarantined=True)).tolist()


@pytest.fixture
def two_models(data_dir, add_model, upload):
    """Two models of three samples each; closed. The first one's pack."""
    store = Store.open(data_dir)
    models = [add_model(store, name) for name in ("first", "second")]
    for model in models:
        upload(store, model, [1, 2, 3])
    store.close()
    return models, store.packs_dir / str(models[0].id) / "1.pack"


LOST = {
    "missing": (lambda pack: pack.unlink(), [1, 2, 3]),
    "short": (lambda pack: pack.write_bytes(pack.read_bytes()[:-1]), [3]),
}


@pytest.mark.parametrize("how", LOST)
def test_samples_of_a_pack_that_lost_bytes_are_set_aside_and_the_rest_works(
    two_models, data_dir, upload, record_of, how
):
    (first, second), pack = two_models
    lose, lost = LOST[how]
    lose(pack)

    store = Store.open(data_dir)

    assert quarantined(store, first) == lost
    assert quarantined(store, second) == []
    assert store.integrity.known().samples == {"first": len(lost)}
    (told,) = [each for each in store.events.since(0, 100) if each.type == "storage.damaged"]
    assert (told.model, told.data["samples"]) == ("first", len(lost))
    added = upload(store, first, [4], first=3)
    assert store.samples.content(first.id, added.first_id) == record_of(3)
    for sample_id in lost:
        with pytest.raises(Damaged, match=f"sample {sample_id}"):
            store.samples.content(first.id, sample_id)
    store.close()
    store = Store.open(data_dir)
    assert len([e for e in store.events.since(0, 100) if e.type == "storage.damaged"]) == 1
    store.close()


def test_a_model_whose_pack_is_gone_can_be_emptied_and_deleted(two_models, data_dir):
    (first, _), pack = two_models
    pack.unlink()
    store = Store.open(data_dir)
    store.samples.delete(first.id, 1)
    assert store.samples.delete_where(first.id, SampleFilter()) == [2, 3]
    store.models.delete("first")
    assert not store.integrity.known()
    store.close()


def test_a_backup_is_made_of_what_is_whole(two_models, data_dir):
    _, pack = two_models
    pack.unlink()
    store = Store.open(data_dir)
    snapshot = store.snapshot()
    assert snapshot.missing == ["packs/1/1.pack"]
    assert "packs/2/1.pack" in {part.name for part in snapshot.parts}
    snapshot.close()
    store.close()


def test_a_flipped_sample_is_set_aside_where_it_is_read(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2])
    flip(store.packs_dir / str(model.id) / "1.pack", at=20)
    with pytest.raises(Damaged, match="sample 2"):
        store.samples.content(model.id, 2)
    assert quarantined(store, model) == [2]


def test_verification_finds_flipped_samples_and_lets_those_go_that_are_whole_again(
    store, add_model, upload
):
    model = add_model(store)
    upload(store, model, [1] * 1200)
    pack = store.packs_dir / str(model.id) / "1.pack"
    for number in (3, 700):
        flip(pack, at=16 * number)

    assert sum(store.verification.read()) == store.verification.size_bytes() > 1200 * 16
    assert quarantined(store, model) == [4, 701]
    told = [each.data for each in store.events.since(0, 100) if each.type == "storage.damaged"]
    assert [(each["samples"], each["first_id"]) for each in told] == [(1, 4), (1, 701)]

    flip(pack, at=16 * 3)
    assert sum(store.verification.read()) == store.verification.size_bytes() > 1200 * 16
    assert quarantined(store, model) == [701]


def test_verification_finds_what_a_pack_loses_while_it_is_open(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2, 3])
    pack = store.packs_dir / str(model.id) / "1.pack"
    pack.write_bytes(pack.read_bytes()[:40])
    list(store.verification.read())
    assert quarantined(store, model) == [3]


def test_aliases_leave_a_damaged_version_for_the_one_before(store, add_model):
    model = add_model(store)
    second, third = (
        publish(store, start_job(store, model.id), content) for content in (b"second", b"third")
    )
    store.aliases.set(model.id, "stable", third.version)
    flip(store.files.path(third.file.sha256))

    with pytest.raises(Damaged, match=third.file.sha256):
        store.integrity.file(third.file.sha256)

    assert store.versions.by_alias(model.id, "latest") == store.versions.get(model.id, 2)
    assert store.versions.by_alias(model.id, "stable").version == second.version
    assert list(store.integrity.known().files) == [third.file.sha256]
    assert store.integrity.file(second.file.sha256).read_bytes() == b"second"


@pytest.mark.parametrize("lose", [flip, lambda path: path.unlink()], ids=["flipped", "missing"])
def test_latest_passes_over_every_damaged_version_and_tells_of_each_once(store, add_model, lose):
    model = add_model(store)
    lost = [publish(store, start_job(store, model.id), each).file for each in (b"2nd", b"3rd")]
    for file in lost:
        lose(store.files.path(file.sha256))

    assert store.integrity.latest(model.id).version == 1
    assert store.integrity.latest(model.id).version == 1
    told = [each.data for each in store.events.since(0, 100) if each.type == "storage.damaged"]
    assert [each["sha256"] for each in told] == [file.sha256 for file in reversed(lost)]

    base = store.versions.get(model.id, 1)
    flip(store.files.path(base.file.sha256))
    assert store.integrity.latest(model.id).version == 1
    assert len(store.integrity.known().files) == 3


def test_a_damaged_file_that_comes_again_is_whole(store, add_model, adopt):
    model = add_model(store)
    damaged = publish(store, start_job(store, model.id), b"second").file
    flip(store.files.path(damaged.sha256))
    assert not store.integrity.is_whole(damaged.sha256)

    publish(store, start_job(store, model.id), b"second")

    assert store.integrity.file(damaged.sha256).read_bytes() == b"second"
    assert not store.integrity.known()


def test_a_job_starts_from_the_checkpoint_of_the_version_before_a_damaged_one(store, add_model):
    model = add_model(store)
    saved = []
    for _ in range(3):
        job = start_job(store, model.id)
        saved.append(save_final(store, job))
        publish(store, job, checkpoint_id=saved[-1].id, promoted=len(saved) != 2)
    newest = store.versions.by_alias(model.id, "latest")
    assert store.integrity.checkpoint_of(newest) == saved[2]

    flip(store.files.path(saved[2].file.sha256))
    assert store.integrity.checkpoint_of(newest) == saved[0]  # the second was not promoted

    store.files.path(saved[0].file.sha256).unlink()
    assert store.integrity.checkpoint_of(newest) is None
    assert len(store.integrity.known().files) == 2


def test_a_missing_file_is_damage_and_whole_again_when_it_is_back(store, add_model):
    model = add_model(store)
    version = publish(store, start_job(store, model.id), b"second")
    path = store.files.path(version.file.sha256)
    path.unlink()
    list(store.verification.read())
    assert list(store.integrity.known().files) == [version.file.sha256]

    path.write_bytes(b"second")
    list(store.verification.read())
    assert not store.integrity.known()


def test_a_file_is_read_once_until_it_changes(store, add_model, monkeypatch):
    model = add_model(store)
    sha256 = store.versions.get(model.id, 1).file.sha256
    path = store.integrity.file(sha256)
    reads = []
    monkeypatch.setattr("storage.blobs.files.sha256_of", reads.append)
    assert store.integrity.file(sha256) == path
    assert reads == []


def test_a_job_goes_on_from_the_checkpoint_before_a_damaged_one(store, add_model, adopt):
    model = add_model(store)
    job = start_job(store, model.id)
    common = {"model_id": model.id, "job_id": job.id, "role": "periodic", "epoch": 0, "state": {}}
    common["engine"] = "sessions 1"
    saved = [
        store.checkpoints.add(step=step, file=adopt(store, b"%d" % step), **common)
        for step in (1, 2)
    ]
    flip(store.files.path(saved[1].file.sha256))
    assert store.integrity.checkpoint(job.id, ("periodic",)) == saved[0]
    assert store.checkpoints.latest_of(job.id) == saved[0]
    store.files.path(saved[0].file.sha256).unlink()
    assert store.integrity.checkpoint(job.id, ("periodic",)) is None


def test_a_sample_may_come_again_under_the_key_of_a_damaged_one(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2], key=["a", "b"])
    flip(store.packs_dir / str(model.id) / "1.pack", at=20)
    assert upload(store, model, [1, 2], key=["a", "b"]).accepted == 0
    list(store.verification.read())

    again = upload(store, model, [1, 2], key=["a", "b"])

    assert (again.accepted, again.duplicates) == (1, 1)
    assert store.samples.by_key(model.id, "b").id == again.first_id
    assert store.samples.get(model.id, 2).key is None
    assert upload(store, model, [2], first=1, key=["b"]).accepted == 0


def test_samples_that_are_moved_while_they_are_read_are_not_called_damaged(
    store, add_model, upload
):
    model = add_model(store)
    upload(store, model, [1] * 10)
    read, moved = store._packs.read, []

    def read_late(*args, **place):
        if not moved:
            moved.extend(store.samples.delete_where(model.id, SampleFilter(up_to=9)))
        return read(*args, **place)

    store._packs.read = read_late
    list(store.verification.read())
    assert len(moved) == 9
    assert quarantined(store, model) == []
    assert not [each for each in store.events.since(0, 100) if each.type == "storage.damaged"]


def test_what_is_damaged_for_good_is_given_up(store, add_model, upload, adopt):
    model = add_model(store)
    upload(store, model, [1] * 10, key=[str(number) for number in range(10)])
    second = publish(store, start_job(store, model.id), b"second")
    job = start_job(store, model.id)
    final = save_final(store, job)
    third = publish(store, job, b"third", checkpoint_id=final.id)
    (artifact,) = store.models.get("digits").files.values()
    flip(store.packs_dir / str(model.id) / "1.pack", at=20)
    for file in (second.file, final.file, artifact):
        flip(store.files.path(file.sha256))
    list(store.verification.read())

    lost = store.verification.give_up_damaged()

    assert (lost.samples, lost.versions, lost.checkpoints) == (1, 1, 1)
    assert [each.version for each in store.versions.list(model.id, 10)] == [3, 1]
    assert store.versions.get(model.id, third.version).checkpoint_id is None
    assert (
        store.models.get("digits").samples.train + store.models.get("digits").samples.validation
        == 9
    )
    assert list(store.integrity.known().files.values()) == [["digits training_model"]]
    assert upload(store, model, [1], first=1, key=["1"]).accepted == 1
    list(store.verification.read())
    assert not store.integrity.known().samples


@pytest.mark.parametrize("what", ["file", "pack"])
def test_what_cannot_be_read_is_damaged_and_the_rest_is_read(store, add_model, upload, what):
    model = add_model(store)
    upload(store, model, [1])
    path = store.files.path(store.versions.get(model.id, 1).file.sha256)
    path = path if what == "file" else store.packs_dir / str(model.id) / "1.pack"
    path.unlink()
    path.mkdir()
    list(store.verification.read())
    assert store.integrity.known()
    assert store.verification.last() is not None
