"""The FastAPI app: routes, guards and errors around one daemon."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from api import docs, errors, threads
from api.access.metering import Metering
from api.access.scopes import places_of, require_scoped
from api.bodies.uploads import BodyLimit
from api.request_line import RequestLine
from api.routes import (
    access,
    aliases,
    backup,
    checkpoints,
    completion,
    dashboard,
    dataset,
    device,
    events,
    health,
    jobs,
    metrics,
    open_inference,
    predict,
    reference,
    samples,
    system,
    triggers,
    uploads,
    versions,
)
from api.routes.federation import parameters, rounds
from api.routes.models import bases, follow, models, registration
from api.security import Guard
from service.daemon import Daemon
from service.policy.device_monitor import takes_input_reports
from service.settings import Settings

if TYPE_CHECKING:  # versions before 0.165 have none, and ignore the argument
    from fastapi.telemetry import TelemetryConfig

DESCRIPTION = (
    "Trains models on the device that produces the data. "
    "Send `Authorization: Bearer …` with the token of `DATA_DIR/admin.token`, or one that was made "
    "for your app; each operation tells the scope that a token needs."
)

ROUTED = (
    uploads,
    predict,
    completion,
    versions,
    samples,
    jobs,
    health,
    registration,
    models,
    bases,
    dataset,
    metrics,
    checkpoints,
    follow,
    aliases,
    reference,
    parameters,
    rounds,
    open_inference,
    events,
    device,
    triggers,
    backup,
    system,
    access,
    dashboard,
)
"""Modules of routes, in the order in which paths are looked up: first what devices ask for most."""


NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}
"""By default FastAPI makes spans, metrics and logs of each request for OpenTelemetry if the
environment names a provider. What apps do with models stays here; figures are at /metrics."""


def create_app(settings: Settings, daemon: Daemon) -> FastAPI:
    """The app of one daemon, which must be started before the first request."""
    app = FastAPI(
        title="Hone",
        version=version("honed"),
        description=DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        telemetry=NO_TELEMETRY,
    )
    app.add_middleware(BodyLimit, max_bytes=settings.max_upload_bytes)
    app.add_middleware(Metering)
    app.add_middleware(
        Guard,
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        takes_reports=takes_input_reports(),
    )
    app.add_middleware(RequestLine)
    errors.install(app)
    for module in ROUTED:  # included, each route would be built again when it is first looked up
        app.router.routes.extend(require_scoped(module.router).routes)
    docs.install(app)
    threads.install(app)
    app.state.daemon = daemon
    app.state.places = frozenset().union(*(places_of(module.router) for module in ROUTED))
    return app
