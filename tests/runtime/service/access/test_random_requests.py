"""Random requests, made from the OpenAPI document: the service is never at fault, and answers as the document says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.failures import FailureGroup

from replicator_runtime.service.commands.runner import CommandRunner
from replicator_runtime.service.problems import ProblemError
from tests.depth import ALL_CASES
from tests.runtime.service.access.conformance import CHECKS, UNAVAILABLE, request_of
from tests.runtime.service.services import Service, running

EXAMPLES = 100 if ALL_CASES else 3


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose commands never answer: they have tests of their own."""

    def late(self: CommandRunner, words: Any, **named: Any) -> Any:
        raise ProblemError(504, "RPL-1502", "not here", hint="try again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommandRunner, "run", late)
        with running(tmp_path_factory.mktemp("random")) as service:
            yield service


def test_no_request_is_the_services_fault(service: Service) -> None:
    document = service.client.app.openapi()  # type: ignore[attr-defined]  # TestClient's app is any ASGI application
    wrong: dict[str, str] = {}
    answered: dict[str, int] = {}
    operations: list[Any] = [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]  # type: ignore[union-attr]  # an invalid document fails here
    tried = [each for each in operations if "text/event-stream" not in str(each.definition.raw["responses"])]
    for operation in tried:
        _try(service, operation, wrong, answered)
    assert wrong == {}
    assert answered.keys() == {operation.label for operation in tried}


def _try(service: Service, operation: Any, wrong: dict[str, str], answered: dict[str, int]) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def send(case: Any) -> None:
        try:
            response = service.client.request(**request_of(case))
        except (ValueError, UnicodeError):
            return  # no client sends such a request
        answered[operation.label] = response.status_code
        is_problem = response.headers.get("content-type") == "application/problem+json"
        if response.status_code >= 500 and response.status_code not in UNAVAILABLE:
            wrong[operation.label] = response.text
        if response.status_code >= 400 and not is_problem:
            wrong[operation.label] = f"{response.status_code} is no problem document"
        try:
            case.validate_response(response, checks=list(CHECKS))
        except FailureGroup as failures:
            wrong[operation.label] = "; ".join(map(str, failures.exceptions))

    send()
