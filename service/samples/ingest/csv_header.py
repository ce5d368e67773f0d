"""Reads the header of a CSV: what each column holds."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import prod

from msgspec import Struct

from service.errors import InvalidInput
from service.samples.ingest.labels import SENT
from storage.errors import Problem, counted
from storage.records.models import Model
from storage.records.signatures import Signature

LABEL = "label"
NAMED = [column.name for column in SENT if column.asked is None]
"""Columns of samples that a CSV names as they are named."""
OTHERS = (
    "of an upload, label_column and weight_column name the columns of labels and weights, and "
    "ignore_columns leaves columns out"
)
_INDEXED = re.compile(r"([^\[\]]+)\[([0-9]{1,9})\]")


class Header(Struct, frozen=True):
    """Positions of the columns.

    inputs: for each input its columns, in flat order; for a model of texts, once the texts'.
    columns: of samples, by name; others than NAMED only if the request names theirs, since features
    are often named like them. features: their names, if they are the CSV's own and not of the form
    `input[0]`.
    """

    count: int
    inputs: tuple[tuple[int, ...], ...]
    columns: dict[str, tuple[int, ...]]
    features: tuple[str, ...] | None = None


def read_header(
    model: Model,
    names: Sequence[str],
    *,
    csv_columns: Mapping[str, str],
    ignore_columns: str | None = None,
    texts: tuple[str, ...] = (),
) -> Header:
    """Map the columns of a header. texts: those that a model of texts takes instead of inputs.

    Columns named `input[0]`, `input[1]`, … or like the model's features may be in any order.
    Otherwise the model's only input takes all remaining columns, in their order.
    csv_columns, ignore_columns: see UploadOptions. Raises InvalidInput.
    """
    names = [name.strip() for name in names]
    at = {name: position for position, name in enumerate(names)}
    if not any(names):
        raise wrong_csv(Problem("/1", "the first line names the columns"))
    if len(at) < len(names):
        twice = next(name for place, name in enumerate(names) if at[name] != place)
        raise wrong_csv(Problem("/1", f"two columns are named {twice[:100]!r}"))
    if len(names) == 1 and (other := next((sign for sign in ";\t" if sign in names[0]), None)):
        detail = f"the columns are separated by {other!r}; separate them by commas"
        raise wrong_csv(Problem("/1", detail))
    columns = _sample_columns(model, at, csv_columns)
    taken = {place for places in columns.values() for place in places}
    rest = {name: place for place, name in enumerate(names) if place not in taken}
    known = texts or _known_features(model, rest)
    ignored = _ignored(ignore_columns, rest, known=known)
    rest = {name: place for name, place in rest.items() if name not in ignored}
    if known is None:
        known = _features_by_order(model, rest)
        learned = known
    else:
        learned = None
    _refuse_others(rest, known, has_features=texts is None)
    inputs, start = [], 0
    for size in [len(texts)] if texts else [prod(spec.shape) for spec in model.signature.inputs]:
        inputs.append(tuple(rest[name] for name in known[start : start + size]))
        start += size
    return Header(len(names), tuple(inputs), columns, learned)


def _sample_columns(
    model: Model, at: Mapping[str, int], asked: Mapping[str, str]
) -> dict[str, tuple[int, ...]]:
    """Where columns of samples are: those that the request names, others of NAMED, and without a
    column `label` those of a label's numbers.
    """
    columns: dict[str, tuple[int, ...]] = {}
    for name, text in asked.items():
        wanted = [part.strip() for part in text.split(",")] if name == LABEL else [text]
        missing = (
            f"there is no column {column[:100]!r}; there are {list(at)[:20]}"
            for column in wanted
            if column not in at
        )
        problems = [Problem(f"/query/{name}_column", detail) for detail in missing]
        values = prod(model.signature.target.shape)
        if not problems and len(wanted) not in (1, values):
            size = counted(values, "number")
            detail = f"{len(wanted)} columns are named, a label of this model is {size}"
            problems.append(Problem(f"/query/{name}_column", detail))
        if problems:
            raise wrong_csv(*problems)
        columns[name] = tuple(at[column] for column in wanted)
    is_forecast = any("forecast" in description for description in model.preprocess)
    names = () if is_forecast else model.signature.target.number_names
    if names and LABEL not in {*at, *columns} and {*names} <= {*at} - {*(model.features or ())}:
        columns[LABEL] = tuple(at[column] for column in names)
    label = columns.get(LABEL, ())
    for name in NAMED:
        if name in at and name not in columns and at[name] not in label:
            columns[name] = (at[name],)
    return columns


def _known_features(model: Model, rest: Mapping[str, int]) -> tuple[str, ...] | None:
    """The input columns in flat order, matched by name; None if only positions identify them."""
    inputs = model.signature.inputs
    indexed = tuple(f"{spec.name}[{at}]" for spec in inputs for at in range(prod(spec.shape)))
    own = {spec.name for spec in inputs}
    if any((match := _INDEXED.fullmatch(name)) and match[1] in own for name in rest):
        return indexed
    return model.features


def _features_by_order(model: Model, rest: Mapping[str, int]) -> tuple[str, ...]:
    inputs = model.signature.inputs
    if len(inputs) > 1:
        detail = f"name the columns {inputs[0].name}[0], …: the model has {len(inputs)} inputs"
        raise wrong_csv(Problem("/1", detail))
    size = prod(inputs[0].shape)
    if len(rest) != size:
        left = counted(len(rest), "column")
        detail = f"{left} left for input {inputs[0].name!r}, which takes {size}"
        advice = f"; {OTHERS}" if len(rest) > size else ""
        raise wrong_csv(Problem("/1", f"{detail}: {list(rest)[:20]}{advice}"))
    return tuple(rest)


def _ignored(
    asked: str | None, rest: Mapping[str, int], *, known: Collection[str] | None
) -> set[str]:
    """The columns to ignore. `*`: all that the model does not know."""
    if asked is None:
        return set()
    if asked.strip() == "*":
        if known is None:
            detail = "which columns the model knows is not known yet; name those to be ignored"
            raise wrong_csv(Problem("/query/ignore_columns", detail))
        return set(rest) - set(known)
    return {name.strip() for name in asked.split(",")}


def _refuse_others(rest: Mapping[str, int], known: Sequence[str], *, has_features: bool) -> None:
    """Raises InvalidInput for columns that are missing, or that the model does not know."""
    wanted = set(known)
    missing = [name for name in known if name not in rest]
    strangers = [name for name in rest if name not in wanted]
    if missing or strangers:
        what = f"lacks {missing[:5]}" if missing else f"has too many columns: {strangers[:5]}"
        advice = [] if missing else [OTHERS]
        advice += ["PATCH features names the model's anew"] if has_features else []
        raise wrong_csv(Problem("/1", "; ".join([f"the header {what}", *advice])))


def check_features(
    signature: Signature, features: Sequence[str] | None, *, at: str
) -> tuple[str, ...] | None:
    """Check a model's names of CSV columns. at: JSON pointer for errors. Raises InvalidInput."""
    if features is None:
        return None
    names = tuple(name.strip() for name in features)
    size = sum(prod(spec.shape) for spec in signature.inputs)
    reserved = sorted({*NAMED} & {*names})
    detail = None
    if len(names) != size:
        detail = (
            f"{counted(len(names), 'name')} given, a sample's inputs are {counted(size, 'value')}"
        )
    elif len(set(names)) < size or not all(names):
        detail = "every feature has a name of its own"
    elif reserved:
        detail = f"a feature cannot be named {reserved[0]!r}, which a CSV says of samples"
    if detail is not None:
        raise InvalidInput.at(at, detail, title="the features do not fit the model")
    return names


def feature_name(model: Model, input_name: str, at: int) -> str | None:
    """The name of one value of an input, None if it has none, as in a recording of channels."""
    sizes = {spec.name: prod(spec.shape) for spec in model.signature.inputs}
    if model.features is None or len(model.features) != sum(sizes.values()):
        return None
    before = [*sizes].index(input_name)
    return model.features[sum([*sizes.values()][:before]) + at]


def wrong_csv(*problems: Problem) -> InvalidInput:
    """The error for a CSV that does not fit the model."""
    return InvalidInput("the CSV cannot be read", problems=problems)
