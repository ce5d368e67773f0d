"""The ClientApp: handles each message of a federation on the device.

It finds daemon and model by its node's configuration (`honed-flower join` sets it), else by the
environment: HONED_MODEL, and HONED_URL, HONED_TOKEN or HONED_SOCKET as honed-client reads them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
from flwr.compat.common.recorddict_compat import fitres_to_recorddict
from honed_client import Client

from honed_flower.device import Device, NoUpdate, reason
from honed_flower.records import ARRAYS, CONFIG, EXAMPLES, METRICS, pack, to_tensors
from honed_flower.terms import MOST_ROUNDS, TOKENIZER
from honed_flower.updates import read_update, to_file

logger = logging.getLogger("honed_flower")
LARGEST_RUN = 2**40
STOPPED = Event()
"""Set once the run of the present message has ended, by the thread that watches the run."""


def note(round_id: int | None) -> None:
    """Called with the id of a round that begins, and with None when it has ended; a node replaces
    it.
    """


def secure(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """SecAgg+ for messages that are part of it; all others pass."""
    if RECORD_KEY_CONFIGS in message.content.config_records:
        return secaggplus_mod(message, context, call_next)
    return call_next(message, context)


app = ClientApp(mods=[secure])


@app.train()
def train(message: Message, context: Context) -> Message:
    """A round: parameters come in, the update goes out, or the sum's masked share of it."""
    is_secure = RECORD_KEY_CONFIGS in message.content.config_records
    sent = to_tensors(_arrays(message))
    config = dict(message.content.config_records[CONFIG])
    spec = {name.replace("-", "_"): value for name, value in config.items()}
    number = int(spec.pop("server_round"))
    spec["round"] = context.run_id % LARGEST_RUN * MOST_ROUNDS + number
    most = int(spec.pop("max_samples"))
    if is_secure and spec.get("compression", "none") != "none":
        raise NoUpdate("secure aggregation takes uncompressed updates only")
    content, samples = _asked(context, lambda device: device.train(to_file(sent), spec))
    weight = min(samples, most)
    if not is_secure:
        metrics = MetricRecord({EXAMPLES: weight, "bytes": len(content)})
        return Message(RecordDict({ARRAYS: pack(content), METRICS: metrics}), reply_to=message)
    update = read_update(content, {name: array.shape for name, array in sent.items()})
    numbers = ndarrays_to_parameters([*update.values()])
    answer = FitRes(Status(Code.OK, ""), numbers, weight, {})
    return Message(fitres_to_recorddict(answer, keep_input=False), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Metrics on the device's own validation samples: loss and accuracy, and nothing of classes."""
    content = to_file(to_tensors(_arrays(message)))
    figures = _asked(context, lambda device: device.evaluate(content, _tokenizer(message)))
    metrics: dict[str, Any] = {
        name: float(figures[name]) for name in ("loss", "accuracy") if figures.get(name) is not None
    }
    metrics[EXAMPLES] = int(figures["samples"])
    return Message(RecordDict({METRICS: MetricRecord(metrics)}), reply_to=message)


@app.query()
def take(message: Message, context: Context) -> Message:
    """The global model has come: the device's gate judges it, and the federation is not told."""
    content = to_file(to_tensors(_arrays(message)))
    _asked(context, lambda device: device.take(content, _tokenizer(message)))
    return Message(RecordDict({CONFIG: ConfigRecord({"received": True})}), reply_to=message)


def _arrays(message: Message) -> Any:
    return message.content.array_records[ARRAYS]


def _tokenizer(message: Message) -> str | None:
    named = message.content.config_records.get(CONFIG, {}).get(TOKENIZER)
    return None if named is None else str(named)


@contextmanager
def open_device(context: Context) -> Iterator[Device]:
    """The daemon of this device. Raises NoUpdate if nothing says which model takes part."""
    model = context.node_config.get("model") or os.environ.get("HONED_MODEL")
    if not model:
        raise NoUpdate("this device has not said which model takes part (HONED_MODEL)")
    superlink = context.node_config.get("superlink") or os.environ.get("HONED_SUPERLINK")
    asked_by = None if superlink is None else str(superlink)
    with Client() as client:
        yield Device(client, str(model), superlink=asked_by, stopped=STOPPED, note=note)


def _asked(context: Context, question: Callable[[Device], Any]) -> Any:
    """Its answer. What it raises is logged here, and the federation is told the kind alone."""
    try:
        with open_device(context) as device:
            return question(device)
    except Exception as error:
        logger.warning("%s", error)
        raise RuntimeError(reason(error)) from error
