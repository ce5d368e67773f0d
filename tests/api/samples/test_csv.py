"""CSV as people have it: from spreadsheets, loggers and half-finished exports."""

from __future__ import annotations

import io
import re

import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from support import Served, mlp


@pytest.fixture
def model(served: Served, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    served.register(name, mlp(3, 4, 2), classes=["cat", "dog"])
    return name


def send(served: Served, model: str, text: str | bytes, **params: str) -> httpx.Response:
    return served.http.post(
        f"/v1/models/{model}/samples",
        content=text if isinstance(text, bytes) else text.encode(),
        params=params,
        headers={"Content-Type": "text/csv"},
    )


def rows(served: Served, model: str) -> list[tuple[list[float], object, object]]:
    url = f"/v1/models/{model}/samples"
    found = []
    for sample in served.http.get(url).json()["items"]:
        arrays = np.load(io.BytesIO(served.http.get(f"{url}/{sample['id']}/content").content))
        found.append((arrays["x"][0].tolist(), sample["label"], sample["key"]))
    return found


def test_columns_are_taken_in_order_and_by_name(served: Served, model: str) -> None:
    plain = send(served, model, "a,b,c,label,key\n1,2,3,cat,k1\n4,5,6,1,k2\n7,8,9,,k3\n")
    named = send(served, model, "x[2],species,x[0],x[1]\n3,dog,1,2\n", label_column="species")

    assert (plain.status_code, named.status_code) == (201, 201), plain.text + named.text
    assert rows(served, model) == [
        ([1, 2, 3], 0, "k1"),
        ([4, 5, 6], 1, "k2"),
        ([7, 8, 9], None, "k3"),
        ([1, 2, 3], 1, None),
    ]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "mixed"])
def test_a_bom_quotes_empty_lines_and_any_line_ends_are_fine(
    served: Served, model: str, ends: str
) -> None:
    text = '\ufeff"a","b","c",label\n1, 2 ,3e0,"cat"\n\n-4,.5,6,dog'
    text = text.replace("\n", "\r\n", 2) if ends == "mixed" else text.replace("\n", ends)

    answer = send(served, model, text)

    assert answer.status_code == 201, answer.text
    assert [label for _, label, _ in rows(served, model)] == [0, 1]


def test_columns_go_by_the_names_that_the_model_has(served: Served, model: str) -> None:
    url = f"/v1/models/{model}"
    named = served.http.patch(url, json={"features": ["temp", "rpm", "load"]})
    assert (named.status_code, named.json()["features"]) == (200, ["temp", "rpm", "load"])

    other_order = send(served, model, "load,temp,rpm\n3,1,2\n")
    more = send(served, model, "rpm,site,load,temp\n5,north,6,4\n")
    ignored = send(served, model, "rpm,site,load,temp\n5,9,6,4\n", ignore_columns="site")

    assert (other_order.status_code, ignored.status_code) == (201, 201), ignored.text
    assert (more.status_code, more.json()["errors"][0]["pointer"]) == (422, "/1")
    assert "site" in more.json()["errors"][0]["detail"]
    assert [x for x, _, _ in rows(served, model)] == [[1, 2, 3], [4, 5, 6]]

    predict, csv = f"{url}/predict", {"Content-Type": "text/csv"}
    alone = served.http.post(predict, json={"inputs": {"x": [4, 5, 6]}}).json()["predictions"]
    told = served.http.post(predict, content="rpm,site,load,temp\n5,north,6,4\n", headers=csv)
    assert told.json()["predictions"] == alone
    lacks = served.http.post(predict, content="rpm,site,load\n5,north,6\n", headers=csv)
    assert "lacks ['temp']" in lacks.json()["errors"][0]["detail"]

    forgotten = served.http.patch(url, json={"features": None})
    assert (forgotten.status_code, forgotten.json()["features"]) == (200, None)
    assert send(served, model, "a,b,c\n7,8,9\n").status_code == 201
    assert served.http.get(url).json()["features"] == ["a", "b", "c"]
    served.http.patch(url, json={"features": None}).raise_for_status()
    assert send(served, model, "d,e,f\n7,8,9\n").json()["duplicates"] == 1
    assert served.http.get(url).json()["features"] == ["d", "e", "f"]
    wrong = served.http.patch(url, json={"features": ["a", "b"]})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/features")


WRONG = {
    "short row": ("a,b,c,label\n1,2,3,cat\n1,2\n", "/3", "line 3 has 2 columns, the header has 4"),
    "long row": ("a,b,c\n1,2,3,4\n", "/2", "line 2 has 4 columns"),
    "no number": ("a,b,c\n1,2,3\n1,two,3\n", "/3", "column 2 holds 'two'"),
    "empty cell": ("a,b,c\n1,,3\n", "/2", "column 2 holds nothing"),
    "comma decimals": ('a,b,c\n1,"2,5",3\n', "/2", "'2,5'"),
    "nan": ("a,b,c\n1,nan,3\n", "/2", "finite float32"),
    "overflow": ("a,b,c\n1,2,1e300\n", "/2", "column 3 holds '1e300'"),
    "unknown class": ("a,b,c,label\n1,2,3,cow\n", "/2", "'cat', 'dog'"),
    "class out of range": ("a,b,c,label\n1,2,3,7\n", "/2", "classes 0 to 1"),
    "split": ("a,b,c,split\n1,2,3,test\n", "/2", "train or validation"),
    "a label of another name": ("a,b,c,species\n1,2,3,cat\n", "/1", "label_column and"),
    "too few columns": ("a,b\n1,2\n", "/1", "2 columns left for input 'x', which takes 3"),
    "gap": ("x[0],x[2]\n1,2\n", "/1", "lacks ['x[1]']"),
    "twice": ("a,a,c\n1,2,3\n", "/1", "two columns are named 'a'"),
    "grouped digits": ("a,b,c\n1,1_000,3\n", "/2", "column 2 holds '1_000', which is not a number"),
    "wide digits": ("a,b,c\n1,\uff12,3\n", "/2", "column 2 holds '\uff12', which is not a number"),
    "half a class": ("a,b,c,label\n1,2,3,0.5\n", "/2", "label holds floats"),
    "semicolons": ("a;b;c;label\n1;2;3;cat\n", "/1", "separated by ';'; separate them by commas"),
    "tabs": ("a\tb\tc\n1\t2\t3\n", "/1", "separated by '\\t'; separate them by commas"),
    "header only": ("a,b,c\n", "/2", "no line behind the header"),
    "nothing": ("", "/1", "names the columns"),
    "not UTF-8": ("a,b,c\n1,2,3\n".encode("utf-16"), "/1", "UTF-8"),
}


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_a_wrong_line_is_named_and_nothing_is_stored(served: Served, model: str, case: str) -> None:
    text, pointer, words = WRONG[case]

    answer = send(served, model, text)

    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert words in answer.json()["errors"][0]["detail"]
    assert served.http.get(f"/v1/models/{model}/samples").json()["items"] == []


def test_the_good_lines_may_be_kept(served: Served, model: str) -> None:
    answer = send(served, model, "a,b,c\n1,2,3\n1,x,3\n4,5\n7,8,9\n", on_error="skip").json()

    assert (answer["accepted"], answer["rejected"]) == (2, 2)
    assert [each for each, _, _ in rows(served, model)] == [[1, 2, 3], [7, 8, 9]]


def test_whole_numbers_are_classes_however_they_are_written(served: Served, model: str) -> None:
    answer = send(served, model, "a,b,c,label\n1,2,3,1.0\n4,5,6,0.\n7,8,9,1.00\n7,8,8,\n")
    url = f"/v1/models/{model}/samples"
    sample = {"inputs": {"x": [8, 8, 8]}, "label": 1.0, "key": "json"}
    in_json = served.http.post(url, json=sample)

    assert answer.status_code == 201, answer.text
    assert in_json.status_code == 201, in_json.text
    assert [label for _, label, _ in rows(served, model)] == [1, 0, 1, None, 1]
    assert served.http.patch(f"{url}?key=json", json={"label": 0.0}).json()["label"] == 0


def test_a_class_named_by_a_number_is_found_by_its_name(served: Served) -> None:
    served.register("sizes", mlp(3, 4, 2), classes=["1", "2"])
    send(served, "sizes", "a,b,c,label\n1,2,3,1.0\n1,2,4,2\n").raise_for_status()
    assert [label for _, label, _ in rows(served, "sizes")] == [0, 1]


def test_a_column_of_booleans_holds_true_and_false(served: Served) -> None:
    network = onnx.load_from_string(mlp(3, 4, 2, inputs="float"))
    network.graph.node.insert(0, helper.make_node("Cast", ["x"], ["float"], to=TensorProto.FLOAT))
    del network.graph.input[:]
    told = helper.make_tensor_value_info("x", TensorProto.BOOL, ["batch", 3])
    network.graph.input.append(told)
    served.register("told", network.SerializeToString())
    send(served, "told", "a,b,c\nTrue,false,1\n").raise_for_status()
    wrong = send(served, "told", "a,b,c\n0,1,2\n")

    assert rows(served, "told") == [([True, False, True], None, None)]
    detail = wrong.json()["errors"][0]["detail"]
    assert detail == "line 2: column 3 holds '2'; the model takes true or false, 1 or 0"


def test_a_label_may_be_several_columns(served: Served, model: str) -> None:
    served.register(f"{model}-r", mlp(3, 4, 2), loss="mse")

    good = send(served, f"{model}-r", "a,b,c,u,v\n1,2,3,0.5,-1\n", label_column="u,v")
    few = send(served, f"{model}-r", "a,b,c,u,v,w\n1,2,3,0,0,0\n", label_column="u,v,w")
    gone = send(served, f"{model}-r", "a,b,c\n1,2,3\n", label_column="u")
    word = send(served, f"{model}-r", "a,b,c,u\n1,2,3,nan\n", label_column="u")

    assert good.status_code == 201, good.text
    assert rows(served, f"{model}-r") == [([1, 2, 3], [0.5, -1], None)]
    assert "a label of this model is 2 numbers" in few.json()["errors"][0]["detail"]
    assert "there is no column 'u'" in gone.json()["errors"][0]["detail"]
    assert "'nan' is no finite number" in word.json()["errors"][0]["detail"]


def test_sensor_data_is_standardized_by_what_the_first_samples_say(served: Served) -> None:
    preprocess = {"input": "x", "kind": "standardize", "learn_from": 50}
    served.register("sensor", mlp(2, 8, 2), preprocess=preprocess)
    generator = np.random.default_rng(0)
    x = generator.normal([1000, -5], [20, 0.01], (200, 2))
    label = (x[:, 0] - 1000 > (x[:, 1] + 5) * 2000).astype(int)
    lines = [f"{a!r},{b!r},{n}" for (a, b), n in zip(x.tolist(), label.tolist(), strict=True)]
    assert send(served, "sensor", "\n".join(["t,v,label", *lines]), split="train").is_success
    assert served.http.get("/v1/models/sensor").json()["preprocess"][0]["mean"] is None

    served.train("sensor", epochs=40, learning_rate=0.02, batch_size=16)
    (learned,) = served.http.get("/v1/models/sensor").json()["preprocess"]
    served.train("sensor", epochs=1)
    (again,) = served.http.get("/v1/models/sensor").json()["preprocess"]

    np.testing.assert_allclose(learned["mean"], x[:50].astype(np.float32).mean(axis=0), rtol=1e-4)
    assert again == learned
    session = onnxruntime.InferenceSession(
        served.http.get("/v1/models/sensor/versions/2/model.onnx").content
    )
    made = ((x - learned["mean"]) / learned["std"]).astype(np.float32)
    (logits,) = session.run(None, {"x": made})
    assert (logits.argmax(axis=1) == label).mean() > 0.95
    served.http.put("/v1/models/sensor/aliases/latest", json={"version": 2})
    instances = [{"inputs": {"x": row}} for row in x[:20].tolist()]
    asked = served.http.post("/v1/models/sensor/predict", json={"instances": instances}).json()
    named = [prediction["label"] for prediction in asked["predictions"]]
    assert named == logits[:20].argmax(axis=1).tolist(), asked
