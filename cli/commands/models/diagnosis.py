"""Prints the daemon's diagnosis of a file."""

from __future__ import annotations

from shlex import quote
from typing import Any

from cli.output import echo_fields, echo_table, echo_text
from storage.database.codec import dump


def show_diagnosis(diagnosis: dict[str, Any]) -> None:
    """Print what the file contains, what of it would train, and what is wrong."""
    echo_fields(
        [
            *(("input", _tensor(tensor)) for tensor in diagnosis["inputs"]),
            *(("output", _tensor(tensor)) for tensor in diagnosis["outputs"]),
            ("opset", diagnosis["opset"]),
            ("operators", diagnosis["operators"]),
            ("loss", diagnosis["loss"]),
            *_suggested(diagnosis["suggested"]),
            ("classes", _classes(diagnosis)),
            ("head", diagnosis["head"] and diagnosis["head"]["weight"]),
        ]
    )
    parameters = diagnosis["parameters"]
    if parameters["items"]:
        echo_text()
        echo_table(
            ("PARAMETER", "SHAPE", "NUMBERS", "TRAINS"),
            (
                (each["name"], _shape(each["shape"]), f"{each['count']:,}", _fate(each))
                for each in parameters["items"]
            ),
        )
    echo_text(f"\n{parameter_counts(diagnosis)}{_cut(diagnosis['cut'])}")
    for note in diagnosis["notes"]:
        echo_text(f"  {note}")
    for problem in diagnosis["problems"]:
        echo_text(f"  {problem['pointer']}: {problem['detail']}", err=True)
    echo_text("it can be registered so" if diagnosis["ready"] else "it cannot be registered so")


def parameter_counts(model: dict[str, Any]) -> str:
    """How many of a model's parameters train."""
    counts = model["parameters"]
    return f"{counts['trainable']:,} parameters train, {counts['frozen']:,} are frozen"


def _suggested(suggested: dict[str, Any] | None) -> list[tuple[str, Any]]:
    """The settings suggested by the file itself."""
    if suggested is None:
        return []
    loss = suggested["loss"]
    spelt = f"--loss {loss}" if isinstance(loss, str) else f"--loss-output {quote(loss['output'])}"
    output = f" --output {quote(suggested['output'])}" if suggested["output"] else ""
    preprocess = suggested["preprocess"]
    return [
        ("suggested", f"{spelt}{output}: {suggested['because']}"),
        ("preprocess", dump(preprocess[0]) if preprocess else None),
    ]


def _classes(diagnosis: dict[str, Any]) -> str | None:
    target = diagnosis["target"] or {}
    names = target.get("classes") or (diagnosis["suggested"] or {}).get("classes")
    count = target.get("num_classes")
    return ", ".join(names) if names else count and f"{count}, without names"


def _tensor(tensor: dict[str, Any]) -> str:
    return f"{tensor['name']}: {tensor['dtype']} {_shape(tensor['shape'])}"


def _shape(shape: list[int | None] | None) -> str:
    if shape is None:
        return "of unknown shape"
    return "\u00d7".join("?" if size is None else str(size) for size in shape) or "1"


def _fate(item: dict[str, Any]) -> str:
    """Whether it trains, and why not."""
    if item["trains"]:
        return "yes"
    below = ", below the cut" if item["below"] else ""
    return f"no{below}: {item['detail']}"


def _cut(cut: dict[str, Any] | None) -> str:
    if cut is None:
        return ""
    where = ", ".join(cut["tensors"])
    verdict = "" if cut["pays"] else ", which does not pay and is not made"
    return f"; the cut is at {where}{verdict}: {cut['nodes']} operators run once for each sample"
