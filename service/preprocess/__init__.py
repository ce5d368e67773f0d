"""Preprocessing: turns the data that apps send into the tensors that a model takes.

A model's spec lists descriptions, at most one for each input. Each has a `kind`. A kind is one
module and its place in `KINDS` (kinds.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from service.errors import InvalidInput
from service.preprocess.checks import WrongDescription
from service.preprocess.kind import FileKind, Kind, TensorKind, Unreadable
from service.preprocess.text_inputs import is_text, with_facts
from storage.arrays import NDArray
from storage.database.codec import dump
from storage.errors import Problem
from storage.records.signatures import Signature, TargetSpec, TensorSpec

if TYPE_CHECKING:  # the daemon's, not a child's
    from service.preprocess.augmentation.draws import Draws
    from service.preprocess.augmentation.mixing import Mix
    from service.preprocess.boxes.boxes import Boxes
    from service.preprocess.masks.masks import Masks
    from storage.records.models import Model

__all__ = [
    "FileKind",
    "Kind",
    "Pipeline",
    "TensorKind",
    "Unreadable",
    "for_model",
    "parse",
    "sizes_of",
]

Array: TypeAlias = "NDArray[Any]"
Description = Mapping[str, Any]


class Pipeline(Struct, frozen=True):
    """The preprocessing of one model. kinds: by input name; other inputs are not changed."""

    inputs: tuple[TensorSpec, ...]
    kinds: Mapping[str, Kind]

    @property
    def files(self) -> FileKind | None:
        """The preprocessing of a model that takes files; None for others."""
        return next((kind for kind in self.kinds.values() if isinstance(kind, FileKind)), None)

    @property
    def key(self) -> str:
        """A hash that changes whenever the resulting tensors would change."""
        described = [[name, kind.describe()] for name, kind in sorted(self.kinds.items())]
        return hashlib.sha256(dump(described, sort_keys=True).encode()).hexdigest()

    @property
    def views(self) -> int:
        """The number of views of a sample if their features are cached."""
        augmentations = [kind.augment for kind in self.kinds.values() if kind.augment]
        return max((each.views for each in augmentations if each.changes_samples), default=1)

    @property
    def mix(self) -> Mix | None:
        """How batches of the only input are mixed."""
        kind = self.kinds.get(self.inputs[0].name)
        return None if kind is None else kind.mix

    def masks(self, target: TargetSpec) -> Masks | None:
        """The form of labels that are masks of an image; None for a model of others."""
        if self.files is None:
            return None
        from service.preprocess.masks.masks import masks_of

        return masks_of(self.files, target)

    def boxes(self, target: TargetSpec) -> Boxes | None:
        """The form of labels that are boxes on an image; None for a model of others."""
        if target.box_classes is None:
            return None
        from service.preprocess.boxes.boxes import boxes_of

        return boxes_of(self.files, target)

    def augmented(self, place: int, rows: Array, *, ids: Sequence[int], draws: Draws) -> Array:
        """Preprocessed rows as training sees them. place: of their input. ids: of their samples."""
        kind = self.kinds.get(self.inputs[place].name)
        if not isinstance(kind, TensorKind):
            return rows
        return kind.augmented(rows, ids, draws, place=place)

    def apply(self, name: str, rows: Array) -> Array:
        """Preprocess stored rows of one input. rows: (n, *shape)."""
        kind = self.kinds.get(name)
        return kind.apply(rows) if isinstance(kind, TensorKind) else rows

    def tensors(self, raw: Sequence[bytes] | Mapping[str, Array]) -> dict[str, Array]:
        """Preprocess a batch: each input by name, batch first.

        raw: by input, batch first, the bytes of files or, for other models, the arrays that apps
        send. Raises Unreadable for a file that cannot be decoded, with its position.
        """
        if isinstance(raw, Mapping):
            return {spec.name: self.apply(spec.name, raw[spec.name]) for spec in self.inputs}
        assert self.files is not None
        return self.files.tensors(raw)


def for_model(model: Model) -> Pipeline:
    """The preprocessing of a registered model."""
    return for_signature(model.signature, model.preprocess)


def for_signature(
    signature: Signature, descriptions: Sequence[Description], tokenizer: str | None = None
) -> Pipeline:
    """The preprocessing for checked descriptions; see `parse`.

    tokenizer: path of the model's, for children that read texts.
    """
    if not descriptions:
        return Pipeline(signature.inputs, {})
    from service.preprocess.kinds import KINDS

    specs = {spec.name: spec for spec in signature.inputs}
    kinds = {each["input"]: KINDS[each["kind"]].parse_among(each, specs) for each in descriptions}
    has_spans = signature.target.span_types is not None
    whole = {name: kind.at(tokenizer, has_spans=has_spans) for name, kind in kinds.items()}
    return Pipeline(signature.inputs, whole)


def parse(
    descriptions: Description | Sequence[Description],
    signature: Signature,
    *,
    is_cut: bool = False,
    text: Description | None = None,
) -> tuple[dict[str, Any], ...]:
    """Check the descriptions in a spec and fill in their defaults.

    is_cut: whether the model's frozen part is kept apart. text: what is known of the tokenizer,
    None without one. Raises InvalidInput with every error.
    """
    listed = [descriptions] if isinstance(descriptions, Mapping) else list(descriptions)
    problems: list[Problem] = []
    if signature.target.box_classes and not any(each.get("kind") == "image" for each in listed):
        detail = 'labels are boxes on photos; add {"kind": "image"}, which makes tensors of these'
        problems.append(Problem("/spec/preprocess", detail))
    complete: list[dict[str, Any]] = []
    for position, description in enumerate(listed):
        at = "/spec/preprocess" + (
            f"/{position}" if listed is not descriptions and len(listed) > 1 else ""
        )
        try:
            taken = [description["input"] for description in complete]
            said = with_facts(description, text) if is_text(description) else description
            complete.append(_parse_one(said, signature, taken=taken, is_cut=is_cut))
        except WrongDescription as error:
            problems.append(Problem(f"{at}{error.pointer}", error.detail))
    if problems:
        raise InvalidInput("the preprocessing does not fit the model", problems=problems)
    return tuple(complete)


def sizes_of(descriptions: Sequence[Description]) -> dict[str, tuple[int | None, ...]]:
    """What they say of samples' axes before they are checked, by input; see `Kind.sizes`."""
    if not descriptions:
        return {}
    from service.preprocess.kinds import KINDS

    known = [each for each in descriptions if str(each.get("kind")) in KINDS]
    sizes = {str(each.get("input")): KINDS[each["kind"]].sizes(each) for each in known}
    return {name: axes for name, axes in sizes.items() if any(axes)}


def _parse_one(
    description: Description, signature: Signature, *, taken: Sequence[str], is_cut: bool
) -> dict[str, Any]:
    from service.preprocess.kinds import KINDS

    specs = {spec.name: spec for spec in signature.inputs}
    name, kind = description.get("input"), description.get("kind")
    if name is None:
        name = KINDS.get(kind or "", Kind).usual_input([*specs])
    if name not in specs:
        raise WrongDescription("/input", f"the model has no input {name!r}; it has {list(specs)}")
    if name in taken:
        raise WrongDescription("/input", f"input {name!r} has a preprocessing already")
    if kind not in KINDS:
        said = "say its kind" if kind is None else f"there is no kind {kind!r}"
        raise WrongDescription("/kind", f"{said}; there are {list(KINDS)}")
    chosen = KINDS[kind]
    if issubclass(chosen, FileKind) and len(specs) > 1 and not chosen.feeds_several:
        detail = f"a model that takes {chosen.things} has one input; send mixed inputs as tensors"
        raise WrongDescription("/kind", detail)
    parsed = chosen.parse_among({**description, "input": name}, specs)
    parsed.check_target(signature.target)
    if parsed.augment is not None:
        alone, target = Pipeline((), {name: parsed}), signature.target
        labels_move = bool(alone.masks(target) or alone.boxes(target))
        parsed.augment.check_model(signature, is_cut=is_cut, labels_move=labels_move)
    return parsed.describe()
