"""The first engine: ONNX Runtime On-Device Training, version 1.19.2, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from service.training.engine import Array
from service.training.errors import ArtifactsUnreadable, CheckpointUnreadable
from service.training.ort.gradient_graph import GradientGraph
from service.training.ort.runtime import onnxruntime, pybind, training_api
from service.training.ort.session_steps import SessionSteps, graph_for
from service.training.ort.sessions import check_memory, foreign_errors, session_options
from service.training.ort.steps import ModuleSteps, Steps
from service.training.protocol.messages.shared import Artifacts

api = training_api()


class OrtEngine:
    """A model in training, from its artifacts and a checkpoint of them.

    output: the tensor that is measured and exported. spinning: whether idle threads burn cycles
    while they wait. Same threads, same bits.
    Raises ArtifactsUnreadable, CheckpointUnreadable, MemoryError.
    """

    def __init__(
        self,
        artifacts: Artifacts,
        *,
        checkpoint: Path,
        output: str,
        threads: int,
        spinning: bool = False,
    ) -> None:
        # The runtime ends the process where an evaluation finds no model; here it is an error.
        for path in (artifacts.training_model, artifacts.eval_model, artifacts.optimizer_model):
            if path is None or not Path(path).is_file():
                raise ArtifactsUnreadable(
                    f"there is no artifact at {path}; register the model anew"
                )
        self._artifacts = artifacts
        self._optimizer_model = Path(artifacts.optimizer_model or "")
        self._output = output
        with foreign_errors(CheckpointUnreadable, f"cannot load the checkpoint {checkpoint}"):
            self._state = api.CheckpointState.load_checkpoint(checkpoint)
        options = session_options(threads, spinning=spinning)
        with foreign_errors(ArtifactsUnreadable, "cannot load the training artifacts"):
            graph = self._graph_for(threads)
            # Sessions whose steps are made elsewhere must not spin: each has threads of its own.
            idle = options if graph is None else session_options(threads)
            self._module = api.Module(
                artifacts.training_model, self._state, artifacts.eval_model, session_options=idle
            )
            self._steps = self._open_steps(graph, checkpoint, options)
        self._model = self._module._model
        self._output_at = self._position_of(output)

    @property
    def name(self) -> str:
        return f"onnxruntime-training {onnxruntime.__version__}"

    @property
    def output(self) -> str:
        return self._output

    def train_batch(self, inputs: Sequence[Array], target: Array) -> float:
        return self._steps.train_batch([*inputs, target])

    def step(self, learning_rate: float) -> None:
        self._steps.step(learning_rate)

    def evaluate(self, inputs: Sequence[Array], target: Array) -> tuple[float, Array]:
        self._steps.settle()
        outputs = pybind.OrtValueVector()
        try:
            self._model.eval_step([*inputs, target], outputs)
        except RuntimeError as error:
            check_memory(error)
            raise
        return float(outputs[0].numpy()), outputs[self._output_at].numpy()

    def seed(self, seed: int) -> None:
        pybind.set_seed(seed)

    def save(self, path: Path) -> None:
        self._steps.save(path)

    def load_parameters(self, path: Path) -> None:
        self._steps.settle()
        with foreign_errors(CheckpointUnreadable, f"cannot load the checkpoint {path}"):
            source = api.CheckpointState.load_checkpoint(path)
        theirs = {name: parameter.data for name, parameter in source.parameters}
        ours = {name: parameter.data for name, parameter in self._state.parameters}
        if {name: (each.shape, each.dtype) for name, each in theirs.items()} != {
            name: (each.shape, each.dtype) for name, each in ours.items()
        }:
            raise CheckpointUnreadable(
                f"{path} holds the parameters of another model; take a checkpoint of this one"
            )
        for name, values in theirs.items():
            self._state.parameters[name] = values

    def export(self, path: Path) -> None:
        self._steps.settle()
        with foreign_errors(
            ArtifactsUnreadable, f"cannot export {self._output!r} from the eval model"
        ):
            self._module.export_model_for_inferencing(path, [self._output])

    def _graph_for(self, threads: int) -> GradientGraph | None:
        models = Path(self._artifacts.training_model), self._optimizer_model
        return graph_for(*models, dict(self._state.parameters), threads=threads)

    def _open_steps(self, graph: GradientGraph | None, checkpoint: Path, options: Any) -> Steps:
        optimizer_model = self._optimizer_model
        optimizer = api.Optimizer(optimizer_model, self._module)
        if graph is None:
            return ModuleSteps(
                self._module, optimizer, self._state, optimizer_model=optimizer_model
            )
        return SessionSteps(
            graph,
            state=self._state,
            optimizer=optimizer,
            optimizer_model=optimizer_model,
            checkpoint=checkpoint,
            options=options,
        )

    def _position_of(self, output: str) -> int:
        # The module says the names of the mode that it is in.
        names: list[str] = self._module.eval().output_names()
        if output not in names:
            raise ArtifactsUnreadable(
                f"the eval model gives {names} and not {output!r}; generate the artifacts with"
                f" additional_output_names=[{output!r}]"
            )
        return names.index(output)
