"""Registrations that take long: they end with their client, and two run at once."""

from __future__ import annotations

import json
import socket
from typing import Any

import numpy as np
import pytest
from greedy import REFUSED
from onnx import TensorProto, helper, numpy_helper
from support import Served, mlp, wait_until

LAYERS = 3_000
"""So many that checking them takes seconds."""


@pytest.fixture(scope="module")
def slow() -> bytes:
    """A deep network: x (batch, 4) → logits (batch, 2)."""
    names = ["x", *(f"v{number}" for number in range(LAYERS))]
    nodes = [helper.make_node("Relu", [names[at]], [names[at + 1]]) for at in range(LAYERS)]
    nodes.append(helper.make_node("MatMul", [names[-1], "w"], ["logits"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["batch", 4])],
        [value("logits", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(np.ones((4, 2), np.float32), "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def send_registration(served: Served, name: str, model: bytes) -> socket.socket:
    """A request that is sent whole; its answer is up to the caller."""
    request: Any = served.http.build_request(
        "POST",
        "/v1/models",
        data={"spec": json.dumps({"name": name, "loss": "cross_entropy"})},
        files={"model": ("model.onnx", model)},
    )
    head = "POST /v1/models HTTP/1.1\r\n"
    head += "".join(f"{key}: {held}\r\n" for key, held in request.headers.items())
    host, port = request.url.host, request.url.port
    sent = socket.create_connection((host, port))
    sent.sendall(head.encode() + b"\r\n" + request.read())
    return sent


def test_a_check_ends_when_its_client_has_gone(served: Served, slow: bytes) -> None:
    others = served.children()
    with send_registration(served, "left", slow):
        (child,) = wait_until(
            lambda: [each for each in served.children() if each not in others], "the check to begin"
        )

    wait_until(lambda: not child.is_running(), "the check to end")

    assert served.http.get("/v1/models/left").status_code == 404


ATTACKS = (
    "a loop whose end the input decides",
    "ifs inside of ifs",
    "functions that multiply",
    "many nodes",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_small_file_that_asks_for_much_is_refused_before_it_runs(
    served: Served, attack: str
) -> None:
    make, words = REFUSED[attack]
    spec = json.dumps({"name": "greedy", "loss": "mse"})

    answer = served.http.post(
        "/v1/models",
        data={"spec": spec},
        files={"model": ("model.onnx", make().SerializeToString())},
    )

    assert (answer.status_code, answer.json()["code"]) == (422, "graph_refused")
    assert words in answer.json()["detail"]
    assert served.http.get("/v1/models/greedy").status_code == 404


def test_a_class_that_is_named_twice_is_told(served: Served) -> None:
    spec = json.dumps({"name": "twice", "loss": "cross_entropy", "classes": ["a", "b", "b"]})
    answer = served.http.post(
        "/v1/models", data={"spec": spec}, files={"model": ("m.onnx", mlp(4, 3))}
    )
    assert "class 'b' is named twice" in answer.json()["detail"]


def test_two_checks_run_at_once(served: Served, slow: bytes) -> None:
    with send_registration(served, "one", slow), send_registration(served, "two", slow):
        wait_until(lambda: len(served.children()) == 2, "both checks to run")
    wait_until(lambda: not served.children(), "the checks to end")
