"""Flower's strategies over updates: devices send differences, strategies take whole parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from logging import WARNING
from math import isfinite
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, FedProx, Krum
from flwr.supercore import log

from honed_flower.records import to_arrays, to_tensors, unpack
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
FIGURES = {"loss", "accuracy"}
SERVER_RATE = 0.01


class OfUpdates(FedAvg):
    """Mixed into a strategy: adds each update to the parameters that were sent.

    Replies without a valid update are left out, and of others nothing else is taken. clip_norm: the
    maximum norm of an update, enforced whatever its device claims; None for any. max_samples: the
    largest weight. takes_means: replies are the mean of a round by secure aggregation.
    """

    clip_norm: float | None = None
    max_samples: int = 1000
    takes_means = False
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
        """As the strategy, with only the usable updates; FedAdam's result is float64."""
        if not self.takes_means:
            replies = [reply for reply in replies if self._is_usable(reply, self._whole)]
        arrays, metrics = super().aggregate_train(server_round, replies)
        return arrays and to_arrays(to_tensors(arrays)), metrics

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """As the strategy, with only the figures that all usable replies have."""
        usable = [reply for reply in replies if self._is_usable(reply, self._measured)]
        metrics = [reply.content[METRICS] for reply in usable if not reply.has_error()]
        for name in FIGURES.difference(FIGURES.intersection(*metrics)):
            for record in metrics:
                record.pop(name, None)
        return super().aggregate_evaluate(server_round, usable)

    def _is_usable(self, reply: Message, read: Callable[[RecordDict], RecordDict]) -> bool:
        """Replace the content by what is read of it; False if that is invalid."""
        if reply.has_error():
            return True  # the strategy reports it
        try:
            reply.content = read(reply.content)
        except BadUpdate as error:
            log(WARNING, "node %s: left out: %s", reply.metadata.src_node_id, error)
            return False
        return True

    def _whole(self, content: RecordDict) -> RecordDict:
        """Whole parameters in place of the update."""
        samples = self._samples(content)
        shapes = {name: array.shape for name, array in self._sent.items()}
        file = unpack(content.array_records.get(self.arrayrecord_key, ArrayRecord()))
        update = read_update(file, shapes)
        length = norm(update)
        scale = 1.0
        if self.clip_norm is not None and length > self.clip_norm:
            scale = self.clip_norm / length
        whole = {name: values + scale * update[name] for name, values in self._sent.items()}
        metrics = MetricRecord({EXAMPLES: samples, "bytes": len(file)})
        return RecordDict({self.arrayrecord_key: to_arrays(whole), METRICS: metrics})

    def _measured(self, content: RecordDict) -> RecordDict:
        metrics = content.metric_records.get(METRICS, {})
        figures = {name: metrics[name] for name in FIGURES & set(metrics)}
        for name, value in figures.items():
            if isinstance(value, list) or not isfinite(value):
                raise BadUpdate(f"its {name} is {value!r}, no finite number")
        return RecordDict({METRICS: MetricRecord({**figures, EXAMPLES: self._samples(content)})})

    def _samples(self, content: RecordDict) -> int:
        """The weight of a reply."""
        samples = content.metric_records.get(METRICS, {}).get(EXAMPLES)
        if type(samples) is not int or samples < 1:
            raise BadUpdate(f"it says that it comes from {samples!r} samples")
        return min(samples, self.max_samples)


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
        options |= {"eta": terms.server_learning_rate or SERVER_RATE, "beta_1": 0.9, "beta_2": 0.99}
    if terms.strategy == "krum":
        options["num_malicious_nodes"] = terms.malicious_nodes
    strategy: FedAvg = type(f"{kind.__name__}OfUpdates", (OfUpdates, kind), {})(**options)
    assert isinstance(strategy, OfUpdates)
    strategy.clip_norm = terms.server_clip_norm or None
    strategy.max_samples = terms.max_samples
    strategy.takes_means = terms.secure_aggregation
    return strategy
