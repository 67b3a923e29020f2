"""Finds where a first start begins that copies no rows, and which columns the tables had there. Changes nothing.

The changelog has a table's changes since triggers were put on it for some replicator, and every schema change since then with the
versions before and after it. So the versions are followed back from the live one to the one that was live at the position.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from replicator_sdk import StartFrom, TableId, TableSchema
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_source_sqlite.capture.changelog import DDL, fact, identity, last_change, offset_of
from replicator_source_sqlite.capture.versions import Version, live_versions, refresh_versions
from replicator_source_sqlite.connection import transaction
from replicator_source_sqlite.offset import SqliteOffset

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def find_start(database: sqlite3.Connection, start: StartFrom) -> SqliteOffset:
    """The offset that `start` names.

    Raises:
        NeedsUserError: RPL-3515 for what is no change number, RPL-3516 when it is after the log's end.
        HistoryLostError: RPL-3517 when the log does not reach back to it.
    """
    number = None if start.time is not None else _number(start.offset)
    with transaction(database):
        if not identity(database):
            raise _not_reached(
                start, "there is no changelog: no replicator has read this database", "now: remove `from`"
            )
        first, last = int(fact(database, "pruned") or 0), last_change(database)
        if number is None:
            number = _before(database, start, last)
        if number > last:
            raise _too_late(start, f"the changelog ends at change {last}", f'"{last}", or an earlier one')
        if number < first:
            raise _not_reached(start, f"changes up to {first} were removed from it", _later(first))
        return offset_of(database, number)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise NeedsUserError(
            f"{text[:80]!r} is no offset of a SQLite source, which is the number of a change",
            code="RPL-3515",
            hint='write `"from": {"offset": "1200"}`, as `replicator offsets list OTHER` shows it for another pipeline of this database',
        )
    return int(text)


def _before(database: sqlite3.Connection, start: StartFrom, last: int) -> int:
    """The number of the last change before the first one that was made at the start's time or later."""
    assert start.time is not None
    at = (start.time - _EPOCH) // timedelta(microseconds=1)
    if start.time > datetime.now(UTC):
        raise _too_late(start, "that moment has not come", "give an earlier one")
    (oldest,) = database.execute("SELECT min(id) FROM _replicator_changes").fetchone()
    (found,) = database.execute("SELECT min(id) FROM _replicator_changes WHERE at >= ?", (at,)).fetchone()
    if (
        oldest is None or oldest == found
    ):  # what was changed between that moment and the log's first change is not known
        first = int(fact(database, "pruned") or 0)
        raise _not_reached(start, "its first change was made then or later", _later(first))
    return last if found is None else int(found) - 1


def tables_at(
    database: sqlite3.Connection, offset: SqliteOffset, tables: Sequence[TableSchema], narrowed: Collection[TableId]
) -> dict[TableId, TableSchema]:
    """The tables as they were at `offset`; those in `narrowed` with the given columns only.

    Args:
        database: The source; its log has every schema change by now (`ddl_detection.synchronise`).
        offset: A position that the log has.
        tables: The tables as they are now.
        narrowed: As `EventReaderDefinition.narrowed`.

    Raises:
        NeedsUserError: RPL-3518 when the log after `offset` does not have all changes of a table under its name and columns.
    """
    with transaction(database):
        versions: dict[int, Version] = {}
        refresh_versions(database, versions)
        live = {version.schema.table: version for version in live_versions(database)}
        query = "SELECT id, version, c0 FROM _replicator_changes WHERE op = ? AND id > ? ORDER BY id"
        changes = database.execute(query, (DDL, offset.change)).fetchall()
        by_version = {version: (number, json.loads(facts)) for number, version, facts in changes}
        found = {}
        for schema in tables:
            names = schema.names if schema.table in narrowed else None
            if schema.table not in live:
                raise _unknown(schema.table, "no replicator has captured it, so the log has no changes of it", None)
            version = _version_at(live[schema.table], offset.change, (versions, by_version), names)
            found[schema.table] = version.schema if names is None else version.schema.select(names)
        return found


def _version_at(
    version: Version,
    change: int,
    known: tuple[Mapping[int, Version], Mapping[int, tuple[int, Mapping[str, Any]]]],
    names: Sequence[str] | None,
) -> Version:
    """The version that `version` was at `change`, by the log's schema changes since then."""
    (versions, changes), table = known, version.schema.table
    while version.since > change:
        number, facts = changes.get(version.number, (0, {}))
        before = versions.get(facts.get("previous", -1))
        if before is None:
            raise _unknown(table, "it was captured after that, so the log lacks changes of it", version.since)
        if facts["operation"] == "RENAME_TABLE":
            raise _unknown(table, "it had another name there", number)
        if facts["needsSnapshot"]:
            raise _unknown(table, f"it was rebuilt by change {number}, and the log lacks rows of that", number)
        if names is not None and any(facts["origin"].get(name) != name for name in names):
            raise _unknown(table, "it did not have all columns that the pipeline selects", number)
        version = before
    return version


def _later(number: int) -> str:
    return f'at `"from": {{"offset": "{number}"}}`, the earliest position that it has'


def _too_late(start: StartFrom, why: str, instead: str) -> NeedsUserError:
    return NeedsUserError(
        f"no run can begin at {start}: {why}",
        code="RPL-3516",
        hint=f"`snapshot.from`: {instead}; without `from` the pipeline begins now",
    )


def _not_reached(start: StartFrom, why: str, begin: str) -> HistoryLostError:
    return HistoryLostError(
        f"the changelog does not reach back to {start}: {why}",
        code="RPL-3517",
        hint=f"begin {begin}",
    )


def _unknown(table: TableId, why: str, since: int | None) -> NeedsUserError:
    later = f"begin {_later(since)} of the table" if since is not None else "begin now: remove `from`"
    return NeedsUserError(
        f"the table cannot begin there: {why}",
        code="RPL-3518",
        hint=f"{later}; or leave it out of `tables`",
        table=str(table),
    )
