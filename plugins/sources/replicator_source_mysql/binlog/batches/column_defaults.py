"""The value of an INSERT's row in a column that its image lacks: the column's default, where that is a constant."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools
from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.binlog.batches.table_plan import Reading
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.hints import COPY_TABLE_AGAIN
from replicator_source_mysql.types.column_type import parse_column_type
from replicator_source_mysql.types.text_values import TextColumn


def filled(values: pa.Array, absent: Bools, reading: Reading, place: int, position: str) -> pa.Array:
    """`values` with the column's default where `absent`.

    Args:
        values: The column's values.
        absent: Which rows lack it.
        reading: How the table is read.
        place: The column's rank in the schema.
        position: Where in the log, for errors.

    Raises:
        NeedsUserError: When the default is not a constant.
    """
    column = reading.plan.definition.columns[reading.ranks[place]]
    if column.default is None:
        if column.has_expression_default or column.is_generated or not column.nullable:
            raise NeedsUserError(
                f"an inserted row of the log lacks the column {column.name!r}, whose default cannot be known from here",
                code="RPL-3705",
                table=str(reading.table),
                position=position,
                hint="SET GLOBAL binlog_row_image = 'FULL' (sessions keep theirs until they reconnect), then"
                f" {COPY_TABLE_AGAIN}",
            )
        return values
    target = reading.plan.schema.columns[place]
    raw = pa.array([_raw(column, column.default)], pa.binary())
    default = TextColumn(column, target, reading.plan.policy).convert(raw)
    return pc.if_else(pa.array(absent), default[0], values)


def _raw(column: ColumnDefinition, default: str) -> bytes:
    """The default as a result set would have it."""
    kind = parse_column_type(column.type)
    if kind.name == "bit" and default.startswith("b'"):
        bits = default[2:-1]
        return int(bits or "0", 2).to_bytes((kind.parameter(0, 1) + 7) // 8, "big")
    return default.encode()
