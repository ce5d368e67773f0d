"""Flower's strategies over updates: what they take for parameters are differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from logging import WARNING
from math import isfinite
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, FedProx, Krum
from flwr.serverapp.strategy.fedopt import FedOpt
from flwr.supercore import log

from honed_flower.records import EXAMPLES, METRICS, to_arrays, to_tensors, unpack
from honed_flower.terms import Terms, least_updates
from honed_flower.updates import BadUpdate, Tensors, norm, read_update

KINDS: dict[str, type[FedAvg]] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedadam": FedAdam,
    "fedmedian": FedMedian,
    "krum": Krum,
}
FIGURES = {"loss", "accuracy"}
SERVER_RATE = 0.01


class OfUpdates(FedAvg):
    """Mixed into a strategy: what it makes of updates is added to the parameters that were sent.

    It does not get whole parameters, since the distances between these, by which Krum chooses, are
    lost in float32's rounding. Replies without a valid update are left out, and of others nothing
    else is taken. clip_norm: the maximum norm of an update, enforced whatever its device claims;
    None for any. max_samples: the largest weight. least_updates: with fewer, a round has no result.
    """

    clip_norm: float | None = None
    max_samples: int = 1000
    least_updates = 1
    _sent: Tensors

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the strategy; remembers the parameters sent."""
        self._sent = to_tensors(arrays)
        messages = super().configure_train(server_round, arrays, config, grid)
        if isinstance(self, FedOpt):  # it would take the updates' distance from these
            self.current_arrays = {name: np.zeros_like(each) for name, each in self._sent.items()}
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """As the strategy, with only the usable updates."""
        usable = [reply for reply in replies if self._is_usable(reply, self._update)]
        failed = [reply for reply in usable if reply.has_error()]
        if (found := len(usable) - len(failed)) < self.least_updates:
            log(WARNING, "left out: %s updates; a round needs %s", found, self.least_updates)
            usable = failed
        change, metrics = super().aggregate_train(server_round, usable)
        if change is None:
            return None, metrics
        whole = {name: self._sent[name] + each for name, each in to_tensors(change).items()}
        return to_arrays(whole), metrics

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

    def _update(self, content: RecordDict) -> RecordDict:
        """The update, of which a reply has the file."""
        samples = self._samples(content)
        shapes = {name: array.shape for name, array in self._sent.items()}
        file = unpack(content.array_records.get(self.arrayrecord_key, ArrayRecord()))
        update = read_update(file, shapes)
        length = norm(update)
        scale = 1.0
        if self.clip_norm is not None and length > self.clip_norm:
            scale = self.clip_norm / length
        clipped = to_arrays({name: scale * values for name, values in update.items()})
        metrics = MetricRecord({EXAMPLES: samples, "bytes": len(file)})
        return RecordDict({self.arrayrecord_key: clipped, METRICS: metrics})

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
    strategy.least_updates = least_updates(terms.strategy, terms.malicious_nodes)
    return strategy
