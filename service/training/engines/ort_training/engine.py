"""Trains a model with ONNX Runtime On-Device Training, version 1.19.2, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from service.training.engine import NOTHING, Array
from service.training.engines.ort_training.runtime import training_api
from service.training.engines.packages import RECORDED
from service.training.engines.runtime import (
    check_memory,
    foreign_errors,
    native,
    onnxruntime,
    session_options,
)
from service.training.errors import ArtifactsUnreadable, CheckpointUnreadable
from service.training.protocol.messages.shared import Artifacts


class OrtEngine:
    """A model in training, from its artifacts and a checkpoint of them.

    output: the tensor that is measured and exported. The same thread count gives the same bits.
    Raises ArtifactsUnreadable, CheckpointUnreadable, EngineMissing, MemoryError.
    """

    def __init__(
        self,
        artifacts: Artifacts,
        *,
        checkpoint: Path,
        output: str,
        threads: int,
    ) -> None:
        # If a model is missing, the runtime ends the process at evaluation; make it an error here.
        for path in (artifacts.training_model, artifacts.eval_model, artifacts.optimizer_model):
            if path is None or not Path(path).is_file():
                raise ArtifactsUnreadable(
                    f"there is no artifact at {path}; register the model anew"
                )
        self._api = api = training_api()
        self._optimizer_model = Path(artifacts.optimizer_model or "")
        self._artifacts = artifacts
        self._output = output
        self._batches = 0
        with foreign_errors(CheckpointUnreadable, f"cannot load the checkpoint {checkpoint}"):
            self._state = api.CheckpointState.load_checkpoint(checkpoint)
        options = session_options(threads)
        with foreign_errors(ArtifactsUnreadable, "cannot load the training artifacts"):
            self._module = api.Module(
                artifacts.training_model, self._state, artifacts.eval_model, session_options=options
            )
            self._optimizer = api.Optimizer(self._optimizer_model, self._module)
        # The module's own __call__ iterates over the outputs, which takes 40 µs (measured): as long
        # as a step of a small model.
        self._model = self._module._model
        self._output_at = self._position_of(output)

    @property
    def name(self) -> str:
        return f"{RECORDED['ort_training']} {onnxruntime.__version__}"

    @property
    def output(self) -> str:
        return self._output

    @property
    def quantizes(self) -> bool:
        return False  # no quantized operator has a gradient in this engine

    def train_batch(
        self,
        inputs: Sequence[Array],
        target: Array,
        weights: Array | None = None,
        teacher: Array | None = None,
    ) -> float:
        assert teacher is None  # requests that ask for one are refused
        if weights is not None:
            raise ArtifactsUnreadable(
                "On-Device Training takes no weights of samples; give all samples the weight 1"
            )
        self._batches += 1
        outputs = native.OrtValueVector()
        with _memory_errors():
            self._model.train_step([*inputs, target], outputs)
        return float(outputs[0].numpy())

    def step(self, learning_rate: float) -> None:
        # Gradients are added up, not averaged. AdamW does not see the factor, but for its epsilon;
        # for plain SGD the mean of the gradients is the sum at a smaller rate.
        if self._batches > 1 and self._is_sgd:
            learning_rate /= self._batches
        # Before each step: a loaded optimizer is at 0.001, and the runtime's LinearLRScheduler
        # has warm-up and total swapped.
        self._optimizer.set_learning_rate(learning_rate)
        with _memory_errors():
            self._optimizer.step()
        self._module.lazy_reset_grad()
        self._batches = 0

    def series(self, rows: int) -> None:
        """Each step is taken by itself."""

    def evaluate(self, inputs: Sequence[Array], target: Array) -> tuple[float, Array]:
        outputs = native.OrtValueVector()
        with _memory_errors():
            self._model.eval_step([*inputs, target], outputs)
        return float(outputs[0].numpy()), outputs[self._output_at].numpy()

    def seed(self, seed: int) -> None:
        native.set_seed(seed)

    def save(self, path: Path) -> None:
        with _memory_errors():
            # Without the optimizer's state, which is the default, no job could be resumed.
            self._api.CheckpointState.save_checkpoint(
                self._state, path, include_optimizer_state=True
            )

    def load_parameters(self, path: Path) -> None:
        with foreign_errors(CheckpointUnreadable, f"cannot load the checkpoint {path}"):
            source = self._api.CheckpointState.load_checkpoint(path)
        theirs = {name: parameter.data for name, parameter in source.parameters}
        ours = {name: parameter.data for name, parameter in self._state.parameters}
        if {name: (array.shape, array.dtype) for name, array in theirs.items()} != {
            name: (array.shape, array.dtype) for name, array in ours.items()
        }:
            raise CheckpointUnreadable(
                f"{path} holds the parameters of another model; take a checkpoint of this one"
            )
        for name, values in theirs.items():
            self._state.parameters[name] = values

    def end_training(self) -> None:
        """Nothing to free: evaluation uses the same module as training."""

    def export(self, path: Path, metadata: Mapping[str, str] = NOTHING) -> None:
        with foreign_errors(
            ArtifactsUnreadable, f"cannot export {self._output!r} from the eval model"
        ):
            self._module.export_model_for_inferencing(path, [self._output])
        # Late, since steps do not need onnx.
        from service.training.export.join import assemble

        assemble(path, self._artifacts, metadata)

    @cached_property
    def _is_sgd(self) -> bool:
        import onnx

        model = onnx.load(self._optimizer_model, load_external_data=False)
        return any(node.op_type.startswith("SGD") for node in model.graph.node)

    def _position_of(self, output: str) -> int:
        # The module returns the names of its current mode.
        names: list[str] = self._module.eval().output_names()
        if output not in names:
            raise ArtifactsUnreadable(
                f"the eval model gives {names} and not {output!r}; generate the artifacts with"
                f" additional_output_names=[{output!r}]"
            )
        return names.index(output)


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Raises MemoryError for the runtime's out-of-memory errors."""
    try:
        yield
    except RuntimeError as error:
        check_memory(error)
        raise
