"""What earlier runs of a pipeline stored of its tables, and what the next run does with them; reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replicator_runtime.engine.planning.table_steps import replicates_without_copy
from replicator_runtime.engine.preparation.scope_edits import why_copied_again
from replicator_runtime.engine.tables.table_file import TableFile
from replicator_runtime.engine.tables.table_store import TableStore
from replicator_sdk import TableId
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline, SelectedTable, Selection
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableSchema


@dataclass(frozen=True, slots=True)
class NextRun:
    """What the next run does with a table.

    Attributes:
        follows: The columns it goes on with, as the source names them now; None when it describes the table, with the
            columns that the pipeline names.
        copied_again: Why it copies again a table that earlier runs replicated; empty when it does not.
    """

    follows: frozenset[str] | None = None
    copied_again: str = ""


class StoredTables:
    """The tables of earlier runs; none where there was no run."""

    def __init__(self, records: Mapping[TableId, TableRecord]) -> None:
        self._records = records
        self._copies = not any(map(replicates_without_copy, records.values()))

    @classmethod
    def of(cls, pipeline: Pipeline) -> StoredTables:
        """Those of the pipeline's newest generation.

        Raises:
            ReplicatorError: When the state cannot be read.
        """
        config, source = pipeline.config, pipeline.source
        directory = ReplicatorDirectory(config.offset_base_path, config.namespace, config.name, retry_seconds=5)
        if not directory.generations():
            return cls({})
        store = TableStore(directory.states().scoped("runtime"), source.offset_type.from_fields)
        store.load()
        return cls(store.records)

    def schemas(self, selection: Selection) -> dict[TableId, TableSchema]:
        """The known tables that are selected, with the schemas that a run begins to read with."""
        known = {table: record for table, record in self._records.items() if record.schemas and not record.passed_over}
        return {table: record.schema for table, record in known.items() if selection.matches(table) is not None}

    def next_run(self, selected: SelectedTable, present: TableSchema) -> NextRun:
        """What the next run does with a table.

        Args:
            selected: How the pipeline selects it.
            present: The whole table as the source describes it now.

        Raises:
            NeedsUserError: RPL-2006 or RPL-2007 when the target cannot follow an edit of the pipeline.
        """
        record = self._records.get(selected.table)
        if record is None or not record.schemas:
            return NextRun()
        asked = False

        def described() -> TableSchema:
            nonlocal asked
            asked = True
            return present if selected.columns is None else present.select(selected.columns)

        why = why_copied_again(record, selected, described, copies=self._copies)
        if why or asked or selected.columns is None or (self._copies and record.needs_snapshot):
            return NextRun(copied_again=why)
        return NextRun(follows=_still_there(record.schema, present))


def known_tables(directory: ReplicatorDirectory) -> list[TableId]:
    """The tables that the state knows, also those that the pipeline does not select any more; reads only.

    Raises:
        ReplicatorError: When the state cannot be read.
    """
    tables, _ = TableFile(directory.states().scoped("runtime")).load()
    return [TableId.from_json(table["table"]) for table in tables]


def _still_there(known: TableSchema, present: TableSchema) -> frozenset[str]:
    """The present names of the columns that a run knows, found by identity where the source gives one."""
    identities = {column.source_id for column in known.columns if column.source_id}
    return frozenset(
        column.name
        for column in present.columns
        if (column.source_id in identities if column.source_id else column.name in known)
    )
