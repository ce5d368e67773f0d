"""A model with samples, a device that may train, and what asks for jobs of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from service.device.reading import Signals
from service.policy.judge import Verdict
from service.policy.observer import Observation
from service.policy.policy import default_policy
from service.triggers.checker import TriggerChecker
from service.triggers.rule import change
from storage.records.jobs import JobState, NewTrigger, StoredPolicy

SET_BY_PEOPLE = ("model_id", "name", "hyperparameters", "priority", "enabled")


@pytest.fixture
def look(clock):
    """The device at this moment; it may train unless the test says otherwise."""
    state = {"blocked_by": ()}

    def now():
        verdict = Verdict(not state["blocked_by"], state["blocked_by"], clock.wall)
        return Observation(
            at=clock.now(),
            snapshot=Signals({}),
            policy=default_policy(False, processors=2),
            verdict=verdict,
            in_spite=verdict,
            trained_today_s=0.0,
            asked_for=StoredPolicy(None, None, False),
            clock_changed=False,
        )

    now.state = state
    return now


@pytest.fixture
def asking(store, look, clock):
    return TriggerChecker(store, latest=look, now=lambda: clock.wall)


@pytest.fixture
def model(shop):
    model = shop.add_model()
    shop.add_samples(model, 5)
    return model


@pytest.fixture
def add(store, model):
    def add(rule, **changes):
        fields = {"name": rule.kind, "hyperparameters": {}, "priority": 0, "enabled": True}
        new = NewTrigger(model_id=model.id, rule=rule.to_dict(), **{**fields, **changes})
        return store.triggers.add(new)

    return add


@dataclass
class Scene:
    """All of them together, for tests that change triggers while time goes on."""

    store: object
    shop: object
    model: object
    add: object
    asking: TriggerChecker
    clock: object
    look: object

    def edit(self, trigger, rule, **changes):
        """Change what people set, as PATCH does."""
        fields = {name: getattr(trigger, name) for name in SET_BY_PEOPLE}
        new = NewTrigger(rule=rule.to_dict(), **{**fields, **changes})
        return change(self.store, self.store.triggers.get(trigger.id), new)

    def upload(self, count):
        self.shop.add_samples(self.model, count)

    def causes(self):
        """What asked for the jobs so far; none of these waits any longer."""
        for job in self.store.jobs.waiting():
            self.store.jobs.move(job.id, job.state, JobState.CANCELLED)
        return [job.trigger for job in self.store.jobs.list(limit=100)]


@pytest.fixture
def scene(request):
    names = ("store", "shop", "model", "add", "asking", "clock", "look")
    return Scene(*map(request.getfixturevalue, names))
