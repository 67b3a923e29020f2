"""Lists and describes the tables of an archive, and says which it does not have whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_sdk import (
    Assessment,
    ColumnAssessment,
    Finding,
    Severity,
    TableAssessment,
    TableAssessor,
    TableId,
    TableRegistry,
    TableSchema,
    TableSummary,
)
from replicator_sdk.errors import NeedsUserError, ReplicatorError
from replicator_source_archive.config import ArchiveConfig, Incomplete

if TYPE_CHECKING:
    from replicator_sdk.change_archive.checkpoints import TableState
    from replicator_source_archive.manifests import Manifests


class ArchiveRegistry(TableRegistry):
    """The tables at the archive's end; reads the manifests after the last checkpoint once."""

    def __init__(self, manifests: Manifests) -> None:
        manifests.owner()
        self._tables = manifests.tables()

    def list_tables(self) -> list[TableSummary]:
        """Those whose columns are known."""
        schemas = {table: known.schema for table, known in self._tables.items() if known.schema is not None}
        return [TableSummary(table, len(schema["columns"])) for table, schema in sorted(schemas.items())]

    def describe_table(self, table: TableId) -> TableSchema:
        """The table's definition at the archive's end."""
        known = self._tables.get(table)
        if known is None or known.schema is None:
            raise NeedsUserError(
                "the archive has no such table"
                if known is None
                else f"the archive does not have its columns: {known.why}",
                code="RPL-3557",
                hint="list the tables with `replicator tables`",
                table=str(table),
            )
        return TableSchema.from_json(known.schema)


class ArchiveAssessor(TableAssessor):
    """Reads the manifests at the first question."""

    def __init__(self, manifests: Manifests, config: ArchiveConfig) -> None:
        self._manifests = manifests
        self._config = config
        self._tables: dict[TableId, TableState] | None = None

    def assess(self) -> Assessment:
        """Whether there is an archive that can be read."""
        try:
            self._manifests.owner()
            self._read()
        except ReplicatorError as error:
            finding = Finding(
                "archive", Severity.ERROR, error.message, "nothing can be read", error.hint, code=error.code
            )
            return Assessment((finding,))
        return Assessment()

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """Whether all rows of the table are in the archive."""
        columns = tuple(ColumnAssessment(c.name, c.source_type, str(c.type)) for c in schema.columns)
        known = self._read().get(schema.table)
        if known is None or not known.why:
            return TableAssessment(schema.table, columns)
        error = incomplete(schema.table, known.why)
        is_passed = self._config.incomplete is Incomplete.CHANGES
        finding = Finding(
            "incomplete",
            Severity.WARNING if is_passed else Severity.ERROR,
            error.message,
            "the target has only the rows that changed since then"
            if is_passed
            else "the table stops, nothing of it is copied",
            error.hint,
            table=schema.table,
            code=error.code,
        )
        return TableAssessment(schema.table, columns, (finding,))

    def _read(self) -> dict[TableId, TableState]:
        if self._tables is None:
            self._tables = self._manifests.tables()
        return self._tables


def incomplete(table: TableId, why: str) -> NeedsUserError:
    """The error for a table of which the archive does not have all rows."""
    return NeedsUserError(
        f"the archive does not have all rows of the table: {why}",
        code="RPL-3556",
        hint="copy it again in the pipeline that writes the archive (`replicator table resync`, then retry it here), or set `incomplete` of the source to"
        ' "changes": then it begins with the rows that the archive shows since then',
        table=str(table),
    )
