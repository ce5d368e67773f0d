"""A Dropout repeats by the job's seed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from service.training.conform.conform import conform


def test_a_seed_of_the_nodes_own_is_taken_away(graphs: Any) -> None:
    seeded = helper.make_node("Dropout", ["h", "ratio", "training"], ["g"], name="drop", seed=7)
    model = graphs.around(seeded, ratio=np.array(0.5, np.float32), training=np.array(True))

    conformed = conform(model, loss="cross_entropy")

    (dropout,) = [node for node in conformed.model.graph.node if node.op_type == "Dropout"]
    assert [attribute.name for attribute in dropout.attribute] == []
