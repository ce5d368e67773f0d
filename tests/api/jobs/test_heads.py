"""Heads that are computed, trained alone, or chosen, of jobs as apps ask for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_node
from onnx.numpy_helper import from_array
from step_models import model_of
from support import Served, blobs, mlp, wait_until

SIZES = (12, 24, 4)
ALWAYS = {"mode": "always"}
PROTOTYPE = {"head": {"kind": "prototype"}}
WIDE = 4096
"""Numbers of an input whose product with eight columns is read much sooner than it is computed."""


def convolutions() -> bytes:
    """x [batch, 3, 4, 4] → logits [batch, 4], the head a Conv before the pooling."""
    rng = np.random.default_rng(0)
    sizes = {"w0": (8, 3, 1, 1), "b0": (8,), "w1": (4, 8, 1, 1), "b1": (4,)}
    weights = [from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in sizes.items()]
    nodes = [
        make_node("Conv", ["x", "w0", "b0"], ["h"], "first"),
        make_node("Relu", ["h"], ["r"], "relu"),
        make_node("Conv", ["r", "w1", "b1"], ["maps"], "head"),
        make_node("GlobalAveragePool", ["maps"], ["pooled"], "pool"),
        make_node("Flatten", ["pooled"], ["logits"], "flatten"),
    ]
    shapes = {"x": ["batch", 3, 4, 4]}, {"logits": ["batch", 4]}
    return model_of(nodes, *shapes, weights).SerializeToString()


def pictures(count: int, seed: int = 0) -> dict[str, Any]:
    found = blobs(count, 3, 4, seed=seed)
    noise = np.random.default_rng(seed).standard_normal((count, 3, 4, 4)) / 2
    return {"x": (found["x"][:, :, None, None] + noise).astype(np.float32), "label": found["label"]}


def tables(count: int, seed: int = 0) -> dict[str, Any]:
    return blobs(count, SIZES[0], SIZES[-1], seed=seed)


def adapted(layer: str) -> list[Any]:
    return ["head", {"lora": {"rank": 2, "targets": [f"{layer}.weight"]}}]


def wide(count: int, seed: int = 0) -> dict[str, Any]:
    return blobs(count, WIDE, SIZES[-1], seed=seed)


MODELS = {
    "frozen": (mlp(*SIZES), {"trainable": "head"}, tables, "active0"),
    "whole": (mlp(*SIZES), {}, tables, "active0"),
    "maps": (convolutions(), {}, pictures, "r"),
    "adapted": (mlp(WIDE, 8, 4), {"trainable": adapted("layer0")}, wide, "active0"),
    "adapted-inside": (mlp(WIDE, 8, 8, 4), {"trainable": adapted("layer1")}, wide, "active1"),
}


def register(served: Served, name: str, kind: str, count: int = 60, **spec: Any) -> dict[str, Any]:
    """A model with samples to train on and some to validate with; those to train on."""
    content, own, draw, _ = MODELS[kind]
    served.register(name, content, gate=ALWAYS, **{**own, **spec})
    data = draw(count)
    served.upload(name, "train", **data).raise_for_status()
    served.upload(name, "validation", **draw(40, seed=1)).raise_for_status()
    return data


def exported(served: Served, name: str, job: dict[str, Any]) -> onnx.ModelProto:
    url = f"/v1/models/{name}/versions/{job['version']}/model.onnx"
    return onnx.load_model_from_string(served.http.get(url).content)


def run(model: onnx.ModelProto, x: Any, *outputs: str) -> list[Any]:
    known = {value.name for value in model.graph.output}
    more = [onnx.helper.make_empty_tensor_value_info(each) for each in {*outputs} - known]
    model.graph.output.extend(more)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(list(outputs), {"x": x})


def refused(served: Served, model: str, **asked: Any) -> list[dict[str, str]]:
    answer = served.http.post(f"/v1/models/{model}/jobs", json=asked)
    assert answer.status_code == 422, answer.text
    return answer.json()["errors"]


@pytest.mark.parametrize("kind", MODELS)
def test_a_prototype_head_answers_with_the_nearest_mean(served: Served, kind: str) -> None:
    name = f"prototype-{kind}"
    data = register(served, name, kind)

    job = served.train(name, **PROTOTYPE)

    features = MODELS[kind][3]
    held = MODELS[kind][2](200, seed=2)
    model = exported(served, name, job)
    logits, found = run(model, held["x"], "logits", features)
    (known,) = run(model, data["x"], features)
    rows, known = (each.reshape(*each.shape[:2], -1).mean(axis=2) for each in (found, known))
    means = np.stack([known[data["label"] == number].mean(axis=0) for number in range(4)])
    distances = ((rows[:, None] - means) ** 2).sum(axis=2)
    assert (logits.argmax(axis=1) == distances.argmin(axis=1)).all()
    assert (logits.argmax(axis=1) == held["label"]).mean() > 0.5
    gaps = (logits - logits[:, :1], distances[:, :1] - distances)
    assert np.corrcoef(*(each.ravel() for each in gaps))[0, 1] > 0.9999
    assert job["hyperparameters"] == {**PROTOTYPE, "seed": job["hyperparameters"]["seed"]} | {
        "auto": False,
        "from": "latest",
    }
    assert (job["progress"]["step"], job["progress"]["total_steps"]) == (0, 0)
    assert job["metrics"]["validation"]["loss"] < job["metrics"]["baseline"]["loss"]


def test_the_next_job_goes_on_from_the_prototypes(served: Served) -> None:
    register(served, "onward", "whole")
    first = served.train("onward", **PROTOTYPE)
    second = served.train("onward", max_steps=1, learning_rate=1e-9)
    then, now = first["metrics"]["validation"]["loss"], second["metrics"]["baseline"]["loss"]
    assert now == pytest.approx(then, rel=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_a_knn_head_lets_the_nearest_samples_vote(served: Served, kind: str) -> None:
    name = f"knn-{kind}"
    data = register(served, name, kind)

    job = served.train(name, head={"kind": "knn"})

    assert job["hyperparameters"]["head"] == {"kind": "knn", "k": 5}
    held = MODELS[kind][2](100, seed=2)
    model, features = exported(served, name, job), MODELS[kind][3]
    onnx.checker.check_model(model)
    logits, found = run(model, held["x"], "logits", features)
    (known,) = run(model, data["x"], features)
    rows, known = (each.reshape(*each.shape[:2], -1).mean(axis=2) for each in (found, known))
    distances = np.sqrt(((rows[:, None] - known) ** 2).sum(axis=2))
    nearest = distances.argsort(axis=1)[:, :5]
    votes = np.zeros((len(rows), 4))
    for row, chosen in enumerate(nearest):
        np.add.at(votes[row], data["label"][chosen], 1 / distances[row, chosen])
    expected = np.log((5 * votes / votes.sum(axis=1, keepdims=True) + 1 / 4) / 6)
    assert np.allclose(logits, expected, atol=1e-3)
    head = onnx.load_model_from_string(MODELS[kind][0]).graph.initializer[-2].name
    assert head not in {initializer.name for initializer in model.graph.initializer}
    assert [value.name for value in model.graph.input] == ["x"]


def test_one_neighbour_knows_what_it_has_seen(served: Served) -> None:
    data = register(served, "one", "frozen")
    job = served.train("one", head={"kind": "knn", "k": 1})
    (logits,) = run(exported(served, "one", job), data["x"], "logits")
    assert (logits.argmax(axis=1) == data["label"]).all()


def test_all_samples_that_are_equally_near_vote(served: Served) -> None:
    x = np.indices((3, 3, 3, 3)).reshape(4, -1).T.astype(np.float32)
    labels = np.random.default_rng(1).integers(0, 3, len(x))
    served.register("whole-numbers", mlp(4, 3), gate=ALWAYS)
    served.upload("whole-numbers", "train", x=x, label=labels).raise_for_status()

    job = served.train("whole-numbers", head={"kind": "knn"})

    (logits,) = run(exported(served, "whole-numbers", job), x, "logits")
    distances = ((x[:, None] - x) ** 2).sum(axis=2)
    near = np.maximum(distances, 1e-4 * x.var(axis=0).sum())
    pull = (distances <= np.sort(distances)[:, 4:5]) / np.sqrt(near)
    votes = pull @ np.eye(3)[labels]
    expected = np.log((5 * votes / votes.sum(axis=1, keepdims=True) + 1 / 3) / 6)
    assert np.allclose(logits, expected, atol=1e-3)


def test_a_linear_head_trains_and_nothing_else_does(served: Served) -> None:
    register(served, "linear", "whole")
    job = served.train("linear", head={"kind": "linear"}, epochs=3, weight_decay=0.1)
    before = onnx.load_model_from_string(MODELS["whole"][0])
    then, now = (
        {initializer.name: initializer.raw_data for initializer in model.graph.initializer}
        for model in (before, exported(served, "linear", job))
    )
    assert {name for name in then if then[name] != now[name]} == {"layer1.weight", "layer1.bias"}


def test_a_class_without_samples_keeps_its_row_and_the_job_says_so(served: Served) -> None:
    served.register("lacking", mlp(*SIZES), gate=ALWAYS, classes=["a", "b", "c", "d"])
    data = tables(80)
    known = data["label"] != 2
    served.upload("lacking", "train", x=data["x"][known], label=data["label"][known])

    job = served.train("lacking", **PROTOTYPE)

    (warning,) = job["metrics"]["warnings"]
    assert warning == "class 'c' has no training samples: it keeps the row that it had"
    before = onnx.load_model_from_string(mlp(*SIZES))
    rows = [
        onnx.numpy_helper.to_array(initializer)
        for model in (before, exported(served, "lacking", job))
        for initializer in model.graph.initializer
        if initializer.name == "layer1.weight"
    ]
    assert (rows[0][:, 2] == rows[1][:, 2]).all()
    known_rows = [row[:, [0, 1, 3]].mean(axis=1) for row in rows]
    assert np.allclose(*known_rows, atol=1e-5)  # so that no class is always ahead of the others
    (logits,) = run(exported(served, "lacking", job), data["x"][known], "logits")
    assert (logits.argmax(axis=1) == data["label"][known]).mean() > 0.7


def test_auto_says_what_it_has_chosen_and_how_the_others_did(served: Served) -> None:
    register(served, "auto", "whole", count=30)
    job = served.train("auto", head="auto", epochs=2, learning_rate=0.01)
    chosen, reason = job["hyperparameters"]["head"], job["choices"]["head"]
    assert job["choices"].keys() == {"head"}
    assert reason.startswith("least loss on 30 samples left out in 10 folds: prototype ")
    losses = {
        kind: float(loss)
        for kind, loss, *_ in (each.split(" ") for each in reason.split(": ")[1].split(", "))
    }
    assert [*losses] == ["prototype", "linear", "full"]
    assert chosen == {"kind": min(losses, key=lambda kind: losses[kind])}


def test_auto_of_a_model_whose_head_alone_trains_has_no_full(served: Served) -> None:
    register(served, "auto-frozen", "frozen")
    job = served.train("auto-frozen", head="auto")
    assert "full" not in job["choices"]["head"]
    assert {"head", "learning_rate"} <= job["choices"].keys() or job["hyperparameters"]["head"] == {
        "kind": "prototype"
    }


def test_a_models_own_head_is_computed_as_soon_as_samples_trigger_it(served: Served) -> None:
    defaults = {**PROTOTYPE, "learning_rate": None}
    served.register("eager", mlp(*SIZES), gate=ALWAYS, hyperparameters=defaults)
    rule = {"new_samples": 20}
    served.http.post("/v1/models/eager/triggers", json=rule).raise_for_status()
    served.upload("eager", "train", **tables(40)).raise_for_status()

    def promoted() -> bool:
        return served.http.get("/v1/models/eager/latest").json()["version"] == 2

    wait_until(promoted, "version 2 as latest")
    trained = served.train("eager", epochs=1)
    assert "head" not in trained["hyperparameters"]
    assert trained["progress"]["step"] > 0


@pytest.mark.parametrize(
    ("asked", "pointer", "detail"),
    [
        (PROTOTYPE | {"learning_rate": 0.1}, "/learning_rate", "is computed, not trained"),
        ({"head": {"kind": "knn"}, "epochs": 3}, "/epochs", "is computed, not trained"),
        ({"head": {"kind": "prototype", "k": 3}}, "/head/k", "k is of knn"),
        ({"head": {"kind": "knn", "k": 0}}, "/head/k", "at least one neighbour"),
        ({"head": {"kind": "knn", "k": 61}}, "/head/k", "the model has 60 training samples"),
        ({"head": {"kind": "nearest"}}, "/head", "'prototype', 'knn', 'linear' or 'full'"),
        ({"head": {"kind": "knn", "p": 2}}, "/head", "nexpected"),
        ({"head": "prototype"}, "/head", "auto"),
        (
            {"head": {"kind": "linear"}, "rate_factors": {"*": 2}},
            "/rate_factors",
            "lets nothing else train",
        ),
    ],
)
def test_a_wrong_use_is_named(
    served: Served, refusing: str, asked: Any, pointer: str, detail: str
) -> None:
    errors = refused(served, refusing, **asked)
    assert any(e["pointer"].startswith(pointer) and detail in e["detail"] for e in errors), errors


@pytest.fixture(scope="module")
def refusing(served: Served) -> str:
    register(served, "refusing", "frozen")
    return "refusing"


def test_a_model_that_has_no_such_head_refuses_it(served: Served) -> None:
    served.register("numbers", mlp(*SIZES), loss="mse")
    label = np.zeros((9, 4), np.float32)
    served.upload("numbers", "train", x=tables(9)["x"], label=label).raise_for_status()
    (error,) = refused(served, "numbers", **PROTOTYPE)
    assert error == {
        "pointer": "/head",
        "detail": "head is of cross_entropy, the model's loss is mse; leave it out",
    }
    served.register("fixed", mlp(*SIZES), trainable=["layer0.*"])
    served.upload("fixed", "train", **tables(9)).raise_for_status()
    (error,) = refused(served, "fixed", head="auto")
    assert error["pointer"] == "/head"
    assert "does not end in a linear layer that trains" in error["detail"]
