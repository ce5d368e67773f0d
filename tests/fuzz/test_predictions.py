"""Whatever is asked of the predictor is tensors that fit the model, or is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

from hostile import JSON_VALUES, Doors, as_body, nearly, npy, zipped
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput, TooLarge
from service.prediction.inputs import read_json, read_npz
from service.prediction.open_inference import read_request

FUZZ = settings.get_profile("fuzz")
MAX_BYTES = 2**20


def refused_or_done(act: Callable[[], object]) -> None:
    """The reason must be one that can be sent as JSON."""
    try:
        act()
    except (InvalidInput, TooLarge) as error:
        shown = [error.detail, *(f"{each.pointer}{each.detail}" for each in error.problems)]
        json.dumps(shown, ensure_ascii=False).encode()


INSTANCE = nearly(["inputs"], nearly(["x"], JSON_VALUES))


@FUZZ
@given(
    body=st.one_of(
        st.lists(INSTANCE, max_size=3).map(lambda each: as_body({"instances": each})),
        INSTANCE.map(as_body),
        JSON_VALUES.map(as_body),
        st.binary(max_size=60),
    )
)
def test_json(doors: Doors, body: bytes) -> None:
    refused_or_done(lambda: read_json(doors.classes, body, MAX_BYTES))


@FUZZ
@given(body=zipped(["x.npy", "label.npy", "key.npy"], npy()))
def test_npz(doors: Doors, body: bytes) -> None:
    refused_or_done(lambda: read_npz(doors.classes, body, MAX_BYTES))


TENSOR = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "ids", "flag"]) | JSON_VALUES,
        "shape": st.sampled_from([[1, 3], [1, 2], [1], [10**30, 3]]) | JSON_VALUES,
        "datatype": st.sampled_from(["FP32", "INT64", "BOOL"]) | JSON_VALUES,
        "data": JSON_VALUES | st.lists(st.floats() | st.integers(), min_size=3, max_size=3),
        "parameters": nearly(["binary_data_size"], st.integers(-1, 40) | JSON_VALUES),
    },
)


@FUZZ
@given(
    asked=nearly(["inputs", "outputs", "id", "parameters"], JSON_VALUES)
    | st.fixed_dictionaries({"inputs": st.lists(TENSOR, max_size=3)}),
    rest=st.binary(max_size=40),
    header_bytes=st.none() | st.integers(0, 200),
    several=st.booleans(),
)
def test_open_inference(
    doors: Doors, asked: object, rest: bytes, header_bytes: int | None, several: bool
) -> None:
    model = doors.several if several else doors.classes
    body = as_body(asked)
    length = len(body) if rest and header_bytes is None else header_bytes
    refused_or_done(lambda: read_request(model, body + rest, header_bytes=length))
