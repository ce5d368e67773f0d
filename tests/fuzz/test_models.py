"""Whatever is sent as a model is a graph, or is refused with a reason before any of it runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped]
from hostile import NUMBERS, RANDOM, damaged, flip, odd_text, raw
from hypothesis import given, settings
from support import mlp

from service.training.errors import GraphRefused
from service.training.forward.load import load

FUZZ = settings.get_profile("fuzz")
GOOD = mlp(3, 4, 2)


def odd_model(r: Random) -> bytes:
    """The bytes of a good model damaged, or its fields changed."""
    if flip(r):
        return damaged(r, GOOD)
    model = onnx.load_model_from_string(GOOD)
    for _ in range(r.randint(1, 3)):
        change(r, model)
    return model.SerializeToString()


def change(r: Random, message: Any) -> None:
    """One field of a message, or of one inside of it."""
    field = r.choice(message.DESCRIPTOR.fields)
    value = getattr(message, field.name)
    if isinstance(value, Message):
        change(r, value)
    elif field.is_repeated:
        change_list(r, value, field)
    else:
        setattr(message, field.name, odd_value(r, field))


def change_list(r: Random, values: Any, field: Any) -> None:
    if len(values) and r.random() < 0.2:
        del values[r.randrange(len(values))]
    elif field.message_type is None:
        values.append(odd_value(r, field))
    else:
        change(r, r.choice(values) if len(values) and r.random() < 0.8 else values.add())


def odd_value(r: Random, field: Any) -> Any:
    """A value of the field's type."""
    if field.cpp_type == field.CPPTYPE_STRING:
        is_text = field.type == field.TYPE_STRING
        return odd_text(r).encode(errors="replace").decode() if is_text else raw(r)
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return r.uniform(-1, 1)
    if field.cpp_type == field.CPPTYPE_ENUM:
        return r.choice(field.enum_type.values).number
    number = int(r.choice([each for each in NUMBERS if isinstance(each, int)]))
    bits = 31 if field.cpp_type == field.CPPTYPE_INT32 else 63
    low = 0 if field.cpp_type == field.CPPTYPE_UINT64 else -(2**bits)
    return max(low, min(2**bits - 1, number))


@FUZZ
@given(r=RANDOM)
def test_a_forward_graph(body_path: Path, r: Random) -> None:
    body_path.write_bytes(odd_model(r))
    with suppress(GraphRefused):
        load(body_path)
