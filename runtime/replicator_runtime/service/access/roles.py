"""Roles, and who asks."""

from __future__ import annotations

import enum
from dataclasses import dataclass

EVERY_NAMESPACE = "*"


class Role(enum.StrEnum):
    """What someone may do in a namespace; each may do what those before it may."""

    VIEWER = "viewer"
    """Read."""
    OPERATOR = "operator"
    """Write drafts and connections; start, stop and pause pipelines and tables; verify; approve."""
    ADMIN = "admin"
    """Create and delete pipelines, and all that cannot be taken back; tokens and the audit log."""

    def may(self, needed: Role) -> bool:
        """Whether this role includes `needed`."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

    Attributes:
        name: For the audit log: the token's label and id, or `local`.
        role: Of the token.
        namespace: The one it is for, or `EVERY_NAMESPACE`.
    """

    name: str
    role: Role
    namespace: str = EVERY_NAMESPACE

    def may(self, needed: Role, namespace: str | None) -> bool:
        """Whether they may do what needs a role in a namespace; None for what belongs to the whole service."""
        return self.role.may(needed) and self.namespace in {EVERY_NAMESPACE, namespace}
