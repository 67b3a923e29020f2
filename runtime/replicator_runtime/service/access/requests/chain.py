"""The order in which a request meets the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.service.access.authentication import Authentication
from replicator_runtime.service.access.requests.answers import Answers
from replicator_runtime.service.access.requests.bodies import Bodies
from replicator_runtime.service.access.requests.origins import Origins
from replicator_runtime.service.access.requests.rates import Buckets, Rates
from replicator_runtime.service.access.requests.recording import Recording
from replicator_runtime.service.access.requests.repeating import Repeating
from replicator_runtime.service.access.requests.streams import OpenStreams, Streams

if TYPE_CHECKING:
    from fastapi import FastAPI

    from replicator_runtime.service.settings import ServiceSettings


def install(application: FastAPI, settings: ServiceSettings) -> None:
    """Have every request to `application` meet the rules.

    Each rule may refuse it for those that follow: the cheap ones come first, the body is read when it is known who
    sends it, and a repeated request is found when all others would let it pass.
    """
    failures = settings.limits.failures_per_minute
    application.state.streams = OpenStreams()
    application.state.failures = Buckets(failures / 60, failures)
    # What is added last sees a request first.
    application.add_middleware(Repeating, owner=application)
    application.add_middleware(Bodies, limits=settings.limits)
    application.add_middleware(Rates, limits=settings.limits)
    application.add_middleware(Streams, streams=application.state.streams)
    application.add_middleware(
        Authentication, owner=application, settings=settings, failures=application.state.failures
    )
    application.add_middleware(Recording, owner=application)
    application.add_middleware(Origins, settings=settings)
    application.add_middleware(Answers)
