"""Steps in plain sessions, for models so large that the engine's own steps waste time.

The engine's own step copies every gradient into a buffer, and runs AdamW on one thread. Here the
same graphs run in inference sessions, which take their arrays from outside: gradients are written
where they are wanted, and AdamW is shared out. Parameters stay those of the engine's state, and
every bit is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.engine import Array
from service.training.ort.gradient_graph import GradientGraph, gradient_graph
from service.training.ort.optimizer_state import read_state, write_state
from service.training.ort.runtime import onnxruntime
from service.training.ort.sessions import check_memory
from service.training.ort.shared_adamw import SharedAdamW, Trained, is_adamw_alone
from service.training.ort.steps import save_checkpoint

MIN_ELEMENTS = 1 << 18
"""Trained elements from which this is quicker, on more than one thread: a step has some 30 µs more
to pay for its calls, and 70 for other threads."""
MAX_ELEMENTS = 1 << 27
"""Checkpoints beyond 2 GB keep their tensors in a file of their own."""

Parameters = Mapping[str, Any]


class SessionSteps:
    """checkpoint: that of the state. optimizer: the engine's own, which only holds its place."""

    def __init__(
        self,
        graph: GradientGraph,
        *,
        state: Any,
        optimizer: Any,
        optimizer_model: Path,
        checkpoint: Path,
        options: Any,
    ) -> None:
        self._state = state
        # The engine's optimizer is in the state, which is saved; it must not go before.
        self._optimizer = optimizer
        self._graph = graph
        self._session = onnxruntime.InferenceSession(
            graph.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        parameters = dict(state.parameters)
        read = {each.name for each in self._session.get_inputs()}
        self._data = {name: each.data for name, each in parameters.items() if name in read}
        self._gradients = {name: parameters[name].grad for name in graph.gradients}
        self._loss = np.zeros((), np.float32)
        self._binding = self._bind(self._gradients)
        self._further: tuple[Any, dict[str, Array]] | None = None
        self._batches = 0
        self._adamw = self._open_adamw(optimizer_model, checkpoint, options.intra_op_num_threads)

    def train_batch(self, arrays: Sequence[Array]) -> float:
        self._adamw.settle()
        if self._batches == 0:
            self._run(self._binding, arrays)
        else:
            binding, gradients = self._further_batch()
            self._run(binding, arrays)
            for name, gradient in self._gradients.items():
                np.add(gradient, gradients[name], out=gradient)
        self._batches += 1
        return float(self._loss)

    def step(self, learning_rate: float) -> None:
        self._adamw.step(learning_rate)
        self._batches = 0

    def settle(self) -> None:
        self._adamw.settle()

    def save(self, path: Path) -> None:
        self._adamw.settle()
        save_checkpoint(self._state, path)
        write_state(path, self._adamw.state)

    def _run(self, binding: Any, arrays: Sequence[Array]) -> None:
        for name, array in zip(self._graph.fed, arrays, strict=True):
            binding.bind_cpu_input(name, array)
        try:
            self._session.run_with_iobinding(binding)
        except RuntimeError as error:
            check_memory(error)
            raise

    def _bind(self, gradients: Mapping[str, Array]) -> Any:
        binding = self._session.io_binding()
        for name, values in self._data.items():
            binding.bind_ortvalue_input(name, in_place(values))
        binding.bind_ortvalue_output(self._graph.loss, in_place(self._loss))
        for name, tensor in self._graph.gradients.items():
            binding.bind_ortvalue_output(tensor, in_place(gradients[name]))
        return binding

    def _further_batch(self) -> tuple[Any, dict[str, Array]]:
        """Where the gradients of a step's second and later batches go, to be added."""
        if self._further is None:
            gradients = {name: np.empty_like(each) for name, each in self._gradients.items()}
            self._further = self._bind(gradients), gradients
        return self._further

    def _open_adamw(self, path: Path, checkpoint: Path, threads: int) -> SharedAdamW:
        before = read_state(checkpoint)
        if before is None or before.steps == 0:
            # The engine leaves a count of nought out of its files, where ours could not be put.
            for gradient in self._gradients.values():
                gradient.fill(0)
            self._optimizer.set_learning_rate(0.0)
            self._optimizer.step()
        trained = {}
        for name, gradient in self._gradients.items():
            if before is None:
                moments = np.zeros(gradient.size, np.float32), np.zeros(gradient.size, np.float32)
            else:
                moments = before.moments[name]
            trained[name] = Trained(self._data[name].reshape(-1), gradient.reshape(-1), *moments)
        steps = 0 if before is None else before.steps
        return SharedAdamW(path, trained, steps=steps, threads=threads)


def graph_for(
    training_model: Path, optimizer_model: Path, parameters: Parameters, *, threads: int
) -> GradientGraph | None:
    """The graph to step with, if these artifacts can be stepped so, and it is worth it.

    Raises DecodeError if one of them is no model.
    """
    if threads == 1:
        return None
    trained = {name: each for name, each in parameters.items() if each.requires_grad}
    elements = sum(each.data.size for each in trained.values())
    if not MIN_ELEMENTS <= elements <= MAX_ELEMENTS:
        return None
    if any(each.data.dtype != np.float32 for each in trained.values()):
        return None
    if not is_adamw_alone(onnx.load_model(optimizer_model, load_external_data=False)):
        return None
    model = onnx.load_model(training_model, load_external_data=False)
    return gradient_graph(model, parameters=parameters, trained=trained)


def in_place(array: NDArray[Any]) -> Any:
    """The runtime's view of an array that lies in one piece; of another, it makes a copy."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)
