"""How one table's rows are decoded into batches."""

from __future__ import annotations

from dataclasses import dataclass

from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.schema import TableSchema
from replicator_source_mysql.binlog.rows.row_layout import Shapes
from replicator_source_mysql.binlog.rows.storage_types import FieldType, is_compatible
from replicator_source_mysql.binlog.rows.table_map import TableMap
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.hints import COPY_AGAIN
from replicator_source_mysql.types.binlog_values import LogColumn
from replicator_source_mysql.types.values.out_of_range import Policy


@dataclass(frozen=True)
class TablePlan:
    """How a captured table is decoded.

    Attributes:
        schema: The schema of the batches.
        definition: All columns, in the binlog's order.
        policy: What happens to values out of range.
        logs_generated: Whether a generated column that is not in the row of an update did not change. MariaDB leaves them out
            of its log when `binlog_row_image` is not FULL, and since 11.8.9 always.
        marks_refused: As `EventReaderDefinition.marks_refused`.
    """

    schema: TableSchema
    definition: TableDefinition
    policy: Policy
    logs_generated: bool = True
    marks_refused: bool = False


class Reading:
    """A plan for one announcement (TABLE_MAP) of its table.

    Args:
        plan: The plan.
        table: The announcement.
        place: Where in the log, for errors.

    Attributes:
        plan: The plan.
        table: The announcement.
        shapes: Layouts of the table's images.
        ranks: For each column of the schema its rank in the table.
        key: Ranks in the table of the key's columns.
        columns: For each column of the schema, what turns its values into Arrow.
        documents: Rank in the table of each JSON column, with its rank among those.

    Raises:
        SchemaDriftError: When the announcement does not fit the definition.
    """

    def __init__(self, plan: TablePlan, table: TableMap, place: str) -> None:
        _check(plan.definition, table, place)
        self.plan, self.table, self.shapes = plan, table, Shapes(table)
        rank_of = {column.name: rank for rank, column in enumerate(plan.definition.columns)}
        self.ranks = tuple(rank_of[name] for name in plan.schema.names)
        self.key = tuple(rank_of[name] for name in plan.schema.primary_key)
        self.columns = tuple(
            LogColumn(
                plan.definition.columns[rank],
                table.kinds[rank],
                table.metadata[rank],
                target,
                plan.policy,
                marks=plan.marks_refused and rank not in self.key,
            )
            for rank, target in zip(self.ranks, plan.schema.columns, strict=True)
        )
        documents = [rank for rank, kind in enumerate(table.kinds) if kind == FieldType.JSON]
        self.documents = {rank: document for document, rank in enumerate(documents)}

    @property
    def group(self) -> tuple[object, ...]:
        """Equal for announcements whose rows may share a batch."""
        return (self.plan.schema, self.table.kinds, self.table.metadata)


def _check(definition: TableDefinition, table: TableMap, place: str) -> None:
    """Refuse rows that the definition would misread (the log carries no names by default)."""
    if len(definition.columns) != len(table.kinds):
        raise _misfit(f"has {len(table.kinds)} columns in the log and {len(definition.columns)} as known", table, place)
    for column, kind, metadata in zip(definition.columns, table.kinds, table.metadata, strict=True):
        if not is_compatible(column, kind, metadata):
            what = f"has the column {column.name!r} known as {column.type}, and the log holds type {kind} ({metadata})"
            raise _misfit(what, table, place)


def _misfit(what: str, table: TableMap, place: str) -> SchemaDriftError:
    return SchemaDriftError(
        f"the table {what}",
        code="RPL-3703",
        table=str(table),
        position=place,
        hint="a statement that changed it is not in the log (`sql_log_bin = 0`, or a change on a replica), and a copy of the table alone"
        f" does not change that; {COPY_AGAIN}",
    )
