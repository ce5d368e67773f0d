"""What a change by hand does to what a trigger has waited for so far."""

from __future__ import annotations

from service.triggers.rule import Rule
from storage.records.jobs import NewTrigger, Trigger
from storage.store import Store


def change(store: Store, trigger: Trigger, new: NewTrigger) -> Trigger:
    """Replace what people set; what was due under another rule, or while off, is not made up for.

    trigger: as it was. Raises NotFound.
    """
    return store.triggers.update(trigger.id, new, anew=_begins_anew(trigger, new))


def _begins_anew(trigger: Trigger, new: NewTrigger) -> bool:
    """An instant comes once, whether it passed while the trigger was on or off."""
    before, after = Rule(**trigger.rule), Rule(**new.rule)
    if before.awaited != after.awaited:
        return True
    return new.enabled and not trigger.enabled and not after.is_once
