"""The web application: its routers, in one list, and what is opened and closed with it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI

from replicator_runtime.service import health, openapi, problems
from replicator_runtime.service.access import endpoints as access
from replicator_runtime.service.access.requests import chain
from replicator_runtime.service.catalogue import connections
from replicator_runtime.service.catalogue import endpoints as plugins
from replicator_runtime.service.commands.runner import CommandRunner
from replicator_runtime.service.context import ServiceContext
from replicator_runtime.service.drafts import assessments, samples, states
from replicator_runtime.service.drafts import endpoints as drafts
from replicator_runtime.service.observation import endpoints as observation
from replicator_runtime.service.operations import endpoints as operations
from replicator_runtime.service.operations import job_endpoints, plans
from replicator_runtime.service.pipelines import endpoints as pipelines
from replicator_runtime.service.store.database import Database
from replicator_runtime.ui import assets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from replicator_runtime.service.settings import ServiceSettings

TITLE = "Replicator"
ROUTERS: list[APIRouter] = [
    health.router,
    openapi.router,
    access.router,
    observation.router,
    observation.metrics_router,
    operations.router,
    drafts.router,
    assessments.router,
    samples.router,
    plugins.router,
    pipelines.router,
    connections.router,
    states.router,
    job_endpoints.router,
    plans.router,
    assets.router,
]


def create_application(settings: ServiceSettings) -> FastAPI:
    """The application of a service; it opens nothing until it is started (ASGI's lifespan)."""

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        settings.work_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = Database(settings.store)
        database.prepare()
        context = ServiceContext(settings, database, CommandRunner(settings))
        application.state.context = context
        application.state.readiness = CapacityLimiter(health.AT_ONCE)
        context.open()
        try:
            yield
        finally:
            context.close()
            database.close()

    application = FastAPI(title=TITLE, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    problems.install(application)
    chain.install(application, settings)
    for router in ROUTERS:
        application.include_router(router)
    openapi.install(application)
    return application
