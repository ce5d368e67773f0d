"""Changes the preprocessing of a registered model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import astuple

from service import preprocess
from service.errors import InvalidInput
from service.preprocess.text_inputs import LEAVE_OUT, is_text
from service.samples.ingest.require import require_names
from storage.errors import InUse, Problem
from storage.records.jobs import JobState
from storage.records.models import Model
from storage.store import Store

Description = Mapping[str, Any]
CHANGEABLE = ("augment", LEAVE_OUT)
"""Fields that may change at any time: no version or stored sample depends on them."""
UNDER_WAY = (JobState.RUNNING, JobState.PAUSED)


def change_of(
    store: Store, model: Model, given: Sequence[Description] | None
) -> Callable[[Model], tuple[dict[str, Any], ...]]:
    """A function from the model, as it is when called, to its new descriptions; None keeps them.

    Raises InUse while a job is under way; the function raises InvalidInput with every error.
    """
    if given is None:
        return lambda now: now.preprocess
    require_no_job(store, model)
    settled = is_settled(store, model)
    return lambda now: checked_preprocess(now, given, is_settled=settled)


def require_no_job(store: Store, model: Model) -> None:
    """Raises InUse while a job is under way: it would continue on different samples."""
    for state in UNDER_WAY:
        for job in store.jobs.list(model=model.name, state=state, limit=1):
            raise InUse(f"job {job.id} of {model.name!r} is {state.value}; let it end first")


def is_settled(store: Store, model: Model) -> bool:
    """Whether samples or trained versions depend on the current preprocessing."""
    return any(astuple(model.samples)) or len(store.versions.list(model.id, 2)) > 1


def checked_preprocess(
    model: Model, given: Sequence[Description], *, is_settled: bool
) -> tuple[dict[str, Any], ...]:
    """The new descriptions, complete. Raises InvalidInput with every error."""
    is_cut = "prefix_model" in model.files
    try:
        text = next(filter(is_text, model.preprocess), None)
        wanted = preprocess.parse(given, model.signature, is_cut=is_cut, text=text)
        require_names(model.signature, wanted)
    except InvalidInput as wrong:
        problems = [
            Problem(each.pointer.removeprefix("/spec"), each.detail) for each in wrong.problems
        ]
        raise InvalidInput(wrong.detail, problems=problems) from wrong
    problems = list(_unlike(model.preprocess, wanted)) if is_settled else []
    if problems:
        raise InvalidInput("the preprocessing cannot be changed any more", problems=problems)
    return wanted


def _unlike(before: Sequence[Description], wanted: Sequence[Description]) -> Iterator[Problem]:
    """A problem for each changed field that samples or versions depend on."""
    known = {each["input"]: each for each in before}
    for place, each in enumerate(wanted):
        at = f"/preprocess/{place}" if len(wanted) > 1 else "/preprocess"
        then = known.pop(each["input"], {})
        for name in sorted((each.keys() | then.keys()) - {*CHANGEABLE}):
            if each.get(name) != then.get(name):
                yield Problem(f"{at}/{name}", _hangs(f"{name} {then.get(name)}"))
    for name in known:
        yield Problem("/preprocess", _hangs(f'the preprocessing of "{name}"'))


def _hangs(what: str) -> str:
    return (
        f"samples or versions were made with {what}: from then on only "
        f"{' and '.join(CHANGEABLE)} change;"
        " register the model under another name"
    )
