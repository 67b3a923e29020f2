"""Tokens: 256 random bits, of which the database keeps the SHA-256 digest only."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import select
from ulid import ULID

from replicator_runtime.service.access.roles import EVERY_NAMESPACE, Principal, Role
from replicator_runtime.service.store.tables import Token

if TYPE_CHECKING:
    from datetime import timedelta

    from replicator_runtime.service.store.database import Database

PREFIX = "rpl_"
_BYTES = 32
_LONGEST = 128


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token at the only moment at which its text is known.

    Attributes:
        token_id: By which it is listed and revoked.
        text: What requests carry; it is stored nowhere.
    """

    token_id: str
    text: str


def create_token(
    database: Database,
    role: Role,
    *,
    namespace: str = EVERY_NAMESPACE,
    label: str = "",
    valid_for: timedelta | None = None,
) -> NewToken:
    """Create a token.

    Args:
        database: The service's.
        role: What its bearer may do.
        namespace: Where; `EVERY_NAMESPACE` for all, and for what belongs to the whole service.
        label: For people: who or what it is for.
        valid_for: None: until it is revoked.
    """
    text = PREFIX + secrets.token_urlsafe(_BYTES)
    now = datetime.now(UTC)
    row = Token(
        token_id=str(ULID()),
        digest=digest_of(text),
        label=label,
        role=role.value,
        namespace=namespace,
        created=now,
        expires=None if valid_for is None else now + valid_for,
        revoked=None,
    )
    with database.session() as session:
        session.add(row)
    return NewToken(row.token_id, text)


def find_token(database: Database, text: str) -> Token | None:
    """The valid token with this text; None when there is none, or it has expired or was revoked."""
    if not text.startswith(PREFIX) or len(text) > _LONGEST:
        return None
    digest = digest_of(text)
    with database.session() as session:
        found = session.scalar(select(Token).where(Token.digest == digest))
    # The database looked for a digest, of which whoever guesses learns nothing; compared once more in constant time.
    if found is None or not hmac.compare_digest(found.digest, digest):
        return None
    return found if is_valid(found) else None


def list_tokens(database: Database) -> list[Token]:
    """All tokens, the oldest first; those that were revoked, too."""
    with database.session() as session:
        return list(session.scalars(select(Token).order_by(Token.token_id)))


def revoke_token(database: Database, token_id: str) -> Token | None:
    """Have a token be refused from now on; None when there is no such token. Repeating it changes nothing."""
    with database.session() as session:
        found = session.get(Token, token_id)
        if found is not None and found.revoked is None:
            found.revoked = datetime.now(UTC)
        return found


def is_valid(token: Token) -> bool:
    """Whether a token is neither expired nor revoked."""
    return token.revoked is None and (token.expires is None or token.expires > datetime.now(UTC))


def principal_of_token(token: Token) -> Principal:
    """Whose requests have a token."""
    name = f"{token.label} ({token.token_id})" if token.label else token.token_id
    return Principal(name, Role(token.role), token.namespace)


def digest_of(text: str) -> bytes:
    """What the database keeps of a text with 256 random bits; a slow hash would add nothing."""
    return hashlib.sha256(text.encode()).digest()
