"""Messages are what their annotations say, on both sides of the pipe."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
from msgspec.structs import replace

from service.training.hyperparameters import Hyperparameters
from service.training.protocol.messages.lines import (
    COMMANDS,
    TASKS,
    decode_command,
    decode_task,
    encode,
)
from service.training.protocol.messages.preparation import (
    Cut,
    Parameter,
    Prepare,
    Prepared,
    Refused,
)
from service.training.protocol.messages.shared import Artifacts, Cancel
from service.training.protocol.messages.training import (
    Done,
    LoopState,
    Saved,
    Start,
    Train,
)
from service.training.protocol.messages.unions import (
    MESSAGES,
    Command,
    Line,
    Task,
    decode_message,
)
from service.training.protocol.serialization import plain
from storage.errors import Problem
from storage.records.signatures import Signature, TargetSpec, TensorSpec

SIGNATURE = Signature(
    (TensorSpec("x", "float32", (3, 4)),), TargetSpec("labels", "int64", (), 2, ("a", "b"))
)
ARTIFACTS = Artifacts("t", "e", "o", "c", prefix_model="p")
TRAIN = Train(
    artifacts=ARTIFACTS,
    signature=SIGNATURE,
    loss="cross_entropy",
    output="y",
    database="d",
    packs="p",
    model_id=1,
    watermark=2,
    hyperparameters=Hyperparameters(epochs=3, learning_rate=1),
    start=Start("resume", "c", LoopState(step=4, baseline={"loss": 0.5, "matrix": [[1, 2]]})),
    work_dir="w",
)
LINES: list[Line] = [
    TRAIN,
    Prepare("s", "forward", "w", "mse", trainable=("a.*",)),
    Cancel(),
    Prepared(
        ARTIFACTS,
        "b",
        SIGNATURE,
        "y",
        ("w",),
        1,
        2,
        parameters=(Parameter("w", (3, 4), trains=True, below=False),),
        cut=Cut(("h",), 1, 2, 3, 4, 0.5, pays=True),
    ),
    Refused("no", (Problem("/model", "wrong: ü"),)),
    Saved("p", "best", LoopState(threads=2)),
    Done("p", 1, 2, None, {"accuracy": None}, {}, "finished"),
]


def kind_of(message: type) -> str:
    """What its lines say."""
    return str(message.__struct_config__.tag)


DECODERS = ((decode_task, TASKS), (decode_command, COMMANDS), (decode_message, MESSAGES))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.kind)
def test_a_message_comes_back_as_it_was_sent(line: Line) -> None:
    sent = encode(line)
    assert sent.endswith(b"\n")
    assert sent.count(b"\n") == 1
    for decode, kinds in DECODERS:
        if line.kind in kinds:
            assert decode(sent) == line
        else:
            with pytest.raises(ValueError, match="this is not"):
                decode(sent)


@pytest.mark.parametrize(("union", "kinds"), [(Task, TASKS), (Command, COMMANDS)])
def test_every_kind_is_known_with_its_module(union: object, kinds: dict[str, str]) -> None:
    found = {kind_of(each): each.__module__.rpartition(".")[2] for each in get_args(union)}
    assert found == kinds


def test_a_whole_number_is_taken_where_a_float_is_expected() -> None:
    train = decode_task(encode(TRAIN))
    assert isinstance(train, Train)
    assert type(train.hyperparameters.learning_rate) is float


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"nonsense\n",
        b"3\n",
        b"[]\n",
        b"{}\n",
        b'{"kind": "unknown"}\n',
        b'{"kind": ["cancel"]}\n',
        b'{"kind": "cancel", "more": 1}\n',
        b'{"kind": "failed", "code": "c"}\n',
        b'{"kind": "failed", "code": "c", "detail": 3}\n',
        b'{"kind": "stopped", "reason": "tired"}\n',
        b'{"kind": "measured", "step": 1.5, "epoch": 0, "values": {}}\n',
        b'{"kind": "measured", "step": true, "epoch": 0, "values": {}}\n',
        b'{"kind": "measured", "step": 1, "epoch": 0, "values": {"loss": "low"}}\n',
    ],
)
def test_what_is_no_message_is_refused(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_message(sent)


def test_a_fault_is_told_with_its_place() -> None:
    line = json.loads(encode(TRAIN))
    line["signature"]["inputs"][0]["shape"][1] = "four"
    with pytest.raises(ValueError, match=re.escape("$.signature.inputs[0].shape[1]")):
        decode_task(json.dumps(line).encode())


def test_an_option_that_this_version_does_not_know_is_refused() -> None:
    line = json.loads(encode(TRAIN))
    line["hyperparameters"]["amsgrad"] = True
    with pytest.raises(ValueError, match="amsgrad"):
        decode_task(json.dumps(line).encode())


def test_a_number_that_is_not_finite_is_never_sent() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(replace(TRAIN, checkpoint_interval_s=float("inf")))


def test_numbers_of_numpy_that_are_floats_are_sent_as_those() -> None:
    assert plain({"loss": np.float64(0.5)}) == {"loss": 0.5}
    with pytest.raises(TypeError, match="JSON"):
        plain({"loss": np.arange(2)})


def test_a_job_starts_without_pydantic() -> None:
    """Its validators would take a third of the time to the first step."""
    script = "import sys, service.training.job; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_job_does_not_load_what_other_tasks_speak_of() -> None:
    """Each module takes a third of a millisecond."""
    script = (
        "import sys, service.training.__main__, service.training.job;"
        "print(*(name for name in sys.modules if '.messages.' in name or '.records.' in name))"
    )
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    modules = {name.rpartition(".")[2] for name in found.stdout.decode().split()}
    assert modules == {
        "id_set",
        "lines",
        "shared",
        "training",
        "samples",
        "signatures",
    }
