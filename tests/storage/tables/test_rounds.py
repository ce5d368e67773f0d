"""Rounds and their files: what keeps a file, and what lets it go."""

from math import inf

import pytest

from storage.disk.privacy_ledger import PrivacyLedger
from storage.errors import NotFound, StateConflict, StorageBroken
from storage.records.federation import ROUND, NewRound, PrivacySpent
from storage.records.jobs import JobState, NewJob

SPENT = PrivacySpent(0.25, 3, 1)
TERMS = {"on_deadline": "update"}


def begin(store, model, adopt, number=1, **fields):
    new = NewRound(
        job=NewJob(model.id, ROUND, {"epochs": 1}, ROUND),
        federation="fl",
        number=number,
        terms=TERMS,
        deadline=None,
        **fields,
    )
    return store.rounds.begin(new, adopt(store, f"parameters {number}".encode()))


def finish(store, found, adopt, *, spent=SPENT, outcome=None):
    store.jobs.move(found.job.id, JobState.QUEUED, JobState.RUNNING)
    number = found.number
    files = {
        "update": adopt(store, f"update {number}".encode()),
        "residual": adopt(store, f"residual {number}".encode()),
    }
    model = store.models.get_by_id(found.job.model_id)
    store.rounds.finish(
        found.job.id, model, files, outcome or {"bytes": 8}, spent=spent, metrics={}
    )
    return files


def stored(store):
    return {path.read_bytes() for path in store.files.folder.glob("*/*")}


def test_a_finished_round_keeps_its_update_until_the_next_is_finished(store, add_model, adopt):
    model = add_model(store)
    first = begin(store, model, adopt)
    assert b"parameters 1" in stored(store)
    finish(store, first, adopt)
    assert {b"update 1", b"residual 1"} <= stored(store)
    assert b"parameters 1" not in stored(store)
    second = begin(store, model, adopt, 2)
    assert {b"update 1", b"residual 1", b"parameters 2"} <= stored(store)
    finish(store, second, adopt)
    assert {b"update 2", b"residual 2"} <= stored(store)
    assert not {b"update 1", b"residual 1", b"parameters 2"} & stored(store)
    assert store.rounds.newest(model.id).number == 2
    assert store.rounds.file(first.job.id, "update") is None


def test_parameters_of_a_round_that_was_cancelled_go_with_the_next(store, add_model, adopt):
    model = add_model(store)
    first = begin(store, model, adopt)
    store.jobs.move(first.job.id, JobState.QUEUED, JobState.CANCELLED)
    begin(store, model, adopt, 2)
    assert b"parameters 1" not in stored(store)
    assert b"parameters 2" in stored(store)


def test_of_two_rounds_at_once_the_second_is_refused(store, add_model, adopt):
    model, other = add_model(store), add_model(store, "other")
    begin(store, model, adopt)
    with pytest.raises(StateConflict, match="is under way"):
        begin(store, model, adopt, 2)
    begin(store, other, adopt)
    assert [each.job.model for each in store.rounds.unfinished()] == ["digits", "other"]


def test_what_was_spent_is_stored_with_the_update(store, add_model, adopt):
    model = add_model(store)
    assert store.rounds.spent(model) == PrivacySpent()
    finish(store, begin(store, model, adopt), adopt)
    assert store.rounds.spent(model) == SPENT
    ledger = PrivacyLedger(store.data_dir)
    assert ledger.read(model) == SPENT


@pytest.mark.parametrize(
    ("outcome", "spent"),
    [({"norm": inf}, SPENT), ({"bytes": 8}, PrivacySpent(inf, 4, 1))],
    ids=["outcome", "spent"],
)
def test_a_round_that_cannot_be_stored_spends_nothing(store, add_model, adopt, outcome, spent):
    model = add_model(store)
    found = begin(store, model, adopt)
    with pytest.raises(ValueError, match="not JSON compliant"):
        finish(store, found, adopt, outcome=outcome, spent=spent)
    assert store.rounds.spent(model) == PrivacySpent()
    assert store.jobs.get(found.job.id).state is JobState.RUNNING
    assert not (store.data_dir / "privacy.json").exists()


def test_a_round_whose_ledger_cannot_be_written_is_not_stored(store, add_model, adopt):
    model = add_model(store)
    found = begin(store, model, adopt)
    (store.data_dir / ".privacy.json.new").mkdir()
    with pytest.raises(StorageBroken, match="cannot write"):
        finish(store, found, adopt)
    (store.data_dir / ".privacy.json.new").rmdir()
    assert store.rounds.spent(model) == PrivacySpent()
    assert store.rounds.file(found.job.id, "update") is None
    assert store.jobs.get(found.job.id).state is JobState.RUNNING


def test_a_round_and_its_files_go_with_the_model(store, add_model, adopt):
    model = add_model(store)
    found = begin(store, model, adopt)
    finish(store, found, adopt)
    store.models.delete(model.name)
    assert not {b"update 1", b"residual 1"} & stored(store)
    with pytest.raises(NotFound):
        store.rounds.get(found.job.id)


def test_an_update_whose_file_is_gone_has_no_row_after_a_repair(store, add_model, adopt):
    model = add_model(store)
    found = begin(store, model, adopt)
    files = finish(store, found, adopt)
    store.files.path(files["update"].sha256).unlink()
    store.repair(is_partial=True)
    assert store.rounds.file(found.job.id, "update") is None
    assert store.rounds.file(found.job.id, "residual") == files["residual"]
