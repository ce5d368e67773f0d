"""The server's side without a SuperLink, for Flower's interpreter; prints what came of it as JSON.

python in_memory.py replies
python in_memory.py krum
python in_memory.py sums '{"2": 1}'      node 2 leaves before stage 1 of secure aggregation
"""

from __future__ import annotations

import copy
import json
import logging
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
from flwr.supercore.task_identity import TaskIdentity
from honed_flower import client_app
from honed_flower.records import pack, to_arrays, to_tensors
from honed_flower.secure import SecureGrid
from honed_flower.strategies import KINDS, OfUpdates
from honed_flower.terms import least_updates
from honed_flower.updates import write_update

NODES = 5
STAGES = ("setup", "share_keys", "collect_masked_vectors", "unmask")
SENT = {"a": np.array([[1, -2], [3, 0.5]], np.float32), "b": np.array([20.25], np.float32)}


def update(factor: float) -> bytes:
    return write_update({n: np.float32(factor) * np.ones_like(each) for n, each in SENT.items()})


def empty(node: int) -> Context:
    return Context(run_id=7, node_id=node, node_config={}, state=RecordDict(), run_config={})


class Grid:
    """leaving: the stage from which on a node does not answer. Node n has 10 n samples."""

    def __init__(self, leaving: dict[int, int]) -> None:
        self._leaving = leaving
        self._contexts = {node: empty(node) for node in range(1, NODES + 1)}

    def get_node_ids(self) -> list[int]:
        return [*self._contexts]

    def send_and_receive(self, messages: Iterable[Message], **_: Any) -> list[Message]:
        return [self._answer(message) for message in messages]

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        asked = Message(copy.deepcopy(message.content), dst_node_id=node, message_type="train")
        stage = STAGES.index(str(asked.content.config_records[RECORD_KEY_CONFIGS]["stage"]))
        if self._leaving.get(node, len(STAGES)) <= stage:
            return Message(Error(1, "away"), reply_to=message)
        client_app._asked = lambda *_: (update(node / 10), 10 * node)
        try:
            return client_app.app(asked, self._contexts[node])
        except Exception as error:  # noqa: BLE001 - as the node does
            return Message(Error(1, str(error)), reply_to=message)


def sums(leaving: dict[int, int]) -> dict[str, Any]:
    config = ConfigRecord({"server-round": 1, "max-samples": 1000})
    content = RecordDict({"arrays": to_arrays(SENT), "config": config})
    grid = SecureGrid(Grid(leaving), empty(0), SimpleNamespace(max_samples=1000))  # type: ignore[arg-type]
    asked = [
        Message(content, dst_node_id=node, message_type="train") for node in range(1, NODES + 1)
    ]
    arrays, _ = strategy("fedavg").aggregate_train(1, grid.send_and_receive(asked, timeout=9))
    return shown(arrays)


def shown(arrays: ArrayRecord) -> dict[str, Any]:
    return {name: tensor.tolist() for name, tensor in to_tensors(arrays).items()}


def reply(kind: str, arrays: ArrayRecord | None, metrics: dict[str, Any]) -> Message:
    records: dict[str, Any] = {"metrics": MetricRecord(metrics)} if metrics else {}
    records |= {} if arrays is None else {"arrays": arrays}
    asked = Message(RecordDict(), dst_node_id=1, message_type=kind)
    return Message(RecordDict(records), reply_to=asked)


def strategy(kind: str, **options: Any) -> Any:
    """One that has sent SENT."""
    made = type("Strategy", (OfUpdates, KINDS[kind]), {})(**options)
    made._sent = SENT
    return made


def krum() -> dict[str, Any]:
    """Which of five updates of small norm, the first a malicious one, it takes of large parameters;
    and what it makes of four.
    """
    made, draws = strategy("krum", num_malicious_nodes=1), np.random.default_rng(0)
    made._sent = {"a": (10 * draws.standard_normal(20_000)).astype(np.float32)}
    made.least_updates = least_updates("krum", 1)
    honest = 1e-4 * draws.standard_normal((5, 20_000)) + 5e-4
    files = [pack(write_update({"a": np.float32(each)})) for each in [-3 * honest[0], *honest[1:]]]
    answers = [reply("train", file, {"num-examples": 5}) for file in files]
    few, _ = made.aggregate_train(1, copy.deepcopy(answers[:4]))
    arrays, _ = made.aggregate_train(1, answers)
    change = to_tensors(arrays)["a"] - made._sent["a"]
    return {"mean": float(change.mean()), "of four": few}


def replies() -> dict[str, Any]:
    """Of good and bad ones."""
    fedavg, good, counted = strategy("fedavg"), pack(update(1)), {"num-examples": 5, "bytes": 9}
    odd = ArrayRecord({"update": Array(dtype="x", shape=(3,), stype="odd", data=b"123")})
    beyond = ArrayRecord({name: Array(each * np.nan) for name, each in SENT.items()})
    trained = [(beyond, counted), (None, counted), (ArrayRecord(), counted), (odd, counted)]
    trained += [(good, {}), (good, {"num-examples": [5]}), (good, counted | {"more": 1.0})]
    arrays, _ = fedavg.aggregate_train(1, [reply("train", *each) for each in trained])
    measured: list[dict[str, Any]] = [{"loss": 1.0, "num-examples": 3}, {}, {"num-examples": 3}]
    measured += [{"loss": value, "num-examples": 3} for value in (float("nan"), [1.0])]
    measured = [{**measured[0], "accuracy": 0.5}, *(measured[:2]), *measured[3:]]
    answers = [reply("evaluate", None, each) for each in measured]
    figures = dict(fedavg.aggregate_evaluate(1, answers))
    return {"arrays": shown(arrays), "figures": figures, "dtypes": [*map(dtypes, KINDS)]}


def dtypes(kind: str) -> list[str]:
    """Of what a strategy makes of five replies."""
    made = strategy(kind)
    asked = made.configure_train(1, to_arrays(SENT), ConfigRecord(), Grid({}))
    good = [reply("train", pack(update(1)), {"num-examples": 5}) for _ in asked]
    arrays, _ = made.aggregate_train(1, good)
    return [str(tensor.dtype) for tensor in to_tensors(arrays).values()]


if __name__ == "__main__":
    logging.disable()
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 7, 1
    what, *leaving = sys.argv[1:]
    found = {
        "sums": lambda: sums({int(n): at for n, at in json.loads(leaving[0]).items()}),
        "krum": krum,
        "replies": replies,
    }[what]()
    print(json.dumps(found))  # noqa: T201 - what the test reads
