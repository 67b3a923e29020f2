"""Changes of structure under change data capture, which allows no UPDATE, DELETE, MERGE or TRUNCATE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from replicator_sdk.errors import BugError, SchemaDriftError
from replicator_sdk.event import AlterKind, DDLEvent
from replicator_target_bigquery.ddl.alteration import Step
from replicator_target_bigquery.ddl.table_ddl import TableDDL

_ON_COLUMNS: Final = frozenset({AlterKind.ADD_COLUMN, AlterKind.RENAME_COLUMN, AlterKind.RETYPE_COLUMN})


class CdcDDL(TableDDL):
    """Changes of one table's structure. Called under the table's lock."""

    def _truncate(self, event: DDLEvent) -> None:
        """Replace the table by an empty one; rows that are still in flight to the old one are dropped with it."""
        if event.schema is None:
            raise BugError("a TRUNCATE_TABLE without a schema", code="RPL-6552", table=str(event.table))
        table = self._table
        found = table.found()
        row = table.row(table.state().progress, "truncate")
        table.commit(replace(row, place=None))  # another table comes in its place, by this run or by the next
        table.session.catalogue.drop(table.ref.id, event.table)
        table.changed()
        table.ensure_created(event.schema, replacing=True, like=found.fields if found is not None else ())
        self._commit(event)

    def _alter(self, event: DDLEvent) -> None:
        key = event.schema.primary_key if event.schema is not None else ()
        touched = (alter.column for alter in event.alters if alter.kind in _ON_COLUMNS and alter.column is not None)
        if any(alter.kind is AlterKind.CHANGE_KEY for alter in event.alters) or any(c.name in key for c in touched):
            raise _forbidden(event, "the source changes the table's key, by which changes are applied")
        super()._alter(event)

    def _allow(self, steps: Sequence[Step], event: DDLEvent) -> None:
        if any(step.sql.startswith("UPDATE ") for step in steps):
            raise _forbidden(event, "the change of structure gives rows that are there new values by an UPDATE")


def refuse_rename(event: DDLEvent) -> None:
    """BigQuery renames no table while rows are streamed into it.

    Raises:
        SchemaDriftError: Always.
    """
    raise _forbidden(event, "the source renames the table, which BigQuery does not do while changes are streamed")


def _forbidden(event: DDLEvent, what: str) -> SchemaDriftError:
    return SchemaDriftError(
        what,
        code="RPL-6707",
        table=str(event.table),
        position=str(event.position),
        hint="copy the table again: `replicator table resync NAME TABLE --in-place`, or replicate it with mode batch",
    )
