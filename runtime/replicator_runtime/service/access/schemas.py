"""What tokens, sessions and the audit log are in requests and responses."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from replicator_runtime.service.access.roles import EVERY_NAMESPACE, Role

if TYPE_CHECKING:
    from replicator_runtime.service.store.tables import AuditEntry, Token


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class TokenRequest(_Model):
    """A token to be created."""

    role: Role
    namespace: str = Field(default=EVERY_NAMESPACE, min_length=1, max_length=255, description="`*` for all.")
    label: str = Field(default="", max_length=200, description="Who or what it is for.")
    valid_days: int | None = Field(default=None, ge=1, le=3650, description="Null: until it is revoked.")


class TokenView(_Model):
    """A token, without its text."""

    id: str
    label: str
    role: Role
    namespace: str
    created: datetime
    expires: datetime | None
    revoked: datetime | None

    @classmethod
    def of(cls, token: Token) -> TokenView:
        """That of a stored token."""
        return cls(
            id=token.token_id,
            label=token.label,
            role=Role(token.role),
            namespace=token.namespace,
            created=token.created,
            expires=token.expires,
            revoked=token.revoked,
        )


class CreatedToken(_Model):
    """A new token, with its text, which is shown only here."""

    id: str
    token: str


class SessionRequest(_Model):
    """The token that a browser exchanges for a cookie."""

    token: str = Field(max_length=1024)


class SessionView(_Model):
    """Who one is."""

    name: str
    role: Role
    namespace: str = Field(description="`*` for all.")
    csrf: str | None = Field(description="What changes carry as `X-CSRF-Token`; null without a cookie.")


class AuditView(_Model):
    """A change that was asked for."""

    id: str
    at: datetime
    namespace: str
    by: str
    operation: str = Field(description="The operation's id.")
    path: str
    status: int = Field(description="Of the response; 0 while there is none.")
    code: str = Field(description="Of the problem; empty when it was carried out.")

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditView:
        """That of a stored entry."""
        return cls(
            id=entry.entry_id,
            at=entry.at,
            namespace=entry.namespace,
            by=entry.by,
            operation=entry.operation,
            path=entry.path,
            status=entry.status,
            code=entry.code,
        )
