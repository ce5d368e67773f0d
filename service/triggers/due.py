"""Whether a trigger is due; nothing here waits, reads or writes."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from service.triggers.cron import missed
from service.triggers.rule import Rule, latest_moment
from service.triggers.zone import zone_of
from storage.records.jobs import Trigger

LATE = timedelta(seconds=60)
"""How long the scheduler may take to fire a cron trigger; older firings were missed."""


def is_due(
    trigger: Trigger,
    rule: Rule,
    *,
    now: datetime,
    labelled: int,
    eligible: bool,
    drifted: datetime | None = None,
) -> bool:
    """Whether it should queue a job.

    labelled: the current number of labelled samples of its model. eligible: whether a job may
    train. drifted: when its inputs last drifted, for on_drift. Firings missed between checks are
    due once. An attempt dated after the next firing was dated by a clock that ran ahead, so that
    the trigger is due. Raises ValueError if this device does not know the time zone.
    """
    if not is_rested(trigger, rule, now=now):
        return False
    match rule.kind:
        case "cron":
            assert rule.cron is not None
            late = LATE + timedelta(seconds=rule.jitter_seconds)
            between = partial(missed, rule.cron, zone_of(rule.time_zone))
            since = _waits_since(trigger)
            return between(after=since, until=now - late) or between(after=now, until=since)
        case "samples":
            assert rule.new_samples is not None
            return labelled - trigger.labelled >= rule.new_samples
        case "drift":
            return drifted is not None and _is_later(drifted, interval_begin(trigger), now)
        case "eligible":
            return eligible and _is_moment(trigger, rule, now)
        case _:
            return True


def has_tried(trigger: Trigger, rule: Rule, *, now: datetime) -> bool:
    """Whether it has tried since the last time of its cron: a check found that time missed first,
    as after a sleep.
    """
    since = trigger.tried_at
    if rule.cron is None or since is None or since > now or _is_untried(trigger):
        return False
    since -= timedelta(seconds=1)
    return not missed(rule.cron, zone_of(rule.time_zone), after=since, until=now)


def is_rested(trigger: Trigger, rule: Rule, *, now: datetime) -> bool:
    """Whether at_most_every_hours have passed. Setting the clock back does not delay it.

    For cron, time counts in whole minutes, cron's unit: a firing that is slightly late does not
    suppress the next.
    """
    if rule.at_most_every_hours is None:
        return True
    last = interval_begin(trigger) if rule.kind == "interval" else trigger.fired_at
    if last is None:
        return True
    if rule.kind == "cron":
        now, last = _minute(now), _minute(last)
    return not timedelta() <= now - last < timedelta(hours=rule.at_most_every_hours)


def _is_moment(trigger: Trigger, rule: Rule, now: datetime) -> bool:
    moment, following = latest_moment(rule, now)
    since = _waits_since(trigger)
    is_new = rule.is_once and _is_untried(trigger)
    is_ahead = following is not None and following <= since
    return moment <= now and (is_new or since < moment or is_ahead)


def _is_later(happened: datetime, begin: datetime, now: datetime) -> bool:
    """Whether it happened after `begin`, or that was noted by a clock which ran ahead."""
    return begin < happened <= now or happened <= now < begin


def _waits_since(trigger: Trigger) -> datetime:
    return trigger.tried_at or trigger.created_at


def interval_begin(trigger: Trigger) -> datetime:
    """Its last firing, or before the first its creation; never before its last change."""
    begin = trigger.fired_at or trigger.created_at
    return max(begin, _waits_since(trigger)) if _is_untried(trigger) else begin


def _is_untried(trigger: Trigger) -> bool:
    """Whether it has not tried since its creation or its restart, which tried_at then holds."""
    return not trigger.outcome


def _minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)
