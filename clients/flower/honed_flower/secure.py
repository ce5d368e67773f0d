"""Secure aggregation: by SecAgg+ the server gets the sum of the updates, but no single one.

Flower's SecAgg+ workflow has its older interface, our strategies the newer. `SecureGrid` adapts
them: a training round that goes through it comes back as one reply, the weighted mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from flwr.app import ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.common import FitIns, FitRes, Parameters, parameters_to_ndarrays
from flwr.server import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid

from honed_flower.records import ARRAYS, CONFIG, EXAMPLES, METRICS, pack
from honed_flower.terms import Terms
from honed_flower.updates import write_update

THRESHOLD = 0.5
"""The fraction of devices that must stay to the end; with fewer, the round fails."""
CLIPPING_RANGE = 8.0
"""Updates are clipped to ± this range, and quantized to 22 bits within it."""


class SecureGrid:
    """A grid whose rounds of training are summed by SecAgg+; everything else passes."""

    def __init__(self, grid: Grid, context: Context, terms: Terms) -> None:
        self._grid = grid
        self._context = context
        self._terms = terms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """As Flower's, but a round of training has one reply, with the mean, or none."""
        asked = list(messages)
        if not asked or asked[0].metadata.message_type != MessageType.TRAIN:
            return self._grid.send_and_receive(asked, timeout=timeout)
        workflow = _Workflow(
            asked,
            num_shares=1.0,
            reconstruction_threshold=THRESHOLD,
            max_weight=float(self._terms.max_samples),
            clipping_range=CLIPPING_RANGE,
            timeout=timeout,
        )
        context = LegacyContext(self._context, strategy=workflow)  # type: ignore[arg-type]
        content, state = asked[0].content, context.state
        number = content.config_records[CONFIG]["server-round"]
        state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: number})
        state.array_records[MAIN_PARAMS_RECORD] = content.array_records[ARRAYS]
        workflow(self._grid, context)
        return workflow.replies


class _Workflow(SecAggPlusWorkflow):
    """As Flower's, but after the key agreement it sends the strategy's messages, with names, and
    knows only the devices that have shared their keys: Flower's gives the round up for one that
    left before, of which no other has a share.

    It is the strategy that it asks, too: for the nodes, and to take the sum.
    """

    def __init__(self, asked: Sequence[Message], **options: Any) -> None:
        self._asked = {message.metadata.dst_node_id: message for message in asked}
        self.replies: list[Message] = []
        """One, with the mean, once the round has come to it."""
        super().__init__(**options)

    def share_keys_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        state.nid_to_fitins = {
            node: RecordDict(dict(message.content)) for node, message in self._asked.items()
        }
        goes_on: bool = super().share_keys_stage(grid, context, state)
        state.sampled_node_ids = state.active_node_ids
        state.nid_to_neighbours = {
            node: state.nid_to_neighbours[node] & state.active_node_ids
            for node in state.active_node_ids
        }
        return goes_on

    def configure_fit(self, *_: object) -> list[tuple[Any, FitIns]]:
        """The nodes chosen by the strategy, of which nothing else is asked; `share_keys_stage` adds
        the messages.
        """
        nothing = FitIns(Parameters([], ""), {})
        return [(SimpleNamespace(node_id=node), nothing) for node in self._asked]

    def aggregate_fit(
        self, _: int, results: list[tuple[Any, FitRes]], __: object
    ) -> tuple[None, dict[str, Any]]:
        """Take the mean, which each result already has, by the names' order."""
        if results:
            asked = next(iter(self._asked.values()))
            names = sorted(asked.content.array_records[ARRAYS])
            mean = parameters_to_ndarrays(results[0][1].parameters)
            update = pack(write_update(dict(zip(names, mean, strict=True))))
            samples = sum(result.num_examples for _, result in results)
            content = RecordDict({ARRAYS: update, METRICS: MetricRecord({EXAMPLES: samples})})
            self.replies = [Message(content, reply_to=asked)]
        return None, {}
