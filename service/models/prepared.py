"""Reuses prepared artifacts when a file is registered again with the same choices.

Each model keeps a file that describes what its artifacts were made from. A model with the same
SHA-256 of that file can share its artifacts; equal files are stored once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from service.preprocess.text_inputs import is_text
from service.training.engines.manifest import read_manifest
from service.training.engines.packages import RUNTIMES, installed_version
from service.training.protocol.messages.preparation import Lora, Prepare, Prepared
from service.training.protocol.messages.shared import Artifacts
from service.training.protocol.serialization import build, plain
from storage.database.codec import dump
from storage.disk.digest import sha256_of
from storage.records.models import FileRecord, Model
from storage.store import Store

MADE_OF = "made_of"
"""The role of the file that describes what a model's artifacts were made from."""
UPLOAD = "upload"
"""The role of the uploaded file, if the inference model is another form of it."""
BASE_MODEL = "base_model"
"""The role of the inference model with the uploaded weights, which is version 1 of the first."""
TOKENIZER = "tokenizer"
"""The role of a text model's tokenizer.json."""
NO_ARTIFACTS = (MADE_OF, UPLOAD, BASE_MODEL)
_DECIDE_NOTHING = ("source", "work_dir", "limits", "kind", TOKENIZER)
_MAKERS = ("honed", "onnx", *RUNTIMES)


def describe(task: Prepare) -> bytes:
    """Everything that determines the artifacts of an upload, as JSON."""
    described = {k: v for k, v in plain(task).items() if k not in _DECIDE_NOTHING}
    described["upload"] = sha256_of(Path(task.source))
    if task.tokenizer is not None:
        described["tokenizer_sha256"] = sha256_of(Path(task.tokenizer))
    described["made_by"] = _makers()
    return dump(described, sort_keys=True).encode()


def prepare_again(model: Model, store: Store, *, work_dir: Path) -> Prepare | None:
    """The task that made the artifacts, for the session engine; None without the upload."""
    if MADE_OF not in model.files:
        return None
    made_of = json.loads(store.integrity.read(model.files[MADE_OF].sha256))
    kept = model.files.get(UPLOAD) or model.files[BASE_MODEL]
    if made_of["form"] != "forward" or made_of["upload"] != kept.sha256:
        return None
    choices: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in made_of.items()
        if name in Prepare.__struct_fields__
    }
    choices |= {"engine": "sessions", "classes": model.signature.target.classes}
    lora = choices.get("lora")
    choices["lora"] = None if lora is None else build(Lora, lora)
    source = str(store.integrity.file(kept.sha256))
    if TOKENIZER in model.files:
        choices["tokenizer"] = str(store.integrity.file(model.files[TOKENIZER].sha256))
    return Prepare(**choices, source=source, work_dir=str(work_dir))


def shapes_digest(prepared: Prepared) -> str:
    """SHA-256 of the names and shapes of what trains; empty for artifacts of Microsoft's tools."""
    if prepared.artifacts.manifest is None:
        return ""
    manifest = read_manifest(Path(prepared.artifacts.manifest))
    shapes = sorted((parameter.name, parameter.shape) for parameter in manifest.parameters)
    return hashlib.sha256(dump(shapes).encode()).hexdigest()


def tokenizer_of(model: Model, store: Store) -> str | None:
    """The path of the model's tokenizer, None if it has none. Raises Damaged."""
    file = model.files.get(TOKENIZER)
    return None if file is None else str(store.integrity.file(file.sha256))


def find_prepared(store: Store, task: Prepare, made_of: bytes) -> Prepared | None:
    """What a child would answer, with copies of another model's files; None if there is none.

    If files are missing or damaged, the answer is None too, and they are made again.
    """
    model = store.models.find_by_file(MADE_OF, hashlib.sha256(made_of).hexdigest())
    if model is None:
        return None
    copies = {
        role: _copy(store.files.path, file, Path(task.work_dir) / role)
        for role, file in model.files.items()
        if role not in (MADE_OF, UPLOAD)
    }
    base_model = copies.pop(BASE_MODEL)
    if base_model is None or None in copies.values():
        return None
    return Prepared(
        artifacts=Artifacts(**{role: str(path) for role, path in copies.items()}),
        base_model=base_model,
        signature=replace(
            # The other model's classes may have been renamed since.
            model.signature,
            target=replace(model.signature.target, classes=task.classes),
        ),
        output=model.output,
        trainable=model.trainable,
        trainable_parameters=model.trainable_parameters,
        frozen_parameters=model.frozen_parameters,
        notes=model.notes,
        optimizer=model.optimizer if task.form == "artifacts" else None,
        text=next(filter(is_text, model.preprocess), None),
    )


def _copy(path_of: Callable[[str], Path], file: FileRecord, copy: Path) -> str | None:
    """The path of an intact copy, which survives the deletion of the other model."""
    try:
        shutil.copyfile(path_of(file.sha256), copy)
    except FileNotFoundError:
        return None
    return str(copy) if sha256_of(copy) == file.sha256 else None


@cache
def _makers() -> dict[str, str]:
    versions = {name: installed_version(name) for name in _MAKERS}
    return {name: version for name, version in versions.items() if version is not None}
