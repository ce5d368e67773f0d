"""A token id that no table has: the sample is set aside, whatever part of the model looks it up."""

from __future__ import annotations

import io

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
    found = {entry["id"] for entry in doubtful.json()["items"] if entry["uncertainty"] is not None}
    assert found == {first, first + 1}


def test_ids_of_a_csv_are_as_they_were_written(served: Served) -> None:
    served.register("token-ids-csv", embedding_model())
    url, ids = "/v1/models/token-ids-csv/samples", [2**53 + 1, 2**63 - 1, -(2**63), 10**16]
    header = ",".join(f"x[{n}]" for n in range(LENGTH))
    rest = ",0" * (LENGTH - 1)
    csv = {"Content-Type": "text/csv"}

    content = "\n".join([header, *(f"{each}{rest}" for each in ids[:3]), f"1e16{rest}"])
    first = served.http.post(url, content=content, headers=csv).json()["ids"][0]
    too_large = served.http.post(url, content=f"{header}\n{2**63}{rest}", headers=csv)
    half = served.http.post(url, content=f"{header}\n{2**53 + 1}.5{rest}", headers=csv)
    sample = {"inputs": {"x": [2**63] + [0] * (LENGTH - 1)}}
    in_json = served.http.post(url, json=sample)

    for n, given in enumerate(ids):
        stored = np.load(io.BytesIO(served.http.get(f"{url}/{first + n}/content").content))
        assert stored["x"][0, 0] == given
    assert "column 1 holds '9223372036854775808'" in too_large.json()["errors"][0]["detail"]
    assert "column 1 holds '9007199254740993.5'" in half.json()["errors"][0]["detail"]
    assert "holds an integer beyond 64 bits" in in_json.json()["errors"][0]["detail"]
