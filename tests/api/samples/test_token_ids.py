"""A token id that no table has: the sample is set aside, whatever part of the model looks it up."""

from __future__ import annotations

import numpy as np
import pytest
from embeddings import LENGTH, ROWS, embedding_model
from support import Served

GOOD = np.random.default_rng(0).integers(0, ROWS, (24, LENGTH))


def upload(served: Served, model: str, *, bad: int, split: str = "train") -> int:
    """Good samples and then one with an id that may be bad; its id."""
    rows = np.concatenate([GOOD, GOOD[:1]])
    rows[-1, 3] = bad
    answer = served.upload(model, split=split, x=rows, label=np.arange(25) % 2)
    assert answer.status_code == 201, answer.text
    last: int = answer.json()["ids"][1]
    return last


@pytest.mark.parametrize("trainable", [["*"], ["head.*"]], ids=["whole", "head"])
def test_the_job_sets_the_sample_aside_and_goes_on(served: Served, trainable: list[str]) -> None:
    model = f"token-ids-{len(trainable[0])}"
    served.register(model, embedding_model(), trainable=trainable, duplicates="keep")
    bad = upload(served, model, bad=999)
    bad_too = upload(served, model, bad=-31, split="validation")

    job = served.train(model, epochs=1)

    url = f"/v1/models/{model}/samples"
    listed = served.http.get(url, params={"quarantined": True}).json()["items"]
    assert {each["id"] for each in listed} == {bad, bad_too}
    reasons = {each["id"]: each["quarantine"] for each in listed}
    assert "row 999 of a table that has 30" in reasons[bad]
    assert "row -31 of a table" in reasons[bad_too]
    assert job["restarts"] == 0
    assert job["metrics"]["validation"]["samples"] == 24


def test_a_negative_id_that_counts_from_the_end_trains(served: Served) -> None:
    served.register("token-ids-negative", embedding_model())
    upload(served, "token-ids-negative", bad=-1)

    served.train("token-ids-negative", epochs=1)

    url = "/v1/models/token-ids-negative/samples"
    assert served.http.get(f"{url}/stats").json()["quarantined"] == 0


def test_the_most_doubtful_samples_are_found_beside_a_bad_one(served: Served) -> None:
    served.register("token-ids-doubt", embedding_model())
    answer = served.upload("token-ids-doubt", x=np.concatenate([GOOD[:2], GOOD[:1] + ROWS]))
    first = answer.json()["ids"][0]

    url = "/v1/models/token-ids-doubt/samples"
    doubtful = served.http.get(url, params={"unlabelled": True, "order": "uncertainty"})

    assert doubtful.status_code == 200, doubtful.text
    found = {each["id"] for each in doubtful.json()["items"] if each["uncertainty"] is not None}
    assert found == {first, first + 1}
