"""What the tests of the training child share: small artifacts, a data folder, a real child."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from service.training.data import Dataset
from service.training.messages import (
    Artifacts,
    Converted,
    Done,
    Evaluated,
    Failed,
    Hyperparameters,
    Limits,
    Line,
    Prepared,
    Refused,
    Saved,
    Start,
    Stopped,
    Train,
    decode,
    encode,
)
from service.training.ort_runtime import MAX_IR_VERSION, quiet, training_artifacts
from storage.records import NewModel, Signature, Split, TargetSpec, TensorSpec
from storage.sample_index import SampleIndex
from storage.store import Store

FEATURES, HIDDEN, CLASSES = 6, 16, 3
DEADLINE_S = 60.0
LAST = (Done, Evaluated, Converted, Failed, Stopped, Prepared, Refused)


@pytest.fixture(scope="session")
def make_artifacts(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Artifacts]:
    """Artifacts of a perceptron: x (batch, features) → logits (batch, classes); made once each."""
    made: dict[str, Artifacts] = {}

    def make(
        *,
        optimizer: str = "AdamW",
        loss: str = "CrossEntropyLoss",
        dropout: bool = False,
        frozen: tuple[str, ...] = (),
        outputs: tuple[str, ...] = ("logits",),
        seed: int = 0,
        sizes: tuple[int, ...] = (FEATURES, HIDDEN, CLASSES),
    ) -> Artifacts:
        key = repr((optimizer, loss, dropout, frozen, outputs, seed, sizes))
        if key not in made:
            folder = tmp_path_factory.mktemp("artifacts")
            model = perceptron(sizes, dropout=dropout, seed=seed)
            weights = [each.name for each in model.graph.initializer if each.name[0] in "wb"]
            offline = training_artifacts()
            with quiet():
                offline.generate_artifacts(
                    model,
                    requires_grad=[name for name in weights if name not in frozen],
                    frozen_params=list(frozen),
                    loss=offline.LossType[loss],
                    optimizer=offline.OptimType[optimizer],
                    artifact_directory=folder,
                    additional_output_names=list(outputs),
                )
            rewrite_ir(folder / "optimizer_model.onnx")
            made[key] = Artifacts(
                training_model=str(folder / "training_model.onnx"),
                eval_model=str(folder / "eval_model.onnx"),
                optimizer_model=str(folder / "optimizer_model.onnx"),
                checkpoint=str(folder / "checkpoint"),
            )
        return made[key]

    return make


def perceptron(sizes: tuple[int, ...], *, dropout: bool, seed: int) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    initializers, nodes, last = [], [], "x"
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        weight = rng.standard_normal((fan_in, fan_out)) * fan_in**-0.5
        initializers.append(numpy_helper.from_array(weight.astype(np.float32), f"w{layer}"))
        initializers.append(numpy_helper.from_array(np.zeros(fan_out, np.float32), f"b{layer}"))
        is_last = layer == len(sizes) - 2
        output = "logits" if is_last else f"h{layer}"
        nodes.append(helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], [output]))
        if is_last:
            break
        nodes.append(helper.make_node("Relu", [output], [f"r{layer}"]))
        last = f"r{layer}"
        if dropout:
            initializers.append(numpy_helper.from_array(np.float32(0.3), f"ratio{layer}"))
            initializers.append(numpy_helper.from_array(np.array(True), f"training{layer}"))
            inputs = [last, f"ratio{layer}", f"training{layer}"]
            nodes.append(helper.make_node("Dropout", inputs, [f"d{layer}", f"m{layer}"]))
            last = f"d{layer}"
    for number, node in enumerate(nodes):
        node.name = f"node{number}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [value("x", TensorProto.FLOAT, ["batch", sizes[0]])],
        [value("logits", TensorProto.FLOAT, ["batch", sizes[-1]])],
        initializers,
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def rewrite_ir(path: Path) -> None:
    model = onnx.load(path)
    model.ir_version = MAX_IR_VERSION
    used = {node.domain for node in model.graph.node}
    kept = [opset for opset in model.opset_import if opset.domain in {"", *used}]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    onnx.save(model, path)


@pytest.fixture
def forward_model(tmp_path: Path) -> Path:
    """A perceptron as an app would upload it."""
    path = tmp_path / "forward.onnx"
    onnx.save(perceptron((FEATURES, HIDDEN, CLASSES), dropout=False, seed=0), path)
    return path


CLASSIFICATION = Signature(
    inputs=(TensorSpec("x", "float32", (FEATURES,)),),
    target=TargetSpec("labels", "int64", (), CLASSES),
)
REGRESSION = Signature(
    inputs=(TensorSpec("x", "float32", (FEATURES,)),),
    target=TargetSpec("target", "float32", (CLASSES,)),
)


@pytest.fixture(scope="session")
def classification() -> Signature:
    return CLASSIFICATION


@pytest.fixture(scope="session")
def regression() -> Signature:
    return REGRESSION


def make_samples(size: int, *, target: TargetSpec, seed: int = 7) -> tuple[Any, Any]:
    """Samples of a task that a perceptron learns: (size, FEATURES) float32, and labels.

    The labels of a float target are yes or no, as 1 and 0, which every loss of one takes.
    """
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(3).standard_normal((FEATURES, CLASSES))
    x = rng.standard_normal((size, FEATURES)).astype(np.float32)
    scores = x @ truth
    if target.dtype == "int64":
        return x, scores.argmax(axis=1).astype(np.int64)
    return x, (scores > 0).astype(np.float32)


@pytest.fixture(scope="session")
def samples() -> Callable[..., tuple[Any, Any]]:
    return make_samples


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Dataset]:
    """A dataset over packs written by hand; `packs`: how many the samples are spread over."""
    numbers = count()

    def make(
        inputs: tuple[Any, ...], labels: Any, signature: Signature, *, packs: int = 1
    ) -> Dataset:
        size = len(labels)
        records = np.concatenate(
            [
                np.frombuffer(each.tobytes(), np.uint8).reshape(size, each[0:1].strides[0])
                for each in map(np.ascontiguousarray, inputs)
            ],
            axis=1,
        )
        pack_of = (np.arange(size) * 7919) % packs
        offsets = np.zeros(size, np.int64)
        paths = []
        for pack in range(packs):
            mine = np.flatnonzero(pack_of == pack)
            offsets[mine] = np.arange(len(mine)) * records.shape[1]
            paths.append(tmp_path / f"{next(numbers)}.pack")
            paths[-1].write_bytes(records[mine].tobytes())
        index = SampleIndex(
            ids=np.arange(1, size + 1),
            packs=pack_of.astype(np.int32),
            offsets=offsets,
            lengths=np.full(size, records.shape[1]),
            labels=labels,
            pack_paths=tuple(paths),
        )
        return Dataset(index, signature)

    return make


@dataclass
class Workshop:
    """A data folder with one model's samples, and the orders to train on them."""

    store: Store
    model_id: int
    signature: Signature
    watermark: int
    folder: Path

    def order(self, artifacts: Artifacts, *, loss: str = "cross_entropy", **wanted: Any) -> Train:
        work_dir = self.folder / "work"
        work_dir.mkdir(exist_ok=True)
        hyperparameters = {"batch_size": 16, "learning_rate": 0.01, "seed": 5, **wanted}
        return Train(
            artifacts=artifacts,
            signature=self.signature,
            loss=loss,
            output="logits",
            database=str(self.store.database),
            packs=str(self.store.packs_dir),
            model_id=self.model_id,
            watermark=self.watermark,
            hyperparameters=Hyperparameters(**hyperparameters),
            start=Start(),
            work_dir=str(work_dir),
            limits=Limits(threads=1, nice=0),
        )


@pytest.fixture
def make_workshop(tmp_path: Path) -> Iterator[Callable[..., Workshop]]:
    """A real store with `train` and `validation` samples."""
    stores: list[Store] = []

    def make(
        *,
        signature: Signature = CLASSIFICATION,
        train: int = 200,
        validation: int = 60,
    ) -> Workshop:
        store = Store.open(tmp_path / "data")
        stores.append(store)
        model_file = tmp_path / "data" / "tmp" / "base.onnx"
        model_file.write_bytes(b"the model as it came")
        model = store.models.add(
            NewModel(
                name="m",
                loss="cross_entropy",
                optimizer="adamw",
                output="logits",
                signature=signature,
                trainable=(),
                trainable_parameters=0,
                frozen_parameters=0,
                hyperparameters={},
                files={},
            ),
            store.files.adopt(model_file),
        )
        watermark = 0
        if train + validation:
            x, labels = make_samples(train + validation, target=signature.target)
            is_class = signature.target.dtype == "int64"
            with store.samples.stage(model.id, x[0].nbytes) as staging:
                staging.add(
                    x,
                    [int(each) if is_class else each.tobytes() for each in labels],
                    splits=[Split.TRAIN] * train + [Split.VALIDATION] * validation,
                )
                watermark = staging.commit().last_id or 0
        return Workshop(store, model.id, signature, watermark, tmp_path)

    yield make
    for store in stores:
        store.close()


@dataclass
class Child:
    """A training child and everything that it said; all waits end at a deadline."""

    process: subprocess.Popen[bytes]
    said: list[Line] = field(default_factory=list)
    _lines: queue.Queue[bytes] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, line: Line) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(encode(line))
        self.process.stdin.flush()

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_for(self, wanted: Callable[[Line], bool]) -> Line:
        """The next message that is wanted; fails if the child ends before."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            if not line:
                raise AssertionError(f"the child ended; it said {self.said[-3:]}; {self.errors()}")
            message = decode(line)
            self.said.append(message)
            if wanted(message):
                return message

    def last(self) -> Line:
        return self.wait_for(lambda message: isinstance(message, LAST))

    def end(self) -> int:
        """Wait for the exit code."""
        return self.process.wait(DEADLINE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def errors(self) -> str:
        assert self.process.stderr is not None
        self.process.wait(DEADLINE_S)
        return self.process.stderr.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        self._thread.join(DEADLINE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def spawn() -> Iterator[Callable[..., Child]]:
    """Start a child, with an order or with nothing said yet."""
    children: list[Child] = []

    def start(order: Line | None = None) -> Child:
        command = [sys.executable, "-W", "error", "-m", "service.training"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        child = Child(process)
        children.append(child)
        if order is not None:
            child.send(order)
        return child

    yield start
    for child in children:
        child.close()


@pytest.fixture
def train(spawn: Callable[..., Child]) -> Callable[[Train], tuple[Done, Child]]:
    """Train to the end in a child."""

    def run(order: Train) -> tuple[Done, Child]:
        child = spawn(order)
        last = child.last()
        assert isinstance(last, Done), (last, child.errors())
        assert child.end() == 0
        return last, child

    return run


@pytest.fixture
def resumed() -> Callable[[Train, Saved], Train]:
    """The order that goes on from a checkpoint."""

    def make(order: Train, saved: Saved, best: Saved | None = None) -> Train:
        return replace(
            order,
            start=Start(
                how="resume",
                checkpoint=saved.path,
                state=saved.state,
                best_checkpoint=best.path if best else None,
            ),
        )

    return make
