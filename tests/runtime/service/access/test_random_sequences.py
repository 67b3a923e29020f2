"""Random sequences of requests, made from the OpenAPI document: what one answers with is sent in the next ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import use_after_free

from replicator_runtime.service.commands.runner import CommandRunner, Envelope
from replicator_runtime.service.problems import ProblemError
from tests.depth import ALL_CASES
from tests.runtime.service.access.conformance import CHECKS, request_of
from tests.runtime.service.operations.ran import Ran, add_pipeline
from tests.runtime.service.services import Service, running

SEEDS, SEQUENCES, STEPS = (6, 20, 15) if ALL_CASES else (1, 6, 8)


@pytest.fixture(scope="module")
def service(ran: Ran, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a pipeline that has run. Its commands find every config valid; programs that it starts fail at once."""

    def run(self: CommandRunner, words: Any, **named: Any) -> Envelope:
        if words[0] == "validate":
            return Envelope(0, {"valid": True})
        raise ProblemError(504, "RPL-1502", "not here", hint="try again")

    folder = tmp_path_factory.mktemp("sequences")
    ran.copy_to(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ran.python_path)
        patch.setattr(CommandRunner, "run", run)
        with running(folder, replicator=("/bin/false",)) as service:
            add_pipeline(service, {**ran.config, "offsetBasePath": str(folder / "state")})
            yield service


@pytest.mark.parametrize("seed", range(SEEDS))
def test_answers_of_sequences_are_as_the_document_says(seed: int, service: Service) -> None:
    document = service.client.app.openapi()  # type: ignore[attr-defined]  # TestClient's app is any ASGI application
    schema = schemathesis.openapi.from_dict(_of_one_namespace(document)).exclude(path_regex="/events$")
    answered: Counter[str] = Counter()

    class Sequence(schema.as_state_machine()):  # type: ignore[misc]  # a class that is made at run time
        rule_order_seed = seed  # which operations begin

        def call(self, case: Any, **named: Any) -> Response:
            response = Response.from_any(service.client.request(**request_of(case)))
            answered[f"{case.operation.label} {response.status_code}"] += 1
            return response

        def validate_response(self, response: Response, case: Any, additional_checks: Any = None, **named: Any) -> None:
            case.validate_response(response, checks=[*CHECKS, use_after_free], recorder=self.recorder)

    Sequence.run(
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
    )
    assert answered, f"{answered}"


def _of_one_namespace(document: dict[str, Any]) -> dict[str, Any]:
    """The document of one namespace: a random one would have nothing in it."""
    paths = json.loads(json.dumps(document["paths"]))
    for item in paths.values():
        for operation in item.values():
            operation["parameters"] = [
                each for each in operation.get("parameters", ()) if each.get("name") != "namespace"
            ]
    return {**document, "paths": {path.replace("{namespace}", "default"): item for path, item in paths.items()}}
