"""Whatever is sent as parameters is a model's, or is refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from hostile import RANDOM, as_body, changed, damaged, flip, json_value, nearly, one_of, raw
from hypothesis import given, settings

from service.errors import InvalidInput
from service.federation.tensor_file import header_of, read_entries, read_pieces, require_parameters

FUZZ = settings.get_profile("fuzz")
SHAPES = {"w": (2, 3), "b": (), "none": (0, 4)}
SIZE_BYTES = 4 * 7
GOOD = header_of(SHAPES, {"format": "pt"}) + bytes(SIZE_BYTES)


def odd_header(r: Random) -> bytes:
    """A file whose header is nearly right, or far from it, and as long as it says."""
    good = json.loads(GOOD[8:-SIZE_BYTES])
    entry = nearly(["dtype", "shape", "data_offsets"], json_value)
    made: Any = one_of(
        lambda r: changed(r, good),
        lambda r: {**good, "w": entry(r)},
        lambda r: {**good, "__metadata__": json_value(r)},
        json_value,
    )(r)
    header = as_body(made)
    length = len(header) if r.random() < 0.9 else r.getrandbits(r.choice((8, 32, 64)))
    return length.to_bytes(8, "little") + header + bytes(SIZE_BYTES)


def odd_numbers(r: Random) -> bytes:
    """Any bits as parameters."""
    return GOOD[:-SIZE_BYTES] + r.randbytes(SIZE_BYTES if flip(r) else r.randint(0, 40))


@FUZZ
@given(r=RANDOM)
def test_parameters(body_path: Path, r: Random) -> None:
    sent = one_of(odd_header, odd_numbers, lambda r: damaged(r, GOOD), raw)(r)
    body_path.write_bytes(sent)
    try:
        require_parameters(body_path, SHAPES)
        found = read_entries(body_path)
        assert sum(map(len, read_pieces(body_path, list(found.values())))) == SIZE_BYTES
    except InvalidInput as refused:
        shown = [refused.detail, *(f"{each.pointer}{each.detail}" for each in refused.problems)]
        json.dumps(shown, ensure_ascii=False).encode()
