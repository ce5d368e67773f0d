"""The Open Inference Protocol v2, with a client that others wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.http as triton
from support import Served, mlp
from tritonclient.utils import InferenceServerException

X = np.random.default_rng(5).standard_normal((4, 8)).astype(np.float32)
NAME = "triton"


@pytest.fixture(scope="module")
def logits(served: Served) -> np.ndarray:
    import onnxruntime

    model = mlp(8, 16, 3)
    served.register(NAME, model)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": X})[0]


@pytest.fixture
def token(served: Served) -> dict[str, str]:
    """A fresh dictionary for each test: the client adds headers of its own to it."""
    return {"Authorization": f"Bearer {served.token}"}


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(served.url.removeprefix("http://")) as client:
        yield client


def tensor(x: np.ndarray = X, *, binary: bool) -> triton.InferInput:
    given = triton.InferInput("x", list(x.shape), "FP32")
    given.set_data_from_numpy(x, binary_data=binary)
    return given


def test_the_server_and_the_model_are_live_and_ready(
    client: triton.InferenceServerClient, token: dict[str, str], logits: np.ndarray
) -> None:
    assert client.is_server_live(headers=token)
    assert client.is_server_ready(headers=token)
    assert client.is_model_ready(NAME, headers=token)
    assert client.is_model_ready(NAME, "1", headers=token)
    assert not client.is_model_ready("nobody", headers=token)
    assert not client.is_model_ready(NAME, "9", headers=token)


def test_metadata_describe_server_and_model(
    client: triton.InferenceServerClient, token: dict[str, str], logits: np.ndarray
) -> None:
    server = client.get_server_metadata(headers=token)
    model = client.get_model_metadata(NAME, headers=token)
    version = client.get_model_metadata(NAME, "1", headers=token)

    assert (server["name"], server["extensions"]) == ("honed", ["binary_tensor_data"])
    assert model == {
        "name": NAME,
        "versions": ["1"],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}],
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 3]}],
    }
    assert version == model


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
@pytest.mark.parametrize("version", ["", "1"])
def test_tensors_travel_as_json_and_binary(
    client: triton.InferenceServerClient,
    token: dict[str, str],
    logits: np.ndarray,
    *,
    binary_in: bool,
    binary_out: bool | None,
    version: str,
) -> None:
    wanted = [triton.InferRequestedOutput("logits", binary_data=bool(binary_out))]

    result = client.infer(
        NAME,
        [tensor(binary=binary_in)],
        model_version=version,
        outputs=None if binary_out is None else wanted,
        request_id="17",
        headers=token,
    )

    np.testing.assert_allclose(result.as_numpy("logits"), logits, atol=1e-5)
    response = result.get_response()
    assert (response["model_name"], response["model_version"], response["id"]) == (NAME, "1", "17")


def test_errors_reach_the_client(
    client: triton.InferenceServerClient, token: dict[str, str], logits: np.ndarray
) -> None:
    with pytest.raises(InferenceServerException, match="no model"):
        client.infer("nobody", [tensor(binary=True)], headers=token)
    with pytest.raises(InferenceServerException, match=r"has shape \[4, 7\]"):
        client.infer(NAME, [tensor(X[:, :7].copy(), binary=True)], headers=token)
    other = {"outputs": [triton.InferRequestedOutput("other")]}
    with pytest.raises(InferenceServerException, match="there is no output 'other'"):
        client.infer(NAME, [tensor(binary=True)], headers=token, **other)
    best = {"outputs": [triton.InferRequestedOutput("logits", class_count=2)]}
    with pytest.raises(InferenceServerException, match="classification is not supported"):
        client.infer(NAME, [tensor(binary=True)], headers=token, **best)
    gzip = {"request_compression_algorithm": "gzip"}
    with pytest.raises(InferenceServerException, match="compressed"):
        client.infer(NAME, [tensor(binary=True)], headers=token, **gzip)
    with pytest.raises(InferenceServerException, match="token"):
        client.infer(NAME, [tensor(binary=True)])


def entry(**changes: object) -> dict[str, object]:
    given = {"name": "x", "shape": [1, 8], "datatype": "FP32", "data": X[0].tolist()}
    return {**given, **changes}


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        (None, "/inputs"),
        ([3], "/inputs"),
        ([], "input 'x' is missing"),
        ([entry(name="y")], "no input 'y'"),
        ([entry(name=["x"])], "no input"),
        ([entry(datatype="FP64")], "datatype 'FP64', the model takes 'FP32'"),
        ([entry(shape=[0, 8])], "at least one row"),
        ([entry(shape=8)], "no shape"),
        ([entry(shape=[2, 8])], "holds 8 values, its shape [2, 8] says 16"),
        ([entry(data="text")], "no data"),
        ([entry(data=[[1, 2], [3]])], "ragged"),
        ([entry(data=["a"] * 8)], "holds text"),
        ([entry(data=[1e300] * 8)], "finite"),
        ([entry(parameters={"binary_data_size": 32})], "0 bytes are left"),
        ([entry(parameters={"binary_data_size": -1})], "binary_data_size -1"),
    ],
)
def test_a_bad_request_says_what_is_wrong(
    served: Served, logits: np.ndarray, inputs: object, complaint: str
) -> None:
    answer = served.http.post(f"/v2/models/{NAME}/infer", json={"inputs": inputs})

    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]
    assert complaint in answer.json()["error"]


def test_an_error_of_the_whole_body_names_no_place(served: Served, logits: np.ndarray) -> None:
    answer = served.http.post(f"/v2/models/{NAME}/infer", content=b"{")

    assert answer.json()["error"].startswith("the body is not JSON; Expecting property name")


@pytest.mark.parametrize("length", ["999999", "-1", "x"])
def test_a_wrong_header_length_is_refused(served: Served, logits: np.ndarray, length: str) -> None:
    answer = served.http.post(
        f"/v2/models/{NAME}/infer",
        content=json.dumps({"inputs": [entry()]}),
        headers={"Inference-Header-Content-Length": length},
    )

    assert answer.status_code == 422
    assert "nference-" in answer.json()["error"]
