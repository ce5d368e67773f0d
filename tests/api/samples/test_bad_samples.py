"""Every kind of wrong upload: a problem that names place and remedy, and nothing stored."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import Served, mlp, npz

GOOD = [0.5, 0.25, -1.0]


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("bad-samples", mlp(3, 4, 2), classes=["cat", "dog"])
    first = served.http.post(
        "/v1/models/bad-samples/samples", json={"inputs": {"x": GOOD}, "label": 0}
    )
    assert first.status_code == 201
    return "bad-samples"


@pytest.fixture
def refused(served: Served, model: str) -> Callable[..., dict[str, Any]]:
    """Send a body that must be refused; the daemon lives on and keeps what it had."""

    def send(body: bytes, media_type: str, *, status: int = 422, query: str = "") -> dict[str, Any]:
        answer = served.http.post(
            f"/v1/models/{model}/samples{query}",
            content=body,
            headers={"Content-Type": media_type},
        )
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        stats = served.http.get(f"/v1/models/{model}/samples/stats").json()
        assert stats["train"] + stats["validation"] + stats["unlabelled"] == 1
        return answer.json()

    return send


def sample(**changes: Any) -> dict[str, Any]:
    return {"inputs": {"x": GOOD}, "label": 1, **changes}


WRONG_SAMPLES = {
    "shape": (sample(inputs={"x": [GOOD]}), "/samples/1/inputs/x", "has shape [1, 3]"),
    "length": (sample(inputs={"x": [1, 2]}), "/samples/1/inputs/x", "the model takes [3]"),
    "ragged": (sample(inputs={"x": [[1], [2, 3]]}), "/samples/1/inputs/x", "ragged"),
    "text": (sample(inputs={"x": ["a", "b", "c"]}), "/samples/1/inputs/x", "holds text"),
    "boolean": (
        sample(inputs={"x": [1, True, 2]}),
        "/samples/1/inputs/x",
        "booleans among numbers",
    ),
    "null": (sample(inputs={"x": [1, None, 2]}), "/samples/1/inputs/x", "not numbers"),
    "nan": (sample(inputs={"x": [1, float("nan"), 2]}), "/samples/1/inputs/x", "nan at [1]"),
    "infinity": (sample(inputs={"x": [1, 2, float("inf")]}), "/samples/1/inputs/x", "finite"),
    "overflow": (sample(inputs={"x": [1, 2, 1e300]}), "/samples/1/inputs/x", "finite float32"),
    "missing input": (sample(inputs={}), "/samples/1/inputs", "input 'x' is missing"),
    "unknown input": (sample(inputs={"x": GOOD, "z": 1}), "/samples/1/inputs/z", "no input 'z'"),
    "escaped input": (
        sample(inputs={"x": GOOD, "a/b~": 1}),
        "/samples/1/inputs/a~1b~0",
        "no input",
    ),
    "escaped field": (sample(**{"a/b": 1}), "/samples/1/a~1b", "unknown field"),
    "no inputs": ({"label": 1}, "/samples/1/inputs", "inputs is an object"),
    "not an object": (5, "/samples/1", "a sample is an object"),
    "unknown field": (sample(lable=1), "/samples/1/lable", "unknown field 'lable'"),
    "label too large": (sample(label=2), "/samples/1/label", "classes 0 to 1"),
    "label negative": (sample(label=-1), "/samples/1/label", "out of range"),
    "label enormous": (sample(label=10**30), "/samples/1/label", "integer beyond 64 bits"),
    "integer enormous": (sample(inputs={"x": [1, 2, 10**400]}), "/samples/1/inputs/x", "float64"),
    "label a fraction": (sample(label=0.5), "/samples/1/label", "takes integers"),
    "label a list": (sample(label=[1]), "/samples/1/label", "has shape [1]"),
    "label true": (sample(label=True), "/samples/1/label", "holds booleans"),
    "unknown class": (sample(label="cow"), "/samples/1/label", "'cat', 'dog'"),
    "key empty": (sample(key=""), "/samples/1/key", "1 to 512"),
    "key a number": (sample(key=7), "/samples/1/key", "key is text"),
    "split": (sample(split="test"), "/samples/1/split", "train or validation"),
}


@pytest.mark.parametrize("case", WRONG_SAMPLES, ids=str)
def test_a_wrong_sample_is_named_and_the_whole_batch_refused(
    case: str, refused: Callable[..., dict[str, Any]]
) -> None:
    wrong, pointer, words = WRONG_SAMPLES[case]
    body = json.dumps({"samples": [sample(), wrong]}).encode()

    problem = refused(body, "application/json")

    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]
    assert words in problem["errors"][0]["detail"]


def test_every_wrong_sample_of_a_batch_is_listed(refused: Callable[..., dict[str, Any]]) -> None:
    batch = [sample(label=9), sample(), sample(inputs={"x": [1]}, key="")]

    problem = refused(json.dumps({"samples": batch}).encode(), "application/json")

    places = {fault["pointer"] for fault in problem["errors"]}
    assert places == {"/samples/0/label", "/samples/2/inputs/x", "/samples/2/key"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b'{"inputs": {"x": [1, 2', "Expecting"),
        (b"\xff\xfe\x00", "send UTF-8 JSON"),
        (b'{"samples": []}', "at least one sample"),
        (b'{"samples": {"x": 1}}', "samples is a list"),
        (b'{"samples": [], "split": "train"}', "no other field"),
        (b"[" * 100_000, "send UTF-8 JSON"),
        (b"[" + b"9" * 5000 + b"]", "value has 5000 digits; send UTF-8 JSON"),
    ],
)
def test_a_body_that_is_no_batch_is_refused(
    body: bytes, words: str, refused: Callable[..., dict[str, Any]]
) -> None:
    problem = refused(body, "application/json")

    assert words in problem["errors"][0]["detail"]


ROWS = np.tile(np.array(GOOD, np.float32), (3, 1))
LABELS = np.array([0, 1, 0])


def replaced(row: int, value: float) -> np.ndarray:
    rows = ROWS.copy()
    rows[row, 1] = value
    return rows


WRONG_ARRAYS = {
    "shape": ({"x": ROWS[:, :2], "label": LABELS}, "/x", "has shape [2] a sample"),
    "text": ({"x": ROWS.astype(str), "label": LABELS}, "/x", "holds text"),
    "complex": ({"x": ROWS.astype(complex), "label": LABELS}, "/x", "takes numbers"),
    "nan": ({"x": replaced(2, np.nan), "label": LABELS}, "/x/2", "sample 2: input 'x' holds nan"),
    "inf": ({"x": replaced(0, np.inf), "label": LABELS}, "/x/0", "at [1]"),
    "escaped": ({"x": ROWS, "y/z": LABELS}, "/y~1z", "no input"),
    "missing": ({"label": LABELS}, "/x", "array of input 'x' is missing"),
    "unknown": ({"x": ROWS, "y": LABELS}, "/y", "no input 'y'"),
    "label range": ({"x": ROWS, "label": np.array([0, 2, 0])}, "/label/1", "classes 0 to 1"),
    "label negative": ({"x": ROWS, "label": np.array([0, -1, 0])}, "/label/1", "out of range"),
    "label unsigned": ({"x": ROWS, "label": LABELS.astype("u8") - 1}, "/label/0", "holds 18446744"),
    "label float": ({"x": ROWS, "label": LABELS / 2}, "/label", "takes integers"),
    "label name": ({"x": ROWS, "label": np.array(["cat", "cow", "dog"])}, "/label/1", "'cow'"),
    "label shape": ({"x": ROWS, "label": LABELS[:, None]}, "/label", "has shape [1] a sample"),
    "lengths": ({"x": ROWS, "label": LABELS[:2]}, "/label", "has 2 rows, not 3"),
    "empty": ({"x": ROWS[:0], "label": LABELS[:0]}, "", "at least one row"),
    "scalar": ({"x": np.float32(1), "label": LABELS}, "/x", "batch as first axis"),
    "key floats": ({"x": ROWS, "label": LABELS, "key": LABELS / 3}, "/key", "one text or integer"),
    "key long": ({"x": ROWS, "label": LABELS, "key": ["a", "b" * 600, "c"]}, "/key/1", "512"),
}


@pytest.mark.parametrize("case", WRONG_ARRAYS, ids=str)
def test_a_wrong_array_is_named(case: str, refused: Callable[..., dict[str, Any]]) -> None:
    arrays, pointer, words = WRONG_ARRAYS[case]

    problem = refused(npz(**arrays), "application/x-npz")

    assert problem["errors"][0]["pointer"] == pointer
    assert words in problem["errors"][0]["detail"]


def npy_with_header(header: bytes, *, version: int = 1, data: bytes = b"") -> bytes:
    width = 2 if version == 1 else 4
    length = len(header).to_bytes(width, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def zipped(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def flipped(data: bytes) -> bytes:
    middle = data.index(ROWS.tobytes()) + 5
    return data[:middle] + bytes([data[middle] ^ 0x40]) + data[middle + 1 :]


PICKLED = npz(x=np.array([GOOD, None], dtype=object), label=LABELS[:2])
HUGE_SHAPE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 3), }\n"
DAMAGED = {
    "not a zip": (b"hello", "write it with numpy.savez"),
    "empty": (b"", "write it with numpy.savez"),
    "truncated": (npz(x=ROWS, label=LABELS)[:-30], "write it with numpy.savez"),
    "bit flipped": (flipped(npz(x=ROWS, label=LABELS)), "Bad CRC-32"),
    "pickled": (PICKLED, "pickled"),
    "huge header": (
        zipped(x=npy_with_header(b" " * 5_000_000, version=2), label=b""),
        "header of 5000000 bytes",
    ),
    "huge shape": (zipped(x=npy_with_header(HUGE_SHAPE), label=b""), "in its header but holds 0"),
    "an axis of thousands of digits": (
        zipped(x=npy_with_header(HUGE_SHAPE.replace(b"3", b"9" * 5000)), label=b""),
        "the most is 32",
    ),
    "header of code": (
        zipped(x=npy_with_header(b"__import__('os').abort()\n"), label=b""),
        "header that cannot be read",
    ),
    "no npy": (zipped(x=b"hello world"), "not a .npy array"),
    "short npy": (zipped(x=b"\x93NUM"), "truncated"),
}


@pytest.mark.parametrize("case", DAMAGED, ids=str)
def test_a_damaged_or_hostile_npz_is_refused(
    case: str, refused: Callable[..., dict[str, Any]]
) -> None:
    body, words = DAMAGED[case]

    problem = refused(body, "application/x-npz")

    assert words in problem["errors"][0]["detail"]


def test_a_body_of_another_type_is_refused(refused: Callable[..., dict[str, Any]]) -> None:
    problem = refused(b'{"inputs": {"x": [1, 2, 3]}}', "text/plain", status=415)

    assert "application/json or application/x-npz" in problem["detail"]


def test_a_list_of_samples_is_told_its_form(refused: Callable[..., dict[str, Any]]) -> None:
    problem = refused(b'[{"inputs": {"x": [1, 2, 3]}}]', "application/json")

    assert '{"samples": [' in problem["errors"][0]["detail"]


def test_a_mistyped_query_is_refused(refused: Callable[..., dict[str, Any]]) -> None:
    problem = refused(b"{}", "application/json", query="?split=test")

    assert problem["errors"][0]["pointer"] == "/query/split"


def test_on_error_skip_keeps_the_good_ones_and_lists_the_others(served: Served) -> None:
    served.register("skip", mlp(3, 4, 2), duplicates="keep")
    batch = [sample(), sample(label=7), sample(inputs={"x": [1, 2]}), sample(label=0)]

    answer = served.http.post("/v1/models/skip/samples?on_error=skip", json={"samples": batch})
    arrays = npz(x=replaced(1, np.nan), label=LABELS)
    second = served.http.post(
        "/v1/models/skip/samples?on_error=skip",
        content=arrays,
        headers={"Content-Type": "application/x-npz"},
    )

    first_ids = answer.json()["ids"]
    assert answer.status_code == second.status_code == 201
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (2, 2)
    assert first_ids[1] == first_ids[0] + 1
    assert [e["pointer"] for e in answer.json()["errors"]] == [
        "/samples/1/label",
        "/samples/2/inputs/x",
    ]
    assert (second.json()["accepted"], second.json()["rejected"]) == (2, 1)
    assert second.json()["errors"][0]["pointer"] == "/x/1"


def test_a_body_past_the_limit_is_refused_before_it_is_read(
    serve: Callable[..., Served],
) -> None:
    served = serve(max_json_bytes=2048, max_upload_bytes=200_000)
    served.register("m", mlp(3, 4, 2))
    long_json = json.dumps({"samples": [sample()] * 100})

    too_long = served.http.post(
        "/v1/models/m/samples", content=long_json, headers={"Content-Type": "application/json"}
    )
    unpacked = served.offer("m", x=np.zeros((20_000, 3), np.float32))
    announced = served.http.post(
        "/v1/models/m/samples",
        content=b"x" * 300_000,
        headers={"Content-Type": "application/x-npz"},
    )
    compressed = io.BytesIO()
    np.savez_compressed(compressed, x=np.zeros((100_000, 3), np.float32))
    bomb = served.http.post(
        "/v1/models/m/samples",
        content=compressed.getvalue(),
        headers={"Content-Type": "application/x-npz"},
    )

    for answer in (too_long, unpacked, announced, bomb):
        assert answer.status_code == 413, answer.text
        assert answer.json()["code"] == "too_large"
    assert served.tokenless.get("/healthz").status_code == 200


@pytest.mark.parametrize("name", ["label", "key"])
def test_an_input_that_an_npz_could_not_hold_is_refused_at_registration(
    served: Served, name: str
) -> None:
    answer = served.http.post(
        "/v1/models",
        data={"spec": json.dumps({"name": f"input-{name}", "loss": "cross_entropy"})},
        files={"model": ("model.onnx", mlp(3, 4, 2, inputs=name))},
    )

    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == f"/model/graph/input/{name}"
    assert "rename it" in fault["detail"]
    assert served.http.get(f"/v1/models/input-{name}").status_code == 404
