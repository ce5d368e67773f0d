"""Reads untrusted JSON; a failure becomes a ValueError about the text, or is TooLarge."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np

from service.errors import InvalidInput, TooLarge
from storage.arrays import NDArray
from storage.database.codec import dump
from storage.errors import pointer

MAX_AXES = 32
"""Maximum number of axes; no model takes more, and numpy refuses more than 64."""
OBJECT_BYTES = {",": 40, "[": 104, "{": 200, ":": 100, '"': 32}
"""What a value, list, object, name and text take in CPython, by the character that shows them."""
MAX_OBJECT_BYTES = 256 * 2**20
MOST_SHOWN = 100
"""Characters of a name in an error."""
ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_body(body: bytes) -> Any:
    """A body that is JSON. Raises InvalidInput, TooLarge."""
    try:
        return read_json(body)
    except ValueError as error:
        detail = f"{error}; send UTF-8 JSON"
        raise InvalidInput.at("", detail, title="the body is not JSON") from error


def members_of(
    parsed: Any, name: str, wrong: Callable[[str, str], InvalidInput]
) -> tuple[list[Any], str]:
    """The members of a batch, `{name: [ … ]}`, and the JSON pointer of their list; or the one that
    this is, and no pointer. wrong: makes the error.
    """
    if not isinstance(parsed, dict) or name not in parsed:
        return [parsed], ""
    members = parsed[name]
    if extra := sorted(set(parsed) - {name}):
        raise wrong(pointer(extra[0]), f"a batch has no other field than {name}")
    if not isinstance(members, list) or not members:
        raise wrong(f"/{name}", f"{name} is a list of at least one {name[:-1]}")
    return members, f"/{name}"


def read_json(body: bytes | str) -> Any:
    """Parse UTF-8 JSON; its strings must be storable and printable, and no object may have a name
    twice, of which others may take the first. Raises ValueError, TooLarge.

    What it takes in memory is bounded: `[[],[],…]` is forty times as large there.
    """
    text = (body if isinstance(body, str) else body.decode()).removeprefix("\ufeff")
    size = sum(text.count(character) * weight for character, weight in OBJECT_BYTES.items())
    if size > MAX_OBJECT_BYTES:
        raise TooLarge(
            f"this JSON takes up to {size} bytes of memory once it is read, and the most is "
            f"{MAX_OBJECT_BYTES}; send several, or application/x-npz"
        )
    try:
        value = json.loads(text, object_pairs_hook=_object)
        if ESCAPED_SURROGATE.search(text):
            dump(value).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("a text in it holds half of a surrogate pair") from None
    except ValueError as error:  # with advice for programmers where an integer is very long
        raise ValueError(str(error).partition("; use sys.")[0]) from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        name = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"an object has the name {dump(name[:MOST_SHOWN])} twice")
    return members


def read_array(value: Any, dtype: str) -> NDArray[Any] | str:
    """The array from nested lists of numbers or booleans, or what is wrong with them.

    dtype: of the tensor that they are for. Lengths and types are checked before numpy sees the
    lists, because it pads strings to the longest one.
    """
    shape = shape_of(value)
    if len(shape) > MAX_AXES:
        return f"has more than {MAX_AXES} axes"
    values: Iterable[Any] = [value]
    for length in shape:
        lists = list(values)
        if any(not isinstance(entry, list) or len(entry) != length for entry in lists):
            return "is a ragged list"
        values = chain.from_iterable(lists)
    kinds = set(map(type, values))
    if list in kinds:
        return "is a ragged list"
    if str in kinds:
        return "holds text"
    if kinds > {bool} or not kinds <= {int, float, bool}:
        mixed = kinds <= {int, float, bool}
        return "holds booleans among numbers" if mixed else "holds values that are not numbers"
    return _numbers(value, dtype, as_floats=float in kinds)


def _numbers(value: Any, dtype: str, *, as_floats: bool) -> NDArray[Any] | str:
    """As `read_array`, of numbers or booleans alone."""
    try:
        array = np.array(value, np.float64 if as_floats else None)
        if as_floats or array.dtype.kind in "iub" or not array.size:
            return array
        if np.dtype(dtype).kind != "f":
            return "holds an integer beyond 64 bits, -2^63 to 2^63 - 1"
        return np.array(value, np.float64)  # JavaScript writes 1e20 as an integer
    except OverflowError:
        return "holds an integer beyond float64"


def shape_of(value: Any) -> tuple[int, ...]:
    """Lengths of nested lists, by the first element at each depth, down to one past the limit."""
    shape: list[int] = []
    while isinstance(value, list) and len(shape) <= MAX_AXES:
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)
