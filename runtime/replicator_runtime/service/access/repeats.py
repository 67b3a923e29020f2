"""What was answered to requests with an `Idempotency-Key`, so that one that is sent again is not carried out again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError

from replicator_runtime.service.store.tables import Repeated

if TYPE_CHECKING:
    from replicator_runtime.service.store.database import Database

KEPT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Before:
    """What is known of a key.

    Attributes:
        digest: Of the request that it was used for.
        status: Of the response; None while there is none.
        headers: Of the response.
        body: Of the response.
    """

    digest: bytes
    status: int | None
    headers: list[tuple[str, str]]
    body: bytes


def claim(database: Database, key: str, by: str, digest: bytes) -> bool:
    """Take a key for a request; whether it was free."""
    try:
        with database.session() as session:
            session.add(Repeated(key=key, by=by, digest=digest, at=datetime.now(UTC), status=None, headers="", body=""))
    except IntegrityError:
        return False
    return True


def find(database: Database, key: str, by: str) -> Before | None:
    """What is known of a key; None when it is free."""
    with database.session() as session:
        row = session.get(Repeated, (key, by))
    if row is None:
        return None
    return Before(row.digest, row.status, [(n, v) for n, v in json.loads(row.headers or "[]")], row.body.encode())


def answered(
    database: Database, key: str, by: str, *, status: int, headers: list[tuple[str, str]], body: bytes
) -> None:
    """Keep the response for a day."""
    with database.session() as session:
        row = session.get(Repeated, (key, by))
        if row is not None:
            row.status, row.headers, row.body = status, json.dumps(headers), body.decode()


def count(database: Database, by: str) -> int:
    """How many keys a principal has."""
    with database.session() as session:
        return session.scalar(select(func.count()).select_from(Repeated).where(Repeated.by == by)) or 0


def release(database: Database, key: str, by: str) -> None:
    """Free a key, whose request had no lasting answer."""
    with database.session() as session:
        session.execute(delete(Repeated).where(Repeated.key == key, Repeated.by == by))


def delete_old(database: Database) -> None:
    """Delete what is older than a day."""
    with database.session() as session:
        session.execute(delete(Repeated).where(Repeated.at < datetime.now(UTC) - KEPT))


def digest_of_request(method: str, path: str, query: bytes, condition: str, body: bytes) -> bytes:
    """By which a repeated request is known to be the same."""
    whole = hashlib.sha256()
    for part in (method.encode(), path.encode(), query, condition.encode(), body):
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.digest()
