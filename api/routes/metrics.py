"""/metrics in Prometheus' text format
(https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import version

from fastapi import APIRouter
from starlette.responses import Response

from api.access.scopes import ScopedRoute, ThePrincipal, needs
from api.dependencies import TheDaemon
from service.access.principal import Scope
from service.federation.accounting import epsilon_spent
from service.federation.consent import consent_of
from service.policy.observer import Observation
from storage.errors import StorageBroken
from storage.records.jobs import JobState
from storage.records.models import Model
from storage.store import Store

router = APIRouter(tags=["metrics"], route_class=ScopedRoute)

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, object]
Sample = tuple[Labels, float]


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
)
@needs(Scope.MODELS_READ, "not_ready")
async def metrics(daemon: TheDaemon, principal: ThePrincipal) -> Response:
    """Models, samples, jobs, versions, federated rounds and the verdict, as gauges.

    A token that is bound to models gets the gauges of these, without the verdict.
    """
    observation = await daemon.monitor.observe() if principal.models is None else None
    names = principal.models
    families = await asyncio.to_thread(lambda: list(_families(daemon.store, observation, names)))
    return Response("".join(families), media_type=MEDIA_TYPE)


def _families(
    store: Store, observation: Observation | None, names: Collection[str] | None
) -> Iterator[str]:
    """observation: None to leave out the verdict. names: of the models to include, None for all."""
    models = store.models.list(names=names)
    counts = store.jobs.counts(names)
    yield _gauge("honed_info", "The daemon's version.", [({"version": version("honed")}, 1)])
    yield _gauge(
        "honed_samples",
        "Samples of a model: labelled ones by split, and unlabelled ones.",
        [
            ({"model": model.name, "split": split}, getattr(model.samples, split))
            for model in models
            for split in ("train", "validation", "unlabelled", "base")
        ],
    )
    yield _gauge(
        "honed_latest_version",
        "The version that `latest` names.",
        [({"model": model.name}, model.latest_version or 0) for model in models],
    )
    yield _gauge(
        "honed_jobs",
        "Jobs by state.",
        [({"state": state.value}, counts.get(state, 0)) for state in JobState],
    )
    yield from _rounds(store, [model for model in models if model.federation])
    if observation is not None:
        yield from _verdict(observation)


def _rounds(store: Store, models: list[Model]) -> Iterator[str]:
    """models: those whose consent has ever been set."""
    try:
        spent = [(model, store.rounds.spent(model)) for model in models]
    except StorageBroken:  # nobody can tell what was spent, which is no reason to tell nothing else
        return
    yield _gauge(
        "honed_rounds",
        "Rounds of federated training that made an update.",
        [({"model": model.name}, each.rounds + each.unnoised) for model, each in spent],
    )
    yield _gauge(
        "honed_privacy_epsilon",
        "What these have spent of privacy, for the delta of the consent.",
        [
            ({"model": model.name}, epsilon_spent(each, delta=consent_of(model).delta))
            for model, each in spent
        ],
    )


def _verdict(observation: Observation) -> Iterator[str]:
    yield _gauge(
        "honed_eligible",
        "Whether a job may train now.",
        [({}, float(observation.verdict.eligible))],
    )
    yield _gauge(
        "honed_blocked",
        "The conditions that keep jobs from training now.",
        [({"condition": blocker.condition}, 1) for blocker in observation.verdict.blocked_by],
    )


def _gauge(name: str, text: str, samples: list[Sample]) -> str:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    lines += [f"{name}{_labels(labels)} {value:.15g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
