"""Table schemas over time: what records say of a table against what is known of it.

Partitions meet a change of the source's schema at different moments, and a topic may be read again from its beginning.
So a table's schema only grows: the known one and the seen one are joined, and records of either fit the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from replicator_sdk.datatype import FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, DataType, Decimal
from replicator_sdk.errors import DataError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema
from replicator_source_kafka.formats.format import Part

_LADDERS = ((INT8, INT16, INT32, INT64), (FLOAT32, FLOAT64))
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Fit:
    """How records fit a table.

    Attributes:
        schema: The table's schema from now on; the known one when there are no steps.
        alters: The steps from the known schema to it, to be told as an ALTER_TABLE before the records' changes.
    """

    schema: TableSchema
    alters: tuple[Alter, ...]


def reconcile(known: TableSchema, seen: TableSchema) -> Fit:
    """What has to be done so that records with the schema `seen` fit the table `known`.

    New columns are added behind the others and may be NULL, types only widen, a column that records no longer have
    stays (and may be NULL from then on). The order of columns and of the key's names means nothing.

    Raises:
        SchemaDriftError: When a type changes otherwise, or the key does.
    """
    if known == seen:
        return Fit(known, ())
    if set(known.primary_key) != set(seen.primary_key):
        raise _key_changed(known, seen)
    alters = tuple(step for column in known.columns for step in _steps(column, seen))
    added = tuple(Column(c.name, c.type, True, c.source_type, c.source_id) for c in seen.columns if c.name not in known)
    if not alters and not added:
        return Fit(known, ())
    later = {step.column.name: step.column for step in alters if step.column is not None}
    columns = tuple(later.get(c.name, c) for c in known.columns) + added
    steps = alters + tuple(Alter(AlterKind.ADD_COLUMN, column=column) for column in added)
    return Fit(TableSchema(known.table, columns, known.primary_key), steps)


def _steps(column: Column, seen: TableSchema) -> Iterator[Alter]:
    """What becomes of one known column."""
    told = next((c for c in seen.columns if c.name == column.name), None)
    kind = column.type if told is None else widened(column.type, told.type)
    if kind is None:
        raise SchemaDriftError(
            f"column {column.name!r} was {column.type} and records now say {told.type if told else ''}",
            code="RPL-3921",
            table=str(seen.table),
            hint='give the column a type that holds both in "columnTypes", or start the table anew',
        )
    if told is not None and str(kind) != str(column.type):
        retyped = Column(column.name, kind, column.nullable, told.source_type, column.source_id)
        yield Alter(AlterKind.RETYPE_COLUMN, column=retyped, previous=column)
        column = retyped
    if not column.nullable and (told is None or told.nullable):
        relaxed = Column(column.name, column.type, True, column.source_type, column.source_id)
        yield Alter(AlterKind.RELAX_COLUMN, column=relaxed, previous=column)


def widened(known: DataType, seen: DataType) -> DataType | None:
    """The type that holds the values of both; `known` where it does already; None when there is none."""
    if str(known) == str(seen) or known.arrow == seen.arrow:
        return known
    for ladder in _LADDERS:
        if known in ladder and seen in ladder:
            return ladder[max(ladder.index(known), ladder.index(seen))]
    if isinstance(known, Decimal) and isinstance(seen, Decimal):
        scale = max(known.scale, seen.scale)
        digits = max(known.precision - known.scale, seen.precision - seen.scale) + scale
        return Decimal(digits, scale) if digits <= _MOST_DIGITS else None
    # JSON without a schema writes whole numbers of a floating column without a point.
    return known if known == FLOAT64 and seen in _LADDERS[0] else None


def conform(part: Part, schema: TableSchema) -> Part:
    """`part` with the columns and types of `schema`, which `reconcile` made; columns it lacks are NULL.

    Raises:
        DataError: When a value does not survive the cast (a whole number beyond 2^53 in a floating column).
    """
    if part.schema == schema:
        return part
    row = _conform(part.row, schema)
    before = None if part.before is None else _conform(part.before, schema)
    rest = (part.before_is_full, part.timestamps, part.unchanged, part.transaction, part.truncates)
    return Part(schema, part.index, part.op, row, before, *rest)


def _conform(rows: pa.StructArray, schema: TableSchema) -> pa.StructArray:
    children = []
    for column in schema.columns:
        at = rows.type.get_field_index(column.name)
        if at < 0:
            children.append(pa.nulls(len(rows), column.type.arrow))
            continue
        try:
            children.append(rows.field(at).cast(column.type.arrow))
        except pa.ArrowInvalid:
            raise DataError(
                f"column {column.name!r} holds a value that {column.type} cannot hold exactly",
                code="RPL-3922",
                table=str(schema.table),
                hint='give the column a type that holds it in "columnTypes", and start the table anew',
            ) from None
    mask = rows.is_null() if rows.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(schema.arrow), mask=mask)


def _key_changed(known: TableSchema, seen: TableSchema) -> SchemaDriftError:
    was, now = (", ".join(s.primary_key) or "no columns" for s in (known, seen))
    return SchemaDriftError(
        f"the records' key was {was} and now is {now}",
        code="RPL-3920",
        table=str(seen.table),
        hint="give the connector's message.key.columns its old value, or start the table anew",
    )
