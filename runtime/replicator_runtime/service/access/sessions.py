"""Sessions of the page: a browser that has shown a token once gets a cookie, which scripts cannot read.

The cookie has 256 random bits, of which the database keeps the digest. The CSRF value follows from the cookie, so that
only the service and the page that asked it know it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete

from replicator_runtime.service.access.tokens import digest_of, is_valid
from replicator_runtime.service.store.tables import PageSession, Token

if TYPE_CHECKING:
    from replicator_runtime.service.store.database import Database

VALID_FOR = timedelta(hours=12)
_BYTES = 32
_LONGEST = 128


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session at its beginning.

    Attributes:
        text: The cookie's value.
        expires: It is worth nothing from then on.
    """

    text: str
    expires: datetime


def create_session(database: Database, token: Token) -> NewSession:
    """Begin a session of the token's owner, which ends after twelve hours, and with the token."""
    text = secrets.token_urlsafe(_BYTES)
    now = datetime.now(UTC)
    expires = min(now + VALID_FOR, token.expires or now + VALID_FOR)
    with database.session() as session:
        session.execute(delete(PageSession).where(PageSession.expires < now))
        session.add(PageSession(digest=digest_of(text), token_id=token.token_id, created=now, expires=expires))
    return NewSession(text, expires)


def find_session(database: Database, text: str) -> Token | None:
    """The valid token of a valid session; None when either has ended."""
    if not text or len(text) > _LONGEST:
        return None
    with database.session() as session:
        found = session.get(PageSession, digest_of(text))
        if found is None or found.expires <= datetime.now(UTC):
            return None
        token = session.get(Token, found.token_id)
    return token if token is not None and is_valid(token) else None


def end_session(database: Database, text: str) -> None:
    """End a session; nothing when it has ended."""
    with database.session() as session:
        session.execute(delete(PageSession).where(PageSession.digest == digest_of(text)))


def csrf_value(text: str) -> str:
    """What unsafe requests of a session carry in the header `X-CSRF-Token`."""
    return hmac.new(text.encode(), b"csrf", hashlib.sha256).hexdigest()


def is_csrf_value(text: str, shown: str) -> bool:
    """Whether a request shows the CSRF value of its session."""
    return hmac.compare_digest(csrf_value(text).encode(), shown.encode())
