"""`honed artifacts`: the offline phase, without a daemon."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from cli.commands.models.diagnosis import parameter_counts
from cli.commands.models.registration import ARTIFACTS, LOSSES
from cli.errors import Failure, from_error
from cli.options import FILE, FOLDER, as_json, output_option, trainable_option
from cli.output import echo_json, echo_text, wants_json
from storage.errors import HoneError

if TYPE_CHECKING:
    from service.training.protocol.messages.preparation import Parameter, Prepare, Prepared
    from service.training.protocol.messages.unions import Message

CUT, UNCUT = "cut at ", "not cut"
"""Prefixes of the notes that tell where a graph was cut, or why it was not."""


def show_explanation(prepared: Prepared) -> None:
    """Print it for people, or as one JSON object."""
    if wants_json():
        cut = prepared.cut
        echo_json(
            {
                "parameters": [
                    {**asdict(parameter), "count": prod(parameter.shape), "place": place(parameter)}
                    for parameter in prepared.parameters
                ],
                **_counts(prepared),
                "cut": None if cut is None else asdict(cut),
                "notes": list(prepared.notes),
            }
        )
        return
    width = max((len(parameter.name) for parameter in prepared.parameters), default=0)
    for weight in prepared.parameters:
        shape = "\u00d7".join(map(str, weight.shape))
        echo_text(f"{weight.name:<{width}}  {prod(weight.shape):>12,}  {place(weight):<7}  {shape}")
    echo_text(parameter_counts({"parameters": _counts(prepared)}))
    # The notes also tell what was fixed in the graph, and which weights could train but do not.
    others = [note for note in prepared.notes if not note.startswith((CUT, UNCUT))]
    for line in [*cut_lines(prepared), *others]:
        echo_text(line)


def place(parameter: Parameter) -> str:
    """`trains`, `frozen` above the cut, or `below` it."""
    if parameter.trains:
        return "trains"
    return "below" if parameter.below else "frozen"


def cut_lines(prepared: Prepared) -> list[str]:
    """Where the frozen part ends and what cutting it off gains, or why it is not cut off."""
    cut = prepared.cut
    if cut is None:
        reasons = [note for note in prepared.notes if note.startswith(UNCUT)]
        return reasons or ["no cut: no layer is frozen below what trains"]
    if cut.pays:
        verdict = f"saves {cut.milliseconds:.3g} ms a sample in every epoch but the first"
    elif prepared.artifacts.prefix_model is not None:
        verdict = "is made though it does not pay: the engine cannot train beside what lies below"
    else:
        verdict = "is left out: reading the features would cost more than making them"
    return [
        f"the cut at {', '.join(cut.tensors)} {verdict}",
        f"  below: {cut.nodes} operators, {cut.parameters:,} parameters",
        f"  across: {cut.feature_bytes:,} bytes a sample; the input has {cut.input_bytes:,}",
    ]


def _counts(prepared: Prepared) -> dict[str, int]:
    return {"trainable": prepared.trainable_parameters, "frozen": prepared.frozen_parameters}


TIMEOUT_S = 600.0
"""The longest silence of the child; a large graph takes minutes."""

OPTIMIZERS = ("adamw", "sgd")
"""The optimizers of On-Device Training."""


@click.command()
@click.argument("model", type=FILE)
@click.option(
    "-o",
    "--output-dir",
    type=FOLDER,
    help="Folder to write into; it is created. Required unless --explain is given.",
)
@click.option("--loss", type=click.Choice(LOSSES), required=True, help="What training lowers.")
@click.option(
    "--optimizer",
    type=click.Choice(OPTIMIZERS),
    default="adamw",
    help="Optimizer that updates the parameters.",
)
@output_option
@trainable_option
@click.option(
    "--explain",
    is_flag=True,
    help="List the parameters and where the frozen part would be cut off; write nothing.",
)
@click.option("--weight-decay", type=float, default=0.0, help="AdamW's weight decay.")
@click.option("--max-grad-norm", type=float, help="Clip gradients to at most this norm.")
@as_json
def artifacts(model: Path, *, output_dir: Path | None, explain: bool, **options: Any) -> None:
    """Make training artifacts from the forward ONNX file MODEL.

    Writes training_model.onnx, eval_model.onnx, optimizer_model.onnx and checkpoint, as ONNX
    Runtime On-Device Training takes them, on phones too, and `honed models add`. What writes them
    is onnxruntime-training-cpu 1.19.2; without it only --explain works. Runs in a child process: a
    hostile or unlucky file cannot harm more than it.

    The artifacts are of the whole model. A daemon that is given MODEL itself cuts off what is
    frozen and runs it once for each sample; --explain tells where.
    """
    if output_dir is None and not explain:
        raise click.UsageError("name a folder with --output-dir, or ask with --explain")
    with tempfile.TemporaryDirectory(prefix="honed-artifacts-") as work_dir:
        prepared = _prepare(model, Path(work_dir), divide=explain, **options)
        if not explain and output_dir is not None:
            _publish(prepared, output_dir)
    if explain:
        show_explanation(prepared)
    elif output_dir is not None:
        _echo(prepared, output_dir)


def _prepare(
    model: Path, work_dir: Path, *, trainable: Any, divide: bool, **options: Any
) -> Prepared:
    from service.training.protocol.messages.preparation import Prepare, Prepared, Refused

    task = Prepare(
        source=str(model.resolve()),
        form="forward",
        work_dir=str(work_dir.resolve()),
        trainable=tuple(trainable) or None,
        # Explain the cut for the engine of a daemon.
        engine="sessions" if divide else "ort_training",
        divide=divide,
        **options,
    )
    answer = asyncio.run(_ask(task))
    if isinstance(answer, Refused):
        raise from_error(HoneError(f"{model}: {answer.detail}", problems=answer.problems))
    if not isinstance(answer, Prepared):
        raise Failure(f"{model}: {getattr(answer, 'detail', answer)}")
    return answer


async def _ask(task: Prepare) -> Message:
    """The last message of the task."""
    from service.jobs.child import Child
    from service.processes.children import Children

    child = await Child.spawn(Children(memory_cap_bytes=None), task)
    try:
        async for message in child.messages(silence_timeout_s=TIMEOUT_S):
            answer = message
        return answer
    finally:
        await child.close()


def _publish(prepared: Prepared, output_dir: Path) -> None:
    files = prepared.artifacts
    assert files.optimizer_model is not None  # On-Device Training's artifacts have one
    paths = (files.training_model, files.eval_model, files.optimizer_model, files.checkpoint)
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
        for path, name in zip(paths, ARTIFACTS, strict=True):
            shutil.move(path, output_dir / name)
    except OSError as error:
        raise Failure(f"cannot write into {output_dir}: {error.strerror}") from error


def _echo(prepared: Prepared, output_dir: Path) -> None:
    if wants_json():
        echo_json(
            {
                "artifacts": {Path(name).stem: str(output_dir / name) for name in ARTIFACTS},
                "parameters": _counts(prepared),
                "trainable": list(prepared.trainable),
                "output": prepared.output,
                "notes": list(prepared.notes),
            }
        )
        return
    echo_text(f"{output_dir}: {parameter_counts({'parameters': _counts(prepared)})}")
    for note in prepared.notes:
        echo_text(f"  {note}")
