"""Queues a job for a trigger, unless one is already waiting. Blocking."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from service.errors import InvalidInput
from service.jobs import enqueue
from service.logs import event
from service.policy.observer import Observation
from service.samples.drift import EVENT as DRIFTED
from service.training.errors import NoSamples
from service.triggers.due import has_tried, is_due, is_rested
from service.triggers.rule import UNUSABLE, Rule
from storage.errors import NotFound, StateConflict, in_full
from storage.records.jobs import Trigger
from storage.store import Store

logger = logging.getLogger(__name__)


class TriggerChecker:
    """Checks which triggers are due, and queues jobs for them.

    Checks run one after another, so that no two find the same trigger due. latest: the newest
    reading of the device. now: aware.
    """

    def __init__(
        self, store: Store, *, latest: Callable[[], Observation | None], now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._now = now
        self._latest = latest
        self._one_at_a_time = threading.Lock()

    def check(self, model: str | None = None) -> None:
        """Queue a job for every due trigger of a model, or of all."""
        observation = self._latest()
        if observation is None:
            return
        with self._one_at_a_time:
            for trigger in self._store.triggers.list():
                if model in (None, trigger.model) and trigger.enabled:
                    self._check(trigger, observation)

    def fire(self, trigger_id: int) -> None:
        """Queue a job, if the trigger still exists and may fire again."""
        with self._one_at_a_time:
            try:
                trigger = self._store.triggers.get(trigger_id)
            except NotFound:
                return
            rule = Rule(**trigger.rule)
            if not trigger.enabled or has_tried(trigger, rule, now=self._now()):
                return
            if is_rested(trigger, rule, now=self._now()):
                self._ask(trigger)
            else:
                self._leave(trigger, f"fired less than {rule.at_most_every_hours:g} h ago")

    def _check(self, trigger: Trigger, observation: Observation) -> None:
        labelled = self._labelled(trigger)
        if labelled < trigger.labelled:
            self._store.triggers.rebase(trigger.id, labelled)
        try:
            rule, eligible = Rule(**trigger.rule), observation.verdict.eligible
            drifted = self._drifted(trigger) if rule.on_drift else None
            due = is_due(
                trigger,
                rule,
                now=self._now(),
                labelled=labelled,
                eligible=eligible,
                drifted=drifted,
            )
        except UNUSABLE as error:
            self._say(trigger, f"cannot be used: {error}")
            return
        if due:
            self._ask(trigger)

    def _ask(self, trigger: Trigger) -> None:
        waiting = [j for j in self._store.jobs.waiting() if j.model_id == trigger.model_id]
        if waiting:
            self._leave(trigger, f"job {waiting[0].id} waits already")
            return
        labelled = self._labelled(trigger)
        try:
            job = enqueue.enqueue(
                self._store,
                self._store.models.get_by_id(trigger.model_id),
                trigger.hyperparameters,
                trigger=trigger.name,
                priority=trigger.priority,
            )
        except (InvalidInput, NoSamples, NotFound, StateConflict) as error:
            self._leave(trigger, in_full(error))
            return
        self._store.triggers.fired(trigger, job_id=job.id, labelled=labelled)
        event(logger, logging.INFO, "trigger.fired", trigger=trigger.id, job=job.id)

    def _leave(self, trigger: Trigger, why: str) -> None:
        """Record why no job was queued. This uses up a firing at a fixed time."""
        again = Rule(**trigger.rule).kind in ("cron", "eligible")
        self._say(trigger, f"asked for nothing: {why}", again=again)

    def _say(self, trigger: Trigger, outcome: str, *, again: bool = False) -> None:
        """again: even if that was the last outcome."""
        if outcome == trigger.outcome and not again:
            return
        self._store.triggers.note(trigger.id, outcome)
        event(logger, logging.INFO, "trigger.skipped", trigger=trigger.id, outcome=outcome)

    def _drifted(self, trigger: Trigger) -> datetime | None:
        happened = self._store.events.last(DRIFTED, trigger.model)
        return None if happened is None else happened.created_at

    def _labelled(self, trigger: Trigger) -> int:
        counts = self._store.sample_stats.counts(trigger.model_id)
        return counts.train + counts.validation
