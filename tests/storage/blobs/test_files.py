import hashlib
import os

import pytest

from storage.errors import NotFound
from storage.records.models import FileRecord, NewModel


def test_a_file_is_found_by_the_hash_of_its_content(store, adopt):
    record = adopt(store, b"content")
    assert record == FileRecord(hashlib.sha256(b"content").hexdigest(), 7)
    path = store.files.path(record.sha256)
    assert path.read_bytes() == b"content"
    if os.name != "nt":
        assert path.stat().st_mode & 0o077 == 0
    assert list(store.tmp_dir.iterdir()) == []


def test_the_same_content_is_kept_once(store, adopt):
    assert adopt(store, b"same") == adopt(store, b"same")
    assert list(store.tmp_dir.iterdir()) == []


def test_a_sweep_spares_what_is_named_or_about_to_be(store, add_model, adopt):
    add_model(store)
    awaited = adopt(store, b"about to be named")
    stray = store.files.path("0" * 64)
    stray.parent.mkdir(mode=0o700, exist_ok=True)
    stray.write_bytes(b"stray")
    assert store.files.sweep() == 1
    assert not stray.exists()
    assert store.files.path(awaited.sha256).exists()


def test_content_shared_by_two_models_goes_with_the_last(store, add_model, adopt):
    one = add_model(store, "one")
    shared = store.versions.get(one.id, 1).file
    two = add_model(store, "two")
    sharing = store.models.add(
        _like(two, name="three"), FileRecord(shared.sha256, shared.size_bytes)
    )
    store.models.delete("one")
    assert store.files.path(shared.sha256).exists()
    store.models.delete(sharing.name)
    assert not store.files.path(shared.sha256).exists()


def test_content_adopted_again_survives_the_end_of_its_last_row(store, add_model, adopt):
    model = add_model(store)
    again = adopt(store, b"base of digits")
    store.models.delete(model.name)
    assert store.files.path(again.sha256).read_bytes() == b"base of digits"


def test_of_a_file_that_is_gone_nothing_is_remembered(store, add_model):
    model = add_model(store)
    file = store.versions.get(model.id, 1).file
    assert store.files.is_whole(file.sha256)
    store.models.delete(model.name)
    assert store.files._checked == {}


def test_a_row_needs_its_file(store, add_model):
    model = add_model(store)
    with pytest.raises(NotFound, match="adopt it first"):
        store.models.add(_like(model, name="other"), FileRecord("0" * 64, 1))


@pytest.mark.parametrize("name", ["../secret", "ab", "G" * 64, "A" * 64])
def test_only_a_hash_names_a_file(store, name):
    with pytest.raises(ValueError, match="not a SHA-256"):
        store.files.path(name)


def _like(model, *, name):
    return NewModel(
        name=name,
        loss=model.loss,
        optimizer=model.optimizer,
        engine=model.engine,
        output=model.output,
        signature=model.signature,
        trainable=model.trainable,
        trainable_parameters=1,
        frozen_parameters=0,
        hyperparameters={},
        files=model.files,
    )
