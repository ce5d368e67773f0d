"""The ServerApp: rounds by one of Flower's strategies, from an ONNX file to an ONNX file."""

from __future__ import annotations

from logging import INFO, WARNING
from pathlib import Path

from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid, ServerApp
from flwr.supercore import log

from honed_flower.onnx_file import Model
from honed_flower.records import to_arrays, to_tensors
from honed_flower.secure import SecureGrid
from honed_flower.strategies import make_strategy
from honed_flower.terms import Terms, read_terms

DELIVERY_TIMEOUT_S = 60.0
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out a run. Raises ValueError before the first round for wrong settings or files."""
    terms = read_terms(context.run_config)
    parameters = Path(terms.parameters) if terms.parameters else None
    trainable = terms.trainable.split()
    model = Model(Path(terms.model), trainable=trainable, parameters=parameters)
    run = Run(model, terms, grid)
    strategy = make_strategy(terms)
    result = strategy.start(
        SecureGrid(grid, context, terms) if terms.secure_aggregation else grid,  # type: ignore[arg-type]
        to_arrays(model.parameters),
        num_rounds=terms.rounds,
        timeout=terms.round_timeout,
        train_config=ConfigRecord({**terms.sent(), "max-samples": terms.max_samples}),
        evaluate_config=ConfigRecord(terms.of_parameters()),
        evaluate_fn=run.finish_round,
    )
    trained = result.train_metrics_clientapp
    log(INFO, "rounds that came to something: %s of %s", len(trained), terms.rounds)
    if not trained:
        raise RuntimeError("no round came to an update; the lines above tell why of each device")


class Run:
    """Writes and delivers models as rounds end."""

    def __init__(self, model: Model, terms: Terms, grid: Grid) -> None:
        self._model = model
        self._terms = terms
        self._grid = grid
        self._folder = Path(terms.output)

    def finish_round(self, number: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Write the global model of a round; 0 is where the run begins."""
        tensors = to_tensors(arrays)
        self._model.save(tensors, self._folder / f"round-{number:04}.onnx")
        self._model.save(tensors, self._folder / "global.onnx")
        is_last = number == self._terms.rounds
        deliver = self._terms.deliver
        if number and (deliver == "each-round" or (deliver == "end" and is_last)):
            self._deliver(arrays)
        return None

    def _deliver(self, arrays: ArrayRecord) -> None:
        """Send the model to every connected device; each decides by its gate."""
        config = ConfigRecord(self._terms.of_parameters())
        content = RecordDict({"arrays": arrays, "config": config})
        messages = [
            Message(content, dst_node_id=node, message_type=MessageType.QUERY)
            for node in self._grid.get_node_ids()
        ]
        replies = list(self._grid.send_and_receive(messages, timeout=DELIVERY_TIMEOUT_S))
        for reply in replies:
            if reply.has_error():
                log(WARNING, "node %s: %s", reply.metadata.src_node_id, reply.error.reason)
        received = sum(not reply.has_error() for reply in replies)
        log(INFO, "delivered the global model to %s of %s devices", received, len(messages))
