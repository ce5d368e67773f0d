"""Whether a trigger is due; nothing here waits, reads or writes."""

from __future__ import annotations

from datetime import datetime, timedelta

from service.triggers.cron import missed, zone_of
from service.triggers.rule import Rule, latest_moment
from storage.records import Trigger

LATE = timedelta(seconds=60)
"""How long the scheduler may take to fire a cron trigger itself; what is older was missed."""


def is_due(trigger: Trigger, rule: Rule, *, now: datetime, labelled: int, eligible: bool) -> bool:
    """Whether it should ask for a job. labelled: samples of its model that have a label by now.

    eligible: whether a job may train. What was missed while nobody looked is due once.
    """
    if not _is_rested(trigger, rule, now):
        return False
    tried_at = trigger.tried_at or trigger.created_at
    match rule.kind:
        case "cron":
            assert rule.cron is not None
            late = LATE + timedelta(seconds=rule.jitter_seconds)
            return missed(rule.cron, zone_of(rule.time_zone), after=tried_at, until=now - late)
        case "samples":
            assert rule.new_samples is not None
            return labelled - trigger.labelled >= rule.new_samples
        case "eligible":
            return eligible and tried_at < latest_moment(rule, now) <= now
        case _:
            return True


def _is_rested(trigger: Trigger, rule: Rule, now: datetime) -> bool:
    """Whether at_most_every_hours have passed. A clock that was put back does not hold it."""
    if rule.at_most_every_hours is None:
        return True
    last = trigger.fired_at or (trigger.created_at if rule.kind == "interval" else None)
    return last is None or not timedelta() <= now - last < timedelta(hours=rule.at_most_every_hours)
