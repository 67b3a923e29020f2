"""Which operation a request is for, known before it is carried out; and what role each needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi.routing import iter_route_contexts

from replicator_runtime.service.access.requirement import Requires

if TYPE_CHECKING:
    import re

    from fastapi import FastAPI
    from fastapi.dependencies.models import Dependant

    from replicator_runtime.service.access.roles import Role


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the OpenAPI document.

    Attributes:
        operation_id: There.
        methods: Of requests for it.
        path: With parameters in braces.
        pattern: That paths of requests for it match.
        role: That it needs; None: no one has to say who they are.
        anywhere: Whether a token of any namespace will do.
    """

    operation_id: str
    methods: frozenset[str]
    path: str
    pattern: re.Pattern[str]
    role: Role | None
    anywhere: bool


def operations_of(application: FastAPI) -> list[Operation]:
    """All operations of an application, in the order in which they are tried."""
    found = []
    for route in iter_route_contexts(application.routes):
        dependant = getattr(route, "dependant", None)
        if dependant is None or not route.include_in_schema:
            continue
        needed = _requirement(dependant)
        found.append(
            Operation(
                route.operation_id or route.name or "",
                frozenset(route.methods or ()),
                route.path_format or "",
                route.path_regex,
                needed.role if needed else None,
                needed.anywhere if needed else True,
            )
        )
    return found


def operation_of(operations: list[Operation], method: str, path: str) -> Operation | None:
    """The operation that a request is for; None where there is nothing."""
    return next((found for found in operations if method in found.methods and found.pattern.match(path)), None)


def _requirement(dependant: Dependant) -> Requires | None:
    if isinstance(dependant.call, Requires):
        return dependant.call
    return next((found for inner in dependant.dependencies if (found := _requirement(inner))), None)
