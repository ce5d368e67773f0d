"""A model's specification as its author writes it, and what it requires of the upload."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from service import preprocess
from service.errors import InvalidInput
from service.models.hyperparameters import check_hyperparameters
from service.models.promotion.policy import merge_gate
from service.preprocess.text_inputs import is_text
from service.samples.ingest.require import require_names
from service.samples.ingest.windows import check_channels
from service.training.protocol.messages.preparation import Lora, Prepare, Prepared
from service.training.tasks import TASKS
from storage.errors import Problem
from storage.records.models import BatchNorm, NewModel, OptimizerName

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DEFAULT_OPTIMIZER: OptimizerName = "adamw"
Form = Literal["forward", "artifacts"]
ARTIFACTS_HAVE_NO_ADAPTERS = Problem(
    "/spec/trainable/lora",
    "artifacts train what they were made for; send the forward model for adapters",
)


class ModelSpec(Struct, frozen=True):
    """An author's specification of a model; see `spec` in docs/models.md."""

    name: str
    loss: str
    optimizer: OptimizerName | None = None
    output: str | None = None
    trainable: tuple[str, ...] | None = None
    lora: Lora | None = None
    classes: tuple[str, ...] | None = None
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    gate: dict[str, Any] = field(default_factory=dict)
    retention: dict[str, Any] = field(default_factory=dict)
    preprocess: tuple[dict[str, Any], ...] = ()
    keeps_duplicates: bool = False
    features: tuple[str, ...] | None = None
    batch_norm: BatchNorm = "inference"
    loss_output: str | None = None


def only_adapters(listed: Sequence[Lora]) -> Lora | None:
    """Those among what trains. Raises InvalidInput if there are several."""
    if len(listed) > 1:
        detail = "adapters stand twice; give all targets in one"
        raise InvalidInput.at("/spec/trainable", detail, title="the spec is wrong")
    return next(iter(listed), None)


def prepare_task(
    spec: ModelSpec, source: Path, form: Form, *, work_dir: Path, tokenizer: Path | None = None
) -> Prepare:
    """The check of an upload, which makes its artifacts. Raises InvalidInput."""
    if form == "artifacts" and spec.lora is not None:
        raise InvalidInput("the spec is wrong", problems=[ARTIFACTS_HAVE_NO_ADAPTERS])
    text = next(filter(is_text, spec.preprocess), None)
    if problems := [*_of_texts(spec, form, text, has_tokenizer=tokenizer is not None)]:
        raise InvalidInput("the spec is wrong", problems=problems)
    # Artifacts contain one optimizer; a forward model is prepared for all of them.
    fixed: dict[str, Any] = {}
    if form == "artifacts":
        fixed = {"optimizer": spec.optimizer or "", **spec.hyperparameters}
    return Prepare(
        source=str(source),
        form=form,
        work_dir=str(work_dir),
        loss=spec.loss,
        loss_output=spec.loss_output,
        optimizer=fixed.get("optimizer", DEFAULT_OPTIMIZER),
        output=spec.output,
        trainable=spec.trainable,
        lora=spec.lora,
        classes=spec.classes,
        weight_decay=fixed.get("weight_decay") or 0.0,
        max_grad_norm=fixed.get("max_grad_norm"),
        divide=form == "forward",
        batch_norm=spec.batch_norm,
        feature_dtype=spec.hyperparameters.get("feature_dtype") or "float32",
        sizes=preprocess.sizes_of(spec.preprocess),
        text=text,
        tokenizer=None if tokenizer is None else str(tokenizer),
    )


def _of_texts(
    spec: ModelSpec, form: Form, text: dict[str, Any] | None, *, has_tokenizer: bool
) -> Iterator[Problem]:
    """What is wrong with the description of texts, its tokenizer, and a loss that needs both."""
    task = TASKS.get(spec.loss)
    if text is None:
        if has_tokenizer:
            detail = 'it is for texts; describe them in spec.preprocess: {"kind": "text"}'
            yield Problem("/tokenizer", detail)
        if task is not None and task.labels_tokens:
            detail = f"{spec.loss} learns texts; add spec.preprocess of kind text, and a tokenizer"
            yield Problem("/spec/loss", detail)
        return
    if task is not None and task.takes_spans and text.get("pairs"):
        yield Problem("/spec/preprocess/pairs", "spans are of one text; leave pairs out")
    if "stride" in text and task is not None and not task.makes_labels:
        detail = "a label is of a whole text: leave stride out, and the text is truncated"
        yield Problem("/spec/preprocess/stride", detail)
    if not has_tokenizer:
        yield Problem("/tokenizer", "a model of texts needs its tokenizer.json; send that part")
    if form == "artifacts":
        detail = "texts feed forward models; send the forward ONNX file as the part `model`"
        yield Problem("/spec/preprocess/kind", detail)


def described(spec: ModelSpec, prepared: Prepared) -> NewModel:
    """The model as it would be stored, without its files.

    Raises InvalidInput if preprocessing, features, gate or hyperparameters do not fit it.
    """
    is_cut = prepared.artifacts.prefix_model is not None
    preprocessing = preprocess.parse(
        spec.preprocess, prepared.signature, is_cut=is_cut, text=prepared.text
    )
    require_names(prepared.signature, preprocessing)
    features = check_channels(prepared.signature, preprocessing, spec.features, at="/spec/features")
    defaults = {k: v for k, v in spec.hyperparameters.items() if v is not None}
    new = NewModel(
        name=spec.name,
        loss=spec.loss,
        loss_output=spec.loss_output,
        optimizer=spec.optimizer or prepared.optimizer or DEFAULT_OPTIMIZER,
        engine="sessions" if prepared.artifacts.manifest else "ort_training",
        output=prepared.output,
        signature=prepared.signature,
        trainable=prepared.trainable,
        trainable_parameters=prepared.trainable_parameters,
        frozen_parameters=prepared.frozen_parameters,
        hyperparameters=defaults,
        files={},
        notes=prepared.notes,
        preprocess=preprocessing,
        gate=merge_gate(
            {}, spec.gate, loss=spec.loss, target=prepared.signature.target, at="/spec/gate"
        ),
        retention=spec.retention,
        keeps_duplicates=spec.keeps_duplicates,
        features=features,
    )
    check_hyperparameters(new, defaults, at="/spec/hyperparameters")
    return new


def check_name(name: str) -> None:
    """Raises InvalidInput unless the name is safe in a path, a URL and a shell."""
    if not NAME.fullmatch(name):
        detail = (
            "a name has 1 to 64 characters: letters (A to Z, a to z), digits, dots, dashes and "
            "underscores; the first is a letter or digit"
        )
        raise InvalidInput.at("/spec/name", detail, title=f"the name {name!r} cannot be used")
