"""A training child that tells when each part of its start ended, and ends before its first step.

Runs as `python -m service.training` does. Its standard error then holds a list of moments of the
monotonic clock, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

moments = [monotonic()]

from service.training import __main__ as child  # noqa: E402 - the first moment is before imports


def follow() -> None:
    """Note the end of each part from now on."""
    child.confine = _noting(child.confine)
    load = child.load

    def load_and_follow(kind: str) -> Callable[..., Any]:
        work = load(kind)
        moments.append(monotonic())
        from service.training import job

        job.load_datasets = _noting(job.load_datasets)
        job.tell_start = _noting(job.tell_start)
        job.train = _end
        return work

    child.load = load_and_follow


def _noting(part: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*given: Any, **named: Any) -> Any:
        result = part(*given, **named)
        moments.append(monotonic())
        return result

    return noted


def _end(*_: object, **__: object) -> None:
    moments.append(monotonic())
    os.write(2, json.dumps(moments).encode())
    os._exit(0)


if __name__ == "__main__":
    follow()
    sys.exit(child.main())
