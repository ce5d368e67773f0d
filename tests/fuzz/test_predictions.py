"""Whatever is asked of the predictor is tensors that fit the model, or is refused."""

from __future__ import annotations

from random import Random
from typing import Any

from hostile import (
    RANDOM,
    Doors,
    as_body,
    changed,
    flip,
    json_value,
    listed,
    nearly,
    npy,
    one_of,
    raw,
    refused_or_done,
    zipped,
)
from hypothesis import given, settings

from service.prediction.inputs import read_json, read_npz
from service.prediction.open_inference import read_request

FUZZ = settings.get_profile("fuzz")
MAX_BYTES = 2**20


instance = nearly(["inputs"], nearly(["x"], json_value))
GOOD = [{"instances": [{"inputs": {"x": [1, 2, 3]}}] * 2}, {"inputs": {"x": [0.5, 1, -2]}}]
bodies = one_of(
    lambda r: as_body(changed(r, r.choice(GOOD))),
    lambda r: as_body({"instances": listed(instance, 3)(r)}),
    lambda r: as_body(instance(r)),
    lambda r: as_body(json_value(r)),
    raw,
)


@FUZZ
@given(r=RANDOM)
def test_json(doors: Doors, r: Random) -> None:
    body = bodies(r)
    refused_or_done(lambda: read_json(doors.classes, body, MAX_BYTES))


arrays = zipped(["x.npy", "label.npy", "key.npy"], npy)


@FUZZ
@given(r=RANDOM)
def test_npz(doors: Doors, r: Random) -> None:
    body = arrays(r)
    refused_or_done(lambda: read_npz(doors.classes, body, MAX_BYTES))


SHAPES = [[1, 3], [1, 2], [1], [10**30, 3], [], [0, 3], [-1, 3]]


def tensor(r: Random) -> dict[str, Any]:
    """A tensor of the protocol, a third of whose fields say anything."""
    good: dict[str, Any] = {
        "name": r.choice(["x", "ids", "flag"]),
        "shape": r.choice(SHAPES),
        "datatype": r.choice(["FP32", "INT64", "BOOL"]),
        "data": [r.choice((1, 0.5, True, None)) for _ in range(3)],
        "parameters": {"binary_data_size": r.randint(-1, 40)},
    }
    return {
        name: json_value(r) if r.random() < 0.2 else value
        for name, value in good.items()
        if r.random() < 0.8
    }


def questions(r: Random) -> Any:
    """What is asked of the protocol."""
    if flip(r):
        return nearly(["inputs", "outputs", "id", "parameters"], json_value)(r)
    return {"inputs": listed(tensor, 3)(r)}


@FUZZ
@given(r=RANDOM)
def test_open_inference(doors: Doors, r: Random) -> None:
    model = r.choice((doors.several, doors.classes))
    body, rest = as_body(questions(r)), raw(r, 40)
    header_bytes = r.choice((None, r.randint(0, 200)))
    length = len(body) if rest and header_bytes is None else header_bytes
    refused_or_done(lambda: read_request(model, body + rest, header_bytes=length))
