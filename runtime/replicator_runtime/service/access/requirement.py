"""What each operation requires of who asks."""

from __future__ import annotations

import shlex
from typing import Any

from fastapi import Depends, Request

from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.places import Asking, asking
from replicator_runtime.service.problems import ProblemError

UNKNOWN_CALLER = "RPL-1540"
ROLE_NEEDED = "RPL-1541"


class Requires:
    """The dependency of an operation that needs a role; it gives the `Principal`.

    The namespace is the path's `namespace`; an operation without one belongs to the whole service.

    Args:
        role: Which one.
        namespace: The namespace of an operation whose path has none.
        anywhere: Whether the role in any one namespace is enough.
    """

    def __init__(self, role: Role, namespace: str | None = None, *, anywhere: bool = False) -> None:
        self.role = role
        self.namespace = namespace
        self.anywhere = anywhere

    async def __call__(self, request: Request) -> Principal:
        """Who asks.

        Raises:
            ProblemError: 401 RPL-1540 without a valid token, 403 RPL-1541 when they may not.
        """
        principal = principal_of(request)
        namespace = request.path_params.get("namespace", self.namespace)
        check_role(principal, self.role, principal.namespace if self.anywhere else namespace)
        asking.set(Asking(namespace or "", self.role is Role.VIEWER))
        return principal


def check_role(principal: Principal, role: Role, namespace: str | None) -> None:
    """Refuse someone who may not do what needs `role`; for operations of which some uses need more than others.

    Raises:
        ProblemError: 403 RPL-1541 when they may not.
    """
    if not principal.may(role, namespace):
        where = f' in namespace "{namespace}"' if namespace else ""
        raise ProblemError(
            403,
            ROLE_NEEDED,
            f"this needs the role {role.value}{where}",
            hint=f"ask an admin for a token: `replicator token create --role {shlex.quote(role.value)}`, with the --store that "
            "the service was started with",
        )


def principal_of(request: Request) -> Principal:
    """Who sent a request: what the middleware of `access` has found."""
    found: Principal | None = getattr(request.state, "principal", None)
    if found is None:
        raise unknown_caller()
    return found


def unknown_caller() -> ProblemError:
    """The refusal of a request without a valid token."""
    return ProblemError(
        401,
        UNKNOWN_CALLER,
        "this needs a token",
        hint="send `Authorization: Bearer TOKEN`; `replicator token create` makes one, with the --store that the service was "
        "started with",
        headers={"WWW-Authenticate": "Bearer"},
    )


def requires(role: Role, namespace: str | None = None, *, anywhere: bool = False) -> Any:
    """What an operation depends on to need a role, as `Requires` says; its parameter is the `Principal`."""
    return Depends(Requires(role, namespace, anywhere=anywhere))
