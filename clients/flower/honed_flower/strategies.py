"""Flower's strategies over updates: devices send differences, strategies take whole parameters."""

from __future__ import annotations

from collections.abc import Iterable
from logging import WARNING
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, FedProx, Krum
from flwr.supercore import log

from honed_flower.records import UPDATE, to_arrays, to_tensors, unpack
from honed_flower.terms import Terms
from honed_flower.updates import BadUpdate, Tensors, norm, read_update

KINDS: dict[str, type[FedAvg]] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedadam": FedAdam,
    "fedmedian": FedMedian,
    "krum": Krum,
}
METRICS, EXAMPLES = "metrics", "num-examples"


class OfUpdates(FedAvg):
    """Mixed into a strategy: adds each update to the parameters that were sent.

    Replies without a valid update are left out. clip_norm: the maximum norm of an update, enforced
    whatever its device claims; None for any. max_samples: the largest weight.
    """

    clip_norm: float | None = None
    max_samples: int = 1000
    _sent: Tensors

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the strategy; remembers the parameters sent."""
        self._sent = to_tensors(arrays)
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """As the strategy, with only the usable updates."""
        usable = [each for each in list(replies) if self._is_usable(each)]
        return super().aggregate_train(server_round, usable)

    def _is_usable(self, reply: Message) -> bool:
        """Replace the update by whole parameters; False if it is invalid."""
        if reply.has_error() or UPDATE not in reply.content.array_records[self.arrayrecord_key]:
            return True  # the strategy reports errors; secure aggregation sends whole ones
        try:
            whole = self._whole(reply)
        except BadUpdate as error:
            log(WARNING, "node %s: left out: %s", reply.metadata.src_node_id, error)
            return False
        reply.content.array_records[self.arrayrecord_key] = to_arrays(whole)
        return True

    def _whole(self, reply: Message) -> Tensors:
        samples = reply.content.metric_records[METRICS].get(EXAMPLES)
        if type(samples) is not int or samples < 1:
            raise BadUpdate(f"it says that it comes from {samples!r} samples")
        reply.content.metric_records[METRICS][EXAMPLES] = min(samples, self.max_samples)
        shapes = {name: each.shape for name, each in self._sent.items()}
        content = unpack(reply.content.array_records[self.arrayrecord_key])
        update = read_update(content, shapes)
        length = norm(update)
        scale = 1.0
        if self.clip_norm is not None and length > self.clip_norm:
            scale = self.clip_norm / length
        return {
            name: (values + scale * update[name]).astype(values.dtype)
            for name, values in self._sent.items()
        }


def make_strategy(terms: Terms) -> FedAvg:
    """The strategy of a run."""
    kind = KINDS[terms.strategy]
    options: dict[str, Any] = {
        "fraction_train": terms.fraction,
        "fraction_evaluate": terms.fraction if terms.evaluate else 0.0,
        "min_train_nodes": terms.nodes,
        "min_evaluate_nodes": terms.nodes,
        "min_available_nodes": terms.nodes,
    }
    if terms.strategy == "fedprox":
        options["proximal_mu"] = terms.proximal_mu
    if terms.strategy == "fedadam":
        options |= {"eta": terms.server_learning_rate, "beta_1": 0.9, "beta_2": 0.99}
    if terms.strategy == "krum":
        options["num_malicious_nodes"] = terms.malicious_nodes
    strategy: FedAvg = type(f"{kind.__name__}OfUpdates", (OfUpdates, kind), {})(**options)
    assert isinstance(strategy, OfUpdates)
    strategy.clip_norm = terms.server_clip_norm or None
    strategy.max_samples = terms.max_samples
    return strategy
