"""Stores images as samples: their headers are checked, their bytes are kept unchanged."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from service.errors import InvalidInput
from service.preprocess.kind import Unreadable
from service.samples.ingest.intake import IngestResult, Intake, UploadOptions
from service.samples.ingest.json_upload import key_complaint, label_reader
from service.samples.ingest.json_value import read_json
from service.samples.ingest.labels import Label, LabelReader
from service.samples.ingest.require import require_images
from service.samples.ingest.weights import WeightReader
from service.samples.ingest.zip_reader import READ_BACK
from storage.disk.durable import file_faults
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import Split
from storage.store import Store

MAX_IMAGE_BYTES = 64 * 2**20
ANY_TYPE = ("", "application/octet-stream")
SAME = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg"}
FIELDS = frozenset({"label", "key", "split", "weight"})


@dataclass(frozen=True, slots=True)
class ImageUpload:
    """One image: its bytes within the upload's file, and its description.

    about: `label`, `key`, `split`, `weight`; the label is any JSON value.
    """

    name: str
    media_type: str
    offset: int
    length: int
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Checked:
    label: Label
    key: str | None
    split: Split | None
    weight: float | None


def store_images(
    store: Store,
    model: Model,
    path: Path,
    uploads: Sequence[ImageUpload],
    options: UploadOptions,
) -> IngestResult:
    """Check every image, then store all of them, or the good ones.

    Only one image is in memory at a time. Raises InvalidInput with every bad one.
    """
    require_images(model)
    labels, weights = label_reader(model), WeightReader(model)
    if not uploads:
        problem = Problem("/files", "send at least one image")
        raise InvalidInput("there is no image", problems=[problem])
    with (
        file_faults(READ_BACK),
        Intake(store, model, options) as intake,
        path.open("rb") as file,
    ):
        for position, upload in enumerate(uploads):
            at = f"/files/{position}"
            checked, problems = _check_about(upload, labels, weights, at=at)
            data, faults = _read_image(file, upload, at=at)
            problems += faults
            if problems:
                intake.faults.sample(problems)
                continue
            intake.add(
                data,
                [checked.label],
                lengths=[len(data)],
                key=[checked.key],
                split=[checked.split or options.split],
                weights=[checked.weight],
            )
        return intake.commit(len(uploads))


def _read_image(file: IO[bytes], upload: ImageUpload, *, at: str) -> tuple[bytes, list[Problem]]:
    if upload.length > MAX_IMAGE_BYTES:
        detail = f"{upload.name}: an image has at most {MAX_IMAGE_BYTES} bytes"
        return b"", [Problem(at, detail)]
    file.seek(upload.offset)
    data = file.read(upload.length)
    return data, _check_image(upload, data, at=at)


def read_about(
    text: str | None, names: Sequence[str], *, defaults: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Read the form's part `samples`: what describes the files, by position or by name.

    defaults: for fields that are not given. Raises InvalidInput.
    """
    if text is None:
        return [defaults] * len(names)
    try:
        given = read_json(text)
    except ValueError as error:
        raise _wrong("", f"not JSON: {error}") from error
    if isinstance(given, dict):
        if twice := next((name for name in given if names.count(name) > 1), None):
            detail = f"{names.count(twice)} files are named {twice!r}; send a list in their order"
            raise _wrong(f"/{twice}", detail)
        if strangers := sorted(set(given) - set(names)):
            raise _wrong(f"/{strangers[0]}", f"no file is named {strangers[0]!r}")
        given = [given.get(name, {}) for name in names]
    if not isinstance(given, list) or len(given) != len(names):
        raise _wrong(
            "", f"a list of {len(names)} objects, one for each file in order, or an object"
        )
    for position, each in enumerate(given):
        if not isinstance(each, dict) or set(each) - FIELDS:
            raise _wrong(f"/{position}", f"an object with {sorted(FIELDS)}")
    return [{**defaults, **each} for each in given]


def _check_image(upload: ImageUpload, data: bytes, *, at: str) -> list[Problem]:
    from service.preprocess.completeness import is_whole
    from service.preprocess.pictures import read_header

    try:
        header = read_header(io.BytesIO(data))
    except Unreadable as error:
        return [Problem(at, f"{upload.name}: {error}")]
    said = SAME.get(upload.media_type, upload.media_type)
    if said not in (*ANY_TYPE, header.media_type):
        detail = f"{upload.name}: it is said to be {said}, but it is {header.media_type}"
        return [Problem(at, detail)]
    if not is_whole(data, header.media_type):
        return [Problem(at, f"{upload.name}: its end is missing; send the whole file")]
    return []


def _check_about(
    upload: ImageUpload, labels: LabelReader, weights: WeightReader, *, at: str
) -> tuple[_Checked, list[Problem]]:
    about, problems = upload.about, []
    label, complaint = labels.parse(about.get("label"))
    if complaint:
        problems.append(Problem(f"{at}/label", f"{upload.name}: {complaint}"))
    key, split = about.get("key"), about.get("split")
    if complaint := key_complaint(key):
        problems.append(Problem(f"{at}/key", f"{upload.name}: {complaint}"))
    if split not in (None, Split.TRAIN.value, Split.VALIDATION.value):
        problems.append(Problem(f"{at}/split", f"{upload.name}: split is train or validation"))
        split = None
    weight, complaint = weights.parse(about.get("weight"))
    if complaint:
        problems.append(Problem(f"{at}/weight", f"{upload.name}: {complaint}"))
    return _Checked(label, key, Split(split) if split else None, weight), problems


def _wrong(pointer: str, detail: str) -> InvalidInput:
    problem = Problem(f"/samples{pointer}", detail)
    return InvalidInput('the part "samples" is wrong', problems=[problem])
