"""A model's base set: samples that it must not forget."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from service.errors import InvalidInput
from service.samples.erasure import Erasure
from service.samples.ingest.json_value import read_json
from service.training.tasks import TASKS
from storage.errors import NotFound
from storage.records.models import Model
from storage.records.samples import Split
from storage.samples.filter import SampleFilter
from storage.samples.stats import LabelCount
from storage.store import Store


class BaseSet(Struct, frozen=True):
    """held_out: samples that no job trains on; versions are judged by them."""

    held_out: int
    labels: list[LabelCount]


class Removed(Struct, frozen=True):
    """given_back: samples that were ordinary ones before; they get their former split back."""

    given_back: int
    deleted: int


def read_base_set(store: Store, model: Model) -> BaseSet:
    """What the base set holds, apart from the model's counts."""
    counts = store.sample_stats.label_counts(model.id)
    return BaseSet(
        store.base_sets.held_out(model.id), [count for count in counts if count[0] is Split.BASE]
    )


def first_of(payload: bytes) -> int | None:
    """N of `{"first": N}`; None if the payload is samples, or not JSON. Raises InvalidInput."""
    try:
        asked = read_json(payload)
    except ValueError:
        return None
    if not isinstance(asked, dict) or "first" not in asked:
        return None
    first = asked["first"]
    if type(first) is not int or not 1 <= first < 2**53 or len(asked) > 1:
        detail = 'first is a number of samples, from 1, and stands alone: {"first": 500}'
        raise InvalidInput.at("/first", detail, title="the body is wrong")
    return first


def require_labels(model: Model) -> None:
    """Raises InvalidInput if samples have no labels at all: there is nothing to forget."""
    if model.signature.target.is_empty and not TASKS[model.loss].makes_labels:
        detail = (
            f"the loss of {model.name!r} takes no label, so there is nothing to judge a base set "
            "by; add its samples to the others"
        )
        raise InvalidInput.at("", detail, title="the model has no base set")


async def remove_base_set(store: Store, erasure: Erasure, model: Model) -> Removed:
    """Return what was taken from the model's samples, and delete what was uploaded as a base set.

    Raises NotFound without a base set.
    """
    if not model.samples.base:
        raise NotFound(f"{model.name!r} has no base set")
    given_back = await asyncio.to_thread(store.base_sets.give_back, model.id)
    deletion = await erasure.delete(model, SampleFilter(split=Split.BASE), retrain=False)
    return Removed(given_back, deletion.deleted)
