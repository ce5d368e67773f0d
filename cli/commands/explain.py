"""Prints `honed artifacts --explain`: the parameters, and where the graph is cut."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from cli.output import echo_json, echo_text, wants_json

if TYPE_CHECKING:
    from service.training.protocol.messages.preparation import Parameter, Prepared

CUT, UNCUT = "cut at ", "not cut"
"""Prefixes of the notes that tell where a graph was cut, or why it was not."""


def show_explanation(prepared: Prepared) -> None:
    """Print it for people, or as one JSON object."""
    if wants_json():
        cut = prepared.cut
        echo_json(
            {
                "parameters": [
                    {**asdict(each), "count": prod(each.shape), "place": place(each)}
                    for each in prepared.parameters
                ],
                "trainable": prepared.trainable_parameters,
                "frozen": prepared.frozen_parameters,
                "cut": None if cut is None else asdict(cut),
                "notes": list(prepared.notes),
            }
        )
        return
    width = max((len(each.name) for each in prepared.parameters), default=0)
    for each in prepared.parameters:
        shape = "\u00d7".join(map(str, each.shape))
        echo_text(f"{each.name:<{width}}  {prod(each.shape):>12,}  {place(each):<7}  {shape}")
    echo_text(
        f"{prepared.trainable_parameters:,} parameters train, "
        f"{prepared.frozen_parameters:,} are frozen"
    )
    for line in [*cut_lines(prepared), *other_notes(prepared)]:
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


def other_notes(prepared: Prepared) -> list[str]:
    """What was fixed in the graph, and which weights could train but do not."""
    return [note for note in prepared.notes if not note.startswith((CUT, UNCUT))]
