"""Who reads a changelog: up to where each has read, whose state that is, and for how long it wants changes kept.

A reader is named `namespace/name/generation`. `_replicator_facts` has beside it `owner namespace/name`, a token that the state of
that replicator has, too, and `keep namespace/name/generation`, hours. Versions of the source that know neither leave both alone.
"""

from __future__ import annotations

import sqlite3
import uuid

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_source_sqlite.capture.changelog import fact, put_fact
from replicator_source_sqlite.connection import transaction

register("sqlite.reader.stored", "sqlite.reader.noted")

OWNER_KEY = "reader-owner"
"""In the source's state: the token of `owner namespace/name`."""


def claim_reader(database: sqlite3.Connection, context: DeltaSourceContext, *, is_first_start: bool) -> None:
    """Note that the readers of this replicator's name belong to this state; nothing changes once they do.

    The state has the token first. So a start that ends between the two is repeated, and a token in the database is one of some state.
    A first start of a later generation, which `replicator reset` has begun, takes over the readers of the generations before it; after a
    lost state those of any.

    Raises:
        NeedsUserError: RPL-3514 when they belong to another state.
    """
    replicator = f"{context.namespace}/{context.replicator_name}"
    stored = context.get_state(OWNER_KEY)
    token = str(uuid.uuid4()) if stored is None else stored.decode()
    owner = owner_of(database, replicator)
    if owner == token or (owner is not None and stored is None and not is_first_start):
        return  # the latter: a state that an earlier version has begun
    if owner is not None and not (is_first_start and _takes_over(context, owner)):
        raise _elsewhere(replicator)
    if stored is None:
        context.put_state(OWNER_KEY, token.encode())
    failpoint("sqlite.reader.stored")
    with transaction(database, write=True):
        if owner_of(database, replicator) != owner:
            raise _elsewhere(replicator)  # it began at the same time
        put_fact(database, f"owner {replicator}", token)
    failpoint("sqlite.reader.noted")


def _takes_over(context: DeltaSourceContext, owner: str) -> bool:
    """Whether a former generation has the token `owner`, or nothing is known of the one that was lost."""
    tokens = [one.get_state(OWNER_KEY) for one in context.former_states()]
    return owner.encode() in tokens or (context.state_was_lost and not any(tokens))


def _elsewhere(replicator: str) -> NeedsUserError:
    return NeedsUserError(
        f"the changelog is read by the replicator {replicator}, whose state is elsewhere, or was deleted",
        code="RPL-3514",
        hint="give one of the two another `name`; if the state was deleted, or this one is to take its place:"
        " `replicator reset PIPELINE --lost-state`",
    )


def owner_of(database: sqlite3.Connection, replicator: str) -> str | None:
    """The token of the state that reads as `replicator`; None when that was not noted."""
    owner = fact(database, f"owner {replicator}")
    return None if owner is None else str(owner)


def readers(database: sqlite3.Connection, replicator: str) -> list[str]:
    """The names of the readers of `replicator`, of all generations."""
    prefix = f"{replicator}/"
    query = "SELECT name FROM _replicator_readers WHERE substr(name, 1, ?) = ? ORDER BY name"
    return [name for (name,) in database.execute(query, (len(prefix), prefix))]


def remember_reader(database: sqlite3.Connection, name: str, change: int) -> None:
    """Keep changes after `change` for the reader `name`."""
    with transaction(database, write=True):
        database.execute(
            "INSERT INTO _replicator_readers VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET change = excluded.change",
            (name, change),
        )


def remember_hours(database: sqlite3.Connection, name: str, hours: float) -> None:
    """Note for how long the reader `name` wants changes kept that it has read."""
    with transaction(database, write=True):
        put_fact(database, f"keep {name}", hours)


def longest_hours(database: sqlite3.Connection) -> float:
    """For how long changes are kept that all readers have read: the most that any of them wants."""
    query = """SELECT coalesce(max(CAST(f.value AS REAL)), 0) FROM _replicator_readers r
        JOIN _replicator_facts f ON f.name = 'keep ' || r.name"""
    return float(database.execute(query).fetchone()[0])


def forget_other_generations(database: sqlite3.Connection, name: str) -> None:
    """Keep changes no more for the readers of other generations of a replicator: `name` is `namespace/name/generation`."""
    with transaction(database, write=True):
        for other in readers(database, name.rpartition("/")[0]):
            if other != name:
                _forget(database, other)


def forget_replicator(database: sqlite3.Connection, replicator: str) -> None:
    """Forget all its readers, in the caller's write transaction."""
    for name in readers(database, replicator):
        _forget(database, name)
    database.execute("DELETE FROM _replicator_facts WHERE name = ?", (f"owner {replicator}",))


def _forget(database: sqlite3.Connection, name: str) -> None:
    database.execute("DELETE FROM _replicator_readers WHERE name = ?", (name,))
    database.execute("DELETE FROM _replicator_facts WHERE name = ?", (f"keep {name}",))
