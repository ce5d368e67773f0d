"""Stores samples from JSON: one object, or `{"samples": [ … ]}`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from service.errors import InvalidInput
from service.samples.ingest import tensors
from service.samples.ingest.intake import IngestResult, Intake, UploadOptions
from service.samples.ingest.json_value import read_json
from service.samples.ingest.labels import Label, LabelReader
from service.samples.ingest.require import require_tensors
from service.samples.ingest.weights import WeightReader
from service.training.tasks import TASKS
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import Split
from storage.store import Store

FIELDS = frozenset({"inputs", "label", "key", "split", "weight"})
MAX_KEY_LENGTH = 512


class ParsedSample(Struct, frozen=True):
    """A valid sample."""

    record: bytes
    label: Label
    key: str | None
    split: Split | None
    weight: float | None


def store_json(store: Store, model: Model, body: bytes, options: UploadOptions) -> IngestResult:
    """Check every sample, then store all of them, or the good ones.

    Raises InvalidInput with every bad sample.
    """
    require_tensors(model)
    samples, prefix = _parse_body(body)
    parser = SampleParser(model)
    with Intake(store, model, options) as intake:
        good: list[ParsedSample] = []
        for position, sample in enumerate(samples):
            parsed, problems = parser.parse(sample, at=prefix and f"{prefix}/{position}")
            if parsed is None:
                intake.faults.sample(problems)
            else:
                good.append(parsed)
        intake.add(
            b"".join(sample.record for sample in good),
            [sample.label for sample in good],
            key=[sample.key for sample in good],
            split=[sample.split or options.split for sample in good],
            weights=[sample.weight for sample in good],
        )
        return intake.commit(len(samples))


class SampleParser:
    """Parses samples of one model and finds every error in them."""

    def __init__(self, model: Model) -> None:
        self._inputs = model.signature.inputs
        self._labels = label_reader(model)
        self._weights = WeightReader(model)

    def parse(self, sample: Any, *, at: str) -> tuple[ParsedSample | None, list[Problem]]:
        """The sample, or None and its errors. at: JSON pointer of the sample."""
        if not isinstance(sample, dict):
            return None, [Problem(at, "a sample is an object with inputs and a label")]
        problems = [
            Problem(f"{at}/{name}", f"unknown field {name!r}; a sample has {sorted(FIELDS)}")
            for name in sample
            if name not in FIELDS
        ]
        record = self._record(sample.get("inputs"), at, problems)
        label, complaint = self._labels.parse(sample.get("label"))
        if complaint:
            problems.append(Problem(f"{at}/label", complaint))
        key, split = sample.get("key"), sample.get("split")
        if complaint := key_complaint(key):
            problems.append(Problem(f"{at}/key", complaint))
        if split is not None and split not in (Split.TRAIN.value, Split.VALIDATION.value):
            problems.append(Problem(f"{at}/split", "split is train or validation"))
        weight, complaint = self._weights.parse(sample.get("weight"))
        if complaint:
            problems.append(Problem(f"{at}/weight", complaint))
        if problems:
            return None, problems
        return ParsedSample(record, label, key, Split(split) if split else None, weight), []

    def _record(self, inputs: Any, at: str, problems: list[Problem]) -> bytes:
        if not isinstance(inputs, dict):
            names = [spec.name for spec in self._inputs]
            problems.append(Problem(f"{at}/inputs", f"inputs is an object that holds {names}"))
            return b""
        known = {spec.name for spec in self._inputs}
        for name in inputs:
            if name not in known:
                detail = f"the model has no input {name!r}; it has {sorted(known)}"
                problems.append(Problem(f"{at}/inputs/{name}", detail))
        parts = []
        for spec in self._inputs:
            if spec.name not in inputs:
                problems.append(Problem(f"{at}/inputs", f"input {spec.name!r} is missing"))
                continue
            tensor = tensors.parse(inputs[spec.name], spec)
            if isinstance(tensor, str):
                where = f"{at}/inputs/{spec.name}"
                problems.append(Problem(where, f"input {spec.name!r} {tensor}"))
            else:
                parts.append(tensor.tobytes())
        return b"".join(parts)


def label_reader(model: Model) -> LabelReader:
    """A reader of the labels that the model's loss takes."""
    return LabelReader(model.signature.target, TASKS[model.loss])


def key_complaint(key: Any) -> str | None:
    """What is wrong with a key, or None."""
    if key is None or (isinstance(key, str) and 0 < len(key) <= MAX_KEY_LENGTH):
        return None
    return f"key is text of 1 to {MAX_KEY_LENGTH} characters"


def _parse_body(body: bytes) -> tuple[list[Any], str]:
    """The samples, and the JSON pointer of their list (empty for a single sample)."""
    try:
        parsed = read_json(body)
    except ValueError as error:
        raise InvalidInput(
            "the body is not JSON", problems=[Problem("", f"{error}; send UTF-8 JSON")]
        ) from error
    if not isinstance(parsed, dict) or "samples" not in parsed:
        return [parsed], ""
    samples = parsed["samples"]
    if len(parsed) > 1:
        extra = sorted(set(parsed) - {"samples"})
        raise _wrong_body(f"/{extra[0]}", "a batch has no other field than samples")
    if not isinstance(samples, list) or not samples:
        raise _wrong_body("/samples", "samples is a list of at least one sample")
    return samples, "/samples"


def _wrong_body(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput("the batch cannot be read", problems=[Problem(pointer, detail)])
