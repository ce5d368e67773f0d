"""Hands a fetched base to the upgrades."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from service.errors import InvalidInput
from service.follow.messages import Fetched
from service.models.upgrade.fit import UpgradeSpec
from service.models.upgrade.upgrades import Upgrades
from storage.errors import Problem
from storage.records.models import Model


async def begin_upgrade(upgrades: Upgrades, model: Model, fetched: Fetched) -> int:
    """The id of the job that trains it. Raises as `Upgrades.begin`."""
    job = await upgrades.begin(
        model,
        upgrade_spec(fetched.spec),
        Path(fetched.model),
        tokenizer=None if fetched.tokenizer is None else Path(fetched.tokenizer),
    )
    return job.id


def upgrade_spec(given: Mapping[str, Any]) -> UpgradeSpec:
    """The spec of a statement. Raises InvalidInput."""
    known = UpgradeSpec.__struct_fields__
    problems = [
        Problem(f"/spec/{name}", f"there is no such field; there are {', '.join(known)}")
        for name in given
        if name not in known
    ]
    try:
        spec = msgspec.convert(given, UpgradeSpec)
    except msgspec.ValidationError as error:
        problems.append(Problem("/spec", str(error)))
    if problems:
        raise InvalidInput("the statement's spec is wrong", problems=problems)
    return spec
