"""Types are learned by one thread at a time: msgspec crashes where two begin at once."""

from __future__ import annotations

import sys

from programs import finished

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from msgspec import Struct
from storage.database.codec import convert, decode

sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as threads:
    for _ in range(400):
        class Inner(Struct):
            numbers: dict[str, list[float]] = {}
            words: tuple[str, ...] = ()
        class Outer(Struct):
            inner: Inner | None = None
            others: dict[str, Inner] = {}
            count: int | None = None
        globals().update(Inner=Inner, Outer=Outer)
        inner = {"numbers": {"a": [1.5]}, "words": ["b"]}
        read = [
            *(threads.submit(convert, {"inner": inner, "count": 2}, Outer) for _ in range(4)),
            *(threads.submit(decode, '{"numbers": {"a": [1.5]}}', Inner) for _ in range(4)),
        ]
        assert [each.result() is not None for each in read] == [True] * 8
"""


def test_threads_that_first_read_a_type_at_once_all_get_their_values() -> None:
    done = finished(sys.executable, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
